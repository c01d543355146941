//! Seed-OSS: Llama with half-split RoPE pairs and biases on q, k, v.

use super::qwen2::QWEN2;
use crate::spec::ArchSpec;

/// `general.architecture = "seed_oss"`.
pub const SEED_OSS: ArchSpec = ArchSpec { name: "seed_oss", ffn_norm: "post_attention_norm", ..QWEN2 };
