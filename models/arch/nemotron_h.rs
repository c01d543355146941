//! Nemotron H, Nano 2 and 3: each layer is one of Mamba-2, attention without a rotary embedding, or a feed-forward without
//! a gate, whose experts may see less than the whole residual stream.

use super::llama::LLAMA;
use crate::spec::{Activation, ArchSpec, FeedForward, Gating, Recurrent, Residual, RopeLayers, Routing};

/// `general.architecture = "nemotron_h"`.
pub const NEMOTRON_H: ArchSpec = ArchSpec {
    name: "nemotron_h",
    rope_layers: RopeLayers::None,
    residual: Residual::Single,
    feed_forward: FeedForward::Plain(Activation::ReluSquared),
    recurrent: Recurrent::Mamba2,
    // The one norm that a layer has.
    ffn_norm: "attn_norm",
    ..LLAMA
};

/// `general.architecture = "nemotron_h_moe"`.
pub const NEMOTRON_H_MOE: ArchSpec =
    ArchSpec { name: "nemotron_h_moe", routing: Routing { gating: Gating::Sigmoid, norm: false }, ..NEMOTRON_H };
