//! Gemma 2: GELU, post-norms, soft-caps, every second layer sliding.

use super::llama::LLAMA;
use crate::spec::{
    Activation, ArchSpec, AttentionScale, EmbeddingScale, FeedForward, PlaceInPeriod, Residual, RopeLayout,
    SoftcapDefaults, Window,
};

/// `general.architecture = "gemma2"`.
pub const GEMMA2: ArchSpec = ArchSpec {
    name: "gemma2",
    rope: RopeLayout::Halves,
    residual: Residual::PrePostNorm,
    feed_forward: FeedForward::Gated(Activation::GeluTanh),
    embedding_scale: EmbeddingScale::SqrtEmbd,
    window: Window::Periodic { period: 2, global: PlaceInPeriod::Last, default_size: Some(4096) },
    softcap: SoftcapDefaults { attention: Some(50.0), logits: Some(30.0) },
    attention_scale: AttentionScale::EmbdPerHead { n_layer: 46 },
    ..LLAMA
};
