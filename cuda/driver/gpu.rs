//! A GPU that is open: its context, its properties, its kernels.

use std::{
    collections::HashMap,
    ffi::{CString, c_void},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use cudarc::driver::sys::{self, CUdevice_attribute as Attribute, CUfunction_attribute as FunctionAttribute};

use super::{
    Ptr,
    wait::{LAUNCH_LIMIT, Launches},
};
use crate::{
    device,
    error::{DeviceError, Result, check},
    image::{self, ImageError, Target},
};

/// Dynamic shared memory that a kernel has without asking.
const SHARED_WITHOUT_ASKING: u32 = 48 * 1024;

/// Bytes of device memory that no plan takes, or this part of the whole if that is more: the driver loads a kernel when it is
/// first launched, and graphs and stacks take memory, too.
const RESERVE: u64 = 256 << 20;
const RESERVE_PER_CENT: u64 = 3;

/// What kernels and plans depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceProperties {
    /// Index in the driver's order.
    pub ordinal: i32,
    /// The driver's name of the card: `NVIDIA GeForce RTX 4090`.
    pub name: String,
    /// Compute capability as `10 * major + minor`.
    pub sm: i32,
    /// Device memory in bytes, that which others use included.
    pub memory: u64,
    /// Number of streaming multiprocessors.
    pub multiprocessors: i32,
    /// Most dynamic shared memory of a block, in bytes.
    pub shared_per_block: i32,
    /// Bytes of the L2 cache.
    pub l2: i32,
}

/// An open GPU. Its primary context lives as long as this.
pub struct Gpu {
    properties: DeviceProperties,
    target: Target,
    device: sys::CUdevice,
    context: sys::CUcontext,
    modules: Vec<sys::CUmodule>,
    kernels: Mutex<HashMap<&'static str, Kernel>>,
    /// Address of the tables of [`Gpu::keep_tables`].
    tables: OnceLock<u64>,
    /// Why no call is made any more.
    hung: OnceLock<DeviceError>,
    /// Milliseconds without progress after which a launch counts as hung.
    launch_limit: AtomicU64,
}

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Gpu {}
// SAFETY: the driver takes calls for one context from many threads at once; what changes after `open` is behind a mutex or atomic.
unsafe impl Sync for Gpu {}

/// A kernel that has been looked up.
#[derive(Clone, Copy)]
pub(super) struct Kernel {
    pub function: sys::CUfunction,
    /// Dynamic shared memory that the kernel is allowed.
    shared: u32,
}

impl Gpu {
    /// Opens a device and loads the kernels made for it.
    ///
    /// # Errors
    /// No such device, a driver or a GPU too old, a driver call that fails.
    pub fn open(ordinal: i32) -> Result<Arc<Self>> {
        let devices = device::list()?;
        let n = devices.len();
        let found = devices.into_iter().find(|d| d.ordinal == ordinal);
        let found = found.ok_or(device::NoDevice::Ordinal { ordinal, devices: n })?;
        if found.sm < device::MIN_SM {
            return Err(device::NoDevice::TooOld { name: found.name, sm: found.sm }.into());
        }
        let target = image::target(found.sm as u32)?;
        let (mut device, mut context) = (0, std::ptr::null_mut());
        // SAFETY: the library is there and initialised (`list` did it); both calls write one value.
        check(unsafe { sys::cuDeviceGet(&mut device, ordinal) }, || "cuDeviceGet".into())?;
        // The driver takes 0.1 s to make a context, and unpacking the kernels a third of that.
        let images = thread::scope(|scope| {
            let unpack = || image::modules(target).map_err(ImageError::from);
            let unpacking = thread::Builder::new().spawn_scoped(scope, unpack);
            // SAFETY: a device of the driver; one handle is written, released in `drop`.
            check(unsafe { sys::cuDevicePrimaryCtxRetain(&mut context, device) }, || {
                "cuDevicePrimaryCtxRetain".into()
            })?;
            Ok::<_, DeviceError>(match unpacking.map(thread::ScopedJoinHandle::join) {
                Ok(images) => images.expect("unpacking does not panic"),
                Err(_no_thread) => unpack(),
            })
        })?;
        let mut gpu = Self {
            properties: DeviceProperties {
                ordinal,
                name: found.name,
                sm: found.sm,
                memory: found.memory,
                multiprocessors: found.multiprocessors,
                shared_per_block: 0,
                l2: 0,
            },
            target,
            device,
            context,
            modules: Vec::new(),
            kernels: Mutex::default(),
            tables: OnceLock::new(),
            hung: OnceLock::new(),
            launch_limit: AtomicU64::new(LAUNCH_LIMIT.as_millis() as u64),
        };
        gpu.bind()?;
        gpu.properties.shared_per_block =
            gpu.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
        gpu.properties.l2 = gpu.attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?;
        for image in images?.iter() {
            let mut module = std::ptr::null_mut();
            let bytes = image.bytes.as_ptr().cast::<c_void>();
            // SAFETY: a complete cubin, or PTX that ends in a zero; the driver copies it.
            check(unsafe { sys::cuModuleLoadData(&mut module, bytes) }, || {
                format!("cuModuleLoadData({}, {:?})", image.name, image.kind)
            })?;
            gpu.modules.push(module);
        }
        Ok(Arc::new(gpu))
    }

    /// Name, sizes, capability.
    pub fn properties(&self) -> &DeviceProperties {
        &self.properties
    }

    /// The part of the embedded archive that it runs: what kernels can do depends on this, not on the card alone.
    pub fn target(&self) -> Target {
        self.target
    }

    /// Bytes of device memory that are free now.
    ///
    /// # Errors
    /// An earlier launch has failed: the context answers nothing else any more.
    pub fn free_memory(&self) -> Result<u64> {
        self.bind()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: writes two numbers.
        check(unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) }, || "cuMemGetInfo".into())?;
        Ok(free as u64)
    }

    /// Bytes of device memory that a model may plan with: what is free now, without a reserve for what the driver takes
    /// later.
    ///
    /// # Errors
    /// An earlier launch has failed: the context answers nothing else any more.
    pub fn free_for_models(&self) -> Result<u64> {
        let reserve = RESERVE.max(self.properties.memory / 100 * RESERVE_PER_CENT);
        Ok(self.free_memory()?.saturating_sub(reserve))
    }

    /// Copies numbers that kernels look up to the device, where they stay as long as the kernels do; the first call does.
    ///
    /// # Errors
    /// The device has no memory for them, or an earlier launch has failed.
    pub(crate) fn keep_tables(&self, tables: impl FnOnce() -> Vec<u16>) -> Result<()> {
        if self.tables.get().is_some() {
            return Ok(());
        }
        self.bind()?;
        let tables = tables();
        let (mut address, bytes) = (0, size_of_val(&*tables));
        // SAFETY: a context is bound; one address is written.
        check(unsafe { sys::cuMemAlloc_v2(&mut address, bytes) }, || format!("cuMemAlloc({bytes} bytes)"))?;
        // SAFETY: as many bytes as were allocated, from a vector that has them.
        let copied = unsafe { sys::cuMemcpyHtoD_v2(address, tables.as_ptr().cast(), bytes) };
        let copied = check(copied, || format!("cuMemcpyHtoD({bytes} bytes)"));
        if copied.is_err() || self.tables.set(address).is_err() {
            // SAFETY: allocated above, and nobody else has heard of it: another thread was first.
            let _ = unsafe { sys::cuMemFree_v2(address) };
        }
        copied
    }

    /// Where [`Gpu::keep_tables`] has put them; null before.
    pub(crate) fn tables(&self) -> Ptr<u16> {
        self.tables.get().map_or(Ptr::NULL, |&address| Ptr::new(address))
    }

    /// How long a launch may take: [`LAUNCH_LIMIT`], unless a test is in a hurry.
    pub fn set_launch_limit(&self, limit: Duration) {
        self.launch_limit.store(limit.as_millis() as u64, Relaxed);
    }

    /// Whether `launches` may still come to their end: they have made a step at `since`, no longer ago than the launch
    /// limit.
    ///
    /// # Errors
    /// [`DeviceError::Hung`] where they have not. No call is made any more then: all of them fail like this one.
    pub(super) fn expect_progress(&self, since: Instant, launches: Launches) -> Result<()> {
        let limit = Duration::from_millis(self.launch_limit.load(Relaxed));
        if since.elapsed() <= limit {
            return Ok(());
        }
        let error = DeviceError::Hung { what: launches.to_string(), seconds: limit.as_secs() };
        Err(self.hung.get_or_init(|| error).clone())
    }

    /// Makes this GPU the one that the thread's driver calls go to.
    ///
    /// # Errors
    /// [`DeviceError::Hung`] once a launch has not come to its end; else what the driver says.
    pub(super) fn bind(&self) -> Result<()> {
        if let Some(error) = self.hung.get() {
            return Err(error.clone());
        }
        // SAFETY: the context lives as long as `self`.
        check(unsafe { sys::cuCtxSetCurrent(self.context) }, || "cuCtxSetCurrent".into())
    }

    fn attribute(&self, attribute: Attribute) -> Result<i32> {
        let mut value = 0;
        // SAFETY: the device is valid; one number is written.
        check(unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, self.device) }, || {
            format!("cuDeviceGetAttribute({attribute:?})")
        })?;
        Ok(value)
    }

    /// The kernel of this name, allowed `shared` bytes of dynamic shared memory.
    ///
    /// # Errors
    /// The embedded archive has no such kernel, or the driver allows a block less shared memory.
    pub(super) fn kernel(&self, name: &'static str, shared: u32) -> Result<Kernel> {
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kernel) = kernels.get(name)
            && shared <= kernel.shared
        {
            return Ok(*kernel);
        }
        let mut kernel = Kernel { function: self.find(name)?, shared: SHARED_WITHOUT_ASKING };
        if shared > kernel.shared {
            let most = FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the function belongs to a loaded module.
            check(unsafe { sys::cuFuncSetAttribute(kernel.function, most, shared as i32) }, || {
                format!("cuFuncSetAttribute({name}, {shared} bytes of shared memory)")
            })?;
            kernel.shared = shared;
        }
        kernels.insert(name, kernel);
        Ok(kernel)
    }

    fn find(&self, name: &'static str) -> Result<sys::CUfunction> {
        let c_name = CString::new(name).expect("kernel names contain no zero");
        let mut function = std::ptr::null_mut();
        for &module in &self.modules {
            // SAFETY: a loaded module and a zero-terminated name.
            let code = unsafe { sys::cuModuleGetFunction(&mut function, module, c_name.as_ptr()) };
            if code != sys::CUresult::CUDA_ERROR_NOT_FOUND {
                check(code, || format!("cuModuleGetFunction({name})"))?;
                return Ok(function);
            }
        }
        Err(DeviceError::Driver {
            call: format!("cuModuleGetFunction({name})"),
            text: "no kernel of this name in the embedded archive; remake it (cuda/compile)".into(),
        })
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        if self.hung.get().is_some() {
            // Freeing waits for what does not end; the system does it with the process.
            return;
        }
        if self.bind().is_ok() {
            if let Some(&address) = self.tables.get() {
                // SAFETY: allocated by `keep_tables`, freed once; no launch outlives the `Arc`.
                let _ = unsafe { sys::cuMemFree_v2(address) };
            }
            for &module in &self.modules {
                // SAFETY: loaded by `open`, unloaded once; nothing that uses it outlives the `Arc`.
                let _ = unsafe { sys::cuModuleUnload(module) };
            }
        }
        // SAFETY: retained once by `open`.
        let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}
