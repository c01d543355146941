//! The table of models: published shapes, and tiny ones for tests.

mod encoders;
mod latent;
mod mamba;

use super::{Biases, Experts, Family, Kinds, Recurrent, Rope, Shape, Vocab};

/// Names of all shapes, in the order of the table.
pub fn names() -> impl Iterator<Item = &'static str> {
    MODELS.iter().map(|m| m.name)
}

/// The row with this name, in any case; `-it` and `-instruct` at the end mean the same model.
pub fn find(name: &str) -> Option<&'static Shape> {
    let name = name.to_ascii_lowercase();
    let name = name.strip_suffix("-it").or(name.strip_suffix("-instruct")).unwrap_or(&name);
    MODELS.iter().find(|m| m.name == name)
}

const ROPE: Rope = Rope { n_rot: None, base: 10_000.0, base_swa: None, linear: None, llama3: None, yarn: None };

const GEMMA_3_1B: Shape = Shape {
    name: "gemma-3-1b",
    arch: "gemma3",
    n_layer: 26,
    n_embd: 1152,
    n_ff: 6912,
    n_head: 4,
    n_head_kv: 1,
    head_dim: 256,
    n_ctx: 32_768,
    window: Some(512),
    kinds: None,
    rope: Rope { base: 1e6, base_swa: Some(10_000.0), ..ROPE },
    norm_eps: 1e-6,
    vocab: Vocab { family: Family::Gemma, size: 262_144 },
    tied: true,
    biases: Biases::None,
    experts: None,
    latent: None,
    recurrent: None,
    draft_head: false,
    fused_qkv: false,
    fused_gate_up: false,
    attention_softcap: None,
    logit_softcap: None,
    pooling: None,
};

const LLAMA_3_2_1B: Shape = Shape {
    name: "llama-3.2-1b",
    arch: "llama",
    n_layer: 16,
    n_embd: 2048,
    n_ff: 8192,
    n_head: 32,
    n_head_kv: 8,
    head_dim: 64,
    n_ctx: 131_072,
    window: None,
    rope: Rope { base: 500_000.0, llama3: Some(32.0), ..ROPE },
    norm_eps: 1e-5,
    vocab: Vocab { family: Family::Llama3, size: 128_256 },
    ..GEMMA_3_1B
};

const QWEN3_0_6B: Shape = Shape {
    name: "qwen3-0.6b",
    arch: "qwen3",
    n_layer: 28,
    n_embd: 1024,
    n_ff: 3072,
    n_head: 16,
    n_head_kv: 8,
    head_dim: 128,
    n_ctx: 40_960,
    window: None,
    rope: Rope { base: 1e6, ..ROPE },
    norm_eps: 1e-6,
    vocab: Vocab { family: Family::Qwen, size: 151_936 },
    ..GEMMA_3_1B
};

/// Enough layers for a global one in the pattern of six, and a second period.
const TINY_GEMMA3: Shape = Shape {
    name: "tiny-gemma3",
    n_layer: 7,
    n_embd: 256,
    n_ff: 512,
    n_head: 4,
    n_head_kv: 1,
    head_dim: 64,
    n_ctx: 8192,
    window: Some(32),
    vocab: Vocab { family: Family::Gemma, size: 1024 },
    ..GEMMA_3_1B
};

const TINY_LLAMA: Shape = Shape {
    name: "tiny-llama",
    n_layer: 4,
    n_embd: 256,
    n_ff: 512,
    n_head: 8,
    n_head_kv: 2,
    head_dim: 32,
    n_ctx: 8192,
    vocab: Vocab { family: Family::Llama3, size: 1024 },
    ..LLAMA_3_2_1B
};

const TINY_QWEN3: Shape = Shape {
    name: "tiny-qwen3",
    n_layer: 4,
    n_embd: 256,
    n_ff: 512,
    n_head: 4,
    n_head_kv: 2,
    head_dim: 64,
    n_ctx: 8192,
    vocab: Vocab { family: Family::Qwen, size: 1024 },
    ..QWEN3_0_6B
};

/// Tiny models of architectures that differ from a relative by their row alone.
const fn tiny(name: &'static str, arch: &'static str) -> Shape {
    Shape { name, arch, rope: ROPE, ..TINY_LLAMA }
}

const TINY_EXPERTS: Experts =
    Experts { n_expert: 8, n_used: 2, n_ff: 256, n_ff_shared: 0, shared_gate: false, leading_dense: 0 };

const TINY_QWEN3MOE: Shape =
    Shape { name: "tiny-qwen3moe", arch: "qwen3moe", experts: Some(TINY_EXPERTS), ..TINY_QWEN3 };

const GPT_OSS_20B: Shape = Shape {
    name: "gpt-oss-20b",
    arch: "gpt-oss",
    n_layer: 24,
    n_embd: 2880,
    n_ff: 2880,
    n_head: 64,
    n_head_kv: 8,
    head_dim: 64,
    n_ctx: 131_072,
    window: Some(128),
    rope: Rope { base: 150_000.0, yarn: Some((32.0, 4096)), ..ROPE },
    norm_eps: 1e-5,
    vocab: Vocab { family: Family::Llama3, size: 201_088 },
    tied: false,
    biases: Biases::All,
    experts: Some(Experts {
        n_expert: 32,
        n_used: 4,
        n_ff: 2880,
        n_ff_shared: 0,
        shared_gate: false,
        leading_dense: 0,
    }),
    ..GEMMA_3_1B
};

const QWEN3_5_9B: Shape = Shape {
    name: "qwen3.5-9b",
    arch: "qwen35",
    n_layer: 32,
    n_embd: 4096,
    n_ff: 12_288,
    n_head: 16,
    n_head_kv: 4,
    head_dim: 256,
    n_ctx: 262_144,
    rope: Rope { n_rot: Some(64), base: 1e7, ..ROPE },
    vocab: Vocab { family: Family::Qwen, size: 248_320 },
    recurrent: Some(Recurrent::DeltaNet { n_head_k: 16, n_head_v: 32, dim: 128 }),
    tied: false,
    ..QWEN3_0_6B
};

const QWEN3_6_35B_A3B: Shape = Shape {
    name: "qwen3.6-35b-a3b",
    arch: "qwen35moe",
    n_layer: 40,
    n_embd: 2048,
    n_ff: 512,
    n_head: 16,
    n_head_kv: 2,
    experts: Some(Experts {
        n_expert: 256,
        n_used: 8,
        n_ff: 512,
        n_ff_shared: 512,
        shared_gate: true,
        leading_dense: 0,
    }),
    ..QWEN3_5_9B
};

const TINY_QWEN35: Shape = Shape {
    name: "tiny-qwen35",
    arch: "qwen35",
    rope: Rope { n_rot: Some(16), ..ROPE },
    recurrent: Some(Recurrent::DeltaNet { n_head_k: 2, n_head_v: 4, dim: 64 }),
    ..TINY_QWEN3
};

const TINY_LFM2: Shape = Shape {
    name: "tiny-lfm2",
    arch: "lfm2",
    recurrent: Some(Recurrent::ShortConv { attention: &[1, 3] }),
    ..TINY_QWEN3
};

const GEMMA_4_E4B: Shape = Shape {
    name: "gemma-4-e4b",
    arch: "gemma4",
    n_layer: 42,
    n_embd: 2560,
    n_ff: 10_240,
    n_head: 8,
    n_head_kv: 2,
    n_ctx: 131_072,
    kinds: Some(Kinds {
        period: 6,
        head_dim_global: 512,
        n_rot_global: 128,
        n_head_kv_global: 2,
        keys_as_values: false,
        n_shared_kv: 18,
        n_ff_shared_kv: 10_240,
        n_embd_per_layer: 256,
    }),
    logit_softcap: Some(30.0),
    ..GEMMA_3_1B
};

const KINDS_31B: Kinds = Kinds {
    period: 6,
    head_dim_global: 512,
    n_rot_global: 128,
    n_head_kv_global: 4,
    keys_as_values: true,
    n_shared_kv: 0,
    n_ff_shared_kv: 0,
    n_embd_per_layer: 0,
};

const GEMMA_4_31B: Shape = Shape {
    name: "gemma-4-31b",
    n_layer: 60,
    n_embd: 5376,
    n_ff: 21_504,
    n_head: 32,
    n_head_kv: 16,
    n_ctx: 262_144,
    window: Some(1024),
    kinds: Some(KINDS_31B),
    ..GEMMA_4_E4B
};

/// A layer of each kind that shares, and that is shared.
const TINY_GEMMA4: Shape = Shape {
    name: "tiny-gemma4",
    n_layer: 6,
    n_embd: 256,
    n_ff: 512,
    n_head: 4,
    n_head_kv: 2,
    head_dim: 64,
    n_ctx: 8192,
    window: Some(32),
    kinds: Some(Kinds {
        period: 2,
        head_dim_global: 128,
        n_rot_global: 32,
        n_head_kv_global: 1,
        keys_as_values: true,
        n_shared_kv: 2,
        n_ff_shared_kv: 1024,
        n_embd_per_layer: 64,
    }),
    vocab: Vocab { family: Family::Gemma, size: 1024 },
    ..GEMMA_4_E4B
};

/// Every model that `qrun synth` makes.
pub static MODELS: &[Shape] = &[
    GEMMA_3_1B,
    Shape {
        name: "gemma-3-4b",
        n_layer: 34,
        n_embd: 2560,
        n_ff: 10_240,
        n_head: 8,
        n_head_kv: 4,
        n_ctx: 131_072,
        window: Some(1024),
        rope: Rope { linear: Some(8.0), ..GEMMA_3_1B.rope },
        ..GEMMA_3_1B
    },
    LLAMA_3_2_1B,
    Shape { name: "llama-3.2-3b", n_layer: 28, n_embd: 3072, n_head: 24, head_dim: 128, ..LLAMA_3_2_1B },
    Shape {
        name: "llama-3.1-8b",
        n_layer: 32,
        n_embd: 4096,
        n_ff: 14_336,
        head_dim: 128,
        rope: Rope { llama3: Some(8.0), ..LLAMA_3_2_1B.rope },
        tied: false,
        ..LLAMA_3_2_1B
    },
    QWEN3_0_6B,
    Shape { name: "qwen3-1.7b", n_embd: 2048, n_ff: 6144, ..QWEN3_0_6B },
    Shape { name: "qwen3-8b", n_layer: 36, n_embd: 4096, n_ff: 12_288, n_head: 32, tied: false, ..QWEN3_0_6B },
    TINY_GEMMA3,
    Shape {
        name: "tiny-gemma2",
        arch: "gemma2",
        n_layer: 4,
        n_head_kv: 2,
        rope: ROPE,
        attention_softcap: Some(50.0),
        logit_softcap: Some(30.0),
        ..TINY_GEMMA3
    },
    TINY_LLAMA,
    Shape {
        name: "tiny-llama2",
        n_head_kv: 8,
        rope: ROPE,
        vocab: Vocab { family: Family::Llama2, size: 1024 },
        tied: false,
        ..TINY_LLAMA
    },
    Shape { name: "tiny-smollm3", arch: "smollm3", rope: ROPE, ..TINY_LLAMA },
    Shape {
        name: "tiny-qwen2",
        arch: "qwen2",
        n_embd: 448,
        n_head: 7,
        n_head_kv: 1,
        biases: Biases::Qkv,
        ..TINY_QWEN3
    },
    TINY_QWEN3,
    Shape {
        name: "qwen3-30b-a3b",
        arch: "qwen3moe",
        n_layer: 48,
        n_embd: 2048,
        n_ff: 6144,
        n_head: 32,
        n_head_kv: 4,
        experts: Some(Experts {
            n_expert: 128,
            n_used: 8,
            n_ff: 768,
            n_ff_shared: 0,
            shared_gate: false,
            leading_dense: 0,
        }),
        tied: false,
        ..QWEN3_0_6B
    },
    GPT_OSS_20B,
    Shape { name: "gpt-oss-20b-8-layers", n_layer: 8, ..GPT_OSS_20B },
    Shape {
        name: "tiny-qwen2moe",
        arch: "qwen2moe",
        tied: false,
        biases: Biases::Qkv,
        experts: Some(Experts { n_ff_shared: 512, shared_gate: true, ..TINY_EXPERTS }),
        ..TINY_QWEN3
    },
    TINY_QWEN3MOE,
    Shape { name: "tiny-qwen3vl", arch: "qwen3vl", ..TINY_QWEN3 },
    Shape { name: "tiny-qwen3vlmoe", arch: "qwen3vlmoe", ..TINY_QWEN3MOE },
    Shape {
        name: "tiny-gpt-oss",
        n_layer: 4,
        n_embd: 256,
        n_ff: 256,
        n_head: 4,
        n_head_kv: 2,
        n_ctx: 8192,
        window: Some(32),
        rope: Rope { yarn: Some((8.0, 1024)), ..ROPE },
        vocab: Vocab { family: Family::Llama3, size: 1024 },
        experts: Some(TINY_EXPERTS),
        ..GPT_OSS_20B
    },
    Shape { rope: Rope { yarn: Some((8.0, 1024)), ..ROPE }, ..tiny("tiny-mistral3", "mistral3") },
    Shape { fused_qkv: true, fused_gate_up: true, ..tiny("tiny-phi3", "phi3") },
    Shape { fused_gate_up: true, ..tiny("tiny-glm4", "glm4") },
    Shape {
        experts: Some(Experts { n_ff_shared: 256, leading_dense: 1, ..TINY_EXPERTS }),
        ..tiny("tiny-glm4moe", "glm4moe")
    },
    Shape { biases: Biases::Qkv, ..tiny("tiny-seed_oss", "seed_oss") },
    Shape { window: Some(32), tied: false, ..tiny("tiny-olmo2", "olmo2") },
    Shape { window: Some(32), ..tiny("tiny-exaone4", "exaone4") },
    Shape { window: Some(32), ..tiny("tiny-cohere2", "cohere2") },
    tiny("tiny-granite", "granite"),
    Shape { experts: Some(TINY_EXPERTS), n_ff: 256, ..tiny("tiny-granitemoe", "granitemoe") },
    Shape { window: Some(32), tied: false, ..tiny("tiny-muse-glimmer", "muse-glimmer") },
    QWEN3_5_9B,
    Shape { name: "qwen3.5-9b-mtp", draft_head: true, ..QWEN3_5_9B },
    QWEN3_6_35B_A3B,
    Shape { name: "qwen3.6-35b-a3b-8-layers", n_layer: 8, ..QWEN3_6_35B_A3B },
    TINY_QWEN35,
    Shape { name: "tiny-qwen35-mtp", draft_head: true, ..TINY_QWEN35 },
    Shape {
        name: "tiny-qwen35moe",
        arch: "qwen35moe",
        experts: Some(Experts { n_ff_shared: 256, shared_gate: true, ..TINY_EXPERTS }),
        ..TINY_QWEN35
    },
    Shape {
        name: "tiny-qwen35moe-mtp",
        arch: "qwen35moe",
        experts: Some(Experts { n_ff_shared: 256, shared_gate: true, ..TINY_EXPERTS }),
        draft_head: true,
        ..TINY_QWEN35
    },
    Shape {
        name: "tiny-qwen3next",
        arch: "qwen3next",
        experts: Some(Experts { n_ff_shared: 256, shared_gate: true, ..TINY_EXPERTS }),
        ..TINY_QWEN35
    },
    GEMMA_4_E4B,
    GEMMA_4_31B,
    Shape {
        name: "gemma-4-26b-a4b",
        n_layer: 30,
        n_embd: 2816,
        n_ff: 2112,
        n_head: 16,
        n_head_kv: 8,
        kinds: Some(Kinds { n_head_kv_global: 2, ..KINDS_31B }),
        experts: Some(Experts {
            n_expert: 128,
            n_used: 8,
            n_ff: 704,
            n_ff_shared: 0,
            shared_gate: false,
            leading_dense: 0,
        }),
        ..GEMMA_4_31B
    },
    TINY_GEMMA4,
    Shape {
        name: "tiny-gemma4-experts",
        n_layer: 4,
        kinds: Some(Kinds { period: 2, head_dim_global: 128, n_rot_global: 32, n_head_kv_global: 1, ..KINDS_31B }),
        experts: Some(TINY_EXPERTS),
        ..TINY_GEMMA4
    },
    TINY_LFM2,
    Shape { name: "tiny-lfm2moe", arch: "lfm2moe", experts: Some(TINY_EXPERTS), ..TINY_LFM2 },
    latent::GLM_4_7_FLASH,
    latent::TINY_DEEPSEEK2,
    latent::TINY_MISTRAL4,
    mamba::GRANITE_4_H_MICRO,
    mamba::GRANITE_4_H_TINY,
    mamba::TINY_GRANITEHYBRID,
    mamba::NEMOTRON_NANO_9B,
    mamba::NEMOTRON_3_NANO,
    mamba::TINY_NEMOTRON_H,
    mamba::TINY_NEMOTRON_H_MOE,
    encoders::TINY_BERT,
    encoders::TINY_NOMIC_BERT,
    encoders::TINY_GEMMA_EMBEDDING,
    encoders::MODERNBERT_BASE,
    encoders::TINY_MODERN_BERT,
];
