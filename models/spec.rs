//! What distinguishes one architecture from another, as fields of one struct.

/// An architecture. One const per architecture in `arch/`; relatives by struct update.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ArchSpec {
    /// `general.architecture` and the prefix of its keys.
    pub name: &'static str,
    /// How the pairs of a rotary embedding are laid out.
    pub rope: RopeLayout,
    /// Non-linearity of the gated feed-forward.
    pub activation: Activation,
    /// What the token embedding is multiplied by.
    pub embedding_scale: EmbeddingScale,
    /// RMSNorm on each head of q and k before RoPE (`attn_q_norm`, `attn_k_norm`).
    pub qk_norm: bool,
    /// RMSNorm on the outputs of attention and feed-forward before they join the residual stream.
    pub post_norm: bool,
    /// Which layers attend through a sliding window.
    pub window: Window,
    /// RoPE base of sliding layers when `rope.freq_base_swa` is absent; `None`: same as global layers.
    pub rope_base_local: Option<f32>,
    /// Soft-caps that apply when the file has no key for them.
    pub softcap: SoftcapDefaults,
    /// Number of layers of the one size whose queries are scaled by `n_embd / n_head` instead of
    /// `head_dim` (the 27B Gemmas).
    pub wide_query_layers: Option<usize>,
}

/// Pair layout of a rotary embedding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RopeLayout {
    /// Adjacent pairs `(2i, 2i+1)`; llama's GGUF rows are permuted for it.
    Interleaved,
    /// Half-split pairs `(i, i + n_rot/2)`, "NEOX".
    Halves,
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
    /// None.
    One,
    /// `sqrt(n_embd)` in f32.
    SqrtEmbd,
}

/// Sliding-window pattern.
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
    /// On attention scores.
    pub attention: Option<f32>,
    /// On logits.
    pub logits: Option<f32>,
}

impl SoftcapDefaults {
    /// No soft-cap unless the file has one.
    pub const NONE: Self = Self { attention: None, logits: None };
}
