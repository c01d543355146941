//! Gemma 4: Gemma 3 with heads of two sizes, normed values, which may be the keys, layers that attend to the caches of
//! earlier ones, embeddings of a token for each layer, and experts beside a feed-forward.

use super::gemma3::GEMMA3;
use crate::spec::{ArchSpec, AttentionScale, Gating, PlaceInPeriod, Routing, SoftcapDefaults, Values, Window};

/// `general.architecture = "gemma4"`.
pub const GEMMA4: ArchSpec = ArchSpec {
    name: "gemma4",
    values: Values::Normed,
    window: Window::Periodic { period: 6, global: PlaceInPeriod::Last, default_size: Some(512) },
    softcap: SoftcapDefaults { attention: None, logits: Some(30.0) },
    attention_scale: AttentionScale::One,
    routing: Routing { gating: Gating::Softmax, norm: true },
    ..GEMMA3
};
