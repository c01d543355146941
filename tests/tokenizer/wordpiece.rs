//! WordPiece (`tokenizer.ggml.model` = "bert") against the `tokenizers` crate: every character as its normalizer has it,
//! and texts with its own normalizer, splitter and model.

use std::collections::BTreeSet;

use qrun::text::tokenizer::{Encode, Tokenizer};
use qrun_quant::gguf::{Array, Value};
use tokenizers::{
    Model, NormalizedString, Normalizer, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer,
    models::{bpe::Vocab, wordpiece::WordPiece},
    normalizers::BertNormalizer,
    pre_tokenizers::bert::BertPreTokenizer,
};

const SPECIAL: [&str; 5] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];

/// Words as a published vocabulary writes them: `##` before what goes on.
fn vocabulary(words: impl IntoIterator<Item = String>) -> Vec<String> {
    let words: BTreeSet<String> = words.into_iter().collect();
    SPECIAL.iter().map(|s| (*s).to_owned()).chain(words).collect()
}

/// As files have them.
fn keys(published: &[String]) -> Vec<(&'static str, Value)> {
    let entry = |word: &String| match word.strip_prefix("##") {
        _ if SPECIAL.contains(&word.as_str()) => word.clone(),
        Some(rest) => rest.to_owned(),
        None => format!("\u{2581}{word}"),
    };
    let kind = |word: &String| if SPECIAL.contains(&word.as_str()) { 3i32 } else { 1 };
    vec![
        ("model", "bert".into()),
        ("tokens", Array::of_strings(published.iter().map(entry)).into()),
        ("token_type", Array::of(&published.iter().map(kind).collect::<Vec<_>>()).into()),
        ("unknown_token_id", 1u32.into()),
        ("cls_token_id", 2u32.into()),
        ("seperator_token_id", 3u32.into()),
        ("padding_token_id", 0u32.into()),
    ]
}

/// The published parts: what `BertTokenizer` is made of.
struct Published {
    normalizer: BertNormalizer,
    model: WordPiece,
}

impl Published {
    fn new(vocabulary: &[String], cased: bool) -> Self {
        let vocab: Vocab = vocabulary.iter().enumerate().map(|(id, word)| (word.clone(), id as u32)).collect();
        let model = WordPiece::builder().vocab(vocab).unk_token("[UNK]".into()).build().unwrap();
        Self { normalizer: BertNormalizer::new(true, true, None, !cased), model }
    }
    fn words(&self, text: &str) -> Vec<String> {
        let mut normalized = NormalizedString::from(text);
        self.normalizer.normalize(&mut normalized).unwrap();
        let mut parts = PreTokenizedString::from(normalized);
        BertPreTokenizer.pre_tokenize(&mut parts).unwrap();
        let parts = parts.get_splits(OffsetReferential::Original, OffsetType::Byte);
        parts.into_iter().map(|(word, ..)| word.to_owned()).collect()
    }
    fn encode(&self, text: &str) -> Vec<u32> {
        let tokens = |word: &String| self.model.tokenize(word).unwrap().into_iter().map(|token| token.id);
        self.words(text).iter().flat_map(tokens).collect()
    }
}

#[rustfmt::skip]
const TEXTS: [&str; 40] = [
    "Don't we'll I'm they've it's o'clock rock'n'roll", "Ünïcödé naïve café résumé coöperate Ångström", "a\tb\nc\r\nd  e",
    "你好，世界。日本語のテキスト", "한국어 텍스트 서울", "e\u{301}e\u{300}\u{323} q\u{307}\u{323}", "👍🏽 👩‍👩‍👧‍👦 🇩🇪🦀!!!",
    "3.14159 1,000,000 0x1F 50% $20 #tag @user", "foo_bar(baz)[0]{1} -> x == y && z || !w;", "IİıŁłßẞΣσςÆœŒ",
    "", " ", "\u{a0}\u{2003}\u{3000}", "\u{200b}zero\u{200d}width\u{feff}", "\u{0}nul\u{1}\u{7f}\u{85}ctl", "\u{fffd}x\u{e000}y",
    "ﬁ ﬂ ﬀ ½ ² ™ ℃ Ⅷ", "שלום עולם", "مرحبا بالعالم", "नमस्ते दुनिया", "สวัสดีชาวโลก", "Привет, мир! Ёлка Й й", "Ελλάδα ΆΈΉ",
    "x\u{2581}y \u{2581}z \u{2581}", "##ing ## #", "[CLS [MASK", "http://example.com/a?b=c&d=e#f", "“quoted” ‘single’ — – … •",
    "\u{ac00}\u{ac01}\u{d7a3}", "豈\u{2f800}\u{f900} 𠀀𪜀", "̈̈̈", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟙𝟚", "Straße GROSSE", "tab\tin\tside", "ends with newline\n",
    "\u{1e9b}\u{323} \u{1e69} \u{212b} \u{2126}", "ক\u{9cb} \u{b94}", "\u{958} \u{fb2c}", "\u{1d15e}\u{1d1bb}", "mixedCASE WoRdS",
];

fn texts() -> Vec<String> {
    let mut texts: Vec<String> = TEXTS.map(String::from).to_vec();
    texts.extend(super::oracle::texts(400));
    texts.extend(super::pre::texts());
    texts.push(format!("{} {} {}", "a".repeat(100), "b".repeat(101), "ab".repeat(300)));
    texts
}

/// Whole words, beginnings, ends and single characters of the texts, but not of all of them.
fn words(published: &Published, texts: &[String]) -> Vec<String> {
    let mut out = Vec::new();
    for (i, word) in texts.iter().flat_map(|text| published.words(text)).enumerate() {
        let characters: Vec<char> = word.chars().collect();
        let cut = |from: usize, to: usize| characters[from..to].iter().collect::<String>();
        let n = characters.len();
        match i % 5 {
            0 => out.push(word.clone()),
            1 => out.extend([cut(0, n.div_ceil(2)), format!("##{}", cut(n / 2, n))]),
            2 => out.extend([cut(0, 1), format!("##{}", cut(n - 1, n))]),
            3 => out.extend((0..n).map(|at| format!("##{}", cut(at, at + 1)))),
            _ => {}
        }
    }
    out.retain(|word| word != "##" && !word.starts_with("##\u{2581}") && !word.is_empty());
    out
}

#[test]
fn texts_have_the_tokens_of_the_tokenizers_crate() {
    for cased in [false, true] {
        let texts = texts();
        assert!(texts.len() > 400);
        let words = words(&Published::new(&vocabulary([]), cased), &texts);
        // A capital in the vocabulary says that it is cased.
        let vocabulary = vocabulary(words.into_iter().chain(cased.then(|| "Capital".to_owned())));
        let published = Published::new(&vocabulary, cased);
        let tokenizer = Tokenizer::from_gguf(&super::file(keys(&vocabulary))).unwrap();
        let (mut unknown, mut all) = (0, 0);
        for text in &texts {
            let (ids, expected) = (tokenizer.encode(text, Encode::PLAIN).unwrap(), published.encode(text));
            assert_eq!(ids, expected, "cased {cased}: {text:?}");
            let around = [&[2], &ids[..], &[3]].concat();
            let with_marks = Encode { add_special: true, parse_special: false };
            assert_eq!(tokenizer.encode(text, with_marks).unwrap(), around, "[CLS] and [SEP]: {text:?}");
            unknown += ids.iter().filter(|&&id| id == 1).count();
            all += ids.len();
        }
        assert!(unknown > 0 && unknown < all / 2, "{unknown} of {all} tokens are unknown");
    }
}

#[test]
fn every_character_is_normalized_as_in_the_tokenizers_crate() {
    // Each character between two letters: it is dropped, becomes others, or parts them. The words show in tokens where
    // every character is one. Between the last of these planes nothing is assigned.
    let planes =
        ['\0'..='\u{323af}', '\u{e0000}'..='\u{e01ff}', '\u{efff0}'..='\u{f000f}', '\u{10fff0}'..='\u{10ffff}'];
    let all: Vec<char> = planes.into_iter().flatten().filter(|&c| c != '\u{2581}').collect();
    let texts = || all.chunks(200).map(|chunk| chunk.iter().map(|c| format!("a{c}b ")).collect::<String>());
    let published = Published::new(&vocabulary([]), false);
    let mut words = BTreeSet::new();
    for word in texts().flat_map(|text| published.words(&text)) {
        words.extend(word.chars().flat_map(|c| [c.to_string(), format!("##{c}")]));
    }
    let vocabulary = vocabulary(words);
    let published = Published::new(&vocabulary, false);
    let tokenizer = Tokenizer::from_gguf(&super::file(keys(&vocabulary))).unwrap();
    for (text, chunk) in texts().zip(all.chunks(200)) {
        let same = tokenizer.encode(&text, Encode::PLAIN).unwrap() == published.encode(&text);
        assert!(same, "some of the 200 characters from U+{:04X} on", chunk[0] as u32);
    }
}

#[test]
fn special_tokens_and_what_comes_back() {
    let vocabulary = vocabulary(["hello", "world", "##s", ",", "!", "un", "##aff", "##able"].map(String::from));
    let tokenizer = Tokenizer::from_gguf(&super::file(keys(&vocabulary))).unwrap();
    let id = |word: &str| vocabulary.iter().position(|w| w == word).unwrap() as u32;
    let ids = tokenizer.encode("Hello, WORLDS! [MASK] unaffable", Encode::default()).unwrap();
    let expected = ["[CLS]", "hello", ",", "world", "##s", "!", "[MASK]", "un", "##aff", "##able", "[SEP]"].map(id);
    assert_eq!(ids, expected);
    assert_eq!(tokenizer.decode(&ids), "hello , worlds ! unaffable");
    assert_eq!(tokenizer.encode("", Encode::default()).unwrap(), [id("[CLS]"), id("[SEP]")]);
    assert_eq!((tokenizer.bos(), tokenizer.unk()), (Some(id("[CLS]")), Some(id("[UNK]"))));
    // The marks by their names, where the file does not say which they are; and a vocabulary that has none of them.
    let mut unnamed = keys(&vocabulary);
    unnamed.retain(|(key, _)| !key.ends_with("_token_id"));
    let tokenizer = Tokenizer::from_gguf(&super::file(unnamed)).unwrap();
    assert_eq!(tokenizer.encode("hello xyz", Encode::default()).unwrap(), ["[CLS]", "hello", "[UNK]", "[SEP]"].map(id));
    let bare = vec![("model", "bert".into()), ("tokens", Array::of_strings(["\u{2581}hello"]).into())];
    let tokenizer = Tokenizer::from_gguf(&super::file(bare)).unwrap();
    assert_eq!(tokenizer.encode("hello hello", Encode::default()).unwrap(), [0, 0]);
    let error = tokenizer.encode("hello xyz", Encode::default()).unwrap_err().to_string();
    assert!(error.contains("0x78") && error.contains("no unknown token"), "{error}");
}
