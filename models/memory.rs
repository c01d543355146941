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
            threads: qrun_quant::cpu::physical_cores(),
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
    /// How much of `kv` belongs to layers with a sliding window.
    pub kv_window: u64,
    /// Buffers of the forward pass.
    pub activations: u64,
}

impl Plan {
    /// The need of a model under these options.
    pub fn new(model: &Model, o: &Options) -> Self {
        let w = &model.weights;
        let embedding = if w.output.is_some() { w.token_embd.bytes() as u64 } else { 0 };
        let [global, window] = kv_bytes_by_kind(&model.config, o);
        Self {
            weights: w.bytes_per_token() + embedding,
            kv: global + window,
            kv_window: window,
            activations: activation_bytes(&model.config, o),
        }
    }
    /// The KV cache in words: by kind of layer where there are two.
    pub fn describe_kv(&self) -> String {
        match self.kv_window {
            0 => format!("KV cache {}", self.kv),
            window => format!("KV cache {} ({} global, {window} sliding)", self.kv, self.kv - window),
        }
    }
    /// All of it.
    pub fn total(&self) -> u64 {
        self.weights + self.kv + self.activations
    }
}

/// Bytes of KV pages with every sequence at its full context.
pub fn kv_bytes(c: &Config, o: &Options) -> u64 {
    kv_bytes_by_kind(c, o).iter().sum()
}

/// The same of layers that see everything, and of layers with a sliding window.
fn kv_bytes_by_kind(c: &Config, o: &Options) -> [u64; 2] {
    let shape = Shape { n_head_kv: c.n_head_kv, head_dim: c.head_dim, type_k: o.type_k, type_v: o.type_v };
    let mut pages = [0; 2];
    for layer in &c.layers {
        let window = layer.window.filter(|_| !o.swa_full);
        pages[usize::from(window.is_some())] += o.n_seq * kv::pages_per_layer(window, o.n_ctx);
    }
    if pages[1] > 0 {
        // A prefill chunk passes through one layer at a time: only that layer holds it beyond its window.
        pages[1] += o.n_ubatch.min(o.n_ctx).div_ceil(kv::PAGE);
    }
    pages.map(|n| (n * shape.page_bytes()) as u64)
}

/// Bytes of the cache that a token at `pos` reads: keys and values of what each layer sees.
pub fn kv_bytes_read(c: &Config, o: &Options, pos: usize) -> u64 {
    let shape = Shape { n_head_kv: c.n_head_kv, head_dim: c.head_dim, type_k: o.type_k, type_v: o.type_v };
    let seen: usize = c.layers.iter().map(|l| l.window.map_or(pos + 1, |w| w.min(pos + 1))).sum();
    (seen * shape.page_bytes() / kv::PAGE) as u64
}

fn activation_bytes(c: &Config, o: &Options) -> u64 {
    let per_token = 3 * c.n_embd + 2 * c.q_dim() + 2 * c.kv_dim() + 2 * c.n_ff + 2 * c.n_rot;
    // The input vectors of a product once more in their prepared form (f32 at most).
    let prepared = c.n_ff.max(c.n_embd).max(c.q_dim());
    4 * (o.n_ubatch.min(o.n_ctx) * (per_token + prepared) + c.n_vocab * o.n_seq) as u64
}
