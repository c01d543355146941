//! BERT (bge, MiniLM, e5): every token sees the whole text, sums are normed, biases everywhere, learned positions. Nomic's
//! has a gated feed-forward and turns q and k in their place.

use super::llama::LLAMA;
use crate::spec::{Activation, ArchSpec, FeedForward, Input, Mask, Norm, Residual, RopeLayers, RopeLayout};

/// `general.architecture = "bert"`.
pub const BERT: ArchSpec = ArchSpec {
    name: "bert",
    mask: Mask::None,
    input: Input::TypedAndPlaced,
    rope_layers: RopeLayers::None,
    norm: Norm::LayerBias,
    residual: Residual::NormedSum,
    feed_forward: FeedForward::Plain(Activation::Gelu),
    ..LLAMA
};

/// `general.architecture = "nomic-bert"`.
pub const NOMIC_BERT: ArchSpec = ArchSpec {
    name: "nomic-bert",
    input: Input::Typed,
    rope: RopeLayout::Halves,
    rope_layers: RopeLayers::All,
    feed_forward: FeedForward::Gated(Activation::Silu),
    ..BERT
};
