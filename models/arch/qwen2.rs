//! Qwen 2 and 2.5: Llama with half-split RoPE pairs and biases on q, k, v.

use super::llama::LLAMA;
use crate::spec::{ArchSpec, RopeLayout};

/// `general.architecture = "qwen2"`.
pub const QWEN2: ArchSpec = ArchSpec { name: "qwen2", rope: RopeLayout::Halves, ..LLAMA };
