//! Models with latent attention.

use super::{super::Latent, Experts, Family, GEMMA_3_1B, ROPE, Rope, Shape, TINY_EXPERTS, Vocab};

pub const GLM_4_7_FLASH: Shape = Shape {
    name: "glm-4.7-flash",
    arch: "deepseek2",
    n_layer: 47,
    n_embd: 2048,
    n_ff: 10_240,
    n_head: 20,
    n_head_kv: 1,
    head_dim: 576,
    n_ctx: 202_752,
    window: None,
    rope: Rope { n_rot: Some(64), base: 1e6, ..ROPE },
    norm_eps: 1e-5,
    vocab: Vocab { family: Family::Llama3, size: 154_880 },
    tied: false,
    experts: Some(Experts {
        n_expert: 64,
        n_used: 4,
        n_ff: 1536,
        n_ff_shared: 1536,
        shared_gate: false,
        leading_dense: 1,
    }),
    latent: Some(Latent { q_rank: 768, n_nope: 192, n_value: 256 }),
    ..GEMMA_3_1B
};

pub const TINY_DEEPSEEK2: Shape = Shape {
    name: "tiny-deepseek2",
    n_layer: 4,
    n_embd: 256,
    n_ff: 512,
    n_head: 4,
    head_dim: 96,
    n_ctx: 8192,
    rope: Rope { n_rot: Some(32), ..ROPE },
    vocab: Vocab { family: Family::Llama3, size: 1024 },
    experts: Some(Experts { n_ff_shared: 256, leading_dense: 1, ..TINY_EXPERTS }),
    latent: Some(Latent { q_rank: 128, n_nope: 32, n_value: 48 }),
    ..GLM_4_7_FLASH
};

pub const TINY_MISTRAL4: Shape = Shape {
    name: "tiny-mistral4",
    arch: "mistral4",
    rope: Rope { n_rot: Some(32), yarn: Some((8.0, 1024)), ..ROPE },
    ..TINY_DEEPSEEK2
};
