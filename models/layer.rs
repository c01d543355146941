//! What one layer does: decided once when a file is read, from the architecture's row, the keys and the tensors that
//! are there. Whoever needs a size of a layer asks its plan; whoever needs the largest of all layers asks
//! [`crate::Config::widest`].

use std::ops::Range;

use crate::spec::{DeltaHeads, Gating, Mask};

/// What one layer does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LayerPlan {
    /// What looks back at earlier tokens. The fields on heads are those of attention; without it there are none.
    pub mixer: Mixer,
    /// Whether the first layer's input is normed already, so that no norm stands before its attention.
    pub is_normed: bool,
    /// Query heads.
    pub n_head: usize,
    /// Key/value heads, each for [`LayerPlan::group`] query heads; divides `n_head`.
    pub n_head_kv: usize,
    /// Elements per head of q, k and v.
    pub head_dim: usize,
    /// Factor on the dot products of queries and keys.
    pub attention_scale: f32,
    /// Which tokens of a text attention sees.
    pub mask: Mask,
    /// Sliding window in tokens, the current one included; `None`: sees everything. Without a mask a half of it (rounded
    /// down) reaches back, and as much forward.
    pub window: Option<usize>,
    /// Rotary embedding of q and k.
    pub rope: Rope,
    /// Norms of q and k.
    pub qk_norm: HeadNorm,
    /// Where keys and values come from.
    pub kv: KvSource,
    /// Whether each head of values is normed, without a weight.
    pub v_norm: bool,
    /// What follows that.
    pub feed_forward: FeedForwardPlan,
    /// Elements of the token's embedding for this layer, which joins after the feed-forward; 0: it has none.
    pub n_embd_per_layer: usize,
    /// Whether what the layer gives is multiplied by a number of its own.
    pub output_scale: bool,
}

/// Where the keys and values of a layer come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KvSource {
    /// From two matrices.
    Projections,
    /// From one: values are keys before norm and rotation.
    Keys,
    /// From the cache of this earlier layer.
    Layer(usize),
    /// From one vector of each token, the key of all heads; the front of it is their value.
    Latent(LatentPlan),
}

impl KvSource {
    /// The layer whose cache layer `il` attends to.
    pub fn layer(self, il: usize) -> usize {
        match self {
            Self::Projections | Self::Keys | Self::Latent(_) => il,
            Self::Layer(source) => source,
        }
    }
    /// Whether the layer has keys of its own.
    pub fn is_own(self) -> bool {
        !matches!(self, Self::Layer(_))
    }
}

/// Latent attention. The cache has one head of keys, [`LayerPlan::head_dim`] elements: `rank`, then those that turn. A query
/// goes through its head's part of the matrix that would make keys of the first, and sums of them through that which would
/// make values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatentPlan {
    /// Elements of a token's vector that keys and values are made of.
    pub rank: usize,
    /// Elements that queries are made of; `None`: of the residual stream.
    pub q_rank: Option<usize>,
    /// Elements of a head's key that do not turn.
    pub n_nope: usize,
    /// Elements of a head's value.
    pub n_value: usize,
}

/// How a layer looks back at earlier tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mixer {
    /// At each of them.
    Attention,
    /// At a matrix for each head, in which keys find values.
    DeltaNet(DeltaPlan),
    /// At the last few of them.
    ShortConv {
        /// How many, the current one included.
        taps: usize,
        /// Channels, as many as the residual stream has elements.
        channels: usize,
    },
    /// At a matrix for each head, to which each of them has added something that fades.
    Mamba2(MambaPlan),
    /// It does not: the layer is a feed-forward alone.
    None,
}

/// A gated delta net.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeltaPlan {
    /// Heads of queries and keys; divides `n_head_v`.
    pub n_head_k: usize,
    /// Heads of values, each with a state.
    pub n_head_v: usize,
    /// Elements of a key.
    pub dim_k: usize,
    /// Elements of a value.
    pub dim_v: usize,
    /// Tokens that the convolution before it sees.
    pub taps: usize,
    /// Which key head a value head takes.
    pub heads: DeltaHeads,
}

impl DeltaPlan {
    /// Channels of the convolution: queries, keys and values.
    pub fn channels(&self) -> usize {
        2 * self.n_head_k * self.dim_k + self.inner()
    }
    /// Elements of all values.
    pub fn inner(&self) -> usize {
        self.n_head_v * self.dim_v
    }
    /// The key head, from 0, that gives a value head its queries and keys.
    pub fn key_head(&self, value_head: usize) -> usize {
        match self.heads {
            DeltaHeads::Tiled => value_head % self.n_head_k,
            DeltaHeads::Grouped => value_head / (self.n_head_v / self.n_head_k),
        }
    }
}

/// Mamba-2: `S = S · exp(dt·A) + B (dt·x)ᵀ; y = Sᵀ C + D·x` for each head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MambaPlan {
    /// Groups of consecutive heads that share `B` and `C`; divides `n_head`.
    pub n_group: usize,
    /// Heads, each with a state.
    pub n_head: usize,
    /// Elements of `x` and `y` of a head.
    pub head_dim: usize,
    /// Elements of `B` and `C`: rows of a state.
    pub n_state: usize,
    /// Tokens that the convolution before it sees.
    pub taps: usize,
    /// Whether that convolution has a bias.
    pub bias: bool,
}

impl MambaPlan {
    /// Elements of `x` of all heads.
    pub fn inner(&self) -> usize {
        self.n_head * self.head_dim
    }
    /// Channels of the convolution: `x`, `B` and `C`.
    pub fn channels(&self) -> usize {
        self.inner() + 2 * self.n_group * self.n_state
    }
    /// Rows of the projection in front: the gate, the channels, and `dt` of each head.
    pub fn projected(&self) -> usize {
        self.inner() + self.channels() + self.n_head
    }
}

/// What the norms of queries and keys go over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadNorm {
    /// There are none.
    None,
    /// Each head.
    Head,
    /// All heads together.
    Whole,
}

/// The feed-forward of a layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FeedForwardPlan {
    /// One for every token.
    Dense {
        /// Rows of gate and up, columns of down.
        n_ff: usize,
    },
    /// A few of many for each token.
    Experts(ExpertPlan),
    /// There is none: the layer is what [`LayerPlan::mixer`] says, alone.
    None,
}

/// Experts of a layer, and how a router chooses among them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExpertPlan {
    /// How many there are.
    pub n_expert: usize,
    /// How many each token takes.
    pub n_used: usize,
    /// Rows of an expert's gate and up, columns of its down.
    pub n_ff: usize,
    /// From the router's logits to probabilities.
    pub gating: Gating,
    /// Whether the weights of those chosen are divided by their sum.
    pub norm: bool,
    /// Factor on the weights.
    pub scale: f32,
    /// A bias that is added to probabilities where experts are chosen, not in their weights (`exp_probs_b`).
    pub bias: bool,
    /// The best groups are chosen first.
    pub groups: Option<Groups>,
    /// One for every token besides.
    pub shared: Option<SharedExpert>,
    /// Width of a feed-forward beside the experts, of which each has norms of its own; the router sees the residual stream
    /// without the weights of a norm.
    pub beside: Option<usize>,
    /// Whether an expert's gate and up are one tensor.
    pub fused: bool,
    /// Width of what experts take and give, where they do not see the residual stream itself (`ffn_latent_down`,
    /// `ffn_latent_up`).
    pub latent: Option<usize>,
}

/// Groups of experts, as many in each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Groups {
    /// How many there are.
    pub count: usize,
    /// From how many of them a token takes experts.
    pub used: usize,
    /// How many of the best experts of a group say, by their sum, how good it is.
    pub best: usize,
}

/// An expert that every token takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedExpert {
    /// Rows of its gate and up, columns of its down.
    pub n_ff: usize,
    /// Whether it is multiplied by `sigmoid(ffn_gate_inp_shexp · h)`.
    pub gated: bool,
}

impl LayerPlan {
    /// A layer without attention.
    pub fn without_attention(mixer: Mixer, feed_forward: FeedForwardPlan) -> Self {
        Self {
            mixer,
            is_normed: false,
            n_head: 0,
            n_head_kv: 0,
            head_dim: 0,
            attention_scale: 1.0,
            mask: Mask::Causal,
            window: None,
            rope: Rope::NONE,
            qk_norm: HeadNorm::None,
            kv: KvSource::Projections,
            v_norm: false,
            feed_forward,
            n_embd_per_layer: 0,
            output_scale: false,
        }
    }
    /// Elements of all query heads as they meet the cache.
    pub fn q_dim(&self) -> usize {
        self.n_head * self.head_dim
    }
    /// Elements of a head's value in the cache.
    pub fn value_dim(&self) -> usize {
        match self.kv {
            KvSource::Latent(latent) => latent.rank,
            KvSource::Projections | KvSource::Keys | KvSource::Layer(_) => self.head_dim,
        }
    }
    /// Elements of all key (or value) heads.
    pub fn kv_dim(&self) -> usize {
        self.n_head_kv * self.head_dim
    }
    /// Elements of the state of a recurrent layer: the inputs that its convolution still needs, then the matrices of
    /// its heads. 0 of other layers.
    pub fn state_len(&self) -> usize {
        match self.mixer {
            Mixer::Attention | Mixer::None => 0,
            Mixer::DeltaNet(d) => (d.taps - 1) * d.channels() + d.n_head_v * d.dim_k * d.dim_v,
            Mixer::ShortConv { taps, channels } => (taps - 1) * channels,
            Mixer::Mamba2(m) => (m.taps - 1) * m.channels() + m.inner() * m.n_state,
        }
    }
    /// Elements per token of what a recurrent layer computes on its way.
    pub fn recurrent_width(&self) -> usize {
        match self.mixer {
            Mixer::Attention | Mixer::None => 0,
            Mixer::DeltaNet(d) => 2 * d.channels() + 2 * d.inner() + 2 * d.n_head_v,
            Mixer::ShortConv { channels, .. } => 5 * channels,
            Mixer::Mamba2(m) => m.projected() + 2 * m.channels() + 2 * m.inner() + m.n_head,
        }
    }
    /// Elements per token of what latent attention computes beside its queries and its vector.
    pub fn latent_width(&self) -> usize {
        let KvSource::Latent(latent) = self.kv else { return 0 };
        // As projected, and those of each product by head, which have to be apart.
        let query = latent.n_nope + self.rope.n_rot;
        let by_head = 3 * latent.rank + 2 * latent.n_nope.max(latent.n_value);
        self.n_head * (query + by_head) + latent.q_rank.unwrap_or(0)
    }
    /// Query heads that share a key/value head.
    pub fn group(&self) -> usize {
        self.n_head / self.n_head_kv
    }
    /// Width of the widest product of the feed-forward.
    pub fn n_ff(&self) -> usize {
        match self.feed_forward {
            FeedForwardPlan::None => 0,
            FeedForwardPlan::Dense { n_ff } => n_ff,
            FeedForwardPlan::Experts(e) => {
                e.n_ff.max(e.shared.map_or(0, |shared| shared.n_ff)).max(e.beside.unwrap_or(0))
            }
        }
    }
    /// The experts of the layer; `None` where it has none.
    pub fn experts(&self) -> Option<&ExpertPlan> {
        match &self.feed_forward {
            FeedForwardPlan::None | FeedForwardPlan::Dense { .. } => None,
            FeedForwardPlan::Experts(experts) => Some(experts),
        }
    }
    /// How many positions up to its own the token at `pos` sees.
    pub fn seen(&self, pos: usize) -> usize {
        self.window.map_or(pos + 1, |window| window.min(pos + 1))
    }
    /// The positions that the token at `pos` sees, of a text of `len` tokens so far.
    pub fn visible(&self, pos: usize, len: usize) -> Range<usize> {
        match (self.mask, self.window) {
            (Mask::Causal, _) => pos + 1 - self.seen(pos)..pos + 1,
            (Mask::None, None) => 0..len,
            (Mask::None, Some(window)) => pos.saturating_sub(window / 2)..len.min(pos + window / 2 + 1),
        }
    }
    /// The window beyond which nothing is kept: none where a text is seen whole.
    pub fn kept_window(&self) -> Option<usize> {
        match self.mask {
            Mask::Causal => self.window,
            Mask::None => None,
        }
    }
}

/// A rotary embedding: angle `= pos · base^(-2i/n_rot) / factor_i`, scaled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rope {
    /// Elements of a head that turn, from the front; even. 0: the layer has no rotary embedding.
    pub n_rot: usize,
    /// `rope.freq_base`.
    pub base: f32,
    /// How positions beyond those of the training are brought near.
    pub scaling: RopeScaling,
    /// Divisors of the frequencies.
    pub factors: RopeFactors,
    /// Factor on cosines and sines. 1 where all elements of a head turn: there [`LayerPlan::attention_scale`] has it.
    pub magnitude: f32,
}

impl Rope {
    /// No rotary embedding: no element turns.
    pub const NONE: Self =
        Self { n_rot: 0, base: 1.0, scaling: RopeScaling::None, factors: RopeFactors::None, magnitude: 1.0 };
}

/// Which tensor has the divisors of frequencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RopeFactors {
    /// Frequencies as base and scaling give them.
    None,
    /// `rope_freqs.weight`.
    Freqs,
    /// `rope_factors_long.weight` in sessions of a context beyond this, else `rope_factors_short.weight`.
    ByContext {
        /// `rope.scaling.original_context_length`.
        original: usize,
    },
}

/// `rope.scaling.type`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RopeScaling {
    /// Positions as they are.
    None,
    /// Positions are divided by this factor.
    Linear(f32),
    /// Low frequencies are divided, high ones are not, and those between are blended.
    Yarn(Yarn),
}

/// YaRN (Peng et al., 2023).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Yarn {
    /// Divisor of the lowest frequencies.
    pub factor: f32,
    /// Context of the training in tokens.
    pub original: usize,
    /// Pairs that turn more often than this within the original context are left alone.
    pub beta_fast: f32,
    /// Pairs that turn less often are divided by the whole factor.
    pub beta_slow: f32,
    /// Whether the pairs between which frequencies are blended are whole ones.
    pub rounds: bool,
}

impl Yarn {
    /// What attention is sharpened by, `by` times as much as usual.
    pub fn sharper(&self, by: f32) -> f32 {
        if self.factor <= 1.0 { 1.0 } else { 1.0 + 0.1 * by * self.factor.ln() }
    }

    /// How much of pair `i` of `n_rot / 2` is left alone: 1 in front, 0 at the end.
    fn kept(&self, i: usize, n_rot: usize, base: f32) -> f64 {
        let pair = |beta: f32| {
            let turns = self.original as f64 / (f64::from(beta) * std::f64::consts::TAU);
            n_rot as f64 * turns.ln() / (2.0 * f64::from(base).ln())
        };
        let (mut low, mut high) = (pair(self.beta_fast), pair(self.beta_slow));
        if self.rounds {
            (low, high) = (low.floor(), high.ceil());
        }
        let (low, high) = (low.max(0.0), high.min(n_rot as f64 - 1.0));
        1.0 - ((i as f64 - low) / (high - low).max(0.001)).clamp(0.0, 1.0)
    }
}

impl Rope {
    /// Angle per position of each pair, `[n_rot / 2]`; `factors` are those of [`Rope::factors`], as many. In f64:
    /// theirs is the only error that grows with the position.
    pub fn frequencies(&self, factors: Option<&[f32]>) -> Vec<f64> {
        let frequency = |i: usize| {
            let power = -2.0 * i as f64 / self.n_rot as f64;
            let factor = factors.map_or(1.0, |f| f64::from(f[i]));
            let frequency = f64::from(self.base).powf(power);
            match self.scaling {
                RopeScaling::None => frequency / factor,
                RopeScaling::Linear(scale) => frequency / f64::from(scale) / factor,
                RopeScaling::Yarn(yarn) => {
                    let kept = yarn.kept(i, self.n_rot, self.base);
                    frequency / factor * (kept + (1.0 - kept) / f64::from(yarn.factor))
                }
            }
        };
        (0..self.n_rot / 2).map(frequency).collect()
    }
}
