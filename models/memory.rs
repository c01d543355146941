//! What a run will take, in exact bytes, before anything is loaded.

use qrun_quant::cpu::Arithmetic;

use crate::{
    Config, KvType, Model,
    kv::{self, Shape},
};

/// How to run a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Context size per sequence, in tokens.
    pub n_ctx: usize,
    /// Number of sequences.
    pub n_seq: usize,
    /// Tokens that go through the layers together in a prefill.
    pub n_ubatch: usize,
    /// Threads.
    pub threads: usize,
    /// Exact (f32) or fast (int8) arithmetic.
    pub arithmetic: Arithmetic,
    /// Type of cached keys.
    pub type_k: KvType,
    /// Type of cached values.
    pub type_v: KvType,
    /// Keep the pages of sliding layers for good.
    pub swa_full: bool,
    /// Repack weights at load for faster arithmetic; without it they stay lazily mapped.
    pub repack: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            n_ctx: 4096,
            n_seq: 1,
            n_ubatch: 512,
            threads: std::thread::available_parallelism().map_or(1, |n| n.get()),
            arithmetic: Arithmetic::Fast,
            type_k: KvType::F16,
            type_v: KvType::F16,
            swa_full: false,
            repack: true,
        }
    }
}

impl Options {
    /// The oracle: f32 everywhere, weights as they lie in the file.
    pub fn exact() -> Self {
        Self {
            arithmetic: Arithmetic::Exact,
            type_k: KvType::F32,
            type_v: KvType::F32,
            repack: false,
            ..Self::default()
        }
    }
}

/// Bytes by purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Weights, mapped or repacked.
    pub weights: u64,
    /// KV pages with every sequence at its full context.
    pub kv: u64,
    /// Buffers of the forward pass.
    pub activations: u64,
}

impl Plan {
    /// The need of a model under these options.
    pub fn new(model: &Model, o: &Options) -> Self {
        let w = &model.weights;
        let embedding = if w.output.is_some() { w.token_embd.bytes() as u64 } else { 0 };
        Self {
            weights: w.bytes_per_token() + embedding,
            kv: kv_bytes(&model.config, o),
            activations: activation_bytes(&model.config, o),
        }
    }
    /// All of it.
    pub fn total(&self) -> u64 {
        self.weights + self.kv + self.activations
    }
}

/// Bytes of KV pages with every sequence at its full context.
pub fn kv_bytes(c: &Config, o: &Options) -> u64 {
    let shape = Shape { n_head_kv: c.n_head_kv, head_dim: c.head_dim, type_k: o.type_k, type_v: o.type_v };
    let window = |w: Option<usize>| w.filter(|_| !o.swa_full);
    let pages: usize = c.layers.iter().map(|l| kv::pages_per_layer(window(l.window), o.n_ctx)).sum();
    // A prefill chunk passes through one layer at a time: only that layer holds it beyond its window.
    let sliding = c.layers.iter().any(|l| window(l.window).is_some());
    let chunk = if sliding { o.n_ubatch.min(o.n_ctx).div_ceil(kv::PAGE) } else { 0 };
    ((pages * o.n_seq + chunk) * shape.page_bytes()) as u64
}

fn activation_bytes(c: &Config, o: &Options) -> u64 {
    let per_token = 3 * c.n_embd + 2 * c.q_dim() + 2 * c.kv_dim() + 2 * c.n_ff + 2 * c.n_rot;
    // The input vectors of a product once more in their prepared form (f32 at most).
    let prepared = c.n_ff.max(c.n_embd).max(c.q_dim());
    4 * (o.n_ubatch.min(o.n_ctx) * (per_token + prepared) + c.n_vocab * o.n_seq) as u64
}
