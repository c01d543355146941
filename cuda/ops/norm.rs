//! Norms, and the sum with the residual stream before them.

use super::activations::QuantizedActivations;
use crate::{Grid, Params, Ptr, Result, Stream};

/// Most warps of a block, which has one row.
const MOST_WARPS: usize = 16;
/// Elements whose squares are added together, and how many such sums a block has room for.
pub(super) const CHUNK: usize = 128;
const MOST_CHUNKS: usize = 512;

/// What is done to the residual stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NormKind {
    /// `x / sqrt(mean(x²) + eps)`.
    #[default]
    Rms,
    /// `(x − mean) / sqrt(variance + eps)`.
    Layer,
    /// Nothing: the sum as it is.
    None,
}

/// `sum = x + scale · add`, `x_out = x_scale · sum`, `y = norm(sum) · weight + bias`; all buffers are f32 `[rows][n]`. What is left null
/// is left out.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct NormParams {
    /// The residual stream.
    pub x: Ptr<f32>,
    /// What joins it, or null.
    pub add: Ptr<f32>,
    /// `[n]`, weights of an RMSNorm on `add` before it joins, or null.
    pub post: Ptr<f32>,
    /// `[n]`: weights of the norm; null where it is none.
    pub weight: Ptr<f32>,
    /// The stream with what has joined it: `x` itself, or apart from it; or null.
    pub x_out: Ptr<f32>,
    /// `[rows]`, rows below 0 are skipped, or null.
    pub seq: Ptr<i32>,
    /// `[rows]` or null. Row `r` of the result is then made from row `index[r]` of `x` and `add` (skipped where it is
    /// negative), and `x_out` is null.
    pub index: Ptr<i32>,
    /// The result as numbers, or null; may be `x`.
    pub y: Ptr<f32>,
    /// The result as an image, or none.
    pub image: QuantizedActivations,
    /// Elements of a row: a multiple of 2, of 32 where there is an image.
    pub n: i32,
    /// Joins the mean of the squares.
    pub eps: f32,
    /// The same of the norm on `add`.
    pub post_eps: f32,
    /// Factor on what joins.
    pub scale: f32,
    /// Factor on what goes to `x_out`. What is normed does not have it: it is the same with `eps` divided by its square.
    pub x_scale: f32,
    /// 1 / `n`; a launch sets it.
    pub share: f32,
    /// `[n]`, of [`NormKind::Layer`]: joins the result at last; or null.
    pub bias: Ptr<f32>,
}

impl Default for NormParams {
    fn default() -> Self {
        Self {
            x: Ptr::NULL,
            add: Ptr::NULL,
            post: Ptr::NULL,
            weight: Ptr::NULL,
            x_out: Ptr::NULL,
            seq: Ptr::NULL,
            index: Ptr::NULL,
            y: Ptr::NULL,
            image: QuantizedActivations::default(),
            n: 0,
            eps: 0.0,
            post_eps: 0.0,
            scale: 1.0,
            x_scale: 1.0,
            share: 0.0,
            bias: Ptr::NULL,
        }
    }
}

impl NormParams {
    /// As the kernels take it.
    pub(super) fn with_share(&self) -> Self {
        Self { share: 1.0 / self.n as f32, ..*self }
    }
}

// SAFETY: NormParams in kernels/norm.cuh; the test below compares size and offsets.
unsafe impl Params for NormParams {}

/// Launches it for `rows` rows.
///
/// # Errors
/// The driver refuses the launch, or an earlier launch has failed.
///
/// # Safety
/// The contract of [`ops`](crate::ops): the addresses in `p` have the sizes that its fields name, for `rows` rows.
pub unsafe fn norm(s: &Stream, rows: u32, kind: NormKind, p: &NormParams) -> Result<()> {
    assert!(p.n > 0 && p.n % 2 == 0 && p.n as usize <= CHUNK * MOST_CHUNKS, "rows of {} elements", p.n);
    assert!(p.weight.is_null() == (kind == NormKind::None), "weights of a norm, {kind:?}");
    assert!(p.bias.is_null() || kind == NormKind::Layer, "a bias of a norm, {kind:?}");
    assert!(p.index.is_null() || p.x_out.is_null(), "rows that are picked have no place in the stream");
    assert!(kind != NormKind::None || p.x_scale == 1.0, "a sum that is scaled and one that is not");
    assert!(p.image.q.is_null() || p.n % 32 == 0, "an image of {} elements", p.n);
    let name = match kind {
        NormKind::Rms => "rms_norm",
        NormKind::Layer => "layer_norm",
        NormKind::None => "residual_add",
    };
    // A warp has a chunk of the row at once: one that has none would only take the place of another row's.
    let warps = (p.n as usize).div_ceil(CHUNK).min(MOST_WARPS);
    // SAFETY: the kernel takes these parameters (compared by the test below); the caller answers for the rest.
    unsafe { s.launch_dependent(name, Grid::linear(rows, 32 * warps as u32), &p.with_share()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::twin;

    #[test]
    fn the_kernels_have_the_same() {
        twin::fields!(NormParams as "NormParams" { x, add, post, weight, x_out, seq, index, y, image, n, eps, post_eps, scale, x_scale, share, bias });
        twin::constants([
            ("norm::NORM_THREADS", 32 * MOST_WARPS),
            ("NORM_CHUNK", CHUNK),
            ("norm::NORM_MOST_CHUNKS", MOST_CHUNKS),
        ]);
    }
}
