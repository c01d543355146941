//! The kernels inside this program, and which of them a device runs.

/// Why there are no kernels for a device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// Nothing in the archive runs on it.
    #[error("the kernels in this program need a GPU of compute capability 7.5 or newer, this one has {}.{}", .0 / 10, .0 % 10)]
    TooOld(u32),
}

/// Compiled kernels of one source file.
pub struct Image {
    /// Source file.
    pub name: String,
    /// A cubin, or PTX that ends in a zero.
    pub bytes: Vec<u8>,
    /// What it was made for, such as `sm_80` or `compute_75`.
    pub kind: String,
}

/// All images for a compute capability (`10 · major + minor`).
///
/// # Errors
/// No kernels for it.
pub fn images(sm: u32) -> Result<Vec<Image>, ImageError> {
    if sm < 75 {
        Err(ImageError::TooOld(sm))
    } else {
        Ok(vec![Image {
            name: "kernels".into(),
            bytes: b".version 8.0\n.target sm_75\n\0".to_vec(),
            kind: "compute_75".into(),
        }])
    }
}
