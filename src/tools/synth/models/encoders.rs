//! Models that take texts whole, and make vectors of them.

use qrun_models::spec::Pooling;

use super::{Biases, Family, ROPE, Rope, Shape, TINY_GEMMA3, TINY_LLAMA, Vocab};

pub const TINY_BERT: Shape = Shape {
    name: "tiny-bert",
    arch: "bert",
    n_head_kv: 8,
    n_ctx: 512,
    rope: ROPE,
    norm_eps: 1e-12,
    vocab: Vocab { family: Family::Bert, size: 1024 },
    biases: Biases::All,
    pooling: Some(Pooling::First),
    ..TINY_LLAMA
};

pub const TINY_NOMIC_BERT: Shape = Shape {
    name: "tiny-nomic-bert",
    arch: "nomic-bert",
    n_ctx: 2048,
    rope: Rope { base: 1000.0, ..ROPE },
    biases: Biases::None,
    fused_qkv: true,
    pooling: Some(Pooling::Mean),
    ..TINY_BERT
};

pub const TINY_GEMMA_EMBEDDING: Shape = Shape {
    name: "tiny-gemma-embedding",
    arch: "gemma-embedding",
    n_ctx: 2048,
    pooling: Some(Pooling::Mean),
    ..TINY_GEMMA3
};
