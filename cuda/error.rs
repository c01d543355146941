//! What can go wrong on a device, in one line each.

use std::ffi::CStr;

use cudarc::driver::sys::{self, CUresult};

use crate::{device::NoDevice, image::ImageError};

/// A failure of a device. Most driver errors end the context: every later call on it fails too.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// No CUDA device was found.
    #[error(transparent)]
    NoDevice(#[from] NoDevice),
    /// The kernels inside this program do not run on the device.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The device has less free memory than is needed.
    #[error("GPU memory: {wanted} bytes are needed, {free} are free")]
    Memory {
        /// Bytes that the allocation or plan needs.
        wanted: u64,
        /// Bytes that the driver called free then.
        free: u64,
    },
    /// The device does not come to an end.
    #[error("{what} has not ended after {seconds} s")]
    Hung {
        /// The launch, or the launches of which it is one.
        what: String,
        /// How long it was waited for.
        seconds: u64,
    },
    /// A call of the driver failed.
    #[error("{call}: {text}")]
    Driver {
        /// The call and what it was about.
        call: String,
        /// The driver's name for the error, and its words.
        text: String,
    },
}

/// What most functions of this crate return.
pub type Result<T> = std::result::Result<T, DeviceError>;

/// Turns the driver's answer to `call` into a result. `call` is only looked at on failure.
///
/// # Errors
/// [`DeviceError::Driver`] for every code but `CUDA_SUCCESS`: the call, the code and the driver's words for it.
pub(crate) fn check(code: CUresult, call: impl FnOnce() -> String) -> Result<()> {
    if code == CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    Err(DeviceError::Driver { call: call(), text: describe(code) })
}

fn describe(code: CUresult) -> String {
    let mut words = std::ptr::null();
    // SAFETY: the driver writes a pointer to a string of its own, or leaves null.
    let said = unsafe { sys::cuGetErrorString(code, &mut words) } == CUresult::CUDA_SUCCESS && !words.is_null();
    // SAFETY: not null, zero-terminated, and owned by the driver.
    let words = if said { unsafe { CStr::from_ptr(words) }.to_string_lossy() } else { "unknown error".into() };
    format!("{code:?} ({words})")
}
