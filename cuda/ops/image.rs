//! The int8 image of activations, as kernels/image.cuh has it.

use crate::{Carver, Ptr};

/// Columns (rows of a chunk) of `k` elements, `k` a multiple of 32, as `x ≈ d·q` per block of 32. The default is none.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Image {
    /// `[column][k]`, the elements of a block in octet order.
    pub q: Ptr<i8>,
    /// Scales `[column][k / 32]`.
    pub d: Ptr<f32>,
    /// `d·Σq` of each half block, `[column][k / 16]`.
    pub s: Ptr<f32>,
}

impl Image {
    /// Room for an image.
    pub fn take(carver: &mut Carver, name: &str, columns: usize, k: usize) -> Self {
        assert!(k.is_multiple_of(32));
        Self {
            q: carver.take(format!("{name}.q"), columns * k),
            d: carver.take(format!("{name}.d"), columns * k / 32),
            s: carver.take(format!("{name}.s"), columns * k / 16),
        }
    }
}

/// Quantizes.
///
/// # Errors
/// The driver's.
pub fn quantize(s: &crate::Stream, x: Ptr<f32>, image: Image, [columns, k]: [usize; 2]) -> crate::Result<()> {
    let _ = (s, x, image, columns, k);
    unimplemented()
}
fn unimplemented() -> crate::Result<()> {
    Ok(())
}
