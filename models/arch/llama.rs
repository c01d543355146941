//! Llama 2, 3, 3.1, 3.2, Mistral, SmolLM2, TinyLlama: pre-norm, SwiGLU, adjacent RoPE pairs.
//! Llama 3.1+ carries its context scaling in the tensor `rope_freqs.weight`.

use crate::spec::{
    Activation, ArchSpec, AttentionScale, EmbeddingScale, FeedForward, Norm, Residual, RopeLayers, RopeLayout,
    SoftcapDefaults, Window,
};

/// `general.architecture = "llama"`.
pub const LLAMA: ArchSpec = ArchSpec {
    name: "llama",
    rope: RopeLayout::Interleaved,
    rope_layers: RopeLayers::All,
    norm: Norm::Rms,
    residual: Residual::PreNorm,
    feed_forward: FeedForward::Gated(Activation::Silu),
    embedding_scale: EmbeddingScale::One,
    qk_norm: false,
    window: Window::None,
    rope_base_local: None,
    softcap: SoftcapDefaults::NONE,
    attention_scale: AttentionScale::HeadDim,
};
