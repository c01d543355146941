//! What distinguishes one architecture from another, as fields of one struct.

mod attention;

pub use attention::{
    AttentionGate, AttentionScale, LocalRope, Mask, PlaceInPeriod, QkNorm, RopeLayers, RopeLayout, Values, Window,
};

/// An architecture. One const per architecture in `arch/`; relatives by struct update.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ArchSpec {
    /// `general.architecture` and the prefix of its keys.
    pub name: &'static str,
    /// Which tokens of a text attention sees, unless the file says otherwise.
    pub mask: Mask,
    /// What the first layer takes.
    pub input: Input,
    /// How the pairs of a rotary embedding are laid out.
    pub rope: RopeLayout,
    /// Which layers have a rotary embedding.
    pub rope_layers: RopeLayers,
    /// Every norm of the residual stream and of heads.
    pub norm: Norm,
    /// What joins the residual stream.
    pub residual: Residual,
    /// What follows attention in a layer.
    pub feed_forward: FeedForward,
    /// What the token embedding is multiplied by.
    pub embedding_scale: EmbeddingScale,
    /// Norms of q and k before RoPE (`attn_q_norm`, `attn_k_norm`).
    pub qk_norm: QkNorm,
    /// What values are.
    pub values: Values,
    /// Which layers attend through a sliding window.
    pub window: Window,
    /// Rotary embedding of sliding layers.
    pub rope_local: LocalRope,
    /// Whether YaRN's corner frequencies are rounded to whole pairs.
    pub yarn_rounds: bool,
    /// Soft-caps that apply when the file has no key for them.
    pub softcap: SoftcapDefaults,
    /// What `q·k` is divided by when the file does not say.
    pub attention_scale: AttentionScale,
    /// Queries grow with the position as `attention.temperature_scale` says (beyond the original context).
    pub q_temperature: bool,
    /// One more logit per query head in the softmax, whose weight is dropped (`attn_sinks`).
    pub sinks: bool,
    /// What attention gives is multiplied by the sigmoid of a gate.
    pub attention_gate: AttentionGate,
    /// Keys and values of all heads are made of one vector for each token, and that is what the cache holds.
    pub latent: bool,
    /// What some layers have in place of attention.
    pub recurrent: Recurrent,
    /// What the blocks behind the layers are for, where a file has some (`nextn_predict_layers`).
    pub draft_head: DraftHead,
    /// Name of the norm before the feed-forward.
    pub ffn_norm: &'static str,
    /// Name of the norm before the head.
    pub output_norm: &'static str,
    /// Epsilon of norms after attention and feed-forward, where it is not that of all norms.
    pub post_norm_eps: Option<f32>,
    /// How experts are chosen when the file does not say, in layers that have some.
    pub routing: Routing,
    /// How groups of experts are compared.
    pub group_score: GroupScore,
    /// Layers and tokens of the vocabulary, in pairs, of models with a sigmoid whose files do not say so. No key tells them
    /// from others.
    pub sigmoid_sizes: &'static [[usize; 2]],
    /// What `logit_scale` does to logits.
    pub logit_scale: LogitScale,
    /// What becomes of a text's hidden states when the file does not say; `None`: only files know.
    pub pooling: Option<Pooling>,
}

impl ArchSpec {
    /// Whether what layer `il` takes is normed already.
    pub fn is_normed(&self, il: usize) -> bool {
        il == 0 && self.input.is_normed() && self.residual.pre_norm()
    }
}

// Each of these is matched exhaustively, here or where a plan or a decoder depends on it, and not compared: a new variant does not
// compile until every such place says what it does with it.

/// What the first layer takes besides the embedding of the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// Nothing.
    Token,
    /// Nothing, but it is normed (`token_embd_norm`), and the first layer does not norm it once more.
    Normed,
    /// The first row of `token_types`; the sum is normed (`token_embd_norm`).
    Typed,
    /// That and a row of `position_embd`; the sum is normed.
    TypedAndPlaced,
}

impl Input {
    /// Whether the first row of `token_types` joins each embedding.
    pub fn is_typed(self) -> bool {
        match self {
            Self::Token | Self::Normed => false,
            Self::Typed | Self::TypedAndPlaced => true,
        }
    }
    /// Whether a norm follows.
    pub fn is_normed(self) -> bool {
        match self {
            Self::Token => false,
            Self::Normed | Self::Typed | Self::TypedAndPlaced => true,
        }
    }
    /// Whether `position_embd` joins: there are no positions beyond its rows.
    pub fn is_placed(self) -> bool {
        match self {
            Self::Token | Self::Normed | Self::Typed => false,
            Self::TypedAndPlaced => true,
        }
    }
}

/// From the hidden states of a text, one for each token, to its embedding; the numbers of `pooling_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooling {
    /// An embedding for each token.
    None = 0,
    /// Their mean.
    Mean = 1,
    /// That of the first token, `[CLS]`.
    First = 2,
    /// That of the last token.
    Last = 3,
    /// A score from a head for classes.
    Rank = 4,
}

impl Pooling {
    /// llama.cpp's names, in the order of the numbers.
    const NAMES: [(&str, Self); 5] =
        [("none", Self::None), ("mean", Self::Mean), ("cls", Self::First), ("last", Self::Last), ("rank", Self::Rank)];

    /// The one of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, pooling)| *pooling)
    }

    /// The name that [`Pooling::from_name`] knows.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize].0
    }
}

/// Normalisation before attention, feed-forward and head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Norm {
    /// `x / sqrt(mean(x²) + eps) · weight`.
    Rms,
    /// `(x − mean) / sqrt(variance + eps) · weight`.
    Layer,
    /// `(x − mean) / sqrt(variance + eps) · weight + bias`.
    LayerBias,
}

impl Norm {
    /// Whether something is added at last.
    pub fn has_bias(self) -> bool {
        match self {
            Self::Rms | Self::Layer => false,
            Self::LayerBias => true,
        }
    }
}

/// How the outputs of attention and feed-forward join the residual stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Residual {
    /// As they are; their inputs are normed.
    PreNorm,
    /// Normed once more (`post_attention_norm`, `post_ffw_norm`); their inputs are normed too.
    PrePostNorm,
    /// Normed (`post_attention_norm`, `post_ffw_norm`); their inputs are the stream as it is.
    PostNorm,
    /// Both at once: feed-forward takes the normed input of attention.
    Parallel,
    /// As with [`Residual::PreNorm`], but a layer has only one of them: attention where it has key/value heads, else a
    /// feed-forward where that has a width, else what stands in place of attention.
    Single,
    /// As they are; each sum is normed (`attn_output_norm`, `layer_output_norm`), and no norm follows the last layer.
    NormedSum,
}

impl Residual {
    /// Whether inputs of attention are normed.
    pub fn pre_norm(self) -> bool {
        match self {
            Self::PreNorm | Self::PrePostNorm | Self::Parallel | Self::Single => true,
            Self::PostNorm | Self::NormedSum => false,
        }
    }
    /// Whether outputs are normed.
    pub fn post_norm(self) -> bool {
        match self {
            Self::PrePostNorm | Self::PostNorm => true,
            Self::PreNorm | Self::Parallel | Self::Single | Self::NormedSum => false,
        }
    }
    /// Whether sums are normed, the last one too.
    pub fn norms_sums(self) -> bool {
        match self {
            Self::NormedSum => true,
            Self::PreNorm | Self::PrePostNorm | Self::PostNorm | Self::Parallel | Self::Single => false,
        }
    }
    /// Whether a norm follows the last layer.
    pub fn final_norm(self) -> bool {
        !self.norms_sums()
    }
    /// Whether feed-forward takes the normed input of attention.
    pub fn is_parallel(self) -> bool {
        match self {
            Self::Parallel => true,
            Self::PreNorm | Self::PrePostNorm | Self::PostNorm | Self::Single | Self::NormedSum => false,
        }
    }
    /// Whether a layer has attention, a feed-forward, or what stands in place of attention, but no two of them.
    pub fn is_single(self) -> bool {
        match self {
            Self::Single => true,
            Self::PreNorm | Self::PrePostNorm | Self::PostNorm | Self::Parallel | Self::NormedSum => false,
        }
    }
}

/// Layers without attention, which keep a state of fixed size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recurrent {
    /// All layers attend.
    None,
    /// Gated delta nets, but for every fourth layer, or as the file says.
    DeltaNet {
        /// How value heads take key heads, and the decay its numbers.
        heads: DeltaHeads,
    },
    /// Short convolutions in layers without key/value heads.
    ShortConv,
    /// Mamba-2 in layers without key/value heads.
    Mamba2,
}

/// What guesses further tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DraftHead {
    /// Nothing: such blocks are left where they are.
    None,
    /// A block with attention. It takes `nextn.eh_proj · [norm(embedding of a token), norm(hidden state before it)]`, the latter
    /// as the model's head took it, or for further guesses as the draft head did.
    HiddenState,
}

/// Which key head a value head of a delta net takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeltaHeads {
    /// Value head `j` takes key head `j mod n`; `ssm_beta` and `ssm_alpha` are apart.
    Tiled,
    /// Consecutive value heads share a key head; `ssm_ba` has both, key head by key head.
    Grouped,
}

impl DeltaHeads {
    /// Whether those of a key head lie together.
    pub fn are_grouped(self) -> bool {
        match self {
            Self::Tiled => false,
            Self::Grouped => true,
        }
    }
}

/// How a layer chooses experts when its file has no `expert_gating_func` and no `expert_weights_norm`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Routing {
    /// From the router's logits to probabilities.
    pub gating: Gating,
    /// Whether the weights of the chosen experts are divided by their sum.
    pub norm: bool,
}

/// From the logits of a router to the probabilities of its experts; the numbers of `expert_gating_func`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gating {
    /// Softmax over all experts.
    Softmax = 1,
    /// The sigmoid of each logit.
    Sigmoid = 2,
    /// Softmax over the chosen experts; they are chosen by their logits.
    SoftmaxOfChosen = 3,
}

/// What the best of several groups of experts is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupScore {
    /// That with the largest sum of its two best experts.
    TwoBest,
    /// The same, but after a softmax over all experts that with the best one.
    BestOfSoftmax,
}

/// What the key `logit_scale` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogitScale {
    /// Nothing: the architecture has no such key.
    None,
    /// Logits are divided by it.
    Divide,
    /// Logits are multiplied by it.
    Multiply,
}

/// The part of a layer after attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedForward {
    /// `down(act(gate(x)) · up(x))`.
    Gated(Activation),
    /// `down(act(up(x)))`.
    Plain(Activation),
}

impl FeedForward {
    /// Whether there is a gate.
    pub fn is_gated(self) -> bool {
        match self {
            Self::Gated(_) => true,
            Self::Plain(_) => false,
        }
    }
    /// Its non-linearity.
    pub fn activation(self) -> Activation {
        match self {
            Self::Gated(activation) | Self::Plain(activation) => activation,
        }
    }
}

/// Non-linearity of a feed-forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// `x · sigmoid(x)`.
    Silu,
    /// Tanh approximation of GELU.
    GeluTanh,
    /// GELU: `x/2 · (1 + erf(x/√2))`.
    Gelu,
    /// `max(x, 0)²`.
    ReluSquared,
    /// `g · sigmoid(1.702 g) · (u + 1)` of `g = min(gate, 7)` and `u = clamp(up, ±7)`.
    ClampedSwiglu,
}

/// Factor on token embeddings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmbeddingScale {
    /// Factor 1: embeddings as they are.
    One,
    /// `sqrt(n_embd)` in f32.
    SqrtEmbd,
    /// `embedding_scale` of the file.
    Key,
    /// Each embedding is normed, without a weight.
    RmsNorm,
}

/// Default soft-caps: `cap · tanh(x / cap)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SoftcapDefaults {
    /// `attn_logit_softcapping` where the key is absent.
    pub attention: Option<f32>,
    /// `final_logit_softcapping` where the key is absent.
    pub logits: Option<f32>,
}

impl SoftcapDefaults {
    /// No soft-cap unless the file has one.
    pub const NONE: Self = Self { attention: None, logits: None };
}
