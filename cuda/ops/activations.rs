//! The int8 image of activations, as kernels/image.cuh has it, and their terms, as kernels/gemm_half.cuh.

use crate::{ArenaLayout, Grid, Params, Ptr, Result, Stream};

/// Columns (rows of a chunk) of `k` elements, `k` a multiple of 32, as `x ≈ d·q` per block of 32. The default is none.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct QuantizedActivations {
    /// `[column][k]`, the elements of a block in octet order.
    pub q: Ptr<i8>,
    /// Scales `[column][k / 32]`.
    pub d: Ptr<f32>,
    /// `d·Σq` of each half block, `[column][k / 16]`.
    pub s: Ptr<f32>,
}

impl QuantizedActivations {
    /// Room for an image.
    pub fn take(layout: &mut ArenaLayout, name: &str, columns: usize, k: usize) -> Self {
        assert!(k.is_multiple_of(32));
        Self {
            q: layout.take(format!("{name}.q"), columns * k),
            d: layout.take(format!("{name}.d"), columns * k / 32),
            s: layout.take(format!("{name}.s"), columns * k / 16),
        }
    }
}

/// Room for columns of activations in two terms of 16 bits, which products of many columns with dense weights of 16 bits make
/// and multiply on SM 8.0+. The default is none.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct ActivationTerms {
    /// Two terms, `[columns, a multiple of 16][k]`, 16 columns × 32 elements at a time.
    pub blocks: Ptr<u32>,
    /// What those of 256 elements are multiplied with, `[columns, a multiple of 16][⌈k / 256⌉]`.
    pub down: Ptr<f32>,
}

impl ActivationTerms {
    /// Room for so many columns of up to `k` elements.
    pub fn take(layout: &mut ArenaLayout, name: &str, columns: usize, k: usize) -> Self {
        let columns = columns.next_multiple_of(16);
        Self {
            blocks: layout.take(format!("{name}.blocks"), columns * k),
            down: layout.take(format!("{name}.down"), columns * k.div_ceil(256)),
        }
    }
}

/// Parameters of [`quantize`].
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct QuantizeActParams {
    x: Ptr<f32>,
    image: QuantizedActivations,
    k: i32,
    columns: i32,
    step: i32,
    pad: i32,
}
// SAFETY: QuantizeActParams in kernels/quantize_act.cu; the test below compares size and offsets.
unsafe impl Params for QuantizeActParams {}

/// The image of `x[columns][k]`, where no kernel could write it at once.
///
/// # Errors
/// The driver refuses the launch, or an earlier launch has failed.
///
/// # Safety
/// The contract of [`ops`](crate::ops): `x` and `image` have room for `columns` columns of `k` elements.
pub unsafe fn quantize(
    stream: &Stream,
    x: Ptr<f32>,
    image: QuantizedActivations,
    [columns, k]: [usize; 2],
) -> Result<()> {
    // SAFETY: the caller keeps the same contract.
    unsafe { quantize_front(stream, x, image, [columns, k, k]) }
}

/// The same of `x[columns][step]`, of which the first `k` of each column.
///
/// # Errors
/// As [`quantize`].
///
/// # Safety
/// The contract of [`ops`](crate::ops): `x` has `columns` columns of `step` elements, `image` room for as many of `k`.
pub unsafe fn quantize_front(
    stream: &Stream,
    x: Ptr<f32>,
    image: QuantizedActivations,
    [columns, k, step]: [usize; 3],
) -> Result<()> {
    assert!(k.is_multiple_of(32) && k <= step, "an image of {k} of {step} elements");
    let params = QuantizeActParams { x, image, k: k as i32, columns: columns as i32, step: step as i32, pad: 0 };
    // Columns by heads are more than a grid has rows.
    let grid = Grid::plane(columns as u32, k.div_ceil(128) as u32, 128);
    // SAFETY: the kernel takes these parameters (compared by the test below); the caller answers for the rest.
    unsafe { stream.launch("quantize_act", grid, &params) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::twin;

    #[test]
    fn the_kernels_have_the_same() {
        twin::fields!(QuantizedActivations as "QuantizedActivations" { q, d, s });
        twin::fields!(ActivationTerms as "ActivationTerms" { blocks, down });
        twin::fields!(QuantizeActParams as "quantize_act::QuantizeActParams" { x, image, k, columns, step, pad });
    }
}
