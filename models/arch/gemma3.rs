//! Gemma 3: Gemma 2 with q/k norms in place of soft-caps, five sliding layers to each global one, and
//! a RoPE base of their own for the sliding layers.

use super::gemma2::GEMMA2;
use crate::spec::{ArchSpec, AttentionScale, LocalRope, QkNorm, SoftcapDefaults, Window};

/// `general.architecture = "gemma3"`.
pub const GEMMA3: ArchSpec = ArchSpec {
    name: "gemma3",
    qk_norm: QkNorm::Head,
    window: Window::Periodic { period: 6, default_size: Some(1024) },
    rope_local: LocalRope::Base(10_000.0),
    softcap: SoftcapDefaults::NONE,
    attention_scale: AttentionScale::EmbdPerHead { n_layer: 62 },
    ..GEMMA2
};
