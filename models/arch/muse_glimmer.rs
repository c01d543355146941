//! Muse Glimmer: norms on both sides, a gate on what attention gives, normed embeddings, and three sliding layers to each
//! global one, which sees no positions.

use super::llama::LLAMA;
use crate::spec::{
    ArchSpec, AttentionGate, EmbeddingScale, LogitScale, PlaceInPeriod, QkNorm, Residual, RopeLayers, Window,
};

/// `general.architecture = "muse-glimmer"`.
pub const MUSE_GLIMMER: ArchSpec = ArchSpec {
    name: "muse-glimmer",
    residual: Residual::PrePostNorm,
    post_norm_eps: Some(1e-8),
    rope_layers: RopeLayers::Sliding,
    qk_norm: QkNorm::Head,
    window: Window::Periodic { period: 4, global: PlaceInPeriod::Last, default_size: None },
    attention_gate: AttentionGate::Own,
    embedding_scale: EmbeddingScale::RmsNorm,
    logit_scale: LogitScale::Multiply,
    ..LLAMA
};
