//! Gemma 3: Gemma 2 with q/k norms in place of soft-caps, five sliding layers to each global one, and
//! a RoPE base of their own for the sliding layers. EmbeddingGemma is the same without a mask.

use super::gemma2::GEMMA2;
use crate::spec::{ArchSpec, AttentionScale, LocalRope, Mask, PlaceInPeriod, Pooling, QkNorm, SoftcapDefaults, Window};

/// `general.architecture = "gemma3"`.
pub const GEMMA3: ArchSpec = ArchSpec {
    name: "gemma3",
    qk_norm: QkNorm::Head,
    window: Window::Periodic { period: 6, global: PlaceInPeriod::Last, default_size: Some(1024) },
    rope_local: LocalRope::Base(10_000.0),
    softcap: SoftcapDefaults::NONE,
    attention_scale: AttentionScale::EmbdPerHead { n_layer: 62 },
    ..GEMMA2
};

/// `general.architecture = "gemma-embedding"`.
pub const GEMMA_EMBEDDING: ArchSpec = ArchSpec {
    name: "gemma-embedding",
    mask: Mask::None,
    window: Window::Periodic { period: 6, global: PlaceInPeriod::Last, default_size: Some(512) },
    pooling: Some(Pooling::Mean),
    ..GEMMA3
};
