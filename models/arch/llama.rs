//! Llama 2, 3, 3.1, 3.2, Mistral, SmolLM2, TinyLlama: pre-norm, SwiGLU, adjacent RoPE pairs.
//! Llama 3.1+ carries its context scaling in the tensor `rope_freqs.weight`; Mixtral has experts.

use crate::spec::{
    Activation, ArchSpec, AttentionGate, AttentionScale, DraftHead, EmbeddingScale, FeedForward, Gating, GroupScore,
    Input, LocalRope, LogitScale, Mask, Norm, QkNorm, Recurrent, Residual, RopeLayers, RopeLayout, Routing,
    SoftcapDefaults, Values, Window,
};

/// `general.architecture = "llama"`.
pub const LLAMA: ArchSpec = ArchSpec {
    name: "llama",
    mask: Mask::Causal,
    input: Input::Token,
    rope: RopeLayout::Interleaved,
    rope_layers: RopeLayers::All,
    norm: Norm::Rms,
    residual: Residual::PreNorm,
    feed_forward: FeedForward::Gated(Activation::Silu),
    embedding_scale: EmbeddingScale::One,
    qk_norm: QkNorm::None,
    values: Values::Projected,
    window: Window::None,
    rope_local: LocalRope::Same,
    yarn_rounds: true,
    softcap: SoftcapDefaults::NONE,
    attention_scale: AttentionScale::HeadDim,
    q_temperature: false,
    sinks: false,
    attention_gate: AttentionGate::None,
    latent: false,
    recurrent: Recurrent::None,
    draft_head: DraftHead::None,
    ffn_norm: "ffn_norm",
    output_norm: "output_norm",
    post_norm_eps: None,
    routing: Routing { gating: Gating::Softmax, norm: true },
    group_score: GroupScore::TwoBest,
    sigmoid_sizes: &[],
    logit_scale: LogitScale::None,
    pooling: None,
};
