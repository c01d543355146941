//! Logits beside those of others: exact arithmetic beside `transformers` in f32, fast arithmetic beside llama.cpp where
//! there are its logits, for every architecture and mix of formats, on tiny models with awkward shapes.
//!
//! The numbers in `tests/data/golden` were made by `tests/golden/make.py`, which gets its models from
//! here: `QRUN_GOLDEN_DIR=DIR cargo test golden::writes_the_models_for_make_py` puts them into `DIR`.

use std::{env, fs, path::Path};

use half::f16;
use qrun_models::{Forward, Options, Output, spec::Mask};

use crate::tiny::{self, Mix, TINY, Tiny};

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/golden");

/// Largest relative L2 distance of the logits of a position from those of transformers.
const EXACT: f64 = 1e-4;
/// Architectures whose models, but for those with experts, have recorded logits of llama.cpp.
const WITH_LLAMA_CPP: [&str; 5] = ["llama", "qwen2", "qwen3", "gemma2", "gemma3"];
/// Largest mean KL divergence from llama.cpp over the positions of a case.
const KL: f64 = 1e-3;
/// Largest mean KL divergence of fast arithmetic from transformers, which does not round activations to 8 bits.
const ROUNDED_KL: f64 = 5e-3;
/// Smallest share of positions, over all cases, at which llama.cpp's best token is ours too.
const TOP_1: f64 = 0.99;

/// Layers that share have a wider feed-forward.
const GEMMA4_F32: [[usize; 3]; 8] = {
    let (own, shared) = ([4, 2, 96], [4, 2, 192]);
    [own, own, own, own, shared, shared, shared, shared]
};
/// Global layers have fewer heads of keys.
const GEMMA4_Q4_K_M: [[usize; 3]; 4] = [[4, 2, 256], [4, 1, 256], [4, 2, 256], [4, 1, 256]];

struct Case {
    name: &'static str,
    tiny: Tiny,
    prompt: usize,
}

#[rustfmt::skip]
const CASES: &[Case] = &[
    Case { name: "llama-F32", prompt: 150, tiny: Tiny { n_embd: 192, n_head: 8, rope_freqs: true, tied: true, ..TINY } },
    Case { name: "llama-BF16", prompt: 100, tiny: Tiny { mix: Mix::BF16, n_embd: 224, n_head: 7, n_head_kv: 1, head_dim: 96,
        fused_qkv: true, rope_base: 500_000.0, ..TINY } },
    Case { name: "llama-Q8_0", prompt: 100, tiny: Tiny { mix: Mix::Q8_0, n_embd: 192, n_head: 6, n_head_kv: 6, head_dim: 80,
        biases: true, fused_gate_up: true, ..TINY } },
    // More than 64 pages of 64 tokens.
    Case { name: "llama-Q4_K_M", prompt: 4200, tiny: Tiny { mix: Mix::Q4_K_M, n_embd: 256, n_ff: 256, n_ctx: 4352,
        rope_freqs: true, ..TINY } },
    Case { name: "smollm3-F32", prompt: 130, tiny: Tiny { arch: "smollm3", n_embd: 192, n_head: 6, n_layer: 5, tied: true, ..TINY } },
    Case { name: "smollm3-Q8_0", prompt: 100, tiny: Tiny { arch: "smollm3", mix: Mix::Q8_0, n_embd: 256, n_head_kv: 1, n_layer: 9,
        rope_base: 5e6, ..TINY } },
    Case { name: "qwen2-F32", prompt: 130, tiny: Tiny { arch: "qwen2", n_embd: 320, head_dim: 80, biases: true, ..TINY } },
    Case { name: "qwen2-BF16", prompt: 100, tiny: Tiny { arch: "qwen2", mix: Mix::BF16, n_embd: 512, n_head_kv: 1, head_dim: 128, biases: true,
        rope_base: 1e6, ..TINY } },
    Case { name: "qwen2-Q8_0", prompt: 100, tiny: Tiny { arch: "qwen2", mix: Mix::Q8_0, n_embd: 288, n_head: 3, n_head_kv: 3,
        head_dim: 96, biases: true, fused_qkv: true, tied: true, ..TINY } },
    Case { name: "qwen2-Q4_K_M", prompt: 100, tiny: Tiny { arch: "qwen2", mix: Mix::Q4_K_M, n_embd: 448, n_ff: 512, n_head: 7,
        n_head_kv: 1, biases: true, ..TINY } },
    Case { name: "qwen3-F32", prompt: 130, tiny: Tiny { arch: "qwen3", n_embd: 224, n_head: 7, n_head_kv: 1, head_dim: 128,
        rope_base: 1e6, ..TINY } },
    Case { name: "qwen3-BF16", prompt: 100, tiny: Tiny { arch: "qwen3", mix: Mix::BF16, n_embd: 96, n_head: 3, n_head_kv: 3,
        head_dim: 80, n_layer: 3, ..TINY } },
    Case { name: "qwen3-Q8_0", prompt: 100, tiny: Tiny { arch: "qwen3", mix: Mix::Q8_0, head_dim: 128, tied: true, ..TINY } },
    Case { name: "qwen3-Q4_K_M", prompt: 100, tiny: Tiny { arch: "qwen3", mix: Mix::Q4_K_M, n_embd: 288, n_ff: 768, n_head: 8,
        ..TINY } },
    Case { name: "gemma2-F32", prompt: 200, tiny: Tiny { arch: "gemma2", tied: true, window: 70, n_layer: 4, ..TINY } },
    Case { name: "gemma2-BF16", prompt: 150, tiny: Tiny { arch: "gemma2", mix: Mix::BF16, tied: true, n_head: 8, head_dim: 96,
        window: 64, attention_softcap: 5.0, ..TINY } },
    Case { name: "gemma2-Q8_0", prompt: 130, tiny: Tiny { arch: "gemma2", mix: Mix::Q8_0, tied: true, n_head: 2, head_dim: 256,
        window: 33, ..TINY } },
    Case { name: "gemma2-Q4_K_M", prompt: 150, tiny: Tiny { arch: "gemma2", mix: Mix::Q4_K_M, tied: true, n_embd: 288, n_ff: 512,
        n_head: 2, n_head_kv: 1, head_dim: 256, window: 100, n_layer: 3, ..TINY } },
    Case { name: "gemma3-F32", prompt: 150, tiny: Tiny { arch: "gemma3", tied: true, n_head_kv: 1, window: 50, rope_scale: 8.0,
        rope_base: 1e6, n_layer: 7, ..TINY } },
    Case { name: "gemma3-BF16", prompt: 150, tiny: Tiny { arch: "gemma3", mix: Mix::BF16, tied: true, n_embd: 112, n_head: 7,
        n_head_kv: 1, head_dim: 80, window: 64, pattern: 2, n_layer: 4, rope_base: 1e6, ..TINY } },
    Case { name: "gemma3-Q8_0", prompt: 150, tiny: Tiny { arch: "gemma3", mix: Mix::Q8_0, head_dim: 128, window: 65, pattern: 3,
        n_layer: 4, rope_base: 1e6, rope_scale: 8.0, ..TINY } },
    Case { name: "gemma3-Q4_K_M", prompt: 150, tiny: Tiny { arch: "gemma3", mix: Mix::Q4_K_M, tied: true, n_embd: 288, n_ff: 768,
        n_head_kv: 1, head_dim: 256, window: 64, n_layer: 7, rope_base: 1e6, ..TINY } },
    // As E4B, then as 31B: embeddings for each layer and shared caches; values that are keys.
    Case { name: "gemma4-F32", prompt: 130, tiny: Tiny { arch: "gemma4", tied: true, n_embd: 160, window: 40, pattern: 4, n_layer: 8,
        head_dim: 96, head_dim_swa: 48, n_shared_kv: 4, n_embd_per_layer: 24, rope_freqs: true, rope_base: 1e6, uneven: &GEMMA4_F32,
        ..TINY } },
    Case { name: "gemma4-Q4_K_M", prompt: 100, tiny: Tiny { arch: "gemma4", mix: Mix::Q4_K_M, tied: true, n_embd: 256, window: 33,
        pattern: 2, n_layer: 4, head_dim: 128, head_dim_swa: 64, keys_as_values: true, rope_freqs: true, uneven: &GEMMA4_Q4_K_M,
        ..TINY } },
    // As 26B-A4B.
    Case { name: "gemma4-experts-F32", prompt: 60, tiny: Tiny { arch: "gemma4", tied: true, n_embd: 160, window: 40, pattern: 2,
        n_layer: 4, head_dim: 96, head_dim_swa: 48, keys_as_values: true, rope_freqs: true, experts: [48, 3, 40, 0], ..TINY } },
    Case { name: "gemma4-experts-Q4_K_M", prompt: 100, tiny: Tiny { arch: "gemma4", mix: Mix::Q4_K_M, tied: true, n_embd: 256,
        window: 33, pattern: 2, n_layer: 4, head_dim: 128, head_dim_swa: 64, rope_freqs: true, experts: [8, 2, 256, 0], ..TINY } },
    // Experts: with 40 and more of them some get no token. The first is Mixtral.
    Case { name: "llama-experts-F32", prompt: 130, tiny: Tiny { n_embd: 160, n_head: 5, n_head_kv: 1, experts: [8, 2, 96, 0], ..TINY } },
    Case { name: "qwen2moe-F32", prompt: 45, tiny: Tiny { arch: "qwen2moe", n_embd: 160, n_head: 5, n_head_kv: 1, head_dim: 48, biases: true,
        experts: [60, 4, 48, 176], ..TINY } },
    Case { name: "qwen2moe-Q4_K_M", prompt: 100, tiny: Tiny { arch: "qwen2moe", mix: Mix::Q4_K_M, n_embd: 256, biases: true,
        experts: [12, 3, 256, 96], ..TINY } },
    Case { name: "qwen3moe-F32", prompt: 60, tiny: Tiny { arch: "qwen3moe", n_embd: 192, n_head: 8, head_dim: 48, experts: [64, 2, 40, 0],
        rope_base: 1e6, ..TINY } },
    Case { name: "qwen3moe-Q4_K_M", prompt: 100, tiny: Tiny { arch: "qwen3moe", mix: Mix::Q4_K_M, n_embd: 256, head_dim: 128,
        experts: [10, 3, 256, 0], ..TINY } },
    Case { name: "qwen3vl-F32", prompt: 130, tiny: Tiny { arch: "qwen3vl", n_embd: 224, head_dim: 128, rope_base: 5e6, ..TINY } },
    Case { name: "qwen3vl-Q8_0", prompt: 100, tiny: Tiny { arch: "qwen3vl", mix: Mix::Q8_0, n_head: 6, tied: true, ..TINY } },
    Case { name: "qwen3vlmoe-F32", prompt: 130, tiny: Tiny { arch: "qwen3vlmoe", head_dim: 128, experts: [6, 2, 96, 0], rope_base: 5e6,
        ..TINY } },
    Case { name: "qwen3vlmoe-Q4_K_M", prompt: 60, tiny: Tiny { arch: "qwen3vlmoe", mix: Mix::Q4_K_M, n_embd: 288, experts: [48, 2, 64, 0],
        ..TINY } },
    Case { name: "gpt-oss-F32", prompt: 60, tiny: Tiny { arch: "gpt-oss", biases: true, n_embd: 160, n_head: 8, window: 48, n_layer: 4,
        yarn: 32.0, rope_base: 150_000.0, experts: [48, 2, 72, 0], ..TINY } },
    // Experts in MXFP4.
    Case { name: "gpt-oss-Q4_K_M", prompt: 130, tiny: Tiny { arch: "gpt-oss", mix: Mix::Q4_K_M, biases: true, n_embd: 288, n_head_kv: 1,
        window: 33, n_layer: 3, yarn: 8.0, experts: [8, 4, 96, 0], ..TINY } },
    Case { name: "mistral3-F32", prompt: 130, tiny: Tiny { arch: "mistral3", n_embd: 192, n_head: 6, yarn: 4.0, rope_base: 1e6, ..TINY } },
    Case { name: "mistral3-Q4_K_M", prompt: 100, tiny: Tiny { arch: "mistral3", mix: Mix::Q4_K_M, n_embd: 256, head_dim: 128, yarn: 16.0,
        tied: true, ..TINY } },
    // Up to the original context, and beyond it.
    Case { name: "phi3-F32", prompt: 150, tiny: Tiny { arch: "phi3", fused_qkv: true, fused_gate_up: true, n_embd: 192, n_head: 3,
        n_head_kv: 1, n_rot: 48, long_rope: true, ..TINY } },
    Case { name: "phi3-Q8_0", prompt: 300, tiny: Tiny { arch: "phi3", mix: Mix::Q8_0, fused_qkv: true, fused_gate_up: true, n_embd: 256,
        n_head_kv: 4, long_rope: true, tied: true, ..TINY } },
    Case { name: "glm4-F32", prompt: 130, tiny: Tiny { arch: "glm4", fused_gate_up: true, n_rot: 32, biases: true, n_embd: 160, n_head: 6,
        ..TINY } },
    Case { name: "glm4-Q8_0", prompt: 100, tiny: Tiny { arch: "glm4", mix: Mix::Q8_0, fused_gate_up: true, n_rot: 48, head_dim: 96, ..TINY } },
    Case { name: "glm4moe-F32", prompt: 100, tiny: Tiny { arch: "glm4moe", n_rot: 32, biases: true, n_embd: 192, n_layer: 3,
        experts: [12, 4, 40, 80], leading_dense: 1, groups: [4, 2], ..TINY } },
    Case { name: "glm4moe-Q4_K_M", prompt: 50, tiny: Tiny { arch: "glm4moe", mix: Mix::Q4_K_M, n_rot: 48, head_dim: 96, n_embd: 256,
        biases: true, qk_norm: false, experts: [48, 2, 96, 96], ..TINY } },
    Case { name: "seed_oss-F32", prompt: 130, tiny: Tiny { arch: "seed_oss", biases: true, n_embd: 160, n_head: 6, head_dim: 80,
        rope_base: 1e7, ..TINY } },
    Case { name: "seed_oss-Q4_K_M", prompt: 100, tiny: Tiny { arch: "seed_oss", mix: Mix::Q4_K_M, biases: true, n_embd: 256, n_ff: 512,
        n_head_kv: 1, ..TINY } },
    // OLMo 3, then OLMo 2.
    Case { name: "olmo2-F32", prompt: 130, tiny: Tiny { arch: "olmo2", n_embd: 192, n_head: 6, window: 40, n_layer: 5, yarn: 8.0,
        rope_base: 500_000.0, ..TINY } },
    Case { name: "olmo2-Q8_0", prompt: 100, tiny: Tiny { arch: "olmo2", mix: Mix::Q8_0, n_head_kv: 1, head_dim: 96, ..TINY } },
    Case { name: "exaone4-F32", prompt: 130, tiny: Tiny { arch: "exaone4", n_embd: 160, n_head: 5, n_head_kv: 1, window: 40, n_layer: 5,
        rope_freqs: true, ..TINY } },
    Case { name: "exaone4-Q4_K_M", prompt: 100, tiny: Tiny { arch: "exaone4", mix: Mix::Q4_K_M, n_embd: 256, tied: true, ..TINY } },
    Case { name: "cohere2-F32", prompt: 130, tiny: Tiny { arch: "cohere2", tied: true, n_embd: 192, n_head: 6, window: 40, n_layer: 5,
        ..TINY } },
    Case { name: "cohere2-Q8_0", prompt: 100, tiny: Tiny { arch: "cohere2", mix: Mix::Q8_0, tied: true, head_dim: 128, window: 33, n_layer: 4,
        rope_base: 50_000.0, ..TINY } },
    Case { name: "granite-F32", prompt: 130, tiny: Tiny { arch: "granite", n_embd: 160, n_head: 5, n_head_kv: 1, ..TINY } },
    Case { name: "granite-Q4_K_M", prompt: 100, tiny: Tiny { arch: "granite", mix: Mix::Q4_K_M, n_embd: 256, tied: true, ..TINY } },
    Case { name: "granitemoe-F32", prompt: 60, tiny: Tiny { arch: "granitemoe", n_embd: 192, n_head: 6, experts: [40, 2, 56, 0], ..TINY } },
    Case { name: "granitemoe-Q4_K_M", prompt: 100, tiny: Tiny { arch: "granitemoe", mix: Mix::Q4_K_M, n_embd: 256, tied: true,
        experts: [8, 2, 64, 96], ..TINY } },
    Case { name: "muse-glimmer-F32", prompt: 130, tiny: Tiny { arch: "muse-glimmer", n_embd: 192, n_head: 6, window: 40, n_layer: 5,
        ..TINY } },
    Case { name: "muse-glimmer-Q8_0", prompt: 100, tiny: Tiny { arch: "muse-glimmer", mix: Mix::Q8_0, head_dim: 128, window: 33, n_layer: 4,
        tied: true, ..TINY } },
    // Recurrent layers.
    Case { name: "qwen35-F32", prompt: 150, tiny: Tiny { arch: "qwen35", n_embd: 160, n_head: 5, n_head_kv: 1, n_rot: 16, n_layer: 5,
        rope_base: 1e7, ..TINY } },
    Case { name: "qwen35-Q4_K_M", prompt: 100, tiny: Tiny { arch: "qwen35", mix: Mix::Q4_K_M, n_embd: 256, head_dim: 128, n_rot: 32,
        n_layer: 4, tied: true, ..TINY } },
    Case { name: "qwen35moe-F32", prompt: 60, tiny: Tiny { arch: "qwen35moe", n_embd: 192, n_head: 6, n_rot: 32, n_layer: 4,
        experts: [48, 2, 40, 72], ..TINY } },
    Case { name: "qwen35moe-Q4_K_M", prompt: 100, tiny: Tiny { arch: "qwen35moe", mix: Mix::Q4_K_M, n_embd: 256, n_rot: 16, n_layer: 4,
        experts: [12, 3, 256, 96], ..TINY } },
    Case { name: "qwen3next-F32", prompt: 130, tiny: Tiny { arch: "qwen3next", n_embd: 160, n_head: 5, n_head_kv: 1, n_rot: 16, n_layer: 4,
        tied: true, experts: [6, 2, 72, 64], ..TINY } },
    Case { name: "qwen3next-Q8_0", prompt: 60, tiny: Tiny { arch: "qwen3next", mix: Mix::Q8_0, n_rot: 32, n_layer: 5, experts: [40, 2, 64, 64],
        ..TINY } },
    Case { name: "lfm2-F32", prompt: 130, tiny: Tiny { arch: "lfm2", n_embd: 192, n_layer: 4, tied: true, rope_base: 1e6,
        uneven: &[[6, 0, 160], [6, 2, 160], [6, 0, 160], [6, 2, 160]], ..TINY } },
    Case { name: "lfm2-Q8_0", prompt: 100, tiny: Tiny { arch: "lfm2", mix: Mix::Q8_0, n_layer: 3, tied: true,
        uneven: &[[4, 1, 288], [4, 0, 288], [4, 0, 288]], ..TINY } },
    Case { name: "lfm2moe-F32", prompt: 60, tiny: Tiny { arch: "lfm2moe", n_embd: 160, n_layer: 3, tied: true, leading_dense: 1,
        experts: [40, 2, 48, 0], uneven: &[[5, 0, 96], [5, 1, 96], [5, 0, 96]], ..TINY } },
    Case { name: "lfm2moe-Q4_K_M", prompt: 100, tiny: Tiny { arch: "lfm2moe", mix: Mix::Q4_K_M, n_embd: 256, n_layer: 3, tied: true,
        leading_dense: 1, experts: [8, 3, 256, 0], uneven: &[[4, 0, 512], [4, 2, 512], [4, 0, 512]], ..TINY } },
    // Latent attention: DeepSeek V3, then V2, which chooses the best group by its best expert, without a rank of queries.
    Case { name: "deepseek2-F32", prompt: 130, tiny: Tiny { arch: "deepseek2", n_embd: 160, n_head: 5, n_head_kv: 1, n_layer: 3,
        head_dim: 64, n_rot: 16, latent: [48, 72, 24, 20], yarn: 8.0, experts: [12, 4, 40, 80], leading_dense: 1, groups: [4, 2],
        ..TINY } },
    Case { name: "deepseek2-lite-F32", prompt: 100, tiny: Tiny { arch: "deepseek2", n_embd: 180, n_head: 18, n_head_kv: 1, head_dim: 104,
        n_rot: 24, latent: [80, 0, 40, 28], yarn: 4.0, experts: [24, 3, 48, 96], leading_dense: 1, groups: [6, 2], ..TINY } },
    Case { name: "deepseek2-Q4_K_M", prompt: 100, tiny: Tiny { arch: "deepseek2", mix: Mix::Q4_K_M, n_embd: 256, n_head: 20, n_head_kv: 1,
        n_layer: 3, head_dim: 288, n_rot: 32, latent: [256, 256, 64, 64], rope_base: 1e6, experts: [8, 2, 256, 256], leading_dense: 1,
        ..TINY } },
    Case { name: "mistral4-F32", prompt: 130, tiny: Tiny { arch: "mistral4", n_embd: 192, n_head: 6, n_head_kv: 1, head_dim: 80, n_rot: 32,
        latent: [48, 40, 32, 36], yarn: 16.0, experts: [10, 3, 56, 56], ..TINY } },
    Case { name: "mistral4-Q4_K_M", prompt: 100, tiny: Tiny { arch: "mistral4", mix: Mix::Q4_K_M, n_embd: 256, n_head_kv: 1, head_dim: 160,
        n_rot: 32, latent: [128, 256, 32, 64], yarn: 4.0, tied: true, experts: [8, 3, 256, 256], ..TINY } },
    // Granite has as many elements in all heads of Mamba-2 as in an embedding, or twice as many.
    Case { name: "granitehybrid-F32", prompt: 130, tiny: Tiny { arch: "granitehybrid", n_embd: 192, n_layer: 4, tied: true,
        uneven: &[[6, 0, 160], [6, 2, 160], [6, 0, 160], [6, 0, 160]], ..TINY } },
    Case { name: "granitehybrid-Q4_K_M", prompt: 100, tiny: Tiny { arch: "granitehybrid", mix: Mix::Q4_K_M, n_embd: 96, n_layer: 3,
        head_dim: 48, uneven: &[[2, 0, 512], [2, 0, 512], [2, 1, 512]], ..TINY } },
    Case { name: "granitehybrid-experts-F32", prompt: 60, tiny: Tiny { arch: "granitehybrid", n_embd: 192, n_layer: 3,
        experts: [40, 2, 48, 80], uneven: &[[3, 0, 48], [3, 1, 48], [3, 0, 48]], ..TINY } },
    Case { name: "granitehybrid-experts-Q8_0", prompt: 100, tiny: Tiny { arch: "granitehybrid", mix: Mix::Q8_0, n_embd: 192,
        n_layer: 3, tied: true, experts: [8, 2, 256, 96], uneven: &[[4, 0, 256], [4, 0, 256], [4, 2, 256]], ..TINY } },
    Case { name: "nemotron_h-F32", prompt: 150, tiny: Tiny { arch: "nemotron_h", n_embd: 160, n_layer: 6,
        uneven: &[[5, 0, 0], [5, 0, 224], [5, 0, 0], [5, 0, 224], [5, 1, 0], [5, 0, 0]], ..TINY } },
    Case { name: "nemotron_h-Q4_K_M", prompt: 100, tiny: Tiny { arch: "nemotron_h", mix: Mix::Q4_K_M, n_embd: 256, n_layer: 5, tied: true,
        uneven: &[[4, 0, 0], [4, 2, 0], [4, 0, 512], [4, 0, 0], [4, 0, 512]], ..TINY } },
    // Without groups and latent widths, then with them.
    Case { name: "nemotron_h_moe-F32", prompt: 60, tiny: Tiny { arch: "nemotron_h_moe", n_embd: 160, n_layer: 5, experts: [40, 2, 48, 112],
        uneven: &[[5, 0, 0], [5, 0, 48], [5, 1, 0], [5, 0, 48], [5, 0, 0]], ..TINY } },
    Case { name: "nemotron_h_moe-latent-F32", prompt: 100, tiny: Tiny { arch: "nemotron_h_moe", n_embd: 192, n_layer: 4,
        experts: [12, 4, 40, 80], groups: [4, 2], latent_experts: 72, uneven: &[[6, 0, 0], [6, 0, 40], [6, 2, 0], [6, 0, 40]], ..TINY } },
    Case { name: "nemotron_h_moe-Q4_K_M", prompt: 100, tiny: Tiny { arch: "nemotron_h_moe", mix: Mix::Q4_K_M, n_embd: 256, n_layer: 4,
        experts: [8, 3, 256, 96], latent_experts: 128, uneven: &[[4, 0, 0], [4, 0, 256], [4, 2, 0], [4, 0, 256]], ..TINY } },
];

impl Case {
    fn tokens(&self) -> Vec<u32> {
        tiny::prompt(self.name, self.prompt, self.tiny.n_vocab)
    }
    /// Positions compared with transformers.
    fn exact_at(&self) -> Vec<usize> {
        self.spaced(4)
    }
    /// Positions compared with llama.cpp.
    fn fast_at(&self) -> Vec<usize> {
        let recorded = WITH_LLAMA_CPP.contains(&self.tiny.arch) && self.tiny.experts[0] == 0;
        self.spaced(if recorded { 24 } else { 0 })
    }
    fn spaced(&self, n: usize) -> Vec<usize> {
        (0..n).map(|i| i * (self.prompt - 1) / (n - 1)).collect()
    }

    /// Golden logits: `[exact_at][n_vocab]` f32 of transformers, `[fast_at][n_vocab]` f16 of llama.cpp.
    fn golden(&self) -> (Vec<f32>, Vec<f32>) {
        let bytes = fs::read(Path::new(DATA).join(format!("{}.bin", self.name))).unwrap();
        let (exact, fast) = bytes.split_at(4 * self.exact_at().len() * self.tiny.n_vocab);
        assert_eq!(fast.len(), 2 * self.fast_at().len() * self.tiny.n_vocab);
        let exact = exact.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
        (exact, fast.chunks(2).map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32()).collect())
    }

    /// Logits of the whole prompt in one batch at these positions.
    fn run(&self, options: Options, at: &[usize]) -> Vec<f32> {
        let mut batch = tiny::entries(&self.tokens(), 0, 0);
        batch.iter_mut().enumerate().for_each(|(i, e)| e.output = Output::logits_if(at.contains(&i)));
        // A session no longer than the prompt: where divisors of frequencies go by the context, as transformers has it.
        let options = Options { n_ctx: self.prompt, ..options };
        tiny::decoder(&self.tiny.model(), options).forward(&batch).unwrap().to_vec()
    }
}

#[test]
fn the_models_are_those_of_the_golden_numbers() {
    let known = fs::read_to_string(Path::new(DATA).join("models.txt")).unwrap();
    let made: String = CASES.iter().map(|c| format!("{} {:016x}\n", c.name, tiny::fnv1a(&c.tiny.bytes()))).collect();
    assert_eq!(known, made, "other models than the golden numbers are for: run tests/golden/make.py");
}

#[test]
fn exact_logits_are_those_of_transformers() {
    for case in CASES {
        let (golden, _) = case.golden();
        let ours = case.run(Options::exact(), &case.exact_at());
        let rows = ours.chunks_exact(case.tiny.n_vocab).zip(golden.chunks_exact(case.tiny.n_vocab));
        for ((ours, golden), at) in rows.zip(case.exact_at()) {
            let distance = relative_l2(ours, golden);
            assert!(distance <= EXACT, "{} at {at}: relative L2 {distance:.2e}, at most {EXACT:.0e}", case.name);
        }
        let worst = |(a, b): (&[f32], &[f32])| relative_l2(a, b);
        let worst = ours.chunks(case.tiny.n_vocab).zip(golden.chunks(case.tiny.n_vocab)).map(worst).fold(0.0, f64::max);
        println!("{:14} relative L2 {worst:.2e}", case.name);
    }
}

#[test]
fn fast_logits_are_those_of_llama_cpp() {
    let (mut agree, mut positions) = (0, 0);
    for case in CASES.iter().filter(|case| !case.fast_at().is_empty()) {
        let (_, golden) = case.golden();
        let n = case.tiny.n_vocab;
        let ours = case.run(Options::default(), &case.fast_at());
        let rows = || ours.chunks_exact(n).zip(golden.chunks_exact(n));
        let kl = rows().map(|(ours, golden)| divergence(golden, ours)).sum::<f64>() / rows().count() as f64;
        let same = rows().filter(|(ours, golden)| best(ours) == best(golden)).count();
        println!("{:14} mean KL {kl:.2e}, same best token at {same} of {} positions", case.name, rows().count());
        assert!(kl <= KL, "{}: mean KL {kl:.2e}, at most {KL:.0e}", case.name);
        (agree, positions) = (agree + same, positions + rows().count());
    }
    println!("same best token at {agree} of {positions} positions");
    assert!(agree as f64 >= TOP_1 * positions as f64, "same best token at {agree} of {positions} positions");
}

/// Of models without logits of llama.cpp.
#[test]
fn fast_logits_are_near_those_of_transformers() {
    for case in CASES.iter().filter(|case| case.fast_at().is_empty()) {
        let (golden, _) = case.golden();
        let n = case.tiny.n_vocab;
        let ours = case.run(Options::default(), &case.exact_at());
        let rows = ours.chunks_exact(n).zip(golden.chunks_exact(n));
        let kl = rows.map(|(ours, golden)| divergence(golden, ours)).sum::<f64>() / case.exact_at().len() as f64;
        println!("{:14} mean KL {kl:.2e}", case.name);
        assert!(kl <= ROUNDED_KL, "{}: mean KL {kl:.2e}, at most {ROUNDED_KL:.0e}", case.name);
    }
}

#[test]
#[ignore = "writes the models that make.py runs with llama.cpp, into the folder QRUN_GOLDEN_DIR"]
fn writes_the_models_for_make_py() {
    let dir = env::var_os("QRUN_GOLDEN_DIR").expect("QRUN_GOLDEN_DIR names a folder");
    let dir = Path::new(&dir);
    let list = |numbers: &[usize]| numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(" ");
    for case in CASES {
        let file = case.tiny.bytes();
        let tokens: Vec<usize> = case.tokens().iter().map(|&t| t as usize).collect();
        let lines = [list(&tokens), list(&case.exact_at()), list(&case.fast_at())].join("\n");
        fs::write(dir.join(format!("{}.txt", case.name)), format!("{:016x}\n{lines}\n", tiny::fnv1a(&file))).unwrap();
        fs::write(dir.join(format!("{}.gguf", case.name)), file).unwrap();
        // llama.cpp has no fused gate-up for these architectures: it gets the same weights apart.
        if case.tiny.fused_gate_up {
            let apart = Tiny { fused_gate_up: false, ..case.tiny };
            fs::write(dir.join(format!("{}.apart.gguf", case.name)), apart.bytes()).unwrap();
        }
    }
}

pub fn relative_l2(a: &[f32], b: &[f32]) -> f64 {
    let square = |x: f64| x * x;
    let distance: f64 = a.iter().zip(b).map(|(a, b)| square(f64::from(*a) - f64::from(*b))).sum();
    let length: f64 = b.iter().map(|b| square(f64::from(*b))).sum();
    (distance / length).sqrt()
}

/// KL(p‖q) of the distributions with these logits.
pub fn divergence(p: &[f32], q: &[f32]) -> f64 {
    let log_sum = |x: &[f32]| {
        let max = f64::from(x.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        max + x.iter().map(|x| (f64::from(*x) - max).exp()).sum::<f64>().ln()
    };
    let (log_p, log_q) = (log_sum(p), log_sum(q));
    let term = |(p, q): (&f32, &f32)| {
        let (p, q) = (f64::from(*p) - log_p, f64::from(*q) - log_q);
        p.exp() * (p - q)
    };
    p.iter().zip(q).map(term).sum()
}

fn best(logits: &[f32]) -> usize {
    (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap()
}

#[test]
fn every_architecture_has_golden_logits() {
    let all = qrun_models::arch::ARCHITECTURES.iter();
    for arch in all.filter(|arch| arch.mask == Mask::Causal) {
        assert!(CASES.iter().any(|case| case.tiny.arch == arch.name), "{} has no case", arch.name);
    }
}
