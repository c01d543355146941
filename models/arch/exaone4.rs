//! EXAONE 4: norms after attention and feed-forward alone, and on each head of q and k; where layers slide (32B) global
//! ones see no positions.
//!
//! llama.cpp slides in models of 64 layers only; the file's window is what transformers applies.

use super::qwen3::QWEN3;
use crate::spec::{ArchSpec, PlaceInPeriod, Residual, RopeLayers, Window};

/// `general.architecture = "exaone4"`.
pub const EXAONE4: ArchSpec = ArchSpec {
    name: "exaone4",
    residual: Residual::PostNorm,
    window: Window::Periodic { period: 4, global: PlaceInPeriod::Last, default_size: None },
    rope_layers: RopeLayers::Sliding,
    ..QWEN3
};
