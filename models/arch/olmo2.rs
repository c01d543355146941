//! OLMo 2 and 3: norms after attention and feed-forward alone, and over all heads of q and k together; in OLMo 3 three
//! sliding layers to each global one, whose rotary embedding alone is scaled.

use super::qwen2::QWEN2;
use crate::spec::{ArchSpec, LocalRope, PlaceInPeriod, QkNorm, Residual, Window};

/// `general.architecture = "olmo2"`.
pub const OLMO2: ArchSpec = ArchSpec {
    name: "olmo2",
    residual: Residual::PostNorm,
    qk_norm: QkNorm::Whole,
    window: Window::Periodic { period: 4, global: PlaceInPeriod::Last, default_size: None },
    rope_local: LocalRope::Unscaled,
    ..QWEN2
};
