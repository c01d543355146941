//! What the kernels of products take.

use super::activations::{ActivationTerms, QuantizedActivations};
use crate::{Params, Ptr};

/// Activation of a gate: `x · sigmoid(x)`.
pub const SILU: i32 = 0;
/// GELU, tanh form.
pub const GELU_TANH: i32 = 1;
/// gpt-oss's: gate and up kept within 7.
pub const CLAMPED_SWIGLU: i32 = 2;
/// `max(x, 0)²`, of what has no gate: [`glu_act`](super::gemm::glu_act) alone takes it.
pub const RELU_SQUARED: i32 = 3;
/// GELU itself, with the error function: [`glu_act`](super::gemm::glu_act) alone takes it, with a gate and without.
pub const GELU: i32 = 4;

/// One matrix of a product.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Segment {
    /// `[rows]` rows of k weights, from a multiple of 16 bytes on: as in the file where they are dense, else in tile records
    /// ([`super::upload`]).
    pub w: Ptr<u8>,
    /// `[rows]`, added to the product; or null.
    pub bias: Ptr<f32>,
    /// `[columns][y_stride]`: the result.
    pub y: Ptr<f32>,
    /// Rows of the matrix.
    pub rows: i32,
    /// Elements from column to column of `y`.
    pub y_stride: i32,
    /// ggml type number of the weights.
    pub format: i32,
    /// Of experts: rows from one's weights, and bias, to the next one's, a multiple of 16; else 0.
    pub expert_rows: i32,
    /// `[experts]`, or one: what the product is multiplied by before the bias joins it; or null. Only of formats for which
    /// [`takes_scale`](super::formats::takes_scale) is true: the others' kernels do not read it.
    pub scale: Ptr<f32>,
}

/// Columns of a product that take the same expert.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExpertTile {
    /// Number of the expert in its layer, from 0.
    pub expert: i32,
    /// The first of them in the lists of columns.
    pub first: i32,
    /// How many follow each other there; 0: nothing is to do.
    pub columns: i32,
    /// Padding that the struct of the kernels has, too; zero.
    pub pad: i32,
}

/// Products of the same columns with up to three matrices.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct MatmulParams {
    /// The matrices that share the input: one launch for all, `segments` of them are read.
    pub segment: [Segment; 3],
    /// Of formats whose weights are entries of a grid: [`super::grids`] sets it.
    pub weight_grid: Ptr<u16>,
    /// How many there are.
    pub segments: i32,
    /// Elements of a column.
    pub k: i32,
    /// Columns: tokens of the batch; of experts the most of a tile: 1, 8, 16 or 64.
    pub columns: i32,
    /// `y = softcap · tanh(y / softcap)` where it is above 0.
    pub softcap: f32,
    /// `[columns]`: what quantized weights multiply.
    pub image: QuantizedActivations,
    /// `[columns][k]`: what dense weights multiply, and [`super::product::quantized_product`] quantizes.
    pub x: Ptr<f32>,
    /// `[columns]`: columns with a negative number are not written; null: all are.
    pub seq: Ptr<i32>,
    /// Log2 of the row tiles of a block: [`super::product`] sets it, and the factors.
    pub tile_shift: i32,
    /// 1: segment 0 is a gate, segment 1 what is gated; `y` of segment 0 becomes `activation(gate) · up`, or is null.
    pub gated: i32,
    /// [`SILU`], [`GELU_TANH`] or [`CLAMPED_SWIGLU`].
    pub activation: i32,
    /// Tiles of columns that take an expert each.
    pub expert_tiles: i32,
    /// `⌈2¹⁶ / n⌉` for the warps of a block.
    pub warp_factor: i32,
    /// The same for the records of 128 and of 256 columns in a row.
    pub row_factor: [i32; 2],
    /// Most bytes of a matrix that a block prefetches while it waits for its columns.
    pub ahead: i32,
    /// Gated: the same as an image of k = rows (a multiple of 32), or none.
    pub out: QuantizedActivations,
    /// `[expert_tiles]`: columns of each tile take an expert; null: all columns take one matrix.
    pub experts: Ptr<ExpertTile>,
    /// Where a column of these lists lies in `image` and `x`.
    pub x_columns: Ptr<i32>,
    /// And in `y` and `out`.
    pub y_columns: Ptr<i32>,
    /// Room for the terms of `x`, where [`super::gemm::gemm`] takes more than a few columns and weights are f16 or bf16.
    pub terms: ActivationTerms,
    /// Elements from column to column of `x`, of experts; 0: k.
    pub x_step: i32,
    /// Padding that the struct of the kernels has, too; zero.
    pub pad: i32,
}
// SAFETY: MatmulParams in kernels/matmul.cuh; the test below compares size and offsets.
unsafe impl Params for MatmulParams {}

impl MatmulParams {
    /// The same with these matrices.
    pub fn with(mut self, segments: &[Segment]) -> Self {
        self.segment[..segments.len()].copy_from_slice(segments);
        self.segments = segments.len() as i32;
        self
    }

    /// The same, saying how far apart columns of `x` are.
    pub(super) fn with_step(self) -> Self {
        let x_step = if self.x_step == 0 { self.k } else { self.x_step };
        assert!(x_step >= self.k && (x_step - self.k) % 4 == 0, "columns of {} elements, one every {x_step}", self.k);
        Self { x_step, ..self }
    }

    /// Panics where a gate has no value, products do not know the activation, or the results do not make the image that is wanted.
    pub(super) fn check_gated(&self) {
        let [gate, up, _] = self.segment;
        assert!(self.gated == 0 || self.segments == 2 && gate.rows == up.rows, "every gate has its value");
        assert!(
            self.gated == 0 || matches!(self.activation, SILU | GELU_TANH | CLAMPED_SWIGLU),
            "activation {} in a product",
            self.activation
        );
        assert!(self.out.q.is_null() || gate.rows % 32 == 0, "an image of {} elements", gate.rows);
    }

    /// Tiles of columns for blocks that take up to `width`.
    pub(super) fn column_tiles(&self, width: u32) -> u32 {
        if self.experts.is_null() { (self.columns as u32).div_ceil(width) } else { self.expert_tiles as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::twin;

    #[test]
    fn the_kernels_have_the_same() {
        twin::fields!(Segment as "Segment" { w, bias, y, rows, y_stride, format, expert_rows, scale });
        twin::fields!(ExpertTile as "ExpertTile" { expert, first, columns, pad });
        twin::fields!(MatmulParams as "MatmulParams" {
            segment, weight_grid, segments, k, columns, softcap, image, x, seq, tile_shift, gated, activation, expert_tiles, warp_factor,
            row_factor, ahead, out, experts, x_columns,
            y_columns, terms, x_step, pad,
        });
        let gates = [("SILU", SILU), ("GELU_TANH", GELU_TANH), ("CLAMPED_SWIGLU", CLAMPED_SWIGLU)];
        let activations = [gates[0], gates[1], gates[2], ("RELU_SQUARED", RELU_SQUARED), ("GELU", GELU)];
        twin::constants(activations.map(|(name, number)| (name, number as usize)));
    }
}
