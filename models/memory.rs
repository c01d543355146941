//! What a run will take, in exact bytes, before anything is loaded.

use crate::{
    Config, LayerPlan, Model, Options,
    kv::{PAGE, Shape, kinds},
    layer::ExpertPlan,
    options::Gives,
};

/// Bytes that a decoder takes, by purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Weights, mapped or repacked.
    pub weights: u64,
    /// How much of `weights` stays in the mapped file, which processes share.
    pub mapped: u64,
    /// KV pages, all in use (see [`Options::n_kv`]).
    pub kv: u64,
    /// How much of `kv` belongs to layers with a sliding window.
    pub kv_window: u64,
    /// How much of `kv` are states of recurrent layers.
    pub kv_states: u64,
    /// Buffers of the forward pass.
    pub activations: u64,
}

impl Plan {
    /// The need of a model under these options.
    pub fn new(model: &Model, o: &Options) -> Self {
        let c = &model.config.as_cached(o);
        let [global, window, states] = kv_bytes_by_kind(c, o);
        let [private, mapped] = model.weights.private_and_mapped_bytes(o);
        Self {
            weights: private + mapped,
            mapped,
            kv: global + window + states,
            kv_window: window,
            kv_states: states,
            activations: activation_bytes(c, o),
        }
    }
    /// The KV cache in words: by kind of layer where there are two.
    pub fn describe_kv(&self) -> String {
        let global = self.kv - self.kv_window - self.kv_states;
        match (self.kv_window, self.kv_states) {
            (0, 0) => format!("KV cache {}", self.kv),
            (window, 0) => format!("KV cache {} ({global} global, {window} sliding)", self.kv),
            (_, states) => format!("KV cache {} ({global} of keys and values, {states} of states)", self.kv),
        }
    }
    /// Bytes of all purposes together.
    pub fn total(&self) -> u64 {
        self.weights + self.kv + self.activations
    }
}

/// Bytes of KV pages, all in use.
pub fn kv_bytes(c: &Config, o: &Options) -> u64 {
    kv_bytes_by_kind(c, o).iter().sum()
}

/// The same of layers that see everything, of layers with a sliding window, and of recurrent ones, whose states behind
/// guesses are among these.
fn kv_bytes_by_kind(c: &Config, o: &Options) -> [u64; 3] {
    let (kinds, of_layers) = kinds(c, o, o.n_ubatch);
    let mut bytes = [0; 3];
    for (layer, kind) in c.layers.iter().zip(of_layers) {
        let kind = kinds[kind];
        let purpose = if kind.recurrent { 2 } else { usize::from(kind.window.is_some()) };
        let drafted = if kind.recurrent { o.n_seq * o.n_draft } else { 0 };
        bytes[purpose] += ((kind.pages + drafted) * Shape::new(layer, o).page_bytes()) as u64;
    }
    bytes
}

/// Bytes of the cache that a token at `pos` reads: keys and values of what each layer sees, or its state.
pub fn kv_bytes_read(c: &Config, o: &Options, pos: usize) -> u64 {
    let of_layer = |(il, l): (usize, &LayerPlan)| {
        let tokens = if l.state_len() > 0 { PAGE } else { l.seen(pos) };
        tokens * Shape::new(&c.layers[l.kv.layer(il)], o).page_bytes()
    };
    (c.layers.iter().enumerate().map(of_layer).sum::<usize>() / PAGE) as u64
}

fn activation_bytes(c: &Config, o: &Options) -> u64 {
    let (q, kv) = (c.widest(LayerPlan::q_dim), c.widest(LayerPlan::kv_dim));
    let (n_ff, n_rot) = (c.widest(LayerPlan::n_ff), c.widest(|l| l.rope.n_rot));
    let of_experts =
        |e: &ExpertPlan| e.n_used * (3 * e.n_ff + e.latent.unwrap_or(c.n_embd)) + e.n_expert + e.latent.unwrap_or(0);
    let routed = c.widest(|l| l.experts().map_or(0, of_experts));
    let mixed = c.widest(|l| l.recurrent_width().max(l.latent_width()));
    let per_layer = c.n_embd_per_layer * c.layers.len();
    let per_token = 4 * c.n_embd + 3 * q + 2 * kv + 2 * n_ff.max(per_layer) + 2 * n_rot + routed + mixed + per_layer;
    let of_draft_head = if c.draft_head.is_some() { 4 * c.n_embd } else { 0 };
    // The input vectors of a product once more in their prepared form (f32 at most).
    let prepared = n_ff.max(c.n_embd).max(q).max(of_draft_head / 2);
    // A text that is seen whole goes through the layers whole.
    let rows = if c.is_bidirectional() { o.n_ubatch.max(o.n_ctx) } else { o.n_ubatch.min(o.n_ctx) };
    let given = match o.gives {
        Gives::Logits => c.n_vocab * o.n_seq * (1 + o.n_draft),
        Gives::Hidden => c.n_embd * rows,
    };
    4 * (rows * (per_token + prepared + of_draft_head) + given) as u64
}
