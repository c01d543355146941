//! Made-up models: they load, they have the shapes and the mix of the real ones, and they are the same
//! on every run.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use qrun::{
    embed::Embedder,
    engine::EngineOptions,
    text::tokenizer::{Encode, Tokenizer},
    tools::quantize::FileType,
    tools::synth::{self, Family, Shape, Vocab},
};
use qrun_models::{Config, Gives, Model, Options, arch::ARCHITECTURES, memory};
use qrun_quant::{Bytes, GgmlType, Gguf};

use crate::tiny::{decoder, logits, prompt};

fn tiny() -> impl Iterator<Item = &'static Shape> {
    synth::MODELS.iter().filter(|m| m.name.starts_with("tiny-"))
}

fn make(shape: &Shape, file_type: FileType) -> Gguf {
    let bytes = synth::shape_bytes(shape, file_type, 1).unwrap_or_else(|e| panic!("{}: {e}", shape.name));
    Gguf::from_bytes(shape.name, Bytes::new(bytes)).unwrap()
}

/// One file type of each kind: plain, one format, two mixtures.
const TYPES: [FileType; 4] = [FileType::BF16, FileType::Q8_0, FileType::Q4_K_M, FileType::Q5_K_M];

/// `qrun synth tiny-` and the name of any architecture.
#[test]
fn every_architecture_has_a_tiny_model() {
    for arch in ARCHITECTURES {
        let found = synth::find(&format!("tiny-{}", arch.name)).map(|shape| shape.arch);
        assert_eq!(
            found,
            Some(arch.name),
            "{} has no row in MODELS: neither these tests would see it, nor users",
            arch.name
        );
    }
}

#[test]
fn tiny_models_load_in_every_type_and_weigh_little() {
    for shape in tiny() {
        for file_type in TYPES {
            let gguf = make(shape, file_type);
            let model = Model::load(&gguf).unwrap_or_else(|e| panic!("{} {file_type}: {e}", shape.name));
            assert_eq!(model.config.n_vocab, shape.vocab.size);
            assert_eq!(model.config.layers.len(), shape.n_layer);
            if file_type == FileType::Q4_K_M {
                assert!(gguf.file_bytes() < 8_000_000, "{} has {} bytes", shape.name, gguf.file_bytes());
            }
        }
    }
}

#[test]
fn tiny_models_keep_their_numbers_in_bounds() {
    for shape in tiny() {
        let model = Model::load(&make(shape, FileType::Q8_0)).unwrap();
        // Long enough for a state that grows with every token to overflow.
        let tokens = prompt("bounds", 300, shape.vocab.size);
        // What takes texts whole has no logits.
        let gives = if model.config.is_bidirectional() { Gives::Hidden } else { Gives::Logits };
        let options = Options { n_ctx: 512, gives, ..Options::default() };
        let found = logits(&mut decoder(&Arc::new(model), options), &tokens, 0, 0);
        let last = &found[299 * (found.len() / 300)..];
        let spread = (last.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / last.len() as f64).sqrt();
        assert!((0.1..=30.0).contains(&spread), "{}: logits of {spread}", shape.name);
    }
}

#[test]
fn any_text_has_tokens_of_every_tiny_vocabulary() {
    let text: String = (' '..='~').chain("Where words begin, and go on: 42 == 0x2A, ça va, 你好 🙂".chars()).collect();
    for shape in tiny() {
        let tokenizer = Tokenizer::from_gguf(&make(shape, FileType::Q4_0)).unwrap();
        let tokens = tokenizer.encode(&text, Encode::PLAIN).unwrap_or_else(|e| panic!("{}: {e}", shape.name));
        let unknown = tokens.iter().filter(|&&id| Some(id) == tokenizer.unk()).count();
        // WordPiece has no bytes to fall back to: the last three words are unknown.
        let expected = if shape.vocab.family == Family::Bert { 3 } else { 0 };
        assert_eq!(unknown, expected, "{}: {tokens:?}", shape.name);
    }
}

#[test]
fn tiny_models_for_embeddings_embed() {
    for shape in tiny().filter(|shape| shape.pooling.is_some()) {
        let engine = Embedder::engine(make(shape, FileType::Q4_K_M), EngineOptions::default()).unwrap();
        let mut embedder = Embedder::new(Arc::new(engine), None, Box::new(|_| ())).unwrap();
        let vectors = embedder.embed(&["What is a page table?", "Hello", ""]).unwrap();
        assert!(vectors.iter().all(|vector| vector.len() == shape.n_embd), "{}", shape.name);
        assert!(vectors[0] != vectors[1] && vectors[1] != vectors[2], "{}", shape.name);
    }
}

#[test]
fn same_seed_same_file_other_seed_other_file() {
    let shape = tiny().next().unwrap();
    let make = |seed| synth::shape_bytes(shape, FileType::Q8_0, seed).unwrap();
    let one = make(1);
    assert!(one == make(1));
    assert!(one != make(2) && one.len() == make(2).len());
}

#[test]
fn the_recipe_does_not_drift() {
    // Goldens are made from these files.
    let gguf = make(synth::find("tiny-llama").unwrap(), FileType::F32);
    let first = |name: &str| f32::from_le_bytes(*gguf.tensor(name).unwrap().data.first_chunk().unwrap());
    assert_eq!(first("blk.0.attn_q.weight"), -0.046_171_46);
    assert_eq!(first("blk.3.ffn_norm.weight"), 1.060_699_1);
}

#[test]
fn weights_are_near_normal_with_the_spread_they_should_have() {
    let gguf = make(synth::find("tiny-llama").unwrap(), FileType::F32);
    for t in gguf.tensors().iter().filter(|t| t.shape.len() == 2) {
        let mut w = vec![0f32; t.len()];
        (t.ty.format().dequantize)(&t.data, &mut w);
        let n = w.len() as f64;
        let moment = |p| w.iter().map(|&x| f64::from(x).powi(p)).sum::<f64>() / n;
        let std = 1.0 / (t.cols() as f64).sqrt();
        assert!(moment(1).abs() < 4.0 * std / n.sqrt(), "{}: mean {}", t.name, moment(1));
        assert!((moment(2).sqrt() / std - 1.0).abs() < 0.02, "{}: spread {}", t.name, moment(2).sqrt());
        let kurtosis = moment(4) / moment(2).powi(2);
        assert!((kurtosis - 2.7).abs() < 0.1, "{}: kurtosis {kurtosis}", t.name);
    }
}

#[test]
fn llama_3_rope_factors_are_those_of_transformers() {
    // Head size, factor, first index that is not 1, the values from there to the first that is the factor
    // (base frequencies over those of transformers' `ROPE_INIT_FUNCTIONS["llama3"]`, 5 digits).
    let cases: [(usize, f32, usize, &[f32]); 2] = [
        (64, 32.0, 15, &[1.65133, 3.29226, 9.66673]),
        (128, 8.0, 29, &[1.20748, 1.55341, 2.02631, 2.69453, 3.68425, 5.25733]),
    ];
    for (head_dim, factor, first, between) in cases {
        let mut shape = Shape { head_dim, ..*synth::find("tiny-llama").unwrap() };
        shape.rope.llama3 = Some(factor);
        let gguf = make(&shape, FileType::F32);
        let mut found = vec![0f32; head_dim / 2];
        let tensor = gguf.tensor("rope_freqs.weight").unwrap();
        (tensor.ty.format().dequantize)(&tensor.data, &mut found);
        for (i, &f) in found.iter().enumerate() {
            let expected = if i < first { 1.0 } else { *between.get(i - first).unwrap_or(&factor) };
            assert!((f - expected).abs() < 6e-6, "{head_dim} {i}: {f}, expected {expected}");
        }
    }
}

/// Shares of bytes by format, in per cent.
fn mix(shape: &Shape, file_type: FileType) -> HashMap<GgmlType, f64> {
    let header = shape.header(file_type).unwrap();
    let bytes = |t: &qrun_quant::gguf::write::Entry| t.ty.bytes_of(t.shape.iter().product::<u64>() as usize) as f64;
    let total: f64 = header.tensors.iter().map(bytes).sum();
    let mut out = HashMap::new();
    header.tensors.iter().for_each(|t| *out.entry(t.ty).or_default() += 100.0 * bytes(t) / total);
    out
}

#[test]
fn gemma_3_1b_has_the_mix_of_the_real_file() {
    let shape = synth::find("gemma-3-1b-it").unwrap();
    assert_eq!(shape.parameters(), 999_885_952);
    let mix = mix(shape, FileType::Q4_K_M);
    for (ty, share) in [(GgmlType::Q8_0, 41.0), (GgmlType::Q5_0, 39.0), (GgmlType::Q6_K, 11.0), (GgmlType::Q4_K, 9.0)] {
        assert!((mix[&ty] - share).abs() < 0.6, "{ty}: {} %", mix[&ty]);
    }
}

#[test]
fn parameters_are_those_of_the_published_models() {
    // As the models' own pages and files count them (embeddings that are shared count once).
    let published = [
        ("gemma-3-1b", 999_885_952),
        ("llama-3.2-1b", 1_235_814_432),
        ("llama-3.2-3b", 3_212_749_888),
        ("llama-3.1-8b", 8_030_261_312),
        ("qwen3-0.6b", 596_049_920),
        ("qwen3-1.7b", 1_720_574_976),
        ("qwen3-8b", 8_190_735_360),
    ];
    for (name, parameters) in published {
        assert_eq!(synth::find(name).unwrap().parameters(), parameters, "{name}");
    }
}

/// Keys and values of a token in f16, and states of a sequence, in bytes.
#[test]
fn caches_and_states_are_those_of_the_published_configurations() {
    // Layers × (taps − 1) × channels and layers × heads × 128 × 128, in f32.
    let state = |layers: u64, heads: u64| 4 * layers * (3 * (2 * 16 + heads) * 128 + heads * 128 * 128);
    // The same of Mamba-2: x of all heads, B and C of all groups; and heads × elements × 128.
    let mamba = |layers: u64, [groups, heads, dim]: [u64; 3]| {
        4 * layers * (3 * (heads * dim + 2 * groups * 128) + heads * dim * 128)
    };
    let published = [
        ("qwen3.5-9b", 32_768, state(24, 32)),
        ("qwen3.6-35b-a3b", 20_480, state(30, 32)),
        ("gpt-oss-20b", 24_576, 0),
        ("qwen3-30b-a3b", 98_304, 0),
        // One head of 576 elements: its values are a part of its keys.
        ("glm-4.7-flash", 54_144, 0),
        ("granite-4.0-h-micro", 4 * 2 * 2 * 8 * 64, mamba(36, [1, 64, 64])),
        ("granite-4.0-h-tiny", 4 * 2 * 2 * 4 * 128, mamba(36, [1, 48, 64])),
        ("nemotron-nano-9b-v2", 4 * 2 * 2 * 8 * 128, mamba(27, [8, 128, 80])),
        ("nemotron-3-nano-30b-a3b", 6 * 2 * 2 * 2 * 128, mamba(23, [8, 64, 64])),
    ];
    for (name, per_token, states) in published {
        let mut header = synth::find(name).unwrap().header(FileType::Q8_0).unwrap();
        // The keys say it, and the size of the vocabulary: with all its weights a model would not fit here. What nobody writes to
        // takes no memory.
        header.tensors.retain(|t| t.name == "token_embd.weight");
        let mut head = Vec::new();
        drop(header.write_to(name.as_ref(), &mut head).unwrap());
        let t = &header.tensors[0];
        let mut file = vec![0; head.len() + t.ty.bytes_of(t.shape.iter().product::<u64>() as usize)];
        file[..head.len()].copy_from_slice(&head);
        let c = Config::read(&Gguf::from_bytes(name, Bytes::new(file)).unwrap()).unwrap();
        let planned = |n_ctx| memory::kv_bytes(&c, &Options { n_ctx, ..Options::default() });
        assert_eq!((planned(16_384) - planned(8192)) / 8192, per_token, "{name}");
        assert_eq!(4 * c.layers.iter().map(|l| l.state_len() as u64).sum::<u64>(), states, "{name}");
    }
}

#[test]
fn vocabularies_have_their_special_tokens_at_the_real_ids() {
    let cases: [(&str, &[(usize, &str)]); 4] = [
        ("tiny-bert", &[(0, "[PAD]"), (100, "[UNK]"), (101, "[CLS]"), (102, "[SEP]"), (103, "[MASK]")]),
        (
            "gemma-3-1b",
            &[
                (0, "<pad>"),
                (1, "<eos>"),
                (2, "<bos>"),
                (3, "<unk>"),
                (105, "<start_of_turn>"),
                (106, "<end_of_turn>"),
                (107, "\n"),
                (238, "<0x00>"),
                (255_999, "<start_of_image>"),
                (256_000, "<end_of_image>"),
            ],
        ),
        (
            "llama-3.2-1b",
            &[
                (0, "!"),
                (128_000, "<|begin_of_text|>"),
                (128_001, "<|end_of_text|>"),
                (128_006, "<|start_header_id|>"),
                (128_007, "<|end_header_id|>"),
                (128_009, "<|eot_id|>"),
            ],
        ),
        (
            "qwen3-8b",
            &[
                (151_643, "<|endoftext|>"),
                (151_644, "<|im_start|>"),
                (151_645, "<|im_end|>"),
                (151_657, "<tool_call>"),
                (151_667, "<think>"),
                (151_668, "</think>"),
            ],
        ),
    ];
    for (name, ids) in cases {
        let shape = synth::find(name).unwrap();
        let header = shape.header(FileType::F16).unwrap();
        let tokens = &header.metadata.iter().find(|(k, _)| k == "tokenizer.ggml.tokens").unwrap().1;
        let tokens: Vec<&str> = tokens.as_array().unwrap().strings().collect();
        assert_eq!(tokens.len(), shape.vocab.size, "{name}");
        assert_eq!(tokens.iter().collect::<HashSet<_>>().len(), tokens.len(), "{name}: each token once");
        for &(id, text) in ids {
            assert_eq!(tokens[id], text, "{name} {id}");
        }
    }
}

#[test]
fn awkward_shapes_are_made_and_load() {
    let base = *synth::find("tiny-llama").unwrap();
    for (heads, kv, head_dim, embd) in
        [(1, 1, 64, 96), (4, 2, 80, 320), (8, 2, 96, 288), (7, 1, 128, 224), (2, 2, 256, 512)]
    {
        let vocab = Vocab { family: Family::Qwen, size: 700 };
        let shape = Shape {
            name: "awkward",
            n_layer: 2,
            n_head: heads,
            n_head_kv: kv,
            head_dim,
            n_embd: embd,
            n_ff: 3 * embd,
            vocab,
            fused_qkv: true,
            fused_gate_up: true,
            tied: false,
            ..base
        };
        for file_type in [FileType::F32, FileType::Q4_K_M] {
            let gguf = make(&shape, file_type);
            let model = Model::load(&gguf).unwrap_or_else(|e| panic!("{heads} {kv} {head_dim} {file_type}: {e}"));
            assert!(model.config.layers.iter().all(|l| l.head_dim == head_dim));
        }
    }
}

#[test]
fn what_cannot_be_made_says_why() {
    let no = synth::synth("gemma-9", FileType::F32, 0, "x.gguf".as_ref(), &mut |_, _| {}).unwrap_err().to_string();
    assert!(
        no.starts_with("model \"gemma-9\": expected one of gemma-3-1b, ") && no.ends_with(", tiny-modern-bert"),
        "{no}"
    );
    let small = Shape { vocab: Vocab { family: Family::Gemma, size: 100 }, ..*synth::find("tiny-gemma3").unwrap() };
    let e = synth::shape_bytes(&small, FileType::F32, 0).unwrap_err().to_string();
    assert_eq!(e, "shape tiny-gemma3: expected at least 640 tokens in a vocabulary of its kind, found 100");
}
