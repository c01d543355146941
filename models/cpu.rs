//! The forward pass on the CPU, once for all architectures.
//!
//! With exact arithmetic it is the oracle that every other path is compared with; with fast
//! arithmetic it is what runs where there is no GPU. A token's result does not depend on the number of threads, nor
//! on what else is in the batch or on the chunking (but that F16 and BF16 weights round differently, by 10⁻⁴, in
//! batches of more than 12 tokens).

mod attention;
mod draft;
mod feed_forward;
mod latent;
mod ops;
mod recurrent;
mod rope;
pub mod simd;
mod step;

use std::{
    io::{Read, Write},
    sync::Arc,
};

use qrun_cuda::ops::sample::SampledToken;
use qrun_quant::cpu::{Activations, Arithmetic, Matrix, PackAllowance, par::Pool, tokens_per_panel};

use crate::{
    Batch, Cached, DraftRequest, Entry, Forward, ForwardError, Gives, Model, Options, Output, PageCount, Progress,
    Rows, Salt, Tap,
    kv::{KvCache, MOST_DRAFTED},
    weights::Weights,
};
use step::Step;

pub(crate) use attention::Elements;

/// Most tokens of a step that goes to its end once it has begun, where layers are recurrent: to be able to bring the states
/// back would cost a token more than they do.
const UNDIVIDED: usize = 16;

/// A model on the CPU with its KV cache.
pub struct CpuDecoder {
    model: Model,
    options: Options,
    pool: Pool,
    kv: KvCache,
    rope: rope::Tables,
    scratch: Scratch,
    /// Where weights are repacked as needed.
    repacking: Option<Repacking>,
    logits: Vec<f32>,
    /// One element per row of the last step, all `None`: the caller samples.
    tokens: Vec<Option<SampledToken>>,
    tap: Option<Tap>,
}

/// Buffers of one chunk, `[tokens][width]` each.
struct Scratch {
    /// The residual stream.
    x: Vec<f32>,
    /// What attention or feed-forward takes.
    h: Vec<f32>,
    /// What it gives.
    out: Vec<f32>,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    attention: Vec<f32>,
    /// Of the feed-forward, and of attention where it has one.
    gate: Vec<f32>,
    up: Vec<f32>,
    /// Embeddings for each layer, `[tokens][layers · elements]`.
    per_layer: Vec<f32>,
    /// Of layers with experts.
    routed: feed_forward::Routed,
    /// Of layers without attention.
    recurrent: recurrent::Recurrent,
    /// Where there is a draft head, hidden states of tokens, and those before tokens.
    hidden: Vec<f32>,
    before: Vec<f32>,
    /// Of latent attention.
    by_head: latent::ByHead,
    prepared: Activations,
}

impl CpuDecoder {
    /// Makes a decoder: a thread pool, an empty cache, and repacked weights if the options ask for it.
    ///
    /// # Errors
    /// The system gives no more threads.
    pub fn new(model: Model, options: Options) -> std::io::Result<Self> {
        Self::load(model, options, &mut |_, _| ())
    }

    /// The same; `progress` hears of each matrix that is repacked.
    ///
    /// # Errors
    /// As [`CpuDecoder::new`].
    pub fn load(mut model: Model, mut options: Options, progress: Progress) -> std::io::Result<Self> {
        let pool = Pool::new(options.threads)?;
        options.n_draft = options.n_draft.min(MOST_DRAFTED);
        model.config = model.config.as_cached(&options);
        if model.config.draft_head.is_none() && model.weights.draft_head.is_some() {
            model.weights = Arc::new(Weights { draft_head: None, ..Weights::clone(&model.weights) });
        }
        if options.gives == Gives::Hidden {
            model.weights = Arc::new(model.weights.without_head());
        }
        let mut repacking = None;
        if options.repack && options.arithmetic == Arithmetic::Fast {
            let mut weights = Weights::clone(&model.weights);
            match options.repack_as_needed {
                true => repacking = Some(Repacking::begin(&mut weights, &options)),
                false => pool.install(|| repack(&mut weights, options.gives, progress)),
            }
            model.weights = Arc::new(weights);
        }
        let rope = rope::Tables::new(&model, options.n_ctx);
        let kv = KvCache::new(&model.config, &options);
        let scratch = Scratch {
            x: Vec::new(),
            h: Vec::new(),
            out: Vec::new(),
            q: Vec::new(),
            k: Vec::new(),
            v: Vec::new(),
            attention: Vec::new(),
            gate: Vec::new(),
            up: Vec::new(),
            per_layer: Vec::new(),
            routed: Default::default(),
            recurrent: Default::default(),
            hidden: Vec::new(),
            before: Vec::new(),
            by_head: latent::ByHead::new(options.arithmetic),
            prepared: Activations::new(options.arithmetic),
        };
        let (logits, tokens) = (Vec::new(), Vec::new());
        Ok(Self { model, options, pool, kv, rope, scratch, repacking, logits, tokens, tap: None })
    }

    /// The configuration and weights that it computes with.
    pub fn model(&self) -> &Model {
        &self.model
    }
    /// Context size, sequences, threads, cache types: as it was opened with.
    pub fn options(&self) -> &Options {
        &self.options
    }
    /// Most bytes of KV pages ever in use.
    pub fn kv_peak_bytes(&self) -> u64 {
        self.kv.peak_bytes() as u64
    }

    fn check(&self, batch: &[Entry]) -> Result<(), ForwardError> {
        let tables = self.kv.tables();
        let lens: Vec<u32> = (0..tables.n_seq()).map(|s| tables.len(s) as u32).collect();
        if self.model.config.is_bidirectional() {
            crate::forward::check_whole(batch, &lens)?;
        }
        crate::forward::check_drafted(batch, self.options.n_draft)?;
        crate::forward::check(batch, lens, self.n_ctx(), self.n_vocab())
    }

    /// What sequences may share of these tokens: nothing where keys and values depend on the tokens behind them.
    fn shared<'t>(&self, tokens: &'t [u32]) -> &'t [u32] {
        if self.model.config.is_bidirectional() { &[] } else { tokens }
    }

    /// The chunks of a batch, one after the other; a batch of texts that are seen whole is one.
    fn chunks(&mut self, batch: &Batch) -> Result<(), ForwardError> {
        let Self { model, options, pool, kv, rope, scratch, repacking, logits, tap, .. } = self;
        let n = if model.config.is_bidirectional() { batch.entries.len().max(1) } else { options.n_ubatch };
        if (batch.cancelled)() {
            return Err(ForwardError::Cancelled);
        }
        let undivided = kv.tables().has_states() && batch.entries.len() <= UNDIVIDED.min(n);
        let cancelled = if undivided { &|| false } else { batch.cancelled };
        pool.install(|| {
            for chunk in batch.entries.chunks(n) {
                kv.reserve(chunk)?;
                if !undivided {
                    kv.keep_states(chunk);
                }
                repacking.iter_mut().for_each(Repacking::next_chunk);
                let s = &mut *scratch;
                let weights = &model.weights;
                let gives = options.gives;
                let mut step = Step { model, weights, gives, kv, rope, s, chunk, tap, cancelled };
                step.run(logits)?;
                kv.advance(chunk);
            }
            Ok(())
        })
    }
}

impl Forward for CpuDecoder {
    fn n_vocab(&self) -> usize {
        self.model.config.n_vocab
    }

    fn n_ctx(&self) -> usize {
        self.model.config.longest().map_or(self.options.n_ctx, |longest| longest.min(self.options.n_ctx))
    }

    fn n_seq(&self) -> usize {
        self.kv.tables().n_seq()
    }

    fn pool(&self) -> Option<&Pool> {
        Some(&self.pool)
    }

    fn row_multiple(&self) -> usize {
        tokens_per_panel()
    }

    fn step(&mut self, batch: &Batch) -> Result<Rows<'_>, ForwardError> {
        self.check(batch.entries)?;
        self.tokens.clear();
        self.logits.clear();
        self.kv.note_drafted(batch.entries);
        if let Err(error) = self.chunks(batch) {
            self.kv.abandon(batch.entries);
            self.logits.clear();
            return Err(error);
        }
        self.kv.commit(batch.entries);
        self.tokens.resize(batch.entries.iter().filter(|e| e.output != Output::None).count(), None);
        Ok(self.rows())
    }

    fn n_draft(&self) -> usize {
        self.options.n_draft
    }

    fn draft(&mut self, wanted: &[DraftRequest], least: f32) -> Vec<Vec<u32>> {
        self.guess_further(wanted, least)
    }

    fn accept(&mut self, seq: u32, n: usize) {
        self.kv.accept(seq as usize, n);
    }

    fn rows(&self) -> Rows<'_> {
        let c = &self.model.config;
        let width = match self.options.gives {
            Gives::Logits => c.n_vocab,
            Gives::Hidden => c.n_embd,
        };
        Rows::new(width, &self.tokens, &self.logits)
    }

    fn len(&self, seq: u32) -> u32 {
        self.kv.tables().len(seq as usize) as u32
    }

    fn rewind(&mut self, seq: u32, pos: u32) -> u32 {
        self.kv.rewind(seq as usize, pos as usize) as u32
    }

    fn attach(&mut self, seq: u32, tokens: &[u32]) -> u32 {
        self.kv.attach(seq as usize, self.shared(tokens)) as u32
    }

    fn set_salt(&mut self, seq: u32, salt: &Salt) {
        self.kv.set_salt(seq as usize, salt);
    }

    fn cached(&self, salt: &Salt, tokens: &[u32]) -> Cached {
        self.kv.tables().cached(salt, self.shared(tokens))
    }

    fn fork(&mut self, from: u32, to: u32, len: u32) -> u32 {
        self.kv.fork(from as usize, to as usize, len as usize) as u32
    }

    fn share(&mut self, seq: u32, tokens: &[u32]) {
        self.kv.share(seq as usize, self.shared(tokens));
    }

    fn release(&mut self, seq: u32, tokens: &[u32]) {
        self.kv.release(seq as usize, self.shared(tokens));
    }

    fn forget(&mut self, keep: &[u32]) {
        self.kv.forget(keep);
    }

    fn erase(&mut self, salt: &Salt, tokens: &[u32]) {
        self.kv.erase(salt, tokens);
    }

    fn pages(&self) -> PageCount {
        self.kv.tables().counts()
    }

    fn set_tap(&mut self, tap: Option<Tap>) -> bool {
        self.tap = tap;
        true
    }

    fn bytes_per_token(&self) -> u64 {
        self.model.weights.bytes_per_token()
    }

    fn kv_bytes(&self) -> u64 {
        self.kv.bytes() as u64
    }

    fn save(&self, seq: u32, out: &mut dyn Write) -> std::io::Result<()> {
        self.kv.save(seq as usize, out)
    }

    fn load(&mut self, seq: u32, input: &mut dyn Read) -> std::io::Result<()> {
        self.kv.load(seq as usize, self.options.n_ctx, input)
    }
}

/// Puts weights in the order in which products read them fastest. Matrix by matrix, so that the file's
/// pages and the tiles never lie in memory together.
fn repack(weights: &mut Weights, gives: Gives, progress: Progress) {
    let total = repackable(weights, gives).map(|matrix| matrix.bytes() as u64).sum();
    let mut done = 0;
    for matrix in repackable(weights, gives) {
        progress(done, total);
        done += matrix.bytes() as u64;
        *matrix = matrix.clone().repack();
    }
    progress(total, total);
}

/// Without a head only rows of the embedding are read.
fn repackable(weights: &mut Weights, gives: Gives) -> impl Iterator<Item = &mut Matrix> {
    weights.repackable_mut().skip(usize::from(gives == Gives::Hidden))
}

/// Weights whose tiles are packed by the products that need them: at once, and where they are multiplied as they lie in the
/// file, too, not in the first chunk, for someone waits for its token, and a share in each of those that follow.
struct Repacking {
    allowance: Arc<PackAllowance>,
    share: usize,
    is_first: bool,
}

impl Repacking {
    fn begin(weights: &mut Weights, options: &Options) -> Self {
        let (at_once, allowance, mut bytes) = (Arc::<PackAllowance>::default(), Arc::default(), 0);
        at_once.set(usize::MAX);
        for matrix in repackable(weights, options.gives) {
            if options.repacks(matrix) {
                let in_place = matrix.is_multiplied_in_place();
                bytes += if in_place { matrix.repacked_bytes() } else { 0 };
                *matrix = matrix.clone().repack_as_needed(if in_place { &allowance } else { &at_once });
            }
        }
        Self { allowance, share: bytes / SHARES, is_first: true }
    }

    fn next_chunk(&mut self) {
        let is_first = std::mem::take(&mut self.is_first);
        self.allowance.set(if is_first { 0 } else { self.share });
    }
}

/// In so many chunks after the first all weights are repacked: each takes a little longer, and none twice as long.
const SHARES: usize = 24;
