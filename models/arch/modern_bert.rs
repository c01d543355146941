//! ModernBERT: every token sees the whole text, two of three layers through a window; normed embeddings, LayerNorms without
//! biases, none before the first attention.

use super::llama::LLAMA;
use crate::spec::{
    Activation, ArchSpec, FeedForward, Input, LocalRope, Mask, Norm, PlaceInPeriod, Pooling, RopeLayout, Window,
};

/// `general.architecture = "modern-bert"`.
pub const MODERN_BERT: ArchSpec = ArchSpec {
    name: "modern-bert",
    mask: Mask::None,
    input: Input::Normed,
    rope: RopeLayout::Halves,
    norm: Norm::Layer,
    feed_forward: FeedForward::Gated(Activation::Gelu),
    window: Window::Periodic { period: 3, global: PlaceInPeriod::First, default_size: None },
    rope_local: LocalRope::Base(10_000.0),
    pooling: Some(Pooling::Mean),
    ..LLAMA
};
