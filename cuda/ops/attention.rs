//! Attention of the rows of a chunk over the paged cache.

use super::{
    activations::QuantizedActivations,
    cache::{Cache, CacheType, PAGE},
    rope_kv::RopeKv,
};
use crate::{ArenaLayout, Grid, Params, Ptr, Result, Stream};

/// Most parts that what a row sees falls into, each of at least a page.
pub const MAX_PARTS: usize = 64;
/// Queries of a tile where rows go one by one.
const QUERIES: usize = 16;

/// Attention of one layer.
#[derive(Debug, Clone, Copy, Default)]
pub struct Attention {
    /// Queries, f32 `[rows][n_head][head_dim]`; not read where there is a `rope`.
    pub q: Ptr<f32>,
    /// `[rows]`: position of each row in its sequence. Rows of a sequence that stand together ascend.
    pub pos: Ptr<i32>,
    /// `[rows]`, rows below 0 are skipped.
    pub seq: Ptr<i32>,
    /// Keys and values, those of the rows themselves among them.
    pub cache: Cache,
    /// The result, shaped as `q`, or null.
    pub out: Ptr<f32>,
    /// The result as an image, or none. Needs a `head_dim` that is a multiple of 32.
    pub image: QuantizedActivations,
    /// Partial results and tickets of rows that several blocks share.
    pub scratch: Scratch,
    /// Most blocks that share the parts of a row where rows go one by one. Not in the bits of the result.
    pub splits: usize,
    /// What is still to be done with the projections of the rows, where no row sees another one. Only where rows go one by one,
    /// and [`turns`] says so.
    pub rope: Option<RopeKv>,
    /// How rows are gathered.
    pub tiling: Tiling,
    /// Rows of the batch: tokens, of any sequences.
    pub rows: usize,
    /// Query heads: `q` has `n_head · head_dim` elements per row.
    pub n_head: usize,
    /// Heads of k and v; divides `n_head`.
    pub n_head_kv: usize,
    /// A multiple of 16, at most 512; beyond 256 of 32.
    pub head_dim: usize,
    /// Positions that a row sees, its own included; 0: all.
    pub window: usize,
    /// Factor on the dot products of queries and keys, before the soft-cap.
    pub scale: f32,
    /// Soft-cap of scores; 0: none.
    pub softcap: f32,
    /// Queries are multiplied by `1 + growth · ln(1 + ⌊position / grows_every⌋)`; 0: they are not.
    pub growth: f32,
    /// See `growth`.
    pub grows_every: usize,
    /// `[rows][n_head][gate_step]`, of which the first `head_dim`: the result is multiplied by their sigmoids; or null.
    pub gate: Ptr<f32>,
    /// Elements from head to head of `gate`.
    pub gate_step: usize,
    /// `[n_head]`: a score of each head that takes its share of the softmax and has no value; or null.
    pub sinks: Ptr<f32>,
}

/// Which rows share the loading of keys and values. The result of a row is the same to the bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tiling {
    /// Each row for itself, by several blocks: rows of different sequences.
    #[default]
    Rows,
    /// Consecutive rows of a sequence together, by one block: a prompt.
    Prompt,
}

/// Buffers in which the parts of what a row sees meet.
#[derive(Debug, Clone, Copy, Default)]
pub struct Scratch {
    partial: Ptr<f32>,
    state: Ptr<f32>,
    tickets: Ptr<u32>,
    parts: usize,
}

impl Scratch {
    /// Room for `rows` rows of `n_head` heads with `width` elements together at positions below `n_ctx`, zeroed by
    /// [`Scratch::clear`] before the first use.
    pub fn take(layout: &mut ArenaLayout, [rows, n_head, width]: [usize; 3], n_ctx: usize) -> Self {
        let parts = n_ctx.div_ceil(PAGE).clamp(1, MAX_PARTS);
        Self {
            partial: layout.take("activations/attention.partial", rows * parts * width),
            state: layout.take("activations/attention.state", rows * n_head * parts * 2),
            tickets: layout.take("activations/attention.tickets", rows * n_head),
            parts,
        }
    }

    /// Sets the tickets to zero; every launch leaves them so.
    ///
    /// # Errors
    /// An earlier launch has failed.
    ///
    /// # Safety
    /// The contract of [`ops`](crate::ops): the scratch was taken for `rows` rows of `n_head` heads, or more.
    pub unsafe fn clear(&self, s: &Stream, rows: usize, n_head: usize) -> Result<()> {
        // SAFETY: the caller keeps the same contract.
        unsafe { s.zero(self.tickets, rows * n_head) }
    }
}

/// Splits with which one sequence fills a GPU: rows see at most `visible` positions. Fixed at load: the grid does not change
/// with the position.
pub fn splits(multiprocessors: usize, n_head_kv: usize, visible: usize) -> usize {
    // A window begins and ends within a page.
    (2 * multiprocessors).div_ceil(n_head_kv).min(visible.div_ceil(PAGE) + 1).clamp(1, MAX_PARTS)
}

/// Whether the blocks of rows that go one by one can norm and turn their queries: all that share a head of k and v are together.
pub fn turns(n_head: usize, n_head_kv: usize) -> bool {
    n_head / n_head_kv <= QUERIES
}

/// The twin of AttentionParams in kernels/attention.cuh.
#[repr(C)]
#[derive(Clone, Copy)]
struct Raw {
    q: Ptr<f32>,
    pos: Ptr<i32>,
    seq: Ptr<i32>,
    cache: Cache,
    out: Ptr<f32>,
    image: QuantizedActivations,
    partial: Ptr<f32>,
    state: Ptr<f32>,
    tickets: Ptr<u32>,
    rows: i32,
    n_head: i32,
    n_head_kv: i32,
    group: i32,
    head_dim: i32,
    heads_per_tile: i32,
    rows_per_tile: i32,
    tiles_of_kv: i32,
    place_factor: i32,
    splits: i32,
    parts: i32,
    window: i32,
    scale: f32,
    softcap: f32,
    growth: f32,
    grows_every: i32,
    gate_step: i32,
    gate: Ptr<f32>,
    sinks: Ptr<f32>,
    rope: RopeKv,
}

// SAFETY: AttentionParams in kernels/attention.cuh; the test below compares size and offsets.
unsafe impl Params for Raw {}

/// Launches it.
///
/// # Errors
/// The driver refuses the launch, or an earlier launch has failed.
///
/// # Safety
/// The contract of [`ops`](crate::ops): the addresses in `a` have the sizes that its fields name. Where rows go one by one,
/// `scratch` was taken for as many and cleared.
pub unsafe fn attention(s: &Stream, a: &Attention) -> Result<()> {
    assert!(takes(a.head_dim), "heads of {} elements", a.head_dim);
    assert!(a.n_head.is_multiple_of(a.n_head_kv), "{} heads share {}", a.n_head, a.n_head_kv);
    assert!(a.image.q.is_null() || a.head_dim.is_multiple_of(32), "an image of heads of {} elements", a.head_dim);
    assert!(a.splits <= 1 || a.scratch.parts > 0, "no room for the parts of {} splits", a.splits);
    if let Some(rope) = &a.rope {
        assert!(a.tiling == Tiling::Rows && turns(a.n_head, a.n_head_kv), "{} heads share {}", a.n_head, a.n_head_kv);
        rope.check();
    }
    let group = a.n_head / a.n_head_kv;
    let (queries, dim) = variant(a.tiling, a.head_dim);
    let heads_per_tile = group.min(queries);
    let (rows_per_tile, splits) = match a.tiling {
        Tiling::Rows => (1, a.splits.max(1)),
        Tiling::Prompt => (queries / heads_per_tile, 1),
    };
    let raw = Raw {
        q: a.q,
        pos: a.pos,
        seq: a.seq,
        cache: a.cache,
        out: a.out,
        image: a.image,
        partial: a.scratch.partial,
        state: a.scratch.state,
        tickets: a.scratch.tickets,
        rows: a.rows as i32,
        n_head: a.n_head as i32,
        n_head_kv: a.n_head_kv as i32,
        group: group as i32,
        head_dim: a.head_dim as i32,
        heads_per_tile: heads_per_tile as i32,
        rows_per_tile: rows_per_tile as i32,
        tiles_of_kv: group.div_ceil(heads_per_tile) as i32,
        place_factor: 65_536usize.div_ceil(heads_per_tile) as i32,
        splits: splits as i32,
        parts: a.scratch.parts as i32,
        window: a.window as i32,
        scale: a.scale,
        softcap: a.softcap,
        growth: a.growth,
        grows_every: a.grows_every.max(1) as i32,
        gate_step: a.gate_step as i32,
        gate: a.gate,
        sinks: a.sinks,
        rope: a.rope.unwrap_or_default(),
    };
    let tiles = a.n_head_kv * group.div_ceil(heads_per_tile);
    let blocks = [tiles as u32, a.rows.div_ceil(rows_per_tile) as u32, splits as u32];
    let kind = a.cache.kind;
    // SAFETY: the kernel takes these parameters (compared by the test below); the caller answers for the rest.
    unsafe {
        s.launch_dependent(
            kernel(kind, dim, queries),
            Grid { blocks, threads: threads(dim), shared: shared(kind, dim, queries) },
            &raw,
        )
    }
}

/// Whether there are kernels for heads of so many elements.
pub fn takes(head_dim: usize) -> bool {
    let step = if head_dim > 256 { 32 } else { 16 };
    head_dim.is_multiple_of(step) && (16..=512).contains(&head_dim)
}

/// Queries per tile, and the `head_dim` that the kernel is made for.
fn variant(tiling: Tiling, head_dim: usize) -> (usize, usize) {
    let dim = head_dim.next_power_of_two().max(64);
    match (tiling, dim) {
        (Tiling::Prompt, 64) => (64, dim),
        (Tiling::Prompt, 128) => (32, dim),
        _ => (QUERIES, dim),
    }
}

fn kernel(kind: CacheType, dim: usize, queries: usize) -> &'static str {
    match (kind, dim, queries) {
        (CacheType::F16, 64, 16) => "attention_f16_64_16",
        (CacheType::F16, 64, _) => "attention_f16_64_64",
        (CacheType::F16, 128, 16) => "attention_f16_128_16",
        (CacheType::F16, 128, _) => "attention_f16_128_32",
        (CacheType::F16, 256, _) => "attention_f16_256_16",
        (CacheType::F16, ..) => "attention_f16_512_16",
        (CacheType::Q8_0, 64, 16) => "attention_q8_0_64_16",
        (CacheType::Q8_0, 64, _) => "attention_q8_0_64_64",
        (CacheType::Q8_0, 128, 16) => "attention_q8_0_128_16",
        (CacheType::Q8_0, 128, _) => "attention_q8_0_128_32",
        (CacheType::Q8_0, 256, _) => "attention_q8_0_256_16",
        (CacheType::Q8_0, ..) => "attention_q8_0_512_16",
    }
}

/// Dynamic shared memory in bytes: `Variant::BYTES` in kernels/attention.cuh.
fn shared(kind: CacheType, dim: usize, queries: usize) -> u32 {
    let (stride, (tiles, keys)) = (dim + 8, tiles(dim));
    let scales = if kind == CacheType::Q8_0 { keys * dim / 32 } else { 0 };
    (2 * 2 * queries * stride + tiles * 2 * keys * stride + 4 * queries * (keys + 8) + 2 * 4 * scales) as u32
}

/// Threads of a block.
fn threads(dim: usize) -> u32 {
    if dim > 128 { 256 } else { 128 }
}

/// Tiles of keys or values that a block has in shared memory at once, and positions of a tile.
fn tiles(dim: usize) -> (usize, usize) {
    if dim > 256 { (1, 16) } else { (2, 32) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::twin;

    #[test]
    fn the_kernels_have_the_same() {
        twin::fields!(Cache as "Cache" { k, v, k_scale, v_scale, table, pages, kind as "type" });
        twin::fields!(Raw as "attention::AttentionParams" {
            q, pos, seq, cache, out, image, partial, state, tickets, rows, n_head, n_head_kv, group, head_dim,
            heads_per_tile, rows_per_tile, tiles_of_kv, place_factor, splits, parts, window, scale, softcap, growth, grows_every, gate_step, gate, sinks, rope,
        });
        twin::constants([
            ("PAGE", PAGE),
            ("CACHE_F16", CacheType::F16 as usize),
            ("CACHE_Q8_0", CacheType::Q8_0 as usize),
            ("attention::MAX_PARTS", MAX_PARTS),
        ]);
        for kind in [CacheType::F16, CacheType::Q8_0] {
            for (dim, queries) in [(64, 16), (64, 64), (128, 16), (128, 32), (256, 16), (512, 16)] {
                let name = kernel(kind, dim, queries);
                assert!(name.ends_with(&format!("_{dim}_{queries}")), "{name}");
                twin::constants([
                    (format!("shared {name}").as_str(), shared(kind, dim, queries) as usize),
                    (format!("keys {name}").as_str(), tiles(dim).1),
                    (format!("threads {name}").as_str(), threads(dim) as usize),
                ]);
            }
        }
    }
}
