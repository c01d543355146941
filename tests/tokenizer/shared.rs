//! The vocabularies of `../shared/vocab`, which are too large to be committed.

use std::{io::Write, path::PathBuf};

use qrun::tokenizer::{Encode, Tokenizer};
use qrun_quant::Gguf;

/// The vocabularies and what they are.
pub const VOCABULARIES: [&str; 4] = ["llama-spm", "gemma-spm", "llama-bpe", "qwen2"];

/// A file of the shared vocabularies; says so where it is missing.
pub fn path(file: &str) -> Option<PathBuf> {
    let default = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared"));
    let path = std::env::var_os("QRUN_SHARED").map_or_else(default, PathBuf::from).join("vocab").join(file);
    if !path.exists() {
        // Not by eprintln!, whose lines the test harness hides where a test passes.
        let _ = writeln!(std::io::stderr(), "SKIPPED: {} is missing (set QRUN_SHARED)", path.display());
        return None;
    }
    Some(path)
}

pub fn tokenizer(name: &str) -> Option<Tokenizer> {
    let g = Gguf::open(&path(&format!("{name}.gguf"))?).unwrap();
    Some(Tokenizer::from_gguf(&g).unwrap())
}

/// The 46 texts and their tokens. The last separator closes the last text.
fn cases(name: &str) -> Option<Vec<(String, Vec<u32>)>> {
    let read = |ending: &str| Some(std::fs::read_to_string(path(&format!("{name}.{ending}"))?).unwrap());
    let (texts, ids) = (read("inp")?, read("out")?);
    let mut texts: Vec<_> = texts.split("\n__ggml_vocab_test__\n").collect();
    assert_eq!(texts.pop(), Some(""), "{name}.inp ends in a separator");
    let ids: Vec<Vec<u32>> =
        ids.lines().map(|line| line.split_whitespace().map(|id| id.parse().unwrap()).collect()).collect();
    assert_eq!((texts.len(), ids.len()), (46, 46), "{name}: texts and lines of ids");
    Some(texts.into_iter().map(str::to_owned).zip(ids).collect())
}

#[test]
fn the_46_texts_have_the_published_tokens() {
    for name in VOCABULARIES {
        let (Some(tokenizer), Some(cases)) = (tokenizer(name), cases(name)) else { continue };
        for (text, ids) in cases {
            assert_eq!(tokenizer.encode(&text, Encode::PLAIN).unwrap(), ids, "{name}: {text:?}");
            assert_eq!(tokenizer.decode(&ids), text, "{name}: {ids:?}");
        }
    }
}
