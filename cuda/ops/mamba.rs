//! Mamba-2, and the norm of what its heads give.

use super::{
    activations::QuantizedActivations,
    recurrent::{States, head_grid},
};
use crate::{Grid, Params, Ptr, Result, Stream};

/// Threads of a block of `group_norm`.
const NORM_THREADS: u32 = 512;

/// Mamba-2 after its projection. `B` are keys of `dim_k` elements, `C` queries, `x` values of `dim_v`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Mamba {
    /// A page has [`head_len`](super::recurrent::head_len) floats for each head.
    pub state: States,
    /// `[rows][stride]`: gates of what all heads give; `x` of all heads, `B` of all groups and `C` of all groups, before the
    /// convolution; and the time step of each head.
    pub input: Ptr<f32>,
    /// Weights of the convolution, `[channels][taps]`.
    pub conv: Ptr<f32>,
    /// Added to what the convolution gives, before its SiLU, `[channels]`; or null.
    pub bias: Ptr<f32>,
    /// `[n_head]`: joins the time step.
    pub dt: Ptr<f32>,
    /// `[n_head]`: factor of the decay.
    pub a: Ptr<f32>,
    /// `[n_head]`: how much of `x` joins what a head gives.
    pub d: Ptr<f32>,
    /// The result, gated, `[rows][n_head][dim_v]`.
    pub y: Ptr<f32>,
    /// Groups of heads that share `B` and `C`.
    pub n_group: i32,
    /// Heads: a multiple of `n_group`.
    pub n_head: i32,
    /// Elements of `B` and `C`: a multiple of 4, at most 128.
    pub dim_k: i32,
    /// Elements of `x`: a multiple of 8, at most 128.
    pub dim_v: i32,
    /// Tokens that the convolution sees, the current one included: 2 to 8.
    pub taps: i32,
    /// Elements of a row of `input`: a multiple of 4.
    pub stride: i32,
}

// SAFETY: MambaParams in kernels/mamba.cu; the test below compares size and offsets.
unsafe impl Params for Mamba {}

/// Convolves the projections of all rows, moves the states, and gives what the heads find there, gated.
///
/// # Errors
/// The driver refuses the launch, or an earlier launch has failed.
///
/// # Safety
/// The contract of [`ops`](crate::ops): the addresses in `p` and its states have the sizes that their fields name.
pub unsafe fn mamba(s: &Stream, p: &Mamba) -> Result<()> {
    assert!(p.n_head % p.n_group == 0, "{} heads, {} groups", p.n_head, p.n_group);
    let row = 2 * p.n_head * p.dim_v + 2 * p.n_group * p.dim_k + p.n_head;
    assert!(p.stride == row && row % 4 == 0, "rows of {} elements, {} of them used", p.stride, row);
    let grid = head_grid(&p.state, p.n_head, [p.dim_k, p.dim_v, p.taps]);
    // SAFETY: the kernel takes these parameters (compared by the test below); the caller answers for the rest.
    unsafe { s.launch("mamba", grid, p) }
}

/// RMSNorm of each group of a row.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct GroupNorm {
    /// What is normed, `[rows][groups][n]`.
    pub x: Ptr<f32>,
    /// A factor on each element after the norm, `[groups][n]`, the same in all rows.
    pub weight: Ptr<f32>,
    /// `[rows]`, rows below 0 are skipped.
    pub seq: Ptr<i32>,
    /// The result, as `x`, or null.
    pub y: Ptr<f32>,
    /// The result as an image, or none. Needs an `n` that is a multiple of 32.
    pub image: QuantizedActivations,
    /// Elements of a group: a multiple of 4.
    pub n: i32,
    /// Joins the mean of the squares.
    pub eps: f32,
}

// SAFETY: GroupNormParams in kernels/mamba.cu; the test below compares size and offsets.
unsafe impl Params for GroupNorm {}

/// Norms so many groups of so many rows.
///
/// # Errors
/// The driver refuses the launch, or an earlier launch has failed.
///
/// # Safety
/// The contract of [`ops`](crate::ops): the addresses in `p` have the sizes that their fields name.
pub unsafe fn group_norm(s: &Stream, [rows, groups]: [usize; 2], p: &GroupNorm) -> Result<()> {
    assert!(p.n % 4 == 0, "groups of {} elements", p.n);
    assert!(p.image.q.is_null() || p.n % 32 == 0, "an image of groups of {} elements", p.n);
    let grid = Grid::plane(groups as u32, rows as u32, NORM_THREADS);
    // SAFETY: the kernel takes these parameters (compared by the test below); the caller answers for the rest.
    unsafe { s.launch("group_norm", grid, p) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::twin;

    #[test]
    fn the_kernels_have_the_same() {
        twin::fields!(Mamba as "mamba::MambaParams" {
            state, input, conv, bias, dt, a, d, y, n_group, n_head, dim_k, dim_v, taps, stride,
        });
        twin::fields!(GroupNorm as "mamba::GroupNormParams" { x, weight, seq, y, image, n, eps });
        twin::constants([("mamba::NORM_THREADS", NORM_THREADS as usize)]);
    }
}
