//! Qwen 3.5 and 3.6: three gated delta nets to each layer of attention, whose output is gated by a half of its query
//! projection; with experts (35B-A3B), one of them for every token. Qwen 3 Next has the same with other groups of heads.

use super::qwen3::QWEN3;
use crate::spec::{ArchSpec, AttentionGate, DeltaHeads, DraftHead, Recurrent};

/// `general.architecture = "qwen35"`.
pub const QWEN35: ArchSpec = ArchSpec {
    name: "qwen35",
    ffn_norm: "post_attention_norm",
    attention_gate: AttentionGate::InQuery,
    recurrent: Recurrent::DeltaNet { heads: DeltaHeads::Tiled },
    draft_head: DraftHead::HiddenState,
    ..QWEN3
};

/// `general.architecture = "qwen35moe"`.
pub const QWEN35MOE: ArchSpec = ArchSpec { name: "qwen35moe", ..QWEN35 };

/// `general.architecture = "qwen3next"`.
pub const QWEN3NEXT: ArchSpec = ArchSpec {
    name: "qwen3next",
    recurrent: Recurrent::DeltaNet { heads: DeltaHeads::Grouped },
    draft_head: DraftHead::None,
    ..QWEN35
};
