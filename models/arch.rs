//! The architectures qrun runs, one file each.
//!
//! To add one: `arch/x.rs` with its const, and its row here.

mod bert;
mod cohere2;
mod deepseek2;
mod exaone4;
mod gemma2;
mod gemma3;
mod gemma4;
mod glm4;
mod gpt_oss;
mod granite;
mod lfm2;
mod llama;
mod mistral3;
mod modern_bert;
mod muse_glimmer;
mod nemotron_h;
mod olmo2;
mod phi3;
mod qwen2;
mod qwen2moe;
mod qwen3;
mod qwen35;
mod qwen3moe;
mod qwen3vl;
mod seed_oss;
mod smollm3;

use crate::spec::ArchSpec;

/// Every architecture that loads; a new one is a row here and its file.
pub static ARCHITECTURES: &[ArchSpec] = &[
    llama::LLAMA,
    smollm3::SMOLLM3,
    qwen2::QWEN2,
    qwen3::QWEN3,
    gemma2::GEMMA2,
    gemma3::GEMMA3,
    gemma4::GEMMA4,
    qwen2moe::QWEN2MOE,
    qwen3moe::QWEN3MOE,
    qwen3vl::QWEN3VL,
    qwen3vl::QWEN3VLMOE,
    gpt_oss::GPT_OSS,
    mistral3::MISTRAL3,
    phi3::PHI3,
    glm4::GLM4,
    glm4::GLM4MOE,
    seed_oss::SEED_OSS,
    olmo2::OLMO2,
    exaone4::EXAONE4,
    cohere2::COHERE2,
    granite::GRANITE,
    granite::GRANITEMOE,
    granite::GRANITEHYBRID,
    muse_glimmer::MUSE_GLIMMER,
    qwen35::QWEN35,
    qwen35::QWEN35MOE,
    qwen35::QWEN3NEXT,
    lfm2::LFM2,
    lfm2::LFM2MOE,
    deepseek2::DEEPSEEK2,
    deepseek2::MISTRAL4,
    nemotron_h::NEMOTRON_H,
    nemotron_h::NEMOTRON_H_MOE,
    bert::BERT,
    bert::NOMIC_BERT,
    gemma3::GEMMA_EMBEDDING,
    modern_bert::MODERN_BERT,
];

/// The architecture with this `general.architecture`, if qrun runs it.
pub fn find(name: &str) -> Option<&'static ArchSpec> {
    ARCHITECTURES.iter().find(|a| a.name == name)
}
