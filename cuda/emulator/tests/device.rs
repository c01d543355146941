//! The driver API as the tests use it: one context, one module, buffers that free themselves.

use cudarc::driver::{result, sys};
use std::ffi::c_void;

/// PTX of no kernel: the emulator takes the architecture from it and the kernels from its own libraries.
pub const PTX_75: &[u8] = b".version 7.0\n.target sm_75\n.address_size 64\n\0";
/// The same for SM 8.0.
pub const PTX_80: &[u8] = b".version 7.0\n.target sm_80\n.address_size 64\n\0";

pub type Result<T> = std::result::Result<T, result::DriverError>;

/// Parameters of the controls that read and write one array: input, output, elements.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Vector(pub u64, pub u64, pub i32);

/// The primary context of device 0, current on this thread.
pub struct Device {
    pub context: sys::CUcontext,
    pub module: sys::CUmodule,
}

impl Device {
    pub fn open(ptx: &[u8]) -> Result<Self> {
        result::init()?;
        let device = result::device::get(0)?;
        // SAFETY: the device is valid; released on drop.
        let context = unsafe { result::primary_ctx::retain(device) }?;
        // SAFETY: just retained.
        unsafe { result::ctx::set_current(context) }?;
        // SAFETY: PTX that ends with NUL.
        let module = unsafe { result::module::load_data(ptx.as_ptr().cast()) }?;
        Ok(Self { context, module })
    }

    pub fn kernel(&self, name: &str) -> Result<sys::CUfunction> {
        let name = std::ffi::CString::new(name).expect("no NUL");
        // SAFETY: the module is loaded.
        unsafe { result::module::get_function(self.module, name) }
    }

    /// Launches on the default stream.
    pub fn launch<P: Copy>(&self, name: &str, grid: u32, threads: u32, shared: u32, params: P) -> Result<()> {
        launch(self.kernel(name)?, [grid, threads, shared], std::ptr::null_mut(), &params)
    }

    /// The same of a kernel that waits for its predecessors by itself, in one block.
    pub fn launch_dependent<P: Copy>(&self, name: &str, threads: u32, mut params: P) -> Result<()> {
        let mut attribute = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue { pad: [0; 64] },
        };
        attribute.value.programmaticStreamSerializationAllowed = 1;
        let config = sys::CUlaunchConfig {
            gridDimX: 1,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: 0,
            hStream: std::ptr::null_mut(),
            attrs: &raw mut attribute,
            numAttrs: 1,
        };
        let mut pointers = [(&raw mut params).cast::<c_void>()];
        let kernel = self.kernel(name)?;
        // SAFETY: the configuration, the attribute and the parameters are alive; the driver copies them.
        unsafe { sys::cuLaunchKernelEx(&config, kernel, pointers.as_mut_ptr(), std::ptr::null_mut()) }.result()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: loaded and retained by `open`. After a failed kernel these calls fail too, as they do on a GPU.
        unsafe {
            let _ = result::module::unload(self.module);
            let _ = result::primary_ctx::release(0);
        }
    }
}

/// Launches with the parameter struct as one buffer; `shape` is blocks, threads, bytes of shared memory.
pub fn launch<P: Copy>(kernel: sys::CUfunction, shape: [u32; 3], stream: sys::CUstream, params: &P) -> Result<()> {
    let mut bytes = size_of::<P>();
    let mut extra: [*mut c_void; 5] = [
        std::ptr::without_provenance_mut(1),
        std::ptr::from_ref(params).cast_mut().cast(),
        std::ptr::without_provenance_mut(2),
        (&raw mut bytes).cast(),
        std::ptr::null_mut(),
    ];
    let [grid, threads, shared] = shape;
    // SAFETY: the buffer and its size are alive; the kernel's own size is compared with it.
    unsafe {
        sys::cuLaunchKernel(kernel, grid, 1, 1, threads, 1, 1, shared, stream, std::ptr::null_mut(), extra.as_mut_ptr())
    }
    .result()
}

/// Device memory with a copy of some values, which `read` brings back.
pub struct Buffer<T> {
    pub address: sys::CUdeviceptr,
    len: usize,
    values: std::marker::PhantomData<T>,
}

impl<T: Copy + Default> Buffer<T> {
    pub fn new(values: &[T]) -> Self {
        // SAFETY: freed on drop.
        let address = unsafe { result::malloc_sync(size_of_val(values)) }.expect("memory");
        // SAFETY: as large as the values.
        unsafe { result::memcpy_htod_sync(address, values) }.expect("copy in");
        Self { address, len: values.len(), values: std::marker::PhantomData }
    }

    pub fn read(&self) -> Vec<T> {
        let mut values = vec![T::default(); self.len];
        // SAFETY: as large as the buffer.
        unsafe { result::memcpy_dtoh_sync(&mut values, self.address) }.expect("copy out");
        values
    }
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        // SAFETY: allocated by `new`, freed once. Fails after a failed kernel, as on a GPU.
        let _ = unsafe { result::free_sync(self.address) };
    }
}
