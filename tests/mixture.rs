//! Which format each tensor gets, beside what llama.cpp and the published files have.

use std::collections::BTreeMap;

use qrun::tools::quantize::{FileType, Mixture};
use qrun_quant::GgmlType::{self, *};

/// The matrices of a model, as far as mixtures look at them.
struct Shape {
    layers: u64,
    width: u64,
    ffn: u64,
    heads: u64,
    kv_heads: u64,
    head: u64,
    vocab: u64,
    tied: bool,
}

const GEMMA_3_1B: Shape =
    Shape { layers: 26, width: 1152, ffn: 6912, heads: 4, kv_heads: 1, head: 256, vocab: 262_144, tied: true };
const GEMMA_3_4B: Shape =
    Shape { layers: 34, width: 2560, ffn: 10240, heads: 8, kv_heads: 4, head: 256, vocab: 262_144, tied: true };
const LLAMA_3_2_1B: Shape =
    Shape { layers: 16, width: 2048, ffn: 8192, heads: 32, kv_heads: 8, head: 64, vocab: 128_256, tied: true };
const LLAMA_3_1_70B: Shape =
    Shape { layers: 80, width: 8192, ffn: 28672, heads: 64, kv_heads: 8, head: 128, vocab: 128_256, tied: false };
const QWEN_3_1_7B: Shape =
    Shape { layers: 28, width: 2048, ffn: 6144, heads: 16, kv_heads: 8, head: 128, vocab: 151_936, tied: true };
/// As in llama.cpp's snapshot, which has an output matrix of its own.
const QWEN_3_0_6B: Shape =
    Shape { layers: 28, width: 1024, ffn: 3072, heads: 16, kv_heads: 8, head: 128, vocab: 151_936, tied: false };

impl Shape {
    fn tensors(&self) -> Vec<(String, [u64; 2])> {
        let mut all = vec![("token_embd.weight".to_owned(), [self.width, self.vocab])];
        if !self.tied {
            all.push(("output.weight".to_owned(), [self.width, self.vocab]));
        }
        let (q, kv) = (self.heads * self.head, self.kv_heads * self.head);
        for layer in 0..self.layers {
            for (part, shape) in [
                ("attn_q", [self.width, q]),
                ("attn_k", [self.width, kv]),
                ("attn_v", [self.width, kv]),
                ("attn_output", [q, self.width]),
                ("ffn_gate", [self.width, self.ffn]),
                ("ffn_up", [self.width, self.ffn]),
                ("ffn_down", [self.ffn, self.width]),
            ] {
                all.push((format!("blk.{layer}.{part}.weight"), shape));
            }
        }
        all
    }

    fn types(&self, ty: FileType) -> BTreeMap<String, (GgmlType, u64)> {
        let mut mixture = Mixture::new(ty, self.layers as usize, self.tied);
        if self.layers == 80 {
            mixture = mixture.with_shared_values();
        }
        let row = |(name, shape): (String, [u64; 2])| {
            let ty = mixture.choose(&name, &shape);
            let bytes = ty.bytes_of(shape[0] as usize) as u64 * shape[1];
            (name, (ty, bytes))
        };
        self.tensors().into_iter().map(row).collect()
    }
}

/// Layers with more bits, from llama.cpp's rule; those of 28, 34 and 80 layers as in its snapshots.
fn more_bits(n_layer: u64) -> Vec<u64> {
    match n_layer {
        16 => vec![0, 1, 4, 7, 10, 13, 14, 15],
        26 => vec![0, 1, 2, 5, 8, 11, 14, 17, 20, 22, 23, 24, 25],
        28 => vec![0, 1, 2, 5, 8, 11, 14, 17, 20, 23, 24, 25, 26, 27],
        34 => vec![0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 29, 30, 31, 32, 33],
        80 => (0..10).chain((12..70).step_by(3)).chain(70..80).collect(),
        n => panic!("no list for {n} layers"),
    }
}

#[test]
fn gemma_3_1b_has_the_published_mix() {
    let types = GEMMA_3_1B.types(FileType::Q4_K_M);
    let total: u64 = types.values().map(|t| t.1).sum();
    assert_eq!(total / 1_000_000, 799 - 1, "{total} bytes"); // 798.9 of matrices, 799 with the norms
    for (ty, percent) in [(Q8_0, 41), (Q5_0, 39), (Q6_K, 11), (Q4_K, 9)] {
        let bytes: u64 = types.values().filter(|t| t.0 == ty).map(|t| t.1).sum();
        assert_eq!((bytes * 100 + total / 2) / total, percent, "{ty}: {bytes} of {total} bytes");
    }
}

/// All types of a model where rows are multiples of 256: the default but for the listed tensors.
#[test]
fn more_bits_where_llama_cpp_gives_them() {
    for shape in [LLAMA_3_2_1B, QWEN_3_1_7B, QWEN_3_0_6B, GEMMA_3_4B, LLAMA_3_1_70B] {
        for (file_type, default) in [(FileType::Q4_K_M, Q4_K), (FileType::Q5_K_M, Q5_K)] {
            let more = more_bits(shape.layers);
            let values = if shape.layers == 80 { Q5_K } else { default };
            for (name, (ty, _)) in shape.types(file_type) {
                let mut parts = name.split('.');
                let (first, layer) = (parts.next().unwrap(), parts.next().unwrap().parse().unwrap_or(0));
                let expected = match (first, parts.next().unwrap_or("")) {
                    ("output", _) => Q6_K,
                    ("token_embd", _) => {
                        if shape.tied {
                            Q6_K
                        } else {
                            default
                        }
                    }
                    (_, "attn_v" | "ffn_down") if more.contains(&layer) => Q6_K,
                    (_, "attn_v") => values,
                    _ => default,
                };
                assert_eq!(ty, expected, "{file_type} {name} of {} layers", shape.layers);
            }
        }
    }
}

#[test]
fn small_mixtures() {
    let count = |shape: &Shape, file_type, ty| shape.types(file_type).values().filter(|t| t.0 == ty).count();
    // From the snapshots of qwen3-0.6b and llama-3.1-70b.
    assert_eq!(count(&QWEN_3_0_6B, FileType::Q4_K_S, Q5_K), 3 + 4);
    assert_eq!(count(&LLAMA_3_1_70B, FileType::Q4_K_S, Q5_K), 10 + 80);
    for ty in [FileType::Q4_0, FileType::Q4_1, FileType::Q5_0, FileType::Q5_1, FileType::Q5_K_S] {
        assert_eq!(count(&QWEN_3_0_6B, ty, Q6_K), 1, "{ty}");
        assert_eq!(count(&QWEN_3_0_6B, ty, ty.default_format()), 28 * 7 + 1, "{ty}");
    }
    for (ty, embedding) in
        [(FileType::TQ1_0, Q4_K), (FileType::TQ2_0, Q4_K), (FileType::Q1_0, Q1_0), (FileType::Q2_0, Q2_0)]
    {
        let own = 28 * 7 + usize::from(embedding == ty.default_format());
        assert_eq!(count(&QWEN_3_0_6B, ty, ty.default_format()), own, "{ty}");
        assert_eq!(QWEN_3_0_6B.types(ty)["token_embd.weight"].0, embedding, "{ty}");
        assert_eq!(QWEN_3_0_6B.types(ty)["output.weight"].0, Q6_K, "{ty}");
    }
    for ty in [FileType::Q8_0, FileType::Q6_K, FileType::F16, FileType::BF16, FileType::F32] {
        assert_eq!(count(&QWEN_3_0_6B, ty, ty.default_format()), 28 * 7 + 2, "{ty}");
    }
}

#[test]
fn fallbacks_and_what_stays() {
    let of = |ty, name: &str, shape: &[u64]| Mixture::new(ty, 26, false).choose(name, shape);
    for (file_type, cols, expected) in [
        (FileType::Q4_K_M, 1152, Q5_0),
        (FileType::Q5_K_M, 1152, Q5_1),
        (FileType::Q6_K, 1152, Q8_0),
        (FileType::Q4_K_M, 1000, F16),
        (FileType::Q8_0, 1000, F16),
        (FileType::Q4_0, 48, F16),
        (FileType::TQ1_0, 1152, Q4_0),
        (FileType::TQ2_0, 288, Q4_0),
        (FileType::Q1_0, 1152, Q1_0),
        (FileType::Q1_0, 1184, Q4_0),
        (FileType::Q2_0, 1184, Q4_0),
        (FileType::Q2_0, 1000, F16),
        (FileType::BF16, 1000, BF16),
        (FileType::Q4_K_M, 256, Q4_K),
    ] {
        assert_eq!(of(file_type, "blk.3.attn_q.weight", &[cols, 64]), expected, "{file_type}, rows of {cols}");
    }
    assert_eq!(of(FileType::Q4_K_M, "output.weight", &[1152, 64]), Q8_0);
    assert_eq!(of(FileType::Q4_0, "output.weight", &[1152, 64]), Q8_0);
    assert_eq!(of(FileType::Q4_K_M, "blk.0.attn_qkv.weight", &[256, 64]), Q6_K);
    assert_eq!(of(FileType::Q4_K_M, "blk.3.attn_qkv.weight", &[256, 64]), Q4_K);
    for (name, shape) in [
        ("blk.0.attn_norm.weight", &[256][..]),
        ("blk.0.attn_q_norm.weight", &[256, 2]),
        ("blk.0.attn_q.bias", &[256, 2]),
        ("rope_freqs.weight", &[32]),
        ("blk.0.attn_q.weight", &[256, 1, 1]),
        ("blk.0.ffn_gate_inp.weight", &[256, 8]),
    ] {
        assert_eq!(of(FileType::Q4_K_M, name, shape), F32, "{name}");
    }
}

#[test]
fn file_types_by_name_and_number() {
    for ty in FileType::all() {
        assert_eq!(FileType::from_name(ty.name()), Some(ty));
        assert_eq!(FileType::from_name(&ty.name().to_lowercase()), Some(ty));
        assert_eq!(FileType::from_name(&ty.number().to_string()), Some(ty));
        assert_eq!(FileType::from_number(ty.number()), Some(ty));
    }
    let numbers = [
        ("F16", 1),
        ("Q4_0", 2),
        ("Q8_0", 7),
        ("Q4_K", 15),
        ("q5_k_m", 17),
        ("Q6_K", 18),
        ("BF16", 32),
        ("TQ1_0", 36),
        ("tq2_0", 37),
    ];
    for (name, number) in numbers {
        assert_eq!(FileType::from_name(name).map(FileType::number), Some(number), "{name}");
    }
    for name in ["", "Q9_9", "Q3_K_M", "999"] {
        assert_eq!(FileType::from_name(name), None, "{name:?}");
    }
}
