//! The emulated `libcuda.so` in this process, and its control functions.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::sync::LazyLock;

use crate::isa::link::{INTERPRETER, Interpreter};

#[link(name = "dl")]
unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlerror() -> *const c_char;
}

const RTLD_NOW: c_int = 2;

/// What runtime/control.cpp exports.
pub(crate) struct Symbols {
    pub code_counts: unsafe extern "C" fn(*mut c_void) -> *const c_void,
    pub machine_new: unsafe extern "C" fn(*const c_char) -> *mut c_void,
    pub machine_delete: unsafe extern "C" fn(*mut c_void),
    pub enter: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
    pub leave: unsafe extern "C" fn(*mut c_void),
    pub counters: unsafe extern "C" fn(*mut c_void) -> *mut c_char,
    pub reset_counters: unsafe extern "C" fn(*mut c_void),
    pub fail: unsafe extern "C" fn(*mut c_void, *const c_char, u64, c_int),
    pub fence: unsafe extern "C" fn(*mut c_void, u64, usize, *const c_char) -> c_int,
    pub published: unsafe extern "C" fn(*mut c_void) -> *mut c_char,
    pub report: unsafe extern "C" fn(*mut c_void) -> *mut c_char,
    pub free: unsafe extern "C" fn(*mut c_char),
}

/// Loads the library once. It is found by its name from then on, also by cudarc's `dlopen("libcuda.so")`.
pub(crate) static SYMBOLS: LazyLock<Symbols> = LazyLock::new(|| {
    let path = CString::new(crate::library().join("libcuda.so").as_os_str().as_bytes()).expect("a path has no NUL");
    // SAFETY: the library is ours; its constructors only fill tables.
    let library = unsafe { dlopen(path.as_ptr(), RTLD_NOW) };
    // SAFETY: dlerror returns a string after a failure.
    assert!(!library.is_null(), "{}", unsafe { CStr::from_ptr(dlerror()) }.to_string_lossy());
    macro_rules! symbol {
        ($name:literal) => {{
            // SAFETY: the name ends with NUL.
            let address = unsafe { dlsym(library, $name.as_ptr()) };
            assert!(!address.is_null(), "libcuda.so of the emulator lacks {:?}", $name);
            // SAFETY: control.cpp defines the function with this signature.
            unsafe { std::mem::transmute_copy(&address) }
        }};
    }
    let register: unsafe extern "C" fn(*const Interpreter) = symbol!(c"emu_interpreter");
    // SAFETY: what it points to lives for ever; nobody has a machine yet.
    unsafe { register(&INTERPRETER) };
    Symbols {
        code_counts: symbol!(c"emu_counts"),
        machine_new: symbol!(c"emu_machine_new"),
        machine_delete: symbol!(c"emu_machine_delete"),
        enter: symbol!(c"emu_enter"),
        leave: symbol!(c"emu_leave"),
        counters: symbol!(c"emu_counters"),
        reset_counters: symbol!(c"emu_reset_counters"),
        fail: symbol!(c"emu_fail"),
        fence: symbol!(c"emu_fence"),
        published: symbol!(c"emu_published"),
        report: symbol!(c"emu_report"),
        free: symbol!(c"emu_free"),
    }
});

impl Symbols {
    /// Takes a string that the library allocated; `None` where it is null.
    pub fn take(&self, text: *mut c_char) -> Option<String> {
        if text.is_null() {
            return None;
        }
        // SAFETY: a string of the library, which is ours to free.
        let owned = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
        // SAFETY: as above, and not used afterwards.
        unsafe { (self.free)(text) };
        Some(owned)
    }
}
