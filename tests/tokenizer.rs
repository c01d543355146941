//! Tokenizers against the public implementations, and against bad vocabularies.

mod expected;
mod gemma4;
mod hostile;
mod json;
mod long;
mod oracle;
mod pre;
mod published;
mod special;
mod stream;
mod wordpiece;

use std::path::{Path, PathBuf};

use qrun::text::tokenizer::Tokenizer;
use qrun_quant::{
    Bytes, Gguf,
    gguf::{Array, Value, write::Header},
};

/// The committed vocabularies: SentencePiece-like with and without a space prefix, and byte-level BPE.
const TINY: [&str; 4] = ["tiny-llama", "tiny-gemma", "tiny-llama3", "tiny-qwen"];

fn data(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tokenizer").join(file)
}

fn tiny(name: &str) -> Tokenizer {
    let g = Gguf::open(&data(&format!("{name}.gguf"))).unwrap();
    Tokenizer::from_gguf(&g).unwrap()
}

/// A file with these keys (below `tokenizer.ggml.`) and nothing else.
fn file(keys: Vec<(&str, Value)>) -> Gguf {
    let mut header = Header::new();
    for (key, value) in keys {
        header.set(format!("tokenizer.ggml.{key}"), value);
    }
    let mut bytes = Vec::new();
    header.write_to(Path::new("crafted"), &mut bytes).unwrap().finish().unwrap();
    Gguf::from_bytes("crafted", Bytes::new(bytes)).unwrap()
}

/// An SPM vocabulary: texts, scores, types.
fn spm(rows: &[(&str, f32, i32)]) -> Vec<(&'static str, Value)> {
    vec![
        ("model", "llama".into()),
        ("tokens", Array::of_strings(rows.iter().map(|r| r.0)).into()),
        ("scores", Array::of(&rows.iter().map(|r| r.1).collect::<Vec<_>>()).into()),
        ("token_type", Array::of(&rows.iter().map(|r| r.2).collect::<Vec<_>>()).into()),
    ]
}

/// A BPE vocabulary: texts and merges.
fn bpe(tokens: &[&str], merges: &[&str]) -> Vec<(&'static str, Value)> {
    vec![
        ("model", "gpt2".into()),
        ("pre", "gpt-2".into()),
        ("tokens", Array::of_strings(tokens).into()),
        ("merges", Array::of_strings(merges).into()),
    ]
}

/// The same numbers in every run.
fn generator(mut state: u64) -> impl FnMut(usize) -> usize {
    move |below| {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % below
    }
}
