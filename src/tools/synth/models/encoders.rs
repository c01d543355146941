//! Models that take texts whole, and make vectors of them.

use qrun_models::spec::Pooling;

use super::{Biases, Family, GEMMA_3_1B, ROPE, Rope, Shape, TINY_GEMMA3, TINY_LLAMA, Vocab};

/// As gte-modernbert-base and nomic's modernbert-embed-base are.
pub const MODERNBERT_BASE: Shape = Shape {
    name: "modernbert-base",
    arch: "modern-bert",
    n_layer: 22,
    n_embd: 768,
    n_ff: 1152,
    n_head: 12,
    n_head_kv: 12,
    head_dim: 64,
    n_ctx: 8192,
    window: Some(128),
    rope: Rope { base: 160_000.0, base_swa: Some(10_000.0), ..ROPE },
    norm_eps: 1e-5,
    vocab: Vocab { family: Family::ModernBert, size: 50_368 },
    fused_qkv: true,
    fused_gate_up: true,
    pooling: Some(Pooling::Mean),
    ..GEMMA_3_1B
};

/// A global layer at either end of a window's two.
pub const TINY_MODERN_BERT: Shape = Shape {
    name: "tiny-modern-bert",
    n_layer: 4,
    n_embd: 256,
    n_ff: 512,
    n_head: 4,
    n_head_kv: 4,
    window: Some(32),
    vocab: Vocab { family: Family::ModernBert, size: 1024 },
    ..MODERNBERT_BASE
};

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
