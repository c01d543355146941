//! Four published vocabularies. The repository holds what the tested texts need of each (`strip.py` beside the data);
//! ignored tests read them whole.

use std::path::{Path, PathBuf};

use qrun::text::tokenizer::{Encode, Tokenizer};
use qrun_quant::Gguf;

pub const NAMES: [&str; 4] = ["llama-spm", "gemma-spm", "llama-bpe", "qwen2"];

pub struct Vocabulary {
    pub gguf: Gguf,
    pub tokenizer: Tokenizer,
    /// Of each token the id in the whole vocabulary; none where this is the whole one.
    whole_ids: Option<Vec<u32>>,
}

impl Vocabulary {
    pub fn stripped(name: &str) -> Self {
        let vocabulary = Self::open(&super::data(&format!("{name}.gguf")));
        assert!(vocabulary.whole_ids.is_some(), "{name}: strip.py writes the ids of the whole vocabulary");
        vocabulary
    }

    /// As it is published, from the folder `vocab` of `$QRUN_SHARED`.
    pub fn whole(name: &str) -> Self {
        let default = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared"));
        let shared = std::env::var_os("QRUN_SHARED").map_or_else(default, PathBuf::from);
        Self::open(&shared.join("vocab").join(format!("{name}.gguf")))
    }

    fn open(path: &Path) -> Self {
        let gguf = Gguf::open(path).unwrap_or_else(|e| panic!("{e}"));
        let tokenizer = Tokenizer::from_gguf(&gguf).unwrap_or_else(|e| panic!("{e}"));
        let whole_ids = gguf.array("stripped.ids").unwrap();
        let whole_ids = whole_ids.map(|ids| ids.numbers().map(|id| id as u32).collect());
        Self { gguf, tokenizer, whole_ids }
    }

    /// The text's tokens, as ids of the whole vocabulary. Asserts that they read back as the text.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let ids = self.tokenizer.encode(text, Encode::PLAIN).unwrap();
        if !text.contains('\u{2581}') {
            assert_eq!(self.tokenizer.decode(&ids), text, "{ids:?}");
        }
        match &self.whole_ids {
            Some(whole) => ids.into_iter().map(|id| whole[id as usize]).collect(),
            None => ids,
        }
    }
}

/// The 46 texts that llama.cpp publishes with each vocabulary, and their tokens.
fn compare(open: impl Fn(&str) -> Vocabulary) {
    let table = std::fs::read_to_string(super::data("published.tsv")).unwrap();
    let mut lines = table.lines();
    assert_eq!(lines.next().unwrap().split('\t').skip(1).collect::<Vec<_>>(), NAMES);
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split('\t').collect()).collect();
    assert_eq!(rows.len(), 46);
    for (column, name) in NAMES.into_iter().enumerate() {
        let vocabulary = open(name);
        for row in &rows {
            let text: String = serde_json::from_str(row[0]).unwrap();
            let ids: Vec<u32> = row[column + 1].split_whitespace().map(|id| id.parse().unwrap()).collect();
            assert_eq!(vocabulary.encode(&text), ids, "{name}: {text:?}");
        }
    }
}

#[test]
fn the_46_texts_have_the_published_tokens() {
    compare(Vocabulary::stripped);
}

#[test]
#[ignore = "reads 20 MB of vocabularies that are not in the repository: QRUN_SHARED names the folder with vocab/*.gguf"]
fn the_46_texts_have_the_published_tokens_in_whole_vocabularies() {
    compare(Vocabulary::whole);
}
