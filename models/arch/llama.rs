//! Llama 2, 3, 3.1, 3.2, Mistral, SmolLM2, TinyLlama: pre-norm, SwiGLU, adjacent RoPE pairs.
//! Llama 3.1+ carries its context scaling in the tensor `rope_freqs.weight`.

use crate::spec::{Activation, ArchSpec, EmbeddingScale, RopeLayout, SoftcapDefaults, Window};

/// `general.architecture = "llama"`.
pub const LLAMA: ArchSpec = ArchSpec {
    name: "llama",
    rope: RopeLayout::Interleaved,
    activation: Activation::Silu,
    embedding_scale: EmbeddingScale::One,
    qk_norm: false,
    post_norm: false,
    window: Window::None,
    rope_base_local: None,
    softcap: SoftcapDefaults::NONE,
    wide_query_layers: None,
};
