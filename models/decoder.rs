//! The forward pass on a GPU.
//!
//! All memory is one arena that is taken at load. A step of one token per sequence, for up to 32 of them, is recorded once
//! as a graph and replayed for every position; tokens and positions lie in device memory. Where the device samples, the
//! graph also chooses the next tokens and writes them where the next step reads them (see `ahead.rs`). Sequences that the
//! host samples, and those with masks, have steps of their own beside these (see `batch.rs`).
//!
//! Keys and values lie in pages of 64 tokens that sequences take as they grow, share, and leave to a prefix cache. So do states
//! of recurrent layers (see `states.rs`).
//!
//! Where weights are quantized the bits of a token are the same however it comes: in a prompt that is cut anywhere, token by
//! token, beside any number of others, from the prefix cache or a file. Products have one arithmetic for any number of rows (see
//! `cuda/kernels/chunk.cuh`), attention one that the position alone decides (`cuda/kernels/attention.cuh`). Where weights are dense,
//! up to four rows go through the matrix-vector kernels and more, and all prompts, through the matrix ones, whose sums have
//! another order.
//!
//! # Safety
//!
//! Launches, copies and fills take addresses and shapes as they come (see [`qrun_cuda::ops`]). Here they are right for
//! these reasons:
//!
//! * Each address is null or in the arena, which belongs to one [`GpuDecoder`]. What lies between the kernels has room for
//!   [`memory::rows`] rows of the widest layer; logits, and what attention of single tokens takes, for
//!   [`memory::step_rows`], hidden states for [`memory::output_rows`]. No launch has more: prompts are cut, or where texts are
//!   seen whole no longer than the room is, and a step of decoding has at most one row per sequence and [`memory::n_draft`] guesses
//!   ([`crate::forward::check_drafted`]), rounded up to one of [`BUCKETS`], as the room is.
//! * Tokens, positions and sequences of a batch are checked ([`crate::forward::check`]); those that the device goes on to
//!   by itself stay below the same limits. Page tables name pages that exist, and have those of all rows of a launch.
//! * Copies and fills are of rows, pages, states and places of page tables that the arena has.
//! * One stream is given all launches and copies. The arena is dropped behind the sampler, to whose ring kernels write and
//!   which waits for all of them.

mod ahead;
mod batch;
mod draft_head;
mod drafted;
mod experts;
mod feed_forward;
mod latent;
mod masks;
mod memory;
mod norms;
mod pages;
mod per_layer;
mod recurrent;
mod sampling;
mod snapshot;
mod states;
mod step;
mod tap;

use std::{
    io::{self, Read, Write},
    sync::Arc,
};

use qrun_cuda::{
    Arena, ArenaLayout, DeviceError, Gpu, LazyGraph, Part, Pinned, Result, Stream,
    ops::{
        attention::{self, Tiling},
        formats::takes_scale,
        rope_kv::{self, Pairs},
        sample::SampledToken,
        upload::upload,
    },
};

use crate::{
    Batch, Cached, Config, DraftRequest, Entry, Forward, ForwardError, Gives, KvType, LayerPlan, Model, Options,
    PageCount, Progress, Rows, Salt, SamplingRequest, Tap,
    layer::{KvSource, Mixer},
    memory::Plan,
    spec::RopeLayout,
    weights,
};
use ahead::Ahead;
use draft_head::Drafts;
use drafted::Drafted;
use memory::{MARKS, Memory, STEP_ROWS};
use pages::Pages;
use per_layer::LookUp;
use sampling::DeviceSampler;
use states::Kept;
use step::{FEW, Guesses, Step};
use tap::Probe;

/// Rows of recorded steps: a batch takes the next larger one, with idle rows.
const BUCKETS: [usize; 6] = [1, 2, 4, 8, 16, STEP_ROWS];

/// A model on a GPU with its KV cache.
pub struct GpuDecoder {
    // In the order in which they are dropped: what is recorded goes before what it uses.
    /// By number of rows, and by whether there are guesses and of how many sequences (see `batch.rs`).
    steps: [[LazyGraph; 3]; BUCKETS.len()],
    drafted: Drafted,
    drafts: Option<Drafts>,
    ahead: Ahead,
    sampler: DeviceSampler,
    stream: Stream,
    staging: Staging,
    memory: Memory,
    arena: Arena,
    config: Config,
    options: Options,
    bytes_per_token: u64,
    pages: Pages,
    kept: Kept,
    per_layer: Option<LookUp>,
    probe: Option<Probe>,
    /// Sequences whose last row gave an output: a single row more is a step of decoding.
    decoding: Vec<bool>,
    /// What rows without a token gave in the last step ([`memory::given`]).
    logits: Vec<f32>,
    /// One element per row of the last step.
    tokens: Vec<Option<SampledToken>>,
}

/// Page-locked memory on the host.
struct Staging {
    /// Tokens, positions, sequences: `[3][rows]`.
    rows: Pinned<i32>,
    /// Rows with an output, what the sampler looks at, and rows with a mask: `[MARKS][memory::output_rows]`.
    marked: Pinned<i32>,
    /// `[memory::output_rows]` of what rows give ([`memory::given`]).
    logits: Pinned<f32>,
    /// Embeddings of the rows' tokens for each layer, where they have some.
    per_layer: Pinned<f32>,
    /// The length of each row's text, where tokens see those behind them.
    ends: Pinned<i32>,
}

impl GpuDecoder {
    /// Whether there are kernels for all that a model does.
    ///
    /// # Errors
    /// The part of the model for which there is no kernel.
    pub fn supports(model: &Model, o: &Options) -> std::result::Result<(), String> {
        let o = &as_run(model, o);
        let c = &model.config.as_cached(o);
        if let Some(part) = without_kernels(c, o) {
            return Err(format!("{part}, for which there are no kernels yet"));
        }
        let attends = c.layers.iter().filter(|l| l.mixer == Mixer::Attention);
        let pairs = pairs(c.arch.rope);
        if let Some(n_rot) = attends.clone().map(|l| l.rope.n_rot).find(|n_rot| !rope_kv::takes(*n_rot, pairs)) {
            return Err(format!("{n_rot} elements of a head that turn; there are kernels for multiples of 8"));
        }
        let with_values = attends.filter(|l| !matches!(l.kv, KvSource::Latent(_)));
        let has_values = with_values.clone().next().is_some();
        if let Some(head_dim) = with_values.map(|l| l.head_dim).find(|head_dim| !attention::takes(*head_dim)) {
            return Err(format!(
                "heads of {head_dim} elements; there are kernels for multiples of 16 up to 256 and of 32 up to 512"
            ));
        }
        let of_head = model.weights.draft_head.iter().flat_map(|head| head.linears());
        let mut scaled = model.weights.linears().chain(of_head).filter(|linear| linear.scale.is_some());
        if let Some(ty) = scaled.find_map(|linear| Some(linear.w.ty()).filter(|ty| !takes_scale(*ty))) {
            return Err(format!("matrices in {ty} with scales beside them, for which there are no kernels yet"));
        }
        let part = experts::without_kernels(model).or_else(|| latent::without_kernels(model));
        let part = part.or_else(|| per_layer::without_kernels(&model.weights));
        if let Some(part) = part {
            return Err(format!("{part}, for which there are no kernels yet"));
        }
        if has_values && o.type_k != o.type_v || o.type_k == KvType::F32 {
            let (k, v) = (o.type_k.name(), o.type_v.name());
            return Err(format!(
                "a KV cache of {k} keys and {v} values; there are kernels for f16 or q8_0, both alike"
            ));
        }
        Ok(())
    }

    /// Most guesses of a sequence in a step with these options ([`Forward::n_draft`]): a step has at most 32 rows.
    pub fn most_drafted(o: &Options) -> usize {
        memory::n_draft(o)
    }

    /// The device memory that a decoder takes: the sum of the parts that it will take.
    pub fn plan(model: &Model, o: &Options) -> Plan {
        let mut layout = ArenaLayout::default();
        Memory::lay_out(&mut layout, model, &as_run(model, o));
        plan_of(layout.parts(), layout.used())
    }

    /// Loads a model: takes the memory and copies the weights.
    ///
    /// # Errors
    /// The device's, too little memory among them.
    pub fn new(gpu: &Arc<Gpu>, model: &Model, o: &Options) -> Result<Self> {
        Self::load(gpu, model, o, &mut |_, _| ())
    }

    /// The same; `progress` hears of each piece that is uploaded.
    ///
    /// # Errors
    /// As [`GpuDecoder::new`].
    pub fn load(gpu: &Arc<Gpu>, model: &Model, o: &Options, progress: Progress) -> Result<Self> {
        let o = &as_run(model, o);
        let (arena, mut memory) = Arena::new(gpu, |layout| Memory::lay_out(layout, model, o))?;
        let stream = Stream::new(gpu)?;
        // SAFETY: `Memory::lay_out` took them for as many rows and heads, in an arena that outlives the stream.
        unsafe { memory.activations.parts.clear(&stream, memory::step_rows(o), model.config.widest(|l| l.n_head))? };
        memory.activations.experts.clear(&stream)?;
        let uploads = std::mem::take(&mut memory.uploads);
        let sources: Vec<_> = uploads.iter().map(|upload| upload.source()).collect();
        // SAFETY: `Memory::lay_out` took a part of this size for each, and a staging part for the largest of them.
        unsafe { upload(gpu, &stream, memory.staging, &sources, progress)? };
        let c = &model.config.as_cached(o);
        let sampler = DeviceSampler::new(&stream, &memory, memory::sample_shape(c, o))?;
        let pages = Pages::new(&memory, o.n_seq);
        let ahead = Ahead::new(&stream, &memory)?;
        let (drafted, drafts) = (Drafted::new(gpu, o)?, Drafts::new(&stream, &memory, c, o)?);
        let staging = Staging {
            rows: Pinned::new(gpu, 3 * memory::rows(o))?,
            marked: Pinned::new(gpu, MARKS * memory::output_rows(o))?,
            logits: Pinned::new(gpu, memory::output_rows(o) * memory::given(c, o))?,
            per_layer: Pinned::new(gpu, memory::rows(o) * c.n_embd_per_layer * c.layers.len())?,
            ends: Pinned::new(gpu, if c.is_bidirectional() { memory::rows(o) } else { 0 })?,
        };
        let per_layer = LookUp::new(&stream, model, &memory, o)?;
        Ok(Self {
            steps: Default::default(),
            drafted,
            drafts,
            ahead,
            sampler,
            stream,
            staging,
            memory,
            arena,
            config: c.clone(),
            options: o.clone(),
            bytes_per_token: model.weights.bytes_per_token(),
            pages,
            kept: Kept::new(o.n_seq),
            per_layer,
            probe: None,
            decoding: vec![false; o.n_seq],
            logits: Vec::new(),
            tokens: Vec::new(),
        })
    }

    /// What lies where in device memory.
    pub fn parts(&self) -> &[Part] {
        self.arena.parts()
    }

    /// The arena: first address and bytes.
    pub fn arena(&self) -> (u64, u64) {
        (self.arena.address(), self.arena.bytes())
    }

    /// Bytes of device memory by purpose, as they were taken.
    pub fn memory_plan(&self) -> Plan {
        plan_of(self.arena.parts(), self.arena.bytes())
    }

    fn step_of(&self, rows: usize, tiling: Tiling) -> Step<'_> {
        let (m, narrow) = (&self.memory, tiling == Tiling::Rows && rows <= FEW);
        let (sequences, gives, probe) = (self.options.n_seq, self.options.gives, self.probe.as_ref());
        let (stream, c, at, guesses) = (&self.stream, &self.config, m.rows, Guesses::None);
        Step { stream, c, m, at, rows, tiling, guesses, sequences, narrow, gives, probe }
    }

    /// A sequence goes on from somewhere else: what ran ahead of it is dropped, and the host samples it.
    fn forget_steps(&mut self, seq: u32) {
        self.sampler.stop(seq);
        self.drafted.forget(seq);
        self.decoding[seq as usize] = false;
    }

    fn check(&self, batch: &[Entry]) -> std::result::Result<(), ForwardError> {
        let lens: Vec<u32> = (0..self.options.n_seq).map(|s| self.pages.tables.len(s) as u32).collect();
        if self.config.is_bidirectional() {
            crate::forward::check_whole(batch, &lens)?;
        }
        crate::forward::check_drafted(batch, self.n_draft())?;
        crate::forward::check(batch, lens, self.n_ctx(), self.config.n_vocab)
    }
}

/// A part of a model that only the CPU runs.
fn without_kernels(c: &Config, o: &Options) -> Option<&'static str> {
    let parts = [
        // There a query is scaled by the last position that it sees.
        (c.is_bidirectional() && c.q_temperature.is_some(), "queries with a temperature in a text that is seen whole"),
        // The head norms rows where they are.
        (c.arch.residual.norms_sums() && o.gives == Gives::Logits, "logits after a norm of sums"),
        // Hidden states come out of the norm that has the logits' scale.
        (c.draft_head.is_some() && c.logit_scale != 1.0, "a draft head of scaled logits"),
    ];
    let part = parts.into_iter().find(|(present, _)| *present).map(|(_, part)| part);
    part.or_else(|| c.layers.iter().find_map(recurrent::refused))
}

/// Options with which a text fits into one step, where it has to, and without a draft head where nothing is guessed.
fn as_run(model: &Model, o: &Options) -> Options {
    let n_ubatch = if model.config.is_bidirectional() { o.n_ubatch.max(o.n_ctx) } else { o.n_ubatch };
    Options { n_ubatch, draft_head: o.draft_head && memory::n_draft(o) > 0, ..o.clone() }
}

/// What layers of a model do, and their weights; the block of a draft head is among them.
fn blocks(model: &Model) -> impl Iterator<Item = (&LayerPlan, &weights::Layer)> {
    let head = model.weights.draft_head.iter().map(|head| &head.block);
    model.config.layers.iter().zip(&model.weights.layers).chain(model.config.draft_head.iter().zip(head))
}

/// Bytes by the purposes that the names begin with.
fn plan_of(parts: &[Part], total: u64) -> Plan {
    let of = |purpose: &str| parts.iter().filter(|p| p.name.starts_with(purpose)).map(|p| p.bytes).sum::<u64>();
    let (weights, kv) = (of("weights/"), of("kv/"));
    // Padding between parts counts as activations, so that the sum is what is allocated.
    let (kv_window, kv_states) = (of("kv/window"), of("kv/states"));
    Plan { weights, mapped: 0, kv, kv_window, kv_states, activations: total - weights - kv }
}

impl Forward for GpuDecoder {
    fn n_vocab(&self) -> usize {
        self.config.n_vocab
    }

    fn n_ctx(&self) -> usize {
        // Where each position has a row of weights there are no others.
        self.config.longest().map_or(self.options.n_ctx, |longest| longest.min(self.options.n_ctx))
    }

    fn n_seq(&self) -> usize {
        self.options.n_seq
    }

    fn step(&mut self, batch: &Batch) -> std::result::Result<Rows<'_>, ForwardError> {
        self.check(batch.entries)?;
        if let Err(error) = self.run(batch) {
            self.tokens.clear();
            self.logits.clear();
            return Err(error);
        }
        Ok(self.rows())
    }

    fn n_draft(&self) -> usize {
        memory::n_draft(&self.options)
    }

    fn draft(&mut self, wanted: &[DraftRequest], least: f32) -> Vec<Vec<u32>> {
        // A device that fails here fails the next step too.
        self.guess_further(wanted, least).unwrap_or_else(|_| vec![Vec::new(); wanted.len()])
    }

    fn accept(&mut self, seq: u32, n: usize) {
        self.accept_drafted(seq, n);
    }

    fn rows(&self) -> Rows<'_> {
        Rows::new(memory::given(&self.config, &self.options), &self.tokens, &self.logits)
    }

    fn set_sampling(&mut self, seq: u32, request: &SamplingRequest) -> std::result::Result<bool, ForwardError> {
        // What runs ahead is recorded, and nobody could listen.
        Ok(self.probe.is_none() && self.sampler.set(&self.stream, seq, request)?)
    }

    fn wants_mask(&self, seq: u32) -> bool {
        self.sampler.is_masked(seq)
    }

    fn set_mask(&mut self, seq: u32, allowed: &[u32]) {
        self.sampler.give_mask(seq, allowed);
    }

    fn set_tap(&mut self, tap: Option<Tap>) -> bool {
        (0..self.options.n_seq).for_each(|seq| self.sampler.stop(seq as u32));
        let wanted = tap.is_some();
        self.probe = tap.and_then(|tap| Probe::new(self.stream.gpu(), tap).ok());
        self.probe.is_some() == wanted
    }

    fn len(&self, seq: u32) -> u32 {
        self.pages.tables.len(seq as usize) as u32
    }

    fn rewind(&mut self, seq: u32, pos: u32) -> u32 {
        self.forget_steps(seq);
        self.pages.tables.rewind(seq as usize, pos as usize) as u32
    }

    fn attach(&mut self, seq: u32, tokens: &[u32]) -> u32 {
        self.forget_steps(seq);
        let (n, copies) = self.pages.tables.attach(seq as usize, tokens);
        // A device that fails here fails the next step too.
        if self.copy_pages(&copies).is_err() {
            return self.rewind(seq, 0);
        }
        n as u32
    }

    fn set_salt(&mut self, seq: u32, salt: &Salt) {
        self.pages.tables.set_salt(seq as usize, salt);
    }

    fn cached(&self, salt: &Salt, tokens: &[u32]) -> Cached {
        self.pages.tables.cached(salt, tokens)
    }

    fn fork(&mut self, from: u32, to: u32, len: u32) -> u32 {
        self.forget_steps(to);
        // What they are taken into may be the other one's too.
        self.drafted.forget(from);
        self.pages.tables.fork(from as usize, to as usize, len as usize) as u32
    }

    fn share(&mut self, seq: u32, tokens: &[u32]) {
        self.pages.tables.share(seq as usize, tokens);
    }

    fn release(&mut self, seq: u32, tokens: &[u32]) {
        self.forget_steps(seq);
        self.pages.tables.release(seq as usize, tokens);
    }

    fn forget(&mut self, keep: &[u32]) {
        self.pages.tables.forget(keep);
    }

    fn erase(&mut self, salt: &Salt, tokens: &[u32]) {
        self.pages.tables.erase(salt, tokens);
    }

    fn pages(&self) -> PageCount {
        self.pages.tables.counts()
    }

    fn bytes_per_token(&self) -> u64 {
        self.bytes_per_token
    }

    fn kv_bytes(&self) -> u64 {
        let layers = self.config.layers.iter().zip(&self.memory.layers).zip(&self.memory.kind_of_layer);
        let bytes = layers.map(|((plan, layer), &kind)| {
            let pool = self.pages.tables.pool(kind);
            let page: usize = pages::planes(layer, plan).iter().map(|(_, bytes)| bytes).sum();
            ((pool.total() - pool.free()) * page) as u64
        });
        bytes.sum()
    }

    fn save(&self, seq: u32, out: &mut dyn Write) -> io::Result<()> {
        self.save_sequence(seq as usize, out)
    }

    fn load(&mut self, seq: u32, input: &mut dyn Read) -> io::Result<()> {
        self.load_sequence(seq as usize, input)
    }
}

/// A device error as the system's.
fn other(error: DeviceError) -> io::Error {
    io::Error::other(error)
}

/// Pairs that turn, as the kernels have them.
fn pairs(layout: RopeLayout) -> Pairs {
    match layout {
        RopeLayout::Interleaved => Pairs::Interleaved,
        RopeLayout::Halves => Pairs::Halves,
    }
}
