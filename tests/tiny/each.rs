//! Tiny models that equivalence tests go through.

use super::{TINY, Tiny};

/// One small model per architecture, with what is special about it; windows and original contexts shorter than the tests'
/// prompts, more experts than some prompts take.
pub const EACH_ARCH: [Tiny; 36] = [
    Tiny { rope_freqs: true, fused_qkv: true, ..TINY },
    Tiny { arch: "qwen2", biases: true, n_head: 7, n_head_kv: 1, ..TINY },
    Tiny { arch: "qwen3", tied: true, head_dim: 80, ..TINY },
    Tiny { arch: "gemma2", tied: true, window: 70, attention_softcap: 5.0, ..TINY },
    Tiny { arch: "gemma3", tied: true, window: 64, pattern: 3, n_layer: 4, rope_scale: 8.0, ..TINY },
    Tiny { arch: "smollm3", tied: true, n_layer: 4, ..TINY },
    Tiny { arch: "qwen2moe", biases: true, experts: [12, 3, 64, 96], ..TINY },
    Tiny { arch: "qwen3moe", experts: [10, 3, 64, 0], ..TINY },
    Tiny { arch: "qwen3vl", ..TINY },
    Tiny { arch: "qwen3vlmoe", experts: [6, 2, 96, 0], ..TINY },
    Tiny { arch: "gpt-oss", biases: true, window: 48, n_layer: 4, yarn: 8.0, experts: [8, 4, 96, 0], ..TINY },
    Tiny { arch: "mistral3", yarn: 4.0, ..TINY },
    Tiny { arch: "phi3", fused_qkv: true, fused_gate_up: true, n_rot: 48, long_rope: true, ..TINY },
    Tiny { arch: "glm4", fused_gate_up: true, n_rot: 32, biases: true, ..TINY },
    Tiny {
        arch: "glm4moe",
        n_rot: 32,
        biases: true,
        n_layer: 3,
        experts: [12, 4, 32, 64],
        leading_dense: 1,
        groups: [4, 2],
        ..TINY
    },
    Tiny { arch: "seed_oss", biases: true, ..TINY },
    Tiny { arch: "olmo2", window: 40, n_layer: 4, yarn: 8.0, ..TINY },
    Tiny { arch: "exaone4", tied: true, window: 40, n_layer: 4, ..TINY },
    Tiny { arch: "cohere2", tied: true, window: 40, n_layer: 4, ..TINY },
    Tiny { arch: "granite", ..TINY },
    Tiny { arch: "granitemoe", experts: [8, 2, 64, 96], ..TINY },
    Tiny { arch: "muse-glimmer", window: 40, n_layer: 4, ..TINY },
    Tiny { arch: "qwen35", n_rot: 16, n_layer: 4, ..TINY },
    Tiny { arch: "qwen35moe", n_rot: 16, n_layer: 4, experts: [12, 3, 64, 96], ..TINY },
    Tiny { arch: "qwen3next", tied: true, n_rot: 16, n_layer: 4, experts: [6, 2, 64, 64], ..TINY },
    Tiny { arch: "lfm2", tied: true, n_layer: 3, uneven: &[[4, 0, 96], [4, 2, 96], [4, 0, 96]], ..TINY },
    Tiny {
        arch: "lfm2moe",
        tied: true,
        n_layer: 3,
        uneven: &[[4, 0, 96], [4, 2, 96], [4, 0, 96]],
        experts: [8, 2, 64, 0],
        leading_dense: 1,
        ..TINY
    },
    Tiny { arch: "granitehybrid", tied: true, n_layer: 3, uneven: &[[4, 0, 96], [4, 2, 96], [4, 0, 96]], ..TINY },
    Tiny {
        arch: "granitehybrid",
        tied: true,
        n_layer: 3,
        uneven: &[[4, 0, 96], [4, 0, 96], [4, 2, 96]],
        experts: [8, 2, 64, 96],
        ..TINY
    },
    // All of one kind behind each other, and in turns.
    Tiny {
        arch: "nemotron_h",
        n_layer: 6,
        uneven: &[[4, 0, 0], [4, 0, 96], [4, 0, 160], [4, 2, 0], [4, 0, 0], [4, 0, 0]],
        ..TINY
    },
    Tiny {
        arch: "nemotron_h_moe",
        n_layer: 5,
        uneven: &[[4, 0, 0], [4, 0, 64], [4, 2, 0], [4, 0, 64], [4, 0, 0]],
        experts: [12, 4, 64, 96],
        groups: [4, 2],
        latent_experts: 96,
        ..TINY
    },
    Tiny {
        arch: "deepseek2",
        n_layer: 3,
        n_head_kv: 1,
        head_dim: 80,
        n_rot: 16,
        latent: [64, 96, 32, 48],
        experts: [12, 4, 32, 64],
        leading_dense: 1,
        groups: [4, 2],
        yarn: 8.0,
        ..TINY
    },
    // More query heads than a block of attention has.
    Tiny { arch: "deepseek2", n_head: 20, n_head_kv: 1, head_dim: 128, n_rot: 32, latent: [96, 0, 32, 16], ..TINY },
    Tiny {
        arch: "mistral4",
        n_head_kv: 1,
        head_dim: 48,
        n_rot: 16,
        latent: [32, 64, 32, 32],
        experts: [8, 2, 64, 64],
        yarn: 4.0,
        ..TINY
    },
    Tiny {
        arch: "gemma4",
        tied: true,
        window: 40,
        pattern: 2,
        n_layer: 6,
        head_dim: 96,
        head_dim_swa: 64,
        keys_as_values: true,
        n_shared_kv: 2,
        n_embd_per_layer: 64,
        uneven: &[[4, 2, 96], [4, 1, 96], [4, 2, 96], [4, 1, 96], [4, 2, 160], [4, 1, 160]],
        rope_freqs: true,
        ..TINY
    },
    Tiny {
        arch: "gemma4",
        tied: true,
        window: 40,
        pattern: 2,
        n_layer: 4,
        head_dim_swa: 32,
        experts: [10, 3, 64, 0],
        rope_freqs: true,
        ..TINY
    },
];

/// One for each architecture that takes texts whole, and makes embeddings alone.
pub const ENCODERS: [Tiny; 4] = [
    Tiny { arch: "bert", tied: true, head_dim: 32, n_head_kv: 4, biases: true, pooling: 2, ..TINY },
    Tiny { arch: "nomic-bert", tied: true, head_dim: 32, n_head_kv: 4, fused_qkv: true, pooling: 1, ..TINY },
    Tiny {
        arch: "gemma-embedding",
        tied: true,
        window: 41,
        pattern: 3,
        n_layer: 4,
        n_head_kv: 1,
        dense: [96, 160],
        ..TINY
    },
    Tiny {
        arch: "modern-bert",
        tied: true,
        window: 40,
        n_layer: 4,
        n_head_kv: 4,
        head_dim: 32,
        fused_qkv: true,
        fused_gate_up: true,
        rope_base: 160_000.0,
        ..TINY
    },
];

/// Models whose layers differ: in heads and feed-forward; and in these, window, and elements per head.
pub const UNEVEN: [Tiny; 2] = [
    Tiny { n_layer: 3, uneven: &[[4, 2, 96], [6, 1, 160], [2, 2, 64]], rope_freqs: true, fused_gate_up: true, ..TINY },
    Tiny {
        arch: "gemma3",
        tied: true,
        window: 64,
        pattern: 2,
        n_layer: 3,
        head_dim_swa: 80,
        uneven: &[[4, 2, 96], [6, 3, 160], [6, 2, 192]],
        rope_scale: 8.0,
        ..TINY
    },
];
