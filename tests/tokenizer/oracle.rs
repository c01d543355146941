//! Byte-level BPE against the `tokenizers` crate, fed with the same vocabulary and merges.

use qrun::text::tokenizer::{Encode, Tokenizer};
use qrun_quant::Gguf;
use tokenizers::{
    Model, NormalizedString, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer, SplitDelimiterBehavior,
    models::bpe::{BPE, Vocab},
    pre_tokenizers::{byte_level::ByteLevel, split::Split, split::SplitPattern},
};

use super::published::Vocabulary;

/// Pieces that texts are made of: scripts, emoji, combining marks, code, numbers, white space.
const PIECES: [&str; 40] = [
    "the",
    " and",
    " token",
    "ization",
    "Hello",
    " WORLD",
    "don't",
    "I'LL",
    "we'Ve",
    "ſ'ſ",
    "é",
    "e\u{301}",
    "ñ",
    "Привет",
    " мир",
    "你好",
    "世界",
    "こんにちは",
    "안녕",
    "مرحبا",
    "नमस्ते",
    "ไทย",
    "😀",
    "👩\u{200d}👩\u{200d}👧",
    "🇩🇪",
    "1",
    "42",
    "3.14159",
    "1000000",
    "½",
    "fn main() {",
    "    ",
    "\t",
    "\n",
    "\r\n",
    " \n\n ",
    "}",
    "//",
    "==",
    "\u{a0}",
];

pub fn texts(n: usize) -> impl Iterator<Item = String> {
    let mut random = super::generator(7);
    (0..n).map(move |i| match i % 4 {
        // One to three letters only: many pairs of one rank.
        0 => {
            let letters = ["a", "e", "s", " ", "t", "o", "n", "="];
            let (from, of) = (random(6), 1 + random(3));
            (0..1 + random(50)).map(|_| letters[(from + random(of)) % letters.len()]).collect()
        }
        1 => (0..1 + random(12)).map(|_| char::from_u32(random(0x1_1000) as u32).unwrap_or('x')).collect(),
        _ => (0..1 + random(16)).map(|_| PIECES[random(PIECES.len())]).collect(),
    })
}

pub struct Oracle {
    pub model: BPE,
    pub split: Split,
    pub bytes: ByteLevel,
}

impl Oracle {
    pub fn new(g: &Gguf) -> Self {
        let strings = |key: &str| g.array(&format!("tokenizer.ggml.{key}")).unwrap().unwrap().strings();
        let vocab: Vocab = strings("tokens").enumerate().map(|(i, t)| (t.to_owned(), i as u32)).collect();
        let merge = |m: &str| m.split_once(' ').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        let is_llama = g.str("tokenizer.ggml.pre").unwrap() == Some("llama-bpe");
        let digits = if is_llama { r"\p{N}{1,3}" } else { r"\p{N}" };
        let pattern = format!(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        );
        let merges = strings("merges").map(merge).collect();
        Self {
            model: BPE::builder().vocab_and_merges(vocab, merges).ignore_merges(is_llama).build().unwrap(),
            split: Split::new(SplitPattern::Regex(pattern), SplitDelimiterBehavior::Isolated, false).unwrap(),
            bytes: ByteLevel::new(false, true, false),
        }
    }

    fn encode(&self, text: &str) -> Vec<u32> {
        let mut parts = PreTokenizedString::from(NormalizedString::from(text));
        self.split.pre_tokenize(&mut parts).unwrap();
        self.bytes.pre_tokenize(&mut parts).unwrap();
        let parts = parts.get_splits(OffsetReferential::Original, OffsetType::Byte);
        parts.iter().flat_map(|(part, ..)| self.model.tokenize(part).unwrap()).map(|token| token.id).collect()
    }
}

fn compare(name: &str, g: &Gguf, n: usize) {
    let (ours, oracle) = (Tokenizer::from_gguf(g).unwrap(), Oracle::new(g));
    for text in texts(n) {
        let ids = ours.encode(&text, Encode::PLAIN).unwrap();
        assert_eq!(ids, oracle.encode(&text), "{name}: {text:?}");
        assert_eq!(ours.decode(&ids), text, "{name}: {ids:?}");
    }
}

#[test]
fn bpe_agrees_with_the_tokenizers_crate() {
    for name in ["tiny-llama3", "tiny-qwen"] {
        compare(name, &Gguf::open(&super::data(&format!("{name}.gguf"))).unwrap(), 4000);
    }
    for name in ["llama-bpe", "qwen2"] {
        compare(name, &Vocabulary::stripped(name).gguf, 4000);
    }
}

#[test]
#[ignore = "reads 14 MB of vocabularies that are not in the repository: QRUN_SHARED names the folder with vocab/*.gguf"]
fn bpe_agrees_with_the_tokenizers_crate_in_whole_vocabularies() {
    for name in ["llama-bpe", "qwen2"] {
        compare(name, &Vocabulary::whole(name).gguf, 4000);
    }
}
