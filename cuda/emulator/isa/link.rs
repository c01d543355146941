//! The seam to the driver: what `runtime/driver_launch.cpp` calls in place of the kernels that g++ compiled.
//!
//! Both sides keep to runtime/interpreter.h. Texts are of `malloc`; no panic crosses over: it becomes a fault.

use std::any::Any;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use super::{Approximation, Counts, Fault, GlobalMemory, Keep, Kernel, Launch, Module, Order, run};

unsafe extern "C" {
    fn strdup(text: *const c_char) -> *mut c_char;
    fn free(memory: *mut c_void);
}

/// One launch, and what is asked of the machine meanwhile.
#[repr(C)]
pub(crate) struct Interpretation {
    kernel: *const Kernel,
    params: *const u8,
    bytes: u64,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    shared_limit: u32,
    order: u32,
    approximation: u32,
    dependent: u64,
    order_seed: u64,
    seed: u64,
    ends: u64,
    counts: *const Mutex<Counts>,
    machine: *mut c_void,
    region: unsafe extern "C" fn(*mut c_void, u64, *mut u64, *mut u64) -> *mut c_char,
    published: unsafe extern "C" fn(*mut c_void, *const c_void),
    traffic: unsafe extern "C" fn(*mut c_void, u64, u64, u64),
}

/// The functions that the library is given.
#[repr(C)]
pub(crate) struct Interpreter {
    read: unsafe extern "C" fn(*const u8, u64, *mut *mut c_char) -> *const Module,
    kernel: unsafe extern "C" fn(*const Module, *const c_char, *mut u64, *mut u32) -> *const Kernel,
    run: unsafe extern "C" fn(*const Interpretation, *mut *mut c_char) -> c_int,
    counts: extern "C" fn() -> *mut Mutex<Counts>,
    reset: unsafe extern "C" fn(*mut Mutex<Counts>),
    forget: unsafe extern "C" fn(*mut Mutex<Counts>),
}

/// What [`crate::symbols`] registers.
pub(crate) static INTERPRETER: Interpreter = Interpreter { read, kernel, run: interpret, counts, reset, forget };

/// CUDA_ERROR_LAUNCH_FAILED.
const LAUNCH_FAILED: i32 = 719;

/// What a machine has counted; nothing where the pointer is null.
///
/// # Safety
/// The pointer is null or one of `counts` that has not been forgotten.
pub(crate) unsafe fn counted(counts: *const c_void) -> Counts {
    // SAFETY: the caller's promise.
    unsafe { counts.cast::<Mutex<Counts>>().as_ref() }.map(|counts| lock(counts).clone()).unwrap_or_default()
}

/// Changes what is kept of launches; nothing where the pointer is null.
///
/// # Safety
/// As [`counted`].
pub(crate) unsafe fn keep(counts: *const c_void, keep: Keep) {
    // SAFETY: the caller's promise.
    if let Some(counts) = unsafe { counts.cast::<Mutex<Counts>>().as_ref() } {
        lock(counts).keep = keep;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Counts of a launch that panicked are counts all the same.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A copy that the other side frees.
fn text_of(text: &str) -> *mut c_char {
    let text = CString::new(text.replace('\0', " ")).expect("no NUL is left");
    // SAFETY: a string.
    unsafe { strdup(text.as_ptr()) }
}

/// What a panic said.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    format!("the machine that executes PTX has a mistake of its own: {}", text.unwrap_or("a panic without words"))
}

/// Images by their bytes: all tests of a process load the same ones, and reading one takes as long as a test.
static IMAGES: LazyLock<Mutex<HashMap<Vec<u8>, &'static Module>>> = LazyLock::new(Mutex::default);

fn image(bytes: &[u8]) -> Result<&'static Module, String> {
    let mut images = lock(&IMAGES);
    if let Some(module) = images.get(bytes) {
        return Ok(module);
    }
    let module = if bytes.starts_with(b"\x7fELF") {
        Module::cubin(bytes).map_err(|error| error.to_string())?
    } else {
        let text = std::str::from_utf8(bytes).map_err(|error| format!("the PTX is not text: {error}"))?;
        Module::parse(text).map_err(|error| error.to_string())?
    };
    let module: &'static Module = Box::leak(Box::new(module));
    images.insert(bytes.to_vec(), module);
    Ok(module)
}

/// SAFETY: the image has so many bytes, `error` can be written.
unsafe extern "C" fn read(bytes: *const u8, count: u64, error: *mut *mut c_char) -> *const Module {
    // SAFETY: the caller's promise.
    let read = catch_unwind(|| image(unsafe { std::slice::from_raw_parts(bytes, count as usize) }));
    let read = read.unwrap_or_else(|panic| Err(message(&*panic)));
    match read {
        Ok(module) => module,
        Err(why) => {
            // SAFETY: the caller's promise.
            unsafe { *error = text_of(&why) };
            std::ptr::null()
        }
    }
}

/// SAFETY: the image is one of `read`, the name ends with NUL, the rest can be written.
unsafe extern "C" fn kernel(
    image: *const Module,
    name: *const c_char,
    params: *mut u64,
    threads: *mut u32,
) -> *const Kernel {
    // SAFETY: the caller's promise; images live for ever.
    let (image, name): (&'static Module, _) = unsafe { (&*image, CStr::from_ptr(name)) };
    let Some(kernel) = name.to_str().ok().and_then(|name| image.kernel(name)) else { return std::ptr::null() };
    // SAFETY: the caller's promise.
    unsafe {
        *params = kernel.param_bytes as u64;
        *threads = kernel.max_threads;
    }
    kernel
}

/// SAFETY: all pointers of the launch are alive, and nobody changes the machine's memory until it ends; `report` can be
/// written.
unsafe extern "C" fn interpret(launch: *const Interpretation, report: *mut *mut c_char) -> c_int {
    // SAFETY: the caller's promise.
    let launch = unsafe { &*launch };
    // Counts and memory of a launch that panicked are looked at no more than those of any failed one.
    let ran = catch_unwind(AssertUnwindSafe(|| launch.run()));
    let failed = |panic: Box<dyn Any + Send>| Err(Fault { code: LAUNCH_FAILED, report: message(&*panic) });
    match ran.unwrap_or_else(failed) {
        Ok(()) => 0,
        Err(fault) => {
            // SAFETY: the caller's promise.
            unsafe { *report = text_of(&fault.report) };
            fault.code
        }
    }
}

impl Interpretation {
    fn run(&self) -> Result<(), Fault> {
        // SAFETY: the library keeps what it points to until the launch has ended.
        let (kernel, params, counts) =
            unsafe { (&*self.kernel, std::slice::from_raw_parts(self.params, self.bytes as usize), &*self.counts) };
        let launch = Launch {
            kernel,
            params,
            grid: self.grid,
            block: self.block,
            dynamic_shared: self.shared,
            shared_limit: self.shared_limit,
            order: match self.order {
                0 => Order::Forward,
                1 => Order::Reverse,
                _ => Order::Random(self.order_seed),
            },
            seed: self.seed,
            ends: self.ends,
            dependent: self.dependent != 0,
            approximation: match self.approximation {
                0 => Approximation::Exact,
                1 => Approximation::Low,
                _ => Approximation::High,
            },
            memory: self,
        };
        run(&launch, &mut lock(counts))
    }
}

// SAFETY: regions are mapped for as long as they are allocated, and the thread that launches holds the machine's lock.
unsafe impl GlobalMemory for Interpretation {
    fn region(&self, address: u64) -> Result<Range<u64>, String> {
        let (mut begin, mut end) = (0, 0);
        // SAFETY: the library's function; it writes two numbers.
        let unknown = unsafe { (self.region)(self.machine, address, &mut begin, &mut end) };
        if unknown.is_null() {
            return Ok(begin..end);
        }
        // SAFETY: a string of the library, which is ours to free.
        let what = unsafe { CStr::from_ptr(unknown) }.to_string_lossy().into_owned();
        // SAFETY: as above, and not used afterwards.
        unsafe { free(unknown.cast()) };
        Err(what)
    }

    fn published(&self, address: Option<u64>) {
        let address = address.map_or(std::ptr::null(), |address| address as *const c_void);
        // SAFETY: the library's function; the address is of a region, or null.
        unsafe { (self.published)(self.machine, address) }
    }

    fn traffic(&self, region: Range<u64>, read: u64, written: u64) {
        // SAFETY: the library's function.
        unsafe { (self.traffic)(self.machine, region.start, read, written) }
    }
}

extern "C" fn counts() -> *mut Mutex<Counts> {
    Box::into_raw(Box::default())
}

/// SAFETY: one of `counts`.
unsafe extern "C" fn reset(counts: *mut Mutex<Counts>) {
    // SAFETY: the caller's promise.
    let mut counts = lock(unsafe { &*counts });
    *counts = Counts { keep: counts.keep, ..Counts::default() };
}

/// SAFETY: one of `counts`, and not used afterwards.
unsafe extern "C" fn forget(counts: *mut Mutex<Counts>) {
    // SAFETY: the caller's promise.
    drop(unsafe { Box::from_raw(counts) });
}
