//! Matrix times one vector, or few: projections, the gated half of a feed-forward layer, the head.

use qrun_quant::GgmlType;

pub use super::{
    activations::QuantizedActivations,
    params::{MatmulParams, Segment},
};
use super::{
    formats::{self, FormatKernels, Layout},
    gemm, product,
};
use crate::{Grid, Params, Ptr, Result, Stream};

/// Rows of a block of `gemv`: four warps, two rows each.
const GEMV_ROWS: u32 = 8;
/// Columns of a block of `gemv`, four at a time; all of those that chose an expert.
const GEMV_COLUMNS: u32 = 32;
/// Outputs of a block of `glu`: one block of the image that it may write.
const GLU_ROWS: u32 = 32;
const GEMV_THREADS: u32 = 128;
/// Blocks that a multiprocessor has at once, about.
const GEMV_RESIDENT: u32 = 8;
const GLU_THREADS: u32 = 256;

/// The gated half of a feed-forward layer: `activation(gate · x) · (up · x)`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct GluParams {
    /// The matrix whose product is gated; `y` and `y_stride` are not used.
    pub gate: Segment,
    /// The matrix that is multiplied with it, with as many rows.
    pub up: Segment,
    /// Elements of a column of x.
    pub k: i32,
    /// Columns: tokens of the batch.
    pub columns: i32,
    /// Number of the activation, as in [`MatmulParams`].
    pub activation: i32,
    /// Elements from column to column of `y`.
    pub y_stride: i32,
    /// `[columns]`: what quantized weights multiply.
    pub image: QuantizedActivations,
    /// `[columns][k]`: what dense weights multiply.
    pub x: Ptr<f32>,
    /// As in [`MatmulParams`].
    pub seq: Ptr<i32>,
    /// `[columns][y_stride]`: the result, or null.
    pub y: Ptr<f32>,
    /// The result as an image of k = rows (a multiple of 32), or none.
    pub out: QuantizedActivations,
}
// SAFETY: GluParams in kernels/matmul.cuh; the test below compares size and offsets.
unsafe impl Params for GluParams {}

/// `y[column][row] = Σ_k w[row][k] · x[column][k] (+ bias[row])` for each segment, formats as they come. Any number of
/// columns is right; few are fast. A column's bits do not depend on the others, nor on how many there are. One launch for all dense
/// matrices, and one per quantized format.
///
/// # Errors
/// The driver refuses the launch, or an earlier launch has failed.
///
/// # Safety
/// The contract of [`ops`](crate::ops): the addresses in `p` and its segments have the sizes that their fields name.
pub unsafe fn gemv(stream: &Stream, p: &MatmulParams) -> Result<()> {
    let mut rest = p.segment[..p.segments as usize].to_vec();
    while let Some(first) = rest.first() {
        let of = kernels(first, p);
        let (same, other) = rest.iter().partition::<Vec<Segment>, _>(|s| {
            let dense = of.layout == Layout::File && kernels(s, p).layout == Layout::File;
            s.format == of.format as i32 || dense
        });
        let params = p.with(&same);
        if of.layout == Layout::File {
            let blocks: u32 = same.iter().map(|s| (s.rows as u32).div_ceil(GEMV_ROWS)).sum();
            let at_once = GEMV_RESIDENT * stream.gpu().properties().multiprocessors as u32;
            let ahead = if blocks <= at_once { product::ahead(stream, blocks) } else { 0 };
            let params = MatmulParams { ahead, ..params.with_step() };
            let grid = Grid::plane(blocks, p.column_tiles(GEMV_COLUMNS), GEMV_THREADS);
            let one_format = same.iter().all(|s| kernels(s, p) == of);
            let name = if one_format && p.experts.is_null() { of.gemv } else { "gemv_mixed" };
            // SAFETY: the kernel takes these parameters (compared by a test of `params`); the caller answers for the rest.
            unsafe { stream.launch_dependent(name, grid, &params)? };
        } else {
            // SAFETY: the caller keeps the same contract.
            unsafe { product::product(stream, &params)? };
        }
        rest = other;
    }
    Ok(())
}

/// Whether [`glu`] multiplies a gate and what is gated at once: both dense, or both in one format.
pub fn glu_takes(gate: GgmlType, up: GgmlType) -> bool {
    let dense = |format: GgmlType| formats::kernels(format as i32).layout == Layout::File;
    gate == up || dense(gate) && dense(up)
}

/// `activation(gate · x) · (up · x)` for each column, as f32, as an image, or both, where [`glu_takes`] the formats. Bits as
/// of [`gemv`].
///
/// # Errors
/// The driver refuses the launch, or an earlier launch has failed.
///
/// # Safety
/// The contract of [`ops`](crate::ops): the addresses in `p` and its two matrices have the sizes that their fields name.
pub unsafe fn glu(stream: &Stream, p: &GluParams) -> Result<()> {
    assert_eq!(p.gate.rows, p.up.rows, "every gate has its value");
    assert!(p.out.q.is_null() || p.gate.rows % 32 == 0, "an image of {} elements", p.gate.rows);
    let inputs =
        MatmulParams { k: p.k, columns: p.columns, image: p.image, x: p.x, seq: p.seq, ..MatmulParams::default() };
    let (gate, up) = (kernels(&p.gate, &inputs), kernels(&p.up, &inputs));
    assert!(glu_takes(gate.format, up.format), "a gate in {} of {}", gate.format, up.format);
    if gate.layout != Layout::File {
        let gated = MatmulParams { gated: 1, activation: p.activation, out: p.out, ..inputs };
        let segments = [Segment { y: p.y, y_stride: p.y_stride, ..p.gate }, p.up];
        // SAFETY: the caller keeps the same contract.
        return unsafe { gemm::gemm(stream, &gated.with(&segments)) };
    }
    let blocks = (p.gate.rows as u32).div_ceil(GLU_ROWS);
    // SAFETY: the kernel takes these parameters (compared by the test below); the caller answers for the rest.
    unsafe {
        stream.launch_dependent(if gate == up { gate.glu } else { "glu_mixed" }, Grid::linear(blocks, GLU_THREADS), p)
    }
}

/// The kernels of a segment's format. Panics where they cannot work with these inputs.
fn kernels(s: &Segment, p: &MatmulParams) -> &'static FormatKernels {
    let kernels = formats::kernels(s.format);
    let format = kernels.format.format();
    assert!((p.k as usize).is_multiple_of(format.block), "rows of {} weights in {}", p.k, format.name);
    assert!(s.w.address().is_multiple_of(16), "weights begin at a multiple of 16 bytes");
    let missing = if format.block == 1 { p.x.is_null() } else { p.image.q.is_null() };
    assert!(!missing, "{} weights have activations to multiply", format.name);
    kernels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::twin;

    #[test]
    fn the_kernels_have_the_same() {
        twin::fields!(GluParams as "GluParams" {
            gate, up, k, columns, activation, y_stride, image, x, seq, y, out,
        });
        twin::constants([
            ("gemv::ROWS", GEMV_ROWS as usize),
            ("32 * gemv::WARPS", GEMV_THREADS as usize),
            ("glu::OUTPUTS", GLU_ROWS as usize),
            ("32 * glu::WARPS", GLU_THREADS as usize),
        ]);
    }
}
