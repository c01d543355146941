//! LFM 2: short convolutions in most layers, attention in the others; with experts behind a sigmoid (8B-A1B).

use super::qwen3::QWEN3;
use crate::spec::{ArchSpec, Gating, Recurrent, Routing};

/// `general.architecture = "lfm2"`.
pub const LFM2: ArchSpec =
    ArchSpec { name: "lfm2", recurrent: Recurrent::ShortConv, output_norm: "token_embd_norm", ..QWEN3 };

/// `general.architecture = "lfm2moe"`.
pub const LFM2MOE: ArchSpec =
    ArchSpec { name: "lfm2moe", routing: Routing { gating: Gating::Sigmoid, norm: true }, ..LFM2 };
