//! Qwen 1.5 and 2 with experts: one of them, behind a gate, is for every token.

use super::qwen2::QWEN2;
use crate::spec::{ArchSpec, Gating, Routing};

/// `general.architecture = "qwen2moe"`.
pub const QWEN2MOE: ArchSpec =
    ArchSpec { name: "qwen2moe", routing: Routing { gating: Gating::Softmax, norm: false }, ..QWEN2 };
