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

fn shared(file: &str) -> PathBuf {
    let default = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared"));
    std::env::var_os("QRUN_SHARED").map_or_else(default, PathBuf::from).join("vocab").join(file)
}

impl Vocabulary {
    pub fn stripped(name: &str) -> Self {
        let vocabulary = Self::open(&super::data(&format!("{name}.gguf")));
        assert!(vocabulary.whole_ids.is_some(), "{name}: strip.py writes the ids of the whole vocabulary");
        vocabulary
    }

    /// As it is published, from the folder `vocab` of `$QRUN_SHARED`.
    pub fn whole(name: &str) -> Self {
        Self::open(&shared(&format!("{name}.gguf")))
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

/// Texts that llama.cpp publishes with each vocabulary: `NAME.inp` has the texts, `NAME.out` a line of ids for each.
#[test]
#[ignore = "reads 20 MB of vocabularies that are not in the repository: QRUN_SHARED names the folder with vocab/*.gguf"]
fn the_46_texts_have_the_published_tokens_in_whole_vocabularies() {
    for name in NAMES {
        let vocabulary = Vocabulary::whole(name);
        let read = |end: &str| std::fs::read_to_string(shared(&format!("{name}.{end}")));
        let (texts, ids) = (read("inp").unwrap(), read("out").unwrap());
        let mut texts: Vec<&str> = texts.split("\n__ggml_vocab_test__\n").collect();
        texts.pop();
        assert_eq!((texts.len(), ids.lines().count()), (46, 46), "{name}");
        for (text, ids) in texts.into_iter().zip(ids.lines()) {
            let ids: Vec<u32> = ids.split_whitespace().map(|id| id.parse().unwrap()).collect();
            assert_eq!(vocabulary.encode(text), ids, "{name}: {text:?}");
        }
    }
}
