//! What llama-bench calls a model: architecture, size and file type, `gemma3 1B Q4_K - Medium`.

use qrun_models::Config;
use qrun_quant::Gguf;

/// Sizes as llama.cpp tells them: architecture, number of layers, width where it matters, and the name.
#[rustfmt::skip]
const SIZES: &[(&str, usize, Option<usize>, &str)] = &[
    ("gemma2", 26, None, "2B"), ("gemma2", 42, None, "9B"), ("gemma2", 46, None, "27B"),
    ("gemma3", 18, None, "270M"), ("gemma3", 26, None, "1B"), ("gemma3", 32, None, "8B"), ("gemma3", 34, None, "4B"),
    ("gemma3", 48, None, "12B"), ("gemma3", 62, None, "27B"),
    ("llama", 16, None, "1B"), ("llama", 22, None, "1B"), ("llama", 26, None, "3B"), ("llama", 28, None, "3B"),
    ("llama", 30, None, "256M"), ("llama", 36, None, "8B"), ("llama", 40, None, "13B"), ("llama", 48, None, "34B"),
    ("llama", 60, None, "30B"),
    ("qwen2", 24, Some(1024), "0.5B"), ("qwen2", 24, None, "1B"), ("qwen2", 28, Some(1536), "1.5B"),
    ("qwen2", 28, None, "7B"), ("qwen2", 32, None, "7B"), ("qwen2", 36, None, "3B"), ("qwen2", 48, None, "14B"),
    ("qwen2", 64, None, "32B"), ("qwen2", 80, None, "70B"),
    ("qwen3", 28, Some(1024), "0.6B"), ("qwen3", 28, None, "1.7B"), ("qwen3", 36, Some(2560), "4B"),
    ("qwen3", 36, None, "8B"), ("qwen3", 40, None, "14B"), ("qwen3", 64, None, "32B"),
];

/// Values of `general.file_type` of formats that qrun reads, and their names there.
#[rustfmt::skip]
const FILE_TYPES: &[(u64, &str)] = &[
    (0, "all F32"), (1, "F16"), (2, "Q4_0"), (3, "Q4_1"), (7, "Q8_0"), (8, "Q5_0"), (9, "Q5_1"), (10, "Q2_K - Medium"),
    (11, "Q3_K - Small"), (12, "Q3_K - Medium"), (13, "Q3_K - Large"), (14, "Q4_K - Small"), (15, "Q4_K - Medium"),
    (16, "Q5_K - Small"), (17, "Q5_K - Medium"), (18, "Q6_K"), (19, "IQ2_XXS - 2.0625 bpw"), (20, "IQ2_XS - 2.3125 bpw"),
    (21, "Q2_K - Small"), (22, "IQ3_XS - 3.3 bpw"), (23, "IQ3_XXS - 3.0625 bpw"), (24, "IQ1_S - 1.5625 bpw"),
    (25, "IQ4_NL - 4.5 bpw"), (26, "IQ3_S - 3.4375 bpw"), (27, "IQ3_S mix - 3.66 bpw"), (28, "IQ2_S - 2.5 bpw"),
    (29, "IQ2_M - 2.7 bpw"), (30, "IQ4_XS - 4.25 bpw"), (31, "IQ1_M - 1.75 bpw"), (32, "BF16"),
    (36, "TQ1_0 - 1.69 bpw ternary"), (37, "TQ2_0 - 2.06 bpw ternary"), (38, "MXFP4 MoE"), (39, "NVFP4"), (40, "Q1_0"),
    (41, "Q2_0"),
];

/// The three together.
pub fn name(gguf: &Gguf, c: &Config) -> String {
    let number = gguf.get("general.file_type").and_then(|v| v.as_u64());
    let file_type = FILE_TYPES.iter().find(|(n, _)| Some(*n) == number).map_or("unknown, may not work", |row| row.1);
    let heads = (c.widest(|l| l.n_head), c.widest(|l| l.n_head_kv));
    let size = size((c.arch.name, c.layers.len(), c.n_embd), heads, c.n_vocab);
    format!("{} {size} {file_type}", c.arch.name)
}

/// By architecture, layers and width; where those do not tell, by heads (of queries, of keys) or the vocabulary.
fn size((arch, n_layer, n_embd): (&str, usize, usize), heads: (usize, usize), n_vocab: usize) -> &'static str {
    match (arch, n_layer) {
        ("llama", 32) if n_vocab == 49152 => "3B",
        ("llama", 32) if n_vocab < 40000 => "7B",
        ("llama", 32) => "8B",
        ("llama", 80) if heads.0 == heads.1 => "65B",
        ("llama", 80) => "70B",
        ("qwen2", 40) if heads.0 == 20 => "4B",
        ("qwen2", 40) => "13B",
        _ => {
            let fits = |row: &&(&str, usize, Option<usize>, &str)| {
                (row.0, row.1) == (arch, n_layer) && row.2.is_none_or(|width| width == n_embd)
            };
            SIZES.iter().find(fits).map_or("?B", |row| row.3)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_by_what_llama_cpp_looks_at() {
        for (shape, heads, n_vocab, expected) in [
            (("gemma3", 26, 1152), (4, 1), 262_144, "1B"),
            (("llama", 16, 2048), (32, 8), 128_256, "1B"),
            (("llama", 32, 4096), (32, 32), 32_000, "7B"),
            (("llama", 32, 4096), (32, 8), 128_256, "8B"),
            (("llama", 80, 8192), (64, 8), 128_256, "70B"),
            (("qwen2", 24, 896), (14, 2), 151_936, "1B"),
            (("qwen3", 28, 1024), (16, 8), 151_936, "0.6B"),
            (("qwen3", 28, 2048), (16, 8), 151_936, "1.7B"),
            (("gemma3", 7, 256), (4, 1), 500, "?B"),
        ] {
            assert_eq!(size(shape, heads, n_vocab), expected, "{shape:?}");
        }
    }
}
