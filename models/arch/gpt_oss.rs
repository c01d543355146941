//! gpt-oss: experts in MXFP4 behind a clamped gate, a sink in every softmax, every second layer sliding, YaRN whose
//! corner frequencies are not rounded, biases everywhere.
//!
//! llama.cpp rounds the corners; the model's own configuration (`"truncate": false`) and transformers do not.

use super::llama::LLAMA;
use crate::spec::{Activation, ArchSpec, FeedForward, Gating, PlaceInPeriod, RopeLayout, Routing, Window};

/// `general.architecture = "gpt-oss"`.
pub const GPT_OSS: ArchSpec = ArchSpec {
    name: "gpt-oss",
    rope: RopeLayout::Halves,
    feed_forward: FeedForward::Gated(Activation::ClampedSwiglu),
    window: Window::Periodic { period: 2, global: PlaceInPeriod::Last, default_size: Some(128) },
    yarn_rounds: false,
    sinks: true,
    ffn_norm: "post_attention_norm",
    routing: Routing { gating: Gating::SoftmaxOfChosen, norm: false },
    ..LLAMA
};
