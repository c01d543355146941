//! Command R7B and A: LayerNorm, attention and feed-forward at once, three sliding layers to each global one, which sees
//! no positions.

use super::llama::LLAMA;
use crate::spec::{ArchSpec, LogitScale, Norm, PlaceInPeriod, Residual, RopeLayers, Window};

/// `general.architecture = "cohere2"`.
pub const COHERE2: ArchSpec = ArchSpec {
    name: "cohere2",
    norm: Norm::Layer,
    residual: Residual::Parallel,
    rope_layers: RopeLayers::Sliding,
    window: Window::Periodic { period: 4, global: PlaceInPeriod::Last, default_size: Some(4096) },
    logit_scale: LogitScale::Multiply,
    ..LLAMA
};
