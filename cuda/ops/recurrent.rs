//! Layers that keep a state in place of keys and values: gated delta nets, short convolutions, and what Mamba-2
//! (`mamba.rs`) shares with delta nets.

use super::activations::QuantizedActivations;
use crate::{Grid, Params, Ptr, Result, Stream};

/// Most tokens that a convolution sees.
pub const MAX_TAPS: usize = 8;
/// Most elements of a key or a value of a head.
pub const MAX_STATE: usize = 128;
/// Threads of a block of a head for the longest value: four per element.
const HEAD_THREADS: u32 = 512;
/// Threads of a block of `short_conv`, one per channel.
const CONV_THREADS: u32 = 128;

/// The states of one layer, and what the rows of a launch are.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct States {
    /// `[page][len]`: a page of a block of 64 positions has the state after the last token that was stored there.
    pub pages: Ptr<f32>,
    /// `[sequence][slots]`: the page of position `p` is entry `(p / 64) % slots` of its sequence.
    pub table: Ptr<i32>,
    /// `[rows]`: position of each row in its sequence.
    pub pos: Ptr<i32>,
    /// `[rows]`, rows below 0 are skipped.
    pub seq: Ptr<i32>,
    /// Entries per sequence.
    pub slots: i32,
    /// Floats of a page.
    pub len: i32,
    /// Rows of the launch.
    pub rows: i32,
    /// 0: no two rows are of one sequence. Else rows may be of the sequences below this number, and those of one follow each
    /// other with the positions that do.
    pub sequences: i32,
    /// Rows of a sequence after which its state stays; those behind them are guesses, whose states are nowhere afterwards. 0: all.
    pub keeps: i32,
    /// Padding that the struct of the kernels has, too; zero.
    pub pad: i32,
}

impl States {
    /// Rows or sequences: each has blocks of its own.
    fn runs(&self) -> u32 {
        if self.sequences > 0 { self.sequences as u32 } else { self.rows as u32 }
    }
}

/// Floats that a page has for a head with a matrix: `[dim_v][dim_k]`, then the inputs `[taps − 1][2·dim_k + dim_v]` of its
/// query, key and value that the convolution still needs.
pub const fn head_len([dim_k, dim_v, taps]: [usize; 3]) -> usize {
    dim_k * dim_v + (taps - 1) * (2 * dim_k + dim_v)
}

/// Whether the kernels take heads of these sizes.
pub fn takes([dim_k, dim_v, taps]: [usize; 3]) -> bool {
    let sizes = dim_k.is_multiple_of(4) && dim_v.is_multiple_of(8);
    sizes && dim_k.max(dim_v) <= MAX_STATE && (2..=MAX_TAPS).contains(&taps)
}

/// Blocks and threads for so many heads, whose sizes have to be those of `state`.
pub(super) fn head_grid(state: &States, heads: i32, sizes: [i32; 3]) -> Grid {
    let sizes = sizes.map(|n| n as usize);
    assert!(takes(sizes), "keys, values and taps of {sizes:?}");
    assert!(state.len as usize >= heads as usize * head_len(sizes), "pages of {} floats", state.len);
    Grid::plane(heads as u32, state.runs(), HEAD_THREADS / MAX_STATE as u32 * sizes[1] as u32)
}

/// A gated delta net after its projections.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct DeltaNet {
    /// A page has [`head_len`] floats for each value head.
    pub state: States,
    /// `[rows][channels]`: queries and keys of all key heads, then values, before the convolution.
    pub input: Ptr<f32>,
    /// `[rows][n_head_v][dim_v]`: the gate of the result, before its SiLU.
    pub z: Ptr<f32>,
    /// Of the factor on the state, `[rows][n_head_v]`; grouped: `[rows][n_head_k][2·group]`, the first `group` of which are read.
    pub alpha: Ptr<f32>,
    /// Of the share of a new value, laid out as `alpha`.
    pub beta: Ptr<f32>,
    /// Weights of the convolution, `[channels][taps]`.
    pub conv: Ptr<f32>,
    /// `[n_head_v]`: joins `alpha`.
    pub dt: Ptr<f32>,
    /// `[n_head_v]`: factor of the decay.
    pub a: Ptr<f32>,
    /// `[dim_v]`: weights of the norm on each head of the result.
    pub norm: Ptr<f32>,
    /// The result, `[rows][n_head_v][dim_v]`, or null.
    pub y: Ptr<f32>,
    /// The result as an image, or none. Needs a `dim_v` that is a multiple of 32.
    pub image: QuantizedActivations,
    /// Heads of queries and keys.
    pub n_head_k: i32,
    /// Heads of values: a multiple of `n_head_k`.
    pub n_head_v: i32,
    /// Elements of a key: a multiple of 4, at most 128.
    pub dim_k: i32,
    /// Elements of a value: a multiple of 8, at most 128.
    pub dim_v: i32,
    /// Tokens that the convolution sees, the current one included: 2 to 8.
    pub taps: i32,
    /// The key head of value head `h`: 0: `h % n_head_k`; 1: `h / (n_head_v / n_head_k)`.
    pub grouped: i32,
    /// Joins the mean of the squares of the result, and the squares of queries and keys.
    pub eps: f32,
    /// Padding that the struct of the kernels has, too; zero.
    pub pad: i32,
}

// SAFETY: DeltaNetParams in kernels/recurrent.cu; the test below compares size and offsets.
unsafe impl Params for DeltaNet {}

/// Convolves the projections of all rows, moves the states, and gives what the heads find there, normed and gated.
///
/// # Errors
/// The driver refuses the launch, or an earlier launch has failed.
///
/// # Safety
/// The contract of [`ops`](crate::ops): the addresses in `p` and its states have the sizes that their fields name.
pub unsafe fn delta_net(s: &Stream, p: &DeltaNet) -> Result<()> {
    assert!(p.n_head_v % p.n_head_k == 0, "{} heads of values, {} of keys", p.n_head_v, p.n_head_k);
    assert!(p.image.q.is_null() || p.dim_v % 32 == 0, "an image of values of {} elements", p.dim_v);
    let grid = head_grid(&p.state, p.n_head_v, [p.dim_k, p.dim_v, p.taps]);
    // SAFETY: the kernel takes these parameters (compared by the test below); the caller answers for the rest.
    unsafe { s.launch("delta_net", grid, p) }
}

/// A short convolution after its projection.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct ShortConv {
    /// A page is `[taps − 1][channels]`: what the next position still needs.
    pub state: States,
    /// `[rows][3·channels]`: what is multiplied before the convolution, after it, and what goes through it.
    pub input: Ptr<f32>,
    /// `[channels][taps]`.
    pub conv: Ptr<f32>,
    /// The result, `[rows][channels]`, or null.
    pub y: Ptr<f32>,
    /// The result as an image (channels a multiple of 32), or none.
    pub image: QuantizedActivations,
    /// Elements of the residual stream.
    pub channels: i32,
    /// Tokens that the convolution sees, the current one included: 2 to 8.
    pub taps: i32,
}

// SAFETY: ShortConvParams in kernels/recurrent.cu; the test below compares size and offsets.
unsafe impl Params for ShortConv {}

/// Gates, convolves and gates again all rows, and moves the states.
///
/// # Errors
/// The driver refuses the launch, or an earlier launch has failed.
///
/// # Safety
/// The contract of [`ops`](crate::ops): the addresses in `p` and its states have the sizes that their fields name.
pub unsafe fn short_conv(s: &Stream, p: &ShortConv) -> Result<()> {
    assert!((2..=MAX_TAPS as i32).contains(&p.taps), "a convolution of {} tokens", p.taps);
    assert!(p.image.q.is_null() || p.channels % 32 == 0, "an image of {} elements", p.channels);
    assert!(p.state.len >= (p.taps - 1) * p.channels, "pages of {} floats", p.state.len);
    let grid = Grid::plane((p.channels as u32).div_ceil(CONV_THREADS), p.state.runs(), CONV_THREADS);
    // SAFETY: the kernel takes these parameters (compared by the test below); the caller answers for the rest.
    unsafe { s.launch("short_conv", grid, p) }
}

/// What a draft head takes: of each row the embedding of its token, and the hidden state before it.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct JoinHidden {
    /// A page is `[n]`: the hidden state of the last token.
    pub state: States,
    /// Embeddings of the rows' tokens, `[rows][n]`.
    pub embedding: Ptr<f32>,
    /// `[rows][n]`: hidden states of the rows; or null: they are guesses, of which no state stays.
    pub hidden: Ptr<f32>,
    /// `[rows][n]`: hidden states before the rows, no two of one sequence, where they are not those that sequences keep; or null.
    pub before: Ptr<f32>,
    /// `[rows][2][n]`: the embedding, then the hidden state before.
    pub y: Ptr<f32>,
    /// Elements of either.
    pub n: i32,
    /// Padding that the struct of the kernels has, too; zero.
    pub pad: i32,
}

// SAFETY: JoinHiddenParams in kernels/recurrent.cu; the test below compares size and offsets.
unsafe impl Params for JoinHidden {}

/// Puts embeddings and the hidden states before them side by side, and moves the states.
///
/// # Errors
/// The driver refuses the launch, or an earlier launch has failed.
///
/// # Safety
/// The contract of [`ops`](crate::ops): the addresses in `p` and its states have the sizes that their fields name.
pub unsafe fn join_hidden(s: &Stream, p: &JoinHidden) -> Result<()> {
    assert!(p.state.len >= p.n, "pages of {} floats", p.state.len);
    let grid = Grid::plane((p.n as u32).div_ceil(CONV_THREADS), p.state.runs(), CONV_THREADS);
    // SAFETY: the kernel takes these parameters (compared by the test below); the caller answers for the rest.
    unsafe { s.launch("join_hidden", grid, p) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::twin;

    #[test]
    fn the_kernels_have_the_same() {
        twin::fields!(States as "StateParams" { pages, table, pos, seq, slots, len, rows, sequences, keeps, pad });
        twin::fields!(DeltaNet as "recurrent::DeltaNetParams" {
            state, input, z, alpha, beta, conv, dt, a, norm, y, image, n_head_k, n_head_v, dim_k, dim_v, taps, grouped,
            eps, pad,
        });
        twin::fields!(ShortConv as "recurrent::ShortConvParams" { state, input, conv, y, image, channels, taps });
        twin::fields!(JoinHidden as "recurrent::JoinHiddenParams" { state, embedding, hidden, before, y, n, pad });
        twin::constants([
            ("MAX_TAPS", MAX_TAPS),
            ("MAX_STATE", MAX_STATE),
            ("HEAD_THREADS", HEAD_THREADS as usize),
            ("recurrent::CONV_THREADS", CONV_THREADS as usize),
        ]);
    }
}
