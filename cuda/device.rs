//! Which devices are there, asked in an order that cannot panic.
//!
//! cudarc resolves each driver symbol at its first call and panics where the library or the symbol is
//! missing, so the library is looked for first, and only functions of CUDA ≤ 12.4 are called.

use cudarc::driver::{result, sys};

/// The oldest driver whose API we use: CUDA 12.4 (driver 550).
pub const MIN_DRIVER_VERSION: i32 = 12040;
/// The oldest GPU our kernels run on: SM 7.5 (Turing).
pub const MIN_SM: i32 = 75;

/// Why no GPU is used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoDevice {
    /// No driver library on this machine.
    #[error("no NVIDIA driver (libcuda) on this machine")]
    DriverMissing,
    /// The driver is there but did not start.
    #[error("the NVIDIA driver did not start: {0}")]
    DriverFailed(String),
    /// The driver is older than [`MIN_DRIVER_VERSION`].
    #[error("the NVIDIA driver speaks CUDA {}.{}, qrun needs 12.4 (driver 550) or newer", .0 / 1000, .0 % 1000 / 10)]
    DriverTooOld(i32),
    /// The driver runs but sees no device.
    #[error("the NVIDIA driver sees no GPU")]
    NoGpu,
    /// No device of this number.
    #[error("no GPU {ordinal}: the NVIDIA driver sees {devices}, numbered from 0")]
    Ordinal {
        /// The number asked for.
        ordinal: i32,
        /// How many there are.
        devices: usize,
    },
    /// A GPU that our kernels do not run on.
    #[error("{name} has compute capability {}.{}, qrun needs 7.5 (Turing) or newer", .sm / 10, .sm % 10)]
    TooOld {
        /// As the driver names it, e.g. `Tesla P4`.
        name: String,
        /// Compute capability as `10 * major + minor`.
        sm: i32,
    },
}

/// A GPU that the driver reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
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
}

/// The newest CUDA that the driver of this machine runs, as `1000 * major + 10 * minor`.
///
/// # Errors
/// There is no driver, no GPU, or it fails.
pub fn driver_version() -> Result<i32, NoDevice> {
    // SAFETY: only looks whether the library can be opened.
    if !unsafe { sys::is_culib_present() } {
        return Err(NoDevice::DriverMissing);
    }
    result::init().map_err(failed)?;
    let mut version = 0;
    // SAFETY: writes one int.
    unsafe { sys::cuDriverGetVersion(&mut version) }.result().map_err(failed)?;
    Ok(version)
}

/// What a failed call of the driver says about the machine.
fn failed(error: result::DriverError) -> NoDevice {
    match error.0 {
        sys::CUresult::CUDA_ERROR_NO_DEVICE => NoDevice::NoGpu,
        code => NoDevice::DriverFailed(format!("{code:?}")),
    }
}

/// Lists the GPUs of this machine in the driver's order, also those that are too old for our kernels.
///
/// # Errors
/// Why there are none: no driver, one that does not start or is older than [`MIN_DRIVER_VERSION`], no GPU;
/// [`NoDevice::DriverFailed`] where it does not tell a GPU's properties.
pub fn list() -> Result<Vec<Device>, NoDevice> {
    let version = driver_version()?;
    if version < MIN_DRIVER_VERSION {
        return Err(NoDevice::DriverTooOld(version));
    }
    let n = result::device::get_count().map_err(failed)?;
    if n == 0 {
        return Err(NoDevice::NoGpu);
    }
    (0..n).map(|ordinal| describe(ordinal).map_err(failed)).collect()
}

/// The GPU that is taken where none is named: of those that are new enough for our kernels the one of the highest
/// compute capability, then the one with the most memory, then the first.
pub fn best(devices: &[Device]) -> Option<&Device> {
    let usable = devices.iter().filter(|d| d.sm >= MIN_SM);
    usable.max_by_key(|d| (d.sm, d.memory, std::cmp::Reverse(d.ordinal)))
}

/// The ordinal of the [`best`] GPU of this machine.
///
/// # Errors
/// Why there is none; [`NoDevice::TooOld`] names the first of those that are too old.
pub fn best_ordinal() -> Result<i32, NoDevice> {
    let devices = list()?;
    let too_old = || devices.first().map(|d| NoDevice::TooOld { name: d.name.clone(), sm: d.sm });
    best(&devices).map(|d| d.ordinal).ok_or_else(|| too_old().unwrap_or(NoDevice::NoGpu))
}

fn describe(ordinal: i32) -> Result<Device, result::DriverError> {
    use sys::CUdevice_attribute as Attribute;
    let device = result::device::get(ordinal)?;
    // SAFETY: `device` comes from the driver and is valid for the life of the process.
    let attribute = |a| unsafe { result::device::get_attribute(device, a) };
    let major = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    let minor = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    Ok(Device {
        ordinal,
        name: result::device::get_name(device)?,
        sm: 10 * major + minor,
        // SAFETY: `device` comes from the driver and is valid for the life of the process.
        memory: unsafe { result::device::total_mem(device)? } as u64,
        multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_is_the_newest_then_the_largest_then_the_first() {
        let device =
            |ordinal, sm, gb: u64| Device { ordinal, name: String::new(), sm, memory: gb << 30, multiprocessors: 1 };
        let taken = |devices: &[Device]| best(devices).map(|d| d.ordinal);
        assert_eq!(taken(&[device(0, 61, 24), device(1, 75, 16)]), Some(1), "an old card hides no good one");
        assert_eq!(taken(&[device(0, 86, 24), device(1, 75, 48), device(2, 86, 12)]), Some(0));
        assert_eq!(taken(&[device(0, 89, 16), device(1, 89, 24), device(2, 89, 24)]), Some(1));
        assert_eq!(taken(&[device(0, 61, 24)]), None);
        assert_eq!(taken(&[]), None);
    }
}
