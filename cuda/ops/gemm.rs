//! Matrix times several columns on tensor cores: prefill, and batches of sequences that decode.

use super::{
    activations::QuantizedActivations,
    formats::{self, Layout},
    params::MatmulParams,
    product,
};
use crate::{Grid, Params, Ptr, Result, Stream};

/// Up to so many columns `product` or `gemm_few` is launched, whose blocks share the weights through the L2 cache; beyond, `gemm`.
const FEW: i32 = 32;
/// Rows, columns and threads of a block of `gemm_few`, and of `gemm`.
const FEW_BLOCK: [u32; 3] = [16, 16, 256];
const WIDE_BLOCK: [u32; 3] = [64, 64, 128];
/// Threads of a block of `glu_act`, and rows that each of them takes.
const GLU_ACT_THREADS: u32 = 256;
const GLU_ACT_ROWS: u32 = 4;

/// Whether `gemm` multiplies rows of `k` weights: it works in blocks of 32. Other dense matrices take gemv.
pub fn takes(k: usize) -> bool {
    k.is_multiple_of(32)
}

/// `y[column][row] = Σ_k w[row][k] · x[column][k] (+ bias[row])` for each segment; all segments in the same format. Quantized
/// weights multiply `image`, dense ones `x`. A column's bits do not depend on the other columns of the launch.
///
/// # Errors
/// The driver refuses the launch, or an earlier launch has failed.
///
/// # Safety
/// The contract of [`ops`](crate::ops): the addresses in `p` and its segments have the sizes that their fields name.
pub unsafe fn gemm(stream: &Stream, p: &MatmulParams) -> Result<()> {
    let segments = &p.segment[..p.segments as usize];
    let number = segments[0].format;
    let kernels = formats::kernels(number);
    let format = kernels.format;
    assert!(segments.iter().all(|s| s.format == number), "segments of one gemm have one format");
    let k = p.k as usize;
    assert!(takes(k) && k.is_multiple_of(format.format().block), "rows of {k} weights in {format}");
    let missing = if format.format().block == 1 { p.x.is_null() } else { p.image.q.is_null() };
    assert!(!missing, "{format} weights have activations to multiply");
    if p.columns <= FEW && kernels.layout != Layout::File {
        // SAFETY: the caller keeps the same contract.
        return unsafe { product::product(stream, p) };
    }
    let (name, [rows, columns, threads]) =
        if p.columns <= FEW { (kernels.gemm_few, FEW_BLOCK) } else { (kernels.gemm, WIDE_BLOCK) };
    let tiles: u32 = segments.iter().map(|s| (s.rows as u32).div_ceil(rows)).sum();
    // SAFETY: the kernel takes these parameters (compared by a test of `params`); the caller answers for the rest.
    unsafe { stream.launch(name, Grid::plane(tiles, p.column_tiles(columns), threads), p) }
}

/// Parameters of [`glu_act`].
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct GluActParams {
    /// `[columns][stride]`: the gate before its activation.
    pub gate: Ptr<f32>,
    /// `[columns][up_stride]`: what is gated.
    pub up: Ptr<f32>,
    /// Elements from column to column of the gate.
    pub stride: i32,
    /// Elements of a column.
    pub rows: i32,
    /// Columns: tokens of the batch.
    pub columns: i32,
    /// Number of the activation, as in [`MatmulParams`].
    pub activation: i32,
    /// `[columns][y_stride]`, or null.
    pub y: Ptr<f32>,
    /// Elements from column to column of `y`.
    pub y_stride: i32,
    /// Elements from column to column of what is gated.
    pub up_stride: i32,
    /// The same as an image of k = `rows` (a multiple of 32), or null.
    pub out: QuantizedActivations,
    /// `[columns]`: columns with a negative number are left as they are; null: none is.
    pub seq: Ptr<i32>,
}
// SAFETY: GluActParams in kernels/glu_act.cu; the test below compares size and offsets.
unsafe impl Params for GluActParams {}

/// `activation(gate) · up` of what products have written.
///
/// # Errors
/// The driver refuses the launch, or an earlier launch has failed.
///
/// # Safety
/// The contract of [`ops`](crate::ops): the addresses in `p` have the sizes that its fields name.
pub unsafe fn glu_act(stream: &Stream, p: &GluActParams) -> Result<()> {
    assert!(p.out.q.is_null() || p.rows % 32 == 0, "an image of {} elements", p.rows);
    let blocks = (p.rows as u32).div_ceil(GLU_ACT_THREADS * GLU_ACT_ROWS);
    // SAFETY: the kernel takes these parameters (compared by the test below); the caller answers for the rest.
    unsafe { stream.launch("glu_act", Grid::plane(blocks, p.columns as u32, GLU_ACT_THREADS), p) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::twin;

    #[test]
    fn the_kernels_have_the_same() {
        twin::fields!(GluActParams as "glu_act::GluActParams" {
            gate, up, stride, rows, columns, activation, y, y_stride, up_stride, out, seq,
        });
        let [few, wide] = [FEW_BLOCK, WIDE_BLOCK].map(|block| block.map(|n| n as usize));
        twin::constants([
            ("gemm::FEW_COLUMNS", few[1]),
            ("32 * gemm::FEW_WARPS", few[2]),
            ("16 * gemm::WIDE_WARPS", wide[0]),
            ("gemm::WIDE_COLUMNS", wide[1]),
            ("32 * gemm::WIDE_WARPS", wide[2]),
            ("32 * glu_act::WARPS", GLU_ACT_THREADS as usize),
        ]);
    }
}
