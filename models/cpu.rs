//! The forward pass on the CPU, once for all architectures.
//!
//! With exact arithmetic it is the oracle that every other path is compared with; with fast
//! arithmetic it is what runs where there is no GPU. A token's result does not depend on the number of threads, nor
//! on what else is in the batch or on the chunking (but that F16 and BF16 weights round differently, by 10⁻⁴, in
//! batches of more than 12 tokens).

mod attention;
mod ops;
mod rope;
pub mod simd;

use std::{
    io::{Read, Write},
    sync::Arc,
};

use qrun_cuda::ops::sample::SampledToken;
use qrun_quant::cpu::{Activations, Arithmetic, Job, matmul, par::Pool};

use crate::{
    Batch, Entry, Forward, ForwardError, Model, Options, Output, Progress, Rows, Tap,
    kv::KvCache,
    weights::{Layer, Linear, Weights},
};

/// A model on the CPU with its KV cache.
pub struct CpuDecoder {
    model: Model,
    options: Options,
    pool: Pool,
    kv: KvCache,
    rope: rope::Tables,
    scratch: Scratch,
    logits: Vec<f32>,
    /// One element per row of the last step, all `None`: the caller samples.
    tokens: Vec<Option<SampledToken>>,
    tap: Option<Tap>,
}

/// Buffers of one chunk, `[tokens][width]` each.
struct Scratch {
    x: Vec<f32>,
    h: Vec<f32>,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    attention: Vec<f32>,
    gate: Vec<f32>,
    up: Vec<f32>,
    prepared: Activations,
}

impl CpuDecoder {
    /// Makes a decoder: a thread pool, an empty cache, and repacked weights if the options ask for it.
    pub fn new(model: Model, options: Options) -> std::io::Result<Self> {
        Self::load(model, options, &mut |_, _| ())
    }

    /// The same; `progress` hears of each matrix that is repacked.
    pub fn load(mut model: Model, options: Options, progress: Progress) -> std::io::Result<Self> {
        let pool = Pool::new(options.threads)?;
        if options.repack && options.arithmetic == Arithmetic::Fast {
            model.weights = pool.install(|| Arc::new(repacked(&model.weights, progress)));
        }
        let rope = rope::Tables::new(&model);
        let kv = KvCache::new(&model.config, &options);
        let scratch = Scratch {
            x: Vec::new(),
            h: Vec::new(),
            q: Vec::new(),
            k: Vec::new(),
            v: Vec::new(),
            attention: Vec::new(),
            gate: Vec::new(),
            up: Vec::new(),
            prepared: Activations::new(options.arithmetic),
        };
        Ok(Self { model, options, pool, kv, rope, scratch, logits: Vec::new(), tokens: Vec::new(), tap: None })
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }
    /// How it runs.
    pub fn options(&self) -> &Options {
        &self.options
    }
    /// Most bytes of KV pages ever in use.
    pub fn kv_peak_bytes(&self) -> u64 {
        self.kv.peak_bytes() as u64
    }

    fn check(&self, batch: &[Entry]) -> Result<(), ForwardError> {
        let lens = (0..self.kv.n_seq()).map(|s| self.kv.len(s) as u32);
        crate::forward::check(batch, lens.collect(), self.options.n_ctx, self.n_vocab())
    }
}

impl Forward for CpuDecoder {
    fn n_vocab(&self) -> usize {
        self.model.config.n_vocab
    }

    fn n_ctx(&self) -> usize {
        self.options.n_ctx
    }

    fn n_seq(&self) -> usize {
        self.kv.n_seq()
    }

    fn step(&mut self, batch: &Batch) -> Result<Rows<'_>, ForwardError> {
        let batch = batch.entries;
        self.check(batch)?;
        let Self { model, options, pool, kv, rope, scratch, logits, tap, tokens } = self;
        tokens.clear();
        tokens.resize(batch.iter().filter(|e| e.output != Output::None).count(), None);
        logits.clear();
        pool.install(|| {
            for chunk in batch.chunks(options.n_ubatch) {
                let mut step = Step { model, weights: &model.weights, kv, rope, s: scratch, chunk, tap };
                step.run(logits);
            }
        });
        Ok(Rows::new(model.config.n_vocab, tokens, logits))
    }

    fn rows(&self) -> Rows<'_> {
        Rows::new(self.model.config.n_vocab, &self.tokens, &self.logits)
    }

    fn len(&self, seq: u32) -> u32 {
        self.kv.len(seq as usize) as u32
    }

    fn rewind(&mut self, seq: u32, pos: u32) -> u32 {
        self.kv.rewind(seq as usize, pos as usize) as u32
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

/// One chunk on its way through the layers.
struct Step<'a> {
    model: &'a Model,
    weights: &'a Weights,
    kv: &'a mut KvCache,
    rope: &'a mut rope::Tables,
    s: &'a mut Scratch,
    chunk: &'a [Entry],
    tap: &'a mut Option<Tap>,
}

impl Step<'_> {
    fn run(&mut self, logits: &mut Vec<f32>) {
        let c = &self.model.config;
        self.s.x.resize(self.chunk.len() * c.n_embd, 0.0);
        for (e, x) in self.chunk.iter().zip(self.s.x.chunks_exact_mut(c.n_embd)) {
            self.weights.token_embd.row(e.token as usize, x);
            x.iter_mut().for_each(|x| *x *= c.embedding_scale);
        }
        tap(self.tap, None, "inp_embd", &self.s.x);
        self.rope.set_positions(self.chunk);
        let weights = self.weights;
        for (il, layer) in weights.layers.iter().enumerate() {
            self.attention(il, layer);
            self.feed_forward(il, layer);
            tap(self.tap, Some(il), "l_out", &self.s.x);
        }
        for e in self.chunk {
            self.kv.set_len(e.seq as usize, e.pos as usize + 1);
        }
        self.head(logits);
    }

    fn attention(&mut self, il: usize, w: &Layer) {
        let (c, t) = (&self.model.config, self.chunk.len());
        let s = &mut *self.s;
        ops::rms_norm(&s.x, &w.attn_norm, c.norm_eps, &mut s.h);
        tap(self.tap, Some(il), "attn_norm", &s.h);
        s.q.resize(t * c.q_dim(), 0.0);
        s.k.resize(t * c.kv_dim(), 0.0);
        s.v.resize(t * c.kv_dim(), 0.0);
        let (q, k, v) = (&mut s.q, &mut s.k, &mut s.v);
        project(&mut s.prepared, &s.h, [(&w.attn_q, q), (&w.attn_k, k), (&w.attn_v, v)]);
        if let Some(norm) = &w.attn_q_norm {
            ops::rms_norm_in_place(&mut s.q, norm, c.norm_eps);
        }
        if let Some(norm) = &w.attn_k_norm {
            ops::rms_norm_in_place(&mut s.k, norm, c.norm_eps);
        }
        let table = self.rope.of(il);
        rope::apply(&mut s.q, c, table);
        rope::apply(&mut s.k, c, table);
        tap(self.tap, Some(il), "Qcur", &s.q);
        tap(self.tap, Some(il), "Kcur", &s.k);
        tap(self.tap, Some(il), "Vcur", &s.v);
        for (i, e) in self.chunk.iter().enumerate() {
            let row = i * c.kv_dim()..(i + 1) * c.kv_dim();
            self.kv.append(e.seq as usize, il, e.pos as usize, (&s.k[row.clone()], &s.v[row]));
        }
        s.attention.resize(t * c.q_dim(), 0.0);
        attention::attend(&attention::Attend { c, kv: self.kv, il, chunk: self.chunk, q: &s.q }, &mut s.attention);
        for e in self.chunk {
            self.kv.release(e.seq as usize, il, e.pos as usize + 1);
        }
        tap(self.tap, Some(il), "kqv_out", &s.attention);
        s.h.resize(t * c.n_embd, 0.0);
        project(&mut s.prepared, &s.attention, [(&w.attn_output, &mut s.h)]);
        if let Some(norm) = &w.post_attention_norm {
            ops::rms_norm_in_place(&mut s.h, norm, c.norm_eps);
        }
        tap(self.tap, Some(il), "attn_out", &s.h);
        ops::add(&mut s.x, &s.h);
    }

    fn feed_forward(&mut self, il: usize, w: &Layer) {
        let (c, t) = (&self.model.config, self.chunk.len());
        let s = &mut *self.s;
        ops::rms_norm(&s.x, &w.ffn_norm, c.norm_eps, &mut s.h);
        tap(self.tap, Some(il), "ffn_norm", &s.h);
        s.gate.resize(t * c.n_ff, 0.0);
        s.up.resize(t * c.n_ff, 0.0);
        project(&mut s.prepared, &s.h, [(&w.ffn_gate, &mut s.gate), (&w.ffn_up, &mut s.up)]);
        ops::gate(&mut s.gate, &s.up, c.arch.activation);
        tap(self.tap, Some(il), "ffn_act", &s.gate);
        project(&mut s.prepared, &s.gate, [(&w.ffn_down, &mut s.h)]);
        if let Some(norm) = &w.post_ffw_norm {
            ops::rms_norm_in_place(&mut s.h, norm, c.norm_eps);
        }
        tap(self.tap, Some(il), "ffn_out", &s.h);
        ops::add(&mut s.x, &s.h);
    }

    fn head(&mut self, logits: &mut Vec<f32>) {
        let c = &self.model.config;
        let s = &mut *self.s;
        // The marked rows move to the front: only they go through the head.
        let mut marked = 0;
        for (i, _) in self.chunk.iter().enumerate().filter(|(_, e)| e.output != Output::None) {
            s.x.copy_within(i * c.n_embd..(i + 1) * c.n_embd, marked * c.n_embd);
            marked += 1;
        }
        if marked == 0 {
            return;
        }
        s.x.truncate(marked * c.n_embd);
        ops::rms_norm(&s.x, &self.weights.output_norm, c.norm_eps, &mut s.h);
        tap(self.tap, None, "result_norm", &s.h);
        let start = logits.len();
        logits.resize(start + marked * c.n_vocab, 0.0);
        let out = &mut logits[start..];
        matmul(&mut s.prepared, &s.h, &mut [Job { w: self.weights.head(), y: out }]);
        if let Some(bias) = self.weights.output.as_ref().and_then(|o| o.bias.as_ref()) {
            out.chunks_exact_mut(c.n_vocab).for_each(|row| ops::add(row, bias));
        }
        if let Some(cap) = c.logit_softcap {
            ops::softcap(out, cap);
        }
        tap(self.tap, None, "result_output", out);
    }
}

/// The weights in the order in which products read them fastest. Matrix by matrix, so that the file's
/// pages and the tiles never lie in memory together.
fn repacked(weights: &Weights, progress: Progress) -> Weights {
    let mut weights = weights.clone();
    let total = weights.matrices_mut().map(|matrix| matrix.bytes() as u64).sum();
    let mut done = 0;
    for matrix in weights.matrices_mut() {
        progress(done, total);
        done += matrix.bytes() as u64;
        *matrix = matrix.clone().repack();
    }
    progress(total, total);
    weights
}

/// ComputeType of the same input with several matrices, and their biases.
fn project<const N: usize>(prepared: &mut Activations, x: &[f32], mut outputs: [(&Linear, &mut Vec<f32>); N]) {
    let mut jobs = outputs.each_mut().map(|(linear, y)| Job { w: &linear.w, y: y.as_mut_slice() });
    matmul(prepared, x, &mut jobs);
    for (linear, y) in outputs {
        if let Some(bias) = &linear.bias {
            y.chunks_exact_mut(bias.len()).for_each(|row| ops::add(row, bias));
        }
    }
}

fn tap(tap: &mut Option<Tap>, il: Option<usize>, name: &'static str, values: &[f32]) {
    if let Some(tap) = tap {
        tap(il, name, values);
    }
}
