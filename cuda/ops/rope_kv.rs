//! From the projections to attention: norms of the heads of q and k, rotary embedding, k and v into the cache.

use super::cache::Cache;
use crate::{Grid, Params, Ptr, Result, Stream};

/// Heads per block.
const WARPS: u32 = 8;

/// Rows of q, k and v; f32 `[rows][heads][head_dim]`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct RopeKv {
    /// Queries.
    pub q: Ptr<f32>,
    /// Queries, turned; may be `q`.
    pub q_out: Ptr<f32>,
    /// Keys.
    pub k: Ptr<f32>,
    /// Values.
    pub v: Ptr<f32>,
    /// `[head_dim]`, weights of an RMSNorm on each head of q, or null.
    pub q_norm: Ptr<f32>,
    /// The same for k.
    pub k_norm: Ptr<f32>,
    /// `[n_rot / 2]` radians per position, with base, scale and factors.
    pub frequency: Ptr<f64>,
    /// `[rows]`.
    pub pos: Ptr<i32>,
    /// `[rows]`, rows below 0 are skipped.
    pub seq: Ptr<i32>,
    /// Where k and v go.
    pub cache: Cache,
    /// Heads of q.
    pub n_head: i32,
    /// Heads of k and of v.
    pub n_head_kv: i32,
    /// At most 256.
    pub head_dim: i32,
    /// Elements of a head that turn, from the front; even.
    pub n_rot: i32,
    /// How they pair up.
    pub pairs: Pairs,
    /// Of the norms.
    pub eps: f32,
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

// SAFETY: rope_kvParams in kernels/rope_kv.cu; 9 addresses, a cache of 48 bytes and six 4-byte numbers leave no padding.
unsafe impl Params for RopeKv {}

/// Launches it for `rows` rows.
///
/// # Errors
/// The driver's.
pub fn rope_kv(s: &Stream, rows: u32, p: &RopeKv) -> Result<()> {
    assert!((1..=256).contains(&p.head_dim), "heads of {} elements", p.head_dim);
    assert!(p.n_rot % 2 == 0 && (0..=p.head_dim).contains(&p.n_rot), "{} of {} elements turn", p.n_rot, p.head_dim);
    let heads = (p.n_head + 2 * p.n_head_kv) as u32;
    s.launch("rope_kv", Grid::plane(heads.div_ceil(WARPS), rows, 32 * WARPS), p)
}
