//! Qwen 3 with experts (30B-A3B, 235B-A22B, Coder 30B-A3B).

use super::qwen3::QWEN3;
use crate::spec::ArchSpec;

/// `general.architecture = "qwen3moe"`.
pub const QWEN3MOE: ArchSpec = ArchSpec { name: "qwen3moe", ..QWEN3 };
