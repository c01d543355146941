//! Free bytes on a disk.

use std::path::Path;

/// Bytes that this user can still write below a folder; `None` where the system does not say.
#[cfg(unix)]
pub fn free(folder: &Path) -> Option<u64> {
    let stat = nix::sys::statvfs::statvfs(folder).ok()?;
    // The widths of these numbers differ between systems.
    #[allow(clippy::useless_conversion, clippy::unnecessary_cast)]
    Some(u64::from(stat.blocks_available()).saturating_mul(stat.fragment_size() as u64))
}

/// Bytes that this user can still write below a folder; `None` where the system does not say.
#[cfg(not(unix))]
pub fn free(_: &Path) -> Option<u64> {
    None
}
