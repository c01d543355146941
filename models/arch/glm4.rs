//! GLM 4: Llama with norms on both sides and RoPE on a part of each head; with experts (4.5, 4.6) it has the norms before.

use super::llama::LLAMA;
use crate::spec::{ArchSpec, Gating, QkNorm, Residual, RopeLayout, Routing};

/// `general.architecture = "glm4"`.
pub const GLM4: ArchSpec = ArchSpec { name: "glm4", residual: Residual::PrePostNorm, ..LLAMA };

/// `general.architecture = "glm4moe"`.
pub const GLM4MOE: ArchSpec = ArchSpec {
    name: "glm4moe",
    rope: RopeLayout::Halves,
    qk_norm: QkNorm::IfPresent,
    ffn_norm: "post_attention_norm",
    routing: Routing { gating: Gating::Sigmoid, norm: false },
    ..LLAMA
};
