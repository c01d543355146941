//! What distinguishes one architecture from another, as fields of one struct.

/// An architecture. One const per architecture in `arch/`; relatives by struct update.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ArchSpec {
    /// `general.architecture` and the prefix of its keys.
    pub name: &'static str,
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
    /// A norm on each head of q and k before RoPE (`attn_q_norm`, `attn_k_norm`).
    pub qk_norm: bool,
    /// Which layers attend through a sliding window.
    pub window: Window,
    /// RoPE base of sliding layers when `rope.freq_base_swa` is absent; `None`: same as global layers.
    pub rope_base_local: Option<f32>,
    /// Soft-caps that apply when the file has no key for them.
    pub softcap: SoftcapDefaults,
    /// What `q·k` is divided by when the file does not say.
    pub attention_scale: AttentionScale,
}

// Each of these is matched exhaustively where it matters, in both decoders: a new variant does not compile until every
// such place says what it does with it.

/// Normalisation before attention, feed-forward and head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Norm {
    /// `x / sqrt(mean(x²) + eps) · weight`.
    Rms,
}

/// How the outputs of attention and feed-forward join the residual stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Residual {
    /// As they are; their inputs are normed.
    PreNorm,
    /// Normed once more (`post_attention_norm`, `post_ffw_norm`); their inputs are normed too.
    PrePostNorm,
}

/// The part of a layer after attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedForward {
    /// `down(act(gate(x)) · up(x))`.
    Gated(Activation),
}

/// What `q·k` is divided by: the square root of a number of elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttentionScale {
    /// `sqrt(head_dim)`, as in most models.
    HeadDim,
    /// `n_embd / n_head` in the one size with this many layers (the 27B Gemmas), else `head_dim`. No key tells them apart.
    EmbdPerHead {
        /// Layers of that size.
        n_layer: usize,
    },
}

/// Pair layout of a rotary embedding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RopeLayout {
    /// Adjacent pairs `(2i, 2i+1)`; llama's GGUF rows are permuted for it.
    Interleaved,
    /// Half-split pairs `(i, i + n_rot/2)`, "NEOX".
    Halves,
}

/// Layers with a rotary embedding; the others see no positions but by the causal mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RopeLayers {
    /// Every layer.
    All,
    /// All but the last of every `n` layers.
    AllButEvery(usize),
}

impl RopeLayers {
    /// Whether layer `il` is one of them.
    pub fn contains(self, il: usize) -> bool {
        match self {
            Self::All => true,
            Self::AllButEvery(n) => !(il + 1).is_multiple_of(n),
        }
    }
}

/// Non-linearity of a gated feed-forward: `act(gate) * up`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// `x · sigmoid(x)`.
    Silu,
    /// Tanh approximation of GELU.
    GeluTanh,
}

/// Factor on token embeddings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmbeddingScale {
    /// Factor 1: embeddings as they are.
    One,
    /// `sqrt(n_embd)` in f32.
    SqrtEmbd,
}

/// Which layers attend to a sliding window only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// All layers see everything.
    None,
    /// Layer `il` slides iff `il % period < period - 1`; the size is a key of the file.
    Periodic {
        /// Length of the pattern, unless the file says otherwise.
        period: usize,
        /// Size in tokens when the key is absent.
        default_size: usize,
    },
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
