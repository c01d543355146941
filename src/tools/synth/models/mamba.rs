//! Models with Mamba-2.

use super::{Experts, Family, LLAMA_3_2_1B, ROPE, Recurrent, Shape, TINY_EXPERTS, Vocab, tiny};

/// Four layers of 40 have attention.
const fn granite_h(n_head: usize) -> Option<Recurrent> {
    Some(Recurrent::Mamba2 { pattern: "MMMMM*MMMM", n_group: 1, n_head, head_dim: 64, n_state: 128 })
}

pub const GRANITE_4_H_MICRO: Shape = Shape {
    name: "granite-4.0-h-micro",
    arch: "granitehybrid",
    n_layer: 40,
    n_embd: 2048,
    n_ff: 8192,
    n_head: 32,
    n_head_kv: 8,
    head_dim: 64,
    n_ctx: 131_072,
    rope: ROPE,
    norm_eps: 1e-5,
    vocab: Vocab { family: Family::Llama3, size: 100_352 },
    recurrent: granite_h(64),
    ..LLAMA_3_2_1B
};

pub const GRANITE_4_H_TINY: Shape = Shape {
    name: "granite-4.0-h-tiny",
    n_embd: 1536,
    n_ff: 512,
    n_head: 12,
    n_head_kv: 4,
    head_dim: 128,
    experts: Some(Experts {
        n_expert: 64,
        n_used: 6,
        n_ff: 512,
        n_ff_shared: 1024,
        shared_gate: false,
        leading_dense: 0,
    }),
    recurrent: granite_h(48),
    ..GRANITE_4_H_MICRO
};

pub const TINY_GRANITEHYBRID: Shape = Shape {
    recurrent: Some(Recurrent::Mamba2 { pattern: "MM*M", n_group: 1, n_head: 8, head_dim: 64, n_state: 64 }),
    ..tiny("tiny-granitehybrid", "granitehybrid")
};

pub const NEMOTRON_NANO_9B: Shape = Shape {
    name: "nemotron-nano-9b-v2",
    arch: "nemotron_h",
    n_layer: 56,
    n_embd: 4480,
    n_ff: 15_680,
    n_head: 40,
    n_head_kv: 8,
    head_dim: 128,
    n_ctx: 131_072,
    rope: ROPE,
    norm_eps: 1e-5,
    vocab: Vocab { family: Family::Llama3, size: 131_072 },
    tied: false,
    recurrent: Some(Recurrent::Mamba2 {
        pattern: "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-",
        n_group: 8,
        n_head: 128,
        head_dim: 80,
        n_state: 128,
    }),
    ..LLAMA_3_2_1B
};

pub const NEMOTRON_3_NANO: Shape = Shape {
    name: "nemotron-3-nano-30b-a3b",
    arch: "nemotron_h_moe",
    n_layer: 52,
    n_embd: 2688,
    n_ff: 1856,
    n_head: 32,
    n_head_kv: 2,
    n_ctx: 262_144,
    experts: Some(Experts {
        n_expert: 128,
        n_used: 6,
        n_ff: 1856,
        n_ff_shared: 3712,
        shared_gate: false,
        leading_dense: 0,
    }),
    recurrent: Some(Recurrent::Mamba2 {
        pattern: "M-M-M*-M-M-M*-M-M-M*-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M-",
        n_group: 8,
        n_head: 64,
        head_dim: 64,
        n_state: 128,
    }),
    ..NEMOTRON_NANO_9B
};

const TINY_NEMOTRON: Recurrent =
    Recurrent::Mamba2 { pattern: "M-*M", n_group: 2, n_head: 8, head_dim: 32, n_state: 64 };

pub const TINY_NEMOTRON_H: Shape = Shape { recurrent: Some(TINY_NEMOTRON), ..tiny("tiny-nemotron_h", "nemotron_h") };

pub const TINY_NEMOTRON_H_MOE: Shape = Shape {
    experts: Some(Experts { n_ff_shared: 512, ..TINY_EXPERTS }),
    recurrent: Some(TINY_NEMOTRON),
    ..tiny("tiny-nemotron_h_moe", "nemotron_h_moe")
};
