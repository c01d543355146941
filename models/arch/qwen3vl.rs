//! Qwen 3 VL: the text part of it is Qwen 3. The three coordinates of a position are the same in text, so their
//! sections of the rotary embedding (`rope.dimension_sections`) turn alike.

use super::{qwen3::QWEN3, qwen3moe::QWEN3MOE};
use crate::spec::ArchSpec;

/// `general.architecture = "qwen3vl"`.
pub const QWEN3VL: ArchSpec = ArchSpec { name: "qwen3vl", ..QWEN3 };

/// `general.architecture = "qwen3vlmoe"`.
pub const QWEN3VLMOE: ArchSpec = ArchSpec { name: "qwen3vlmoe", ..QWEN3MOE };
