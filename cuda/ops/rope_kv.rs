//! From the projections to attention: norms of the heads of q and k, rotary embedding, k and v into the cache.

use super::cache::Cache;
use crate::{Grid, Params, Ptr, Result, Stream};

/// Heads per block, one warp each.
const WARPS: u32 = 8;
/// Most elements of a head.
const MAX_HEAD: i32 = 512;
/// Most elements of a head that the smaller kernel takes.
const SMALL_HEAD: i32 = 256;
/// Most elements of the front of a latent vector, and of its end, which turns.
const MAX_RANK: usize = 512;
pub(super) const MAX_TURNING: usize = 128;

/// Rows of q, k and v; f32 `[rows][heads][head_dim]`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct RopeKv {
    /// Queries, `[rows][n_head][q_step]`, of which the first `head_dim`.
    pub q: Ptr<f32>,
    /// Queries, turned, `[rows][n_head][head_dim]`; may be `q`.
    pub q_out: Ptr<f32>,
    /// Keys, `[rows][n_head_kv][head_dim]`; null where the cache has keys and values already.
    pub k: Ptr<f32>,
    /// Values, shaped as the keys; stored without rotation. May be `k`.
    pub v: Ptr<f32>,
    /// `[head_dim]`, weights of an RMSNorm on each head of q, or null.
    pub q_norm: Ptr<f32>,
    /// The same for k.
    pub k_norm: Ptr<f32>,
    /// `[n_rot / 2]` turns per position, as [`turns`] gives them.
    pub frequency: Ptr<u64>,
    /// `[rows]`: position of each row in its sequence.
    pub pos: Ptr<i32>,
    /// `[rows]`, rows below 0 are skipped.
    pub seq: Ptr<i32>,
    /// Where k and v go.
    pub cache: Cache,
    /// Query heads: `q` has `n_head · head_dim` elements per row.
    pub n_head: i32,
    /// Heads of k and of v.
    pub n_head_kv: i32,
    /// Elements per head, a multiple of 4, at most 512.
    pub head_dim: i32,
    /// Elements of a head that turn, from the front: a multiple of 4, of 8 where [`Pairs::Halves`] turn.
    pub n_rot: i32,
    /// How they pair up.
    pub pairs: Pairs,
    /// Epsilon of the norms on q and k.
    pub eps: f32,
    /// Factor on cosines and sines.
    pub magnitude: f32,
    /// Elements from head to head of `q`.
    pub q_step: i32,
    /// 1: heads of values are normed, without a weight.
    pub v_norm: i32,
    /// 1 / `head_dim`: the operations set it.
    pub share: f32,
}

/// Which elements turn together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(i32)]
pub enum Pairs {
    /// `(2i, 2i + 1)`.
    #[default]
    Interleaved = 0,
    /// `(i, i + n_rot / 2)`.
    Halves = 1,
}

// SAFETY: RopeKvParams in kernels/rope.cuh; the test below compares size and offsets.
unsafe impl Params for RopeKv {}

impl RopeKv {
    /// As the kernels take it.
    pub(super) fn checked(&self) -> Self {
        let Self { head_dim, n_rot, q_step, .. } = *self;
        assert!(head_dim % 4 == 0 && (4..=MAX_HEAD).contains(&head_dim), "heads of {head_dim} elements");
        assert!(
            q_step == head_dim || q_step > head_dim && self.q.address() != self.q_out.address(),
            "heads {q_step} elements apart"
        );
        assert!(takes(n_rot as usize, self.pairs) && n_rot <= head_dim, "{n_rot} of {head_dim} elements turn");
        Self { share: 1.0 / head_dim as f32, ..*self }
    }

    /// The same of [`LatentKv`].
    pub(super) fn checked_latent(&self) -> Self {
        let Self { head_dim, n_rot, .. } = *self;
        assert!(takes_latent(head_dim as usize, n_rot as usize), "{n_rot} of {head_dim} elements turn");
        assert!(self.q_norm.is_null() && self.n_head_kv == 1, "queries of latent attention are not normed");
        Self { share: 1.0 / (head_dim - n_rot) as f32, ..*self }
    }
}

/// Whether the kernels turn so many elements of a head.
pub fn takes(n_rot: usize, pairs: Pairs) -> bool {
    n_rot.is_multiple_of(if pairs == Pairs::Halves { 8 } else { 4 })
}

/// Radians per position as 2^64ths of a turn. Whole turns have no effect, so they are left out; the rest is exact to a bit of an
/// f64, and so is its product with a position.
pub fn turns(radians: f64) -> u64 {
    let turns = radians / std::f64::consts::TAU;
    // Below 1, so the product is below 2^64.
    ((turns - turns.floor()) * 2f64.powi(64)) as u64
}

/// Launches it for `rows` rows.
///
/// # Errors
/// The driver refuses the launch, or an earlier launch has failed.
///
/// # Safety
/// The contract of [`ops`](crate::ops): the addresses in `p` have the sizes that its fields name, for `rows` rows.
pub unsafe fn rope_kv(s: &Stream, rows: u32, p: &RopeKv) -> Result<()> {
    let p = &p.checked();
    let heads = (p.n_head + if p.k.is_null() { 0 } else { 2 * p.n_head_kv }) as u32;
    let name = if p.head_dim > SMALL_HEAD { "rope_kv_512" } else { "rope_kv" };
    // SAFETY: the kernel takes these parameters (compared by the test below); the caller answers for the rest.
    unsafe { s.launch(name, Grid::plane(heads.div_ceil(WARPS), rows, 32 * WARPS), p) }
}

/// Latent attention: a query is what its head's matrix has made of the elements that do not turn, then those that turn; the key of
/// all heads is one vector of each token, whose front is normed and whose end turns. Keys alone go into the cache.
#[derive(Debug, Clone, Copy, Default)]
pub struct LatentKv {
    /// Of queries and keys `n_rot` elements turn, all of `q` (from head to head `q_step`), which go behind the front that
    /// `q_out` has, and the last ones of `k`, whose first have the norm `k_norm`. One `n_head_kv`; no `q_norm`, and `v` is not read.
    pub rope: RopeKv,
    /// `[rows][head_dim]`: where keys go besides, or null.
    pub k_out: Ptr<f32>,
}

/// The twin of LatentKvParams in kernels/rope_kv.cu.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawLatent {
    rope: RopeKv,
    k_out: Ptr<f32>,
    rank: i32,
    pad: i32,
}
// SAFETY: LatentKvParams in kernels/rope_kv.cu; the test below compares size and offsets.
unsafe impl Params for RawLatent {}

/// Whether there is a kernel for the vectors of latent attention: of `head_dim` elements the last `n_rot` turn.
pub fn takes_latent(head_dim: usize, n_rot: usize) -> bool {
    let rank = head_dim.saturating_sub(n_rot);
    (32..=MAX_RANK).contains(&rank) && rank.is_multiple_of(32) && n_rot.is_multiple_of(8) && n_rot <= MAX_TURNING
}

/// Launches it for `rows` rows.
///
/// # Errors
/// The driver refuses the launch, or an earlier launch has failed.
///
/// # Safety
/// The contract of [`ops`](crate::ops): the addresses in `p` have the sizes that its fields name, for `rows` rows.
pub unsafe fn latent_kv(s: &Stream, rows: u32, p: &LatentKv) -> Result<()> {
    let rope = p.rope.checked_latent();
    let RopeKv { head_dim, n_rot, n_head, .. } = rope;
    let raw = RawLatent { rope, k_out: p.k_out, rank: head_dim - n_rot, pad: 0 };
    let grid = Grid::plane((n_head as u32 + 1).div_ceil(WARPS), rows, 32 * WARPS);
    // SAFETY: the kernel takes these parameters (compared by the test below); the caller answers for the rest.
    unsafe { s.launch("latent_kv", grid, &raw) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::twin;

    #[test]
    fn the_kernels_have_the_same() {
        twin::fields!(RopeKv as "RopeKvParams" {
            q, q_out, k, v, q_norm, k_norm, frequency, pos, seq, cache, n_head, n_head_kv, head_dim, n_rot,
            pairs as "halves", eps, magnitude, q_step, v_norm, share,
        });
        twin::fields!(RawLatent as "rope_kv::LatentKvParams" { rope, k_out, rank, pad });
        twin::constants([
            ("rope_kv::ROPE_WARPS", WARPS as usize),
            ("MAX_HEAD", MAX_HEAD as usize),
            ("MAX_RANK", MAX_RANK),
            ("MAX_TURNING", MAX_TURNING),
        ]);
    }
}
