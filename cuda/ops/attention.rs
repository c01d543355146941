//! Attention of the rows of a chunk over the paged cache.

use super::{
    activations::QuantizedActivations,
    cache::{Cache, CacheType, PAGE},
    rope_kv::{MAX_TURNING, RopeKv},
};
use crate::{ArenaLayout, DeviceProperties, Grid, Params, Ptr, Result, Stream};

/// Most parts that what a row sees falls into, each of at least a page.
pub const MAX_PARTS: usize = 64;
/// Queries of a tile where rows go one by one.
const QUERIES: usize = 8;
/// Most elements of the keys of latent attention.
const LATENT: usize = 576;

/// Attention of one layer.
#[derive(Debug, Clone, Copy, Default)]
pub struct Attention {
    /// Queries, f32 `[rows][n_head][head_dim]`; not read where there is a `rope`, but for the front of queries of latent attention.
    pub q: Ptr<f32>,
    /// `[rows]`: position of each row in its sequence. Rows of a sequence that stand together ascend.
    pub pos: Ptr<i32>,
    /// `[rows]`, rows below 0 are skipped.
    pub seq: Ptr<i32>,
    /// `[rows]`: the length of each row's text, whose keys are all there: a row of a prompt sees what lies behind it too, and of a
    /// window half before it, half behind it. Null: it sees nothing behind it.
    pub end: Ptr<i32>,
    /// Keys and values, those of the rows themselves among them. Of latent attention values are not looked for.
    pub cache: Cache,
    /// The result, `[rows][n_head]` of the elements of a value, or null.
    pub out: Ptr<f32>,
    /// The result as an image, or none. Needs values of a multiple of 32 elements.
    pub image: QuantizedActivations,
    /// Partial results and tickets of rows that several blocks share.
    pub scratch: Scratch,
    /// Most blocks that share the parts of a row where rows go one by one; 0: so many that those of all rows run at
    /// once, or in the fewest turns. Not in the bits of the result.
    pub splits: usize,
    /// What is still to be done with the projections of the rows, where no row sees another one; of latent attention as
    /// [`LatentKv`](super::rope_kv::LatentKv) has it. Only where rows go one by one.
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
    /// Latent attention: values are the first so many elements of keys, see [`takes_latent`]. `None`: they have as many as keys.
    pub latent: Option<usize>,
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

/// The twin of AttentionParams in kernels/attention_tiles.cuh.
#[repr(C)]
#[derive(Clone, Copy)]
struct Raw {
    q: Ptr<f32>,
    pos: Ptr<i32>,
    seq: Ptr<i32>,
    end: Ptr<i32>,
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
    value_dim: i32,
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

// SAFETY: AttentionParams in kernels/attention_tiles.cuh; the test below compares size and offsets.
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
    let value_dim = a.latent.unwrap_or(a.head_dim);
    let takes = a.latent.map_or(takes(a.head_dim), |n| takes_latent(a.head_dim, n));
    assert!(takes, "keys of {} elements, values of {value_dim}", a.head_dim);
    assert!(a.n_head.is_multiple_of(a.n_head_kv), "{} heads share {}", a.n_head, a.n_head_kv);
    assert!(a.image.q.is_null() || value_dim.is_multiple_of(32), "an image of heads of {value_dim} elements");
    assert!(a.splits <= 1 || a.scratch.parts > 0, "no room for the parts of {} splits", a.splits);
    assert!(a.rope.is_none() || a.tiling == Tiling::Rows, "rows of a prompt are turned before");
    let whole = a.tiling == Tiling::Prompt && a.growth == 0.0;
    assert!(a.end.is_null() || whole, "rows that go one by one, and queries that grow, see nothing behind them");
    let group = a.n_head / a.n_head_kv;
    let variant = Variant::of(a, s.gpu().properties().sm);
    let heads_per_tile = group.min(variant.queries);
    let tiles = a.n_head_kv * group.div_ceil(heads_per_tile);
    let (rows_per_tile, splits) = match (a.tiling, a.splits) {
        (Tiling::Prompt, _) => (variant.queries / heads_per_tile, 1),
        (Tiling::Rows, 0) => (1, variant.splits(s.gpu().properties(), tiles * a.rows, a)),
        (Tiling::Rows, splits) => (1, splits),
    };
    let raw = Raw {
        q: a.q,
        pos: a.pos,
        seq: a.seq,
        end: a.end,
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
        value_dim: value_dim as i32,
        heads_per_tile: heads_per_tile as i32,
        rows_per_tile: rows_per_tile as i32,
        tiles_of_kv: (tiles / a.n_head_kv) as i32,
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
        rope: a.rope.map_or_else(RopeKv::default, |rope| match a.latent {
            None => rope.checked(),
            Some(_) => rope.checked_latent(),
        }),
    };
    let blocks = [tiles as u32, a.rows.div_ceil(rows_per_tile) as u32, splits as u32];
    let grid = Grid { blocks, threads: variant.threads(), shared: variant.shared() };
    // SAFETY: the kernel takes these parameters (compared by the test below); the caller answers for the rest.
    unsafe { s.launch_dependent(variant.kernel(), grid, &raw) }
}

/// Whether there are kernels for heads of so many elements.
pub fn takes(head_dim: usize) -> bool {
    let step = if head_dim > 256 { 32 } else { 16 };
    head_dim.is_multiple_of(step) && (16..=512).contains(&head_dim)
}

/// The same of latent attention: keys of up to 576 elements, a multiple of 16; the first of them, up to 512 and a multiple of 32,
/// are their values.
pub fn takes_latent(head_dim: usize, value_dim: usize) -> bool {
    let multiples = head_dim.is_multiple_of(16) && value_dim.is_multiple_of(32);
    multiples && value_dim <= head_dim && head_dim <= LATENT && (32..=512).contains(&value_dim)
}

/// A kernel, and what it needs.
#[derive(Debug, Clone, Copy)]
struct Variant {
    tiling: Tiling,
    kind: CacheType,
    /// The `head_dim` that it is made for: 64, 128, 256 or 512; 576 of latent attention.
    dim: usize,
    /// Rows of a tile: a query head of one row each, in a prompt of several rows.
    queries: usize,
    /// Positions of which the block has keys at once, and values at once.
    step: usize,
    /// Steps that have room at once: of keys, of values.
    tiles: usize,
}

impl Variant {
    fn of(a: &Attention, sm: i32) -> Self {
        let dim = if a.latent.is_some() { LATENT } else { a.head_dim.next_power_of_two().max(64) };
        let keys = if dim > 256 { 16 } else { 32 };
        let (queries, step) = match (a.tiling, dim) {
            (Tiling::Rows, _) => (QUERIES, if dim > 64 && sm < 80 { keys } else { 2 * keys }),
            (Tiling::Prompt, 64) => (64, keys),
            (Tiling::Prompt, 128) => (32, keys),
            (Tiling::Prompt, _) => (16, keys),
        };
        let tiles = match (a.tiling, dim) {
            (Tiling::Prompt, 512) => 1,
            (Tiling::Prompt, LATENT) if sm < 80 => 1,
            _ => 2,
        };
        Self { tiling: a.tiling, kind: a.cache.kind, dim, queries, step, tiles }
    }

    fn kernel(&self) -> &'static str {
        match (self.tiling, self.kind, self.dim) {
            (Tiling::Rows, CacheType::F16, 64) => "attention_rows_f16_64",
            (Tiling::Rows, CacheType::F16, 128) => "attention_rows_f16_128",
            (Tiling::Rows, CacheType::F16, 256) => "attention_rows_f16_256",
            (Tiling::Rows, CacheType::F16, 512) => "attention_rows_f16_512",
            (Tiling::Rows, CacheType::F16, _) => "attention_rows_f16_576",
            (Tiling::Rows, CacheType::Q8_0, 64) => "attention_rows_q8_0_64",
            (Tiling::Rows, CacheType::Q8_0, 128) => "attention_rows_q8_0_128",
            (Tiling::Rows, CacheType::Q8_0, 256) => "attention_rows_q8_0_256",
            (Tiling::Rows, CacheType::Q8_0, 512) => "attention_rows_q8_0_512",
            (Tiling::Rows, CacheType::Q8_0, _) => "attention_rows_q8_0_576",
            (Tiling::Prompt, CacheType::F16, 64) => "attention_f16_64_64",
            (Tiling::Prompt, CacheType::F16, 128) => "attention_f16_128_32",
            (Tiling::Prompt, CacheType::F16, 256) => "attention_f16_256_16",
            (Tiling::Prompt, CacheType::F16, 512) => "attention_f16_512_16",
            (Tiling::Prompt, CacheType::F16, _) => "attention_f16_576_16",
            (Tiling::Prompt, CacheType::Q8_0, 64) => "attention_q8_0_64_64",
            (Tiling::Prompt, CacheType::Q8_0, 128) => "attention_q8_0_128_32",
            (Tiling::Prompt, CacheType::Q8_0, 256) => "attention_q8_0_256_16",
            (Tiling::Prompt, CacheType::Q8_0, 512) => "attention_q8_0_512_16",
            (Tiling::Prompt, CacheType::Q8_0, _) => "attention_q8_0_576_16",
        }
    }

    /// Dynamic shared memory in bytes: BYTES of kernels/attention.cu and kernels/attention_rows.cu.
    fn shared(&self) -> u32 {
        let stride = self.dim + 8;
        let (turning, kept) = if self.dim < LATENT { (self.dim, 2) } else { (MAX_TURNING, 1) };
        let scale_bytes = if self.kind == CacheType::Q8_0 { 4 * self.dim / 32 } else { 0 };
        // Of rows that go one by one: cosines and sines, and the own key and value.
        let own = if self.tiling == Tiling::Rows { 4 * turning + kept * (2 * stride + scale_bytes) } else { 0 };
        let scales = if self.kind == CacheType::Q8_0 { self.step * self.dim / 32 } else { 0 };
        let tile = 2 * self.step * stride;
        (2 * 2 * self.queries * stride + self.tiles * tile + 4 * self.queries * (self.step + 8) + own + 2 * 4 * scales)
            as u32
    }

    /// Threads of a block.
    fn threads(&self) -> u32 {
        if self.tiling == Tiling::Rows || self.dim > 128 { 256 } else { 128 }
    }

    /// Where `tiles` tiles of query heads go one by one: blocks for each, so that all of them run at once, or in the fewest
    /// turns. They are fixed where a step is recorded, whatever the positions of its rows.
    fn splits(&self, gpu: &DeviceProperties, tiles: usize, a: &Attention) -> usize {
        /// Pages that a row may see where attention takes long. A block takes as long as one page besides.
        const PAGES: usize = 32;
        // From sm_80 on the driver has a KiB of its own in every block's shared memory.
        let own = if gpu.sm < 80 { 0 } else { 1024 };
        let fit = (gpu.shared_per_block as usize + own) / (self.shared() as usize + own);
        // What registers allow: RESIDENT of kernels/attention_rows.cu.
        let resident = match self.kind {
            CacheType::F16 if self.dim <= 256 => 2,
            CacheType::Q8_0 if self.dim <= 128 => 2,
            CacheType::F16 | CacheType::Q8_0 => 1,
        };
        let at_once = fit.clamp(1, resident) * gpu.multiprocessors as usize;
        let time = |splits: usize| (tiles * splits).div_ceil(at_once) as f64 * (1.0 + PAGES as f64 / splits as f64);
        let fewest = (at_once / tiles).max(1);
        let best = (fewest..=8 * fewest).min_by(|a, b| time(*a).total_cmp(&time(*b))).unwrap_or(fewest);
        // A window begins and ends within a page.
        let of_window = if a.window > 0 { a.window.div_ceil(PAGE) + 1 } else { MAX_PARTS };
        best.min(of_window).min(a.scratch.parts).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::twin;

    #[test]
    fn blocks_of_all_rows_run_at_once_or_in_full_turns() {
        let gpu = |sm, multiprocessors, shared_per_block| DeviceProperties {
            ordinal: 0,
            name: String::new(),
            sm,
            memory: 0,
            multiprocessors,
            shared_per_block,
            l2: 0,
        };
        let (t4, rtx_3060, h100) = (gpu(75, 40, 65_536), gpu(86, 28, 101_376), gpu(90, 132, 232_448));
        // head_dim, window, pages of the context, tiles of heads of all rows, splits.
        for (gpu, head_dim, window, parts, tiles, expected) in [
            (&t4, 64, 0, 64, 8, 10),
            (&t4, 64, 0, 64, 64, 5),
            (&t4, 128, 0, 64, 8, 10),
            (&t4, 256, 0, 64, 1, 40),
            (&t4, 256, 0, 64, 8, 5),
            (&t4, 256, 512, 64, 1, 9),
            (&t4, 256, 0, 2, 1, 2),
            (&rtx_3060, 64, 0, 64, 64, 6),
            (&rtx_3060, 256, 0, 64, 1, 28),
            (&h100, 128, 0, 64, 8, 33),
            (&h100, 256, 0, 64, 1, 64),
            (&h100, 64, 0, 64, 256, 1),
        ] {
            let a = Attention {
                head_dim,
                window,
                scratch: Scratch { parts, ..Scratch::default() },
                ..Attention::default()
            };
            let found = Variant::of(&a, gpu.sm).splits(gpu, tiles, &a);
            assert_eq!(found, expected, "sm_{} {head_dim} {window} {parts} {tiles}", gpu.sm);
        }
    }

    #[test]
    fn the_kernels_have_the_same() {
        twin::fields!(Cache as "Cache" { k, v, k_scale, v_scale, table, pages, kind as "type" });
        twin::fields!(Raw as "AttentionParams" {
            q, pos, seq, end, cache, out, image, partial, state, tickets, rows, n_head, n_head_kv, group, head_dim,
            value_dim, heads_per_tile, rows_per_tile, tiles_of_kv, place_factor, splits, parts, window, scale, softcap, growth, grows_every, gate_step, gate, sinks, rope,
        });
        twin::constants([
            ("PAGE", PAGE),
            ("CACHE_F16", CacheType::F16 as usize),
            ("CACHE_Q8_0", CacheType::Q8_0 as usize),
            ("MAX_PARTS", MAX_PARTS),
        ]);
        for kind in [CacheType::F16, CacheType::Q8_0] {
            for (tiling, dim, sm) in [Tiling::Rows, Tiling::Prompt]
                .into_iter()
                .flat_map(|tiling| [64, 128, 256, 512, LATENT].map(|dim| (tiling, dim)))
                .flat_map(|(tiling, dim)| [75, 80].map(|sm| (tiling, dim, sm)))
            {
                let a = Attention {
                    tiling,
                    head_dim: dim,
                    latent: (dim == LATENT).then_some(512),
                    cache: Cache { kind, ..Cache::default() },
                    ..Attention::default()
                };
                let variant = Variant::of(&a, sm);
                let name = format!("{} sm_{sm}", variant.kernel());
                twin::constants([
                    (format!("shared {name}").as_str(), variant.shared() as usize),
                    (format!("queries {name}").as_str(), variant.queries),
                    (format!("step {name}").as_str(), variant.step),
                    (format!("threads {name}").as_str(), variant.threads() as usize),
                ]);
            }
        }
    }
}
