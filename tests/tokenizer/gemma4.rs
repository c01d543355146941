//! BPE over characters (`tokenizer.ggml.model` = "gemma4") against the `tokenizers` crate: spaces become U+2581, texts
//! are cut at line feeds, characters without a token become bytes.

use std::collections::BTreeSet;

use qrun::text::tokenizer::{Encode, TokenKind, Tokenizer};
use qrun_quant::gguf::{Array, Value};
use tokenizers::{
    Model, NormalizedString, Normalizer, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer,
    SplitDelimiterBehavior,
    models::bpe::{BPE, Vocab},
    normalizers::Replace,
    pre_tokenizers::split::{Split, SplitPattern},
};

const CONTROL: [&str; 4] = ["<pad>", "<eos>", "<bos>", "<turn|>"];

/// Tokens, types and merges: control tokens, bytes, the characters below U+0500 that the texts have, their pairs in no
/// order to speak of, and runs of line feeds of which no merge makes the third.
struct Vocabulary {
    tokens: Vec<String>,
    types: Vec<i32>,
    merges: Vec<(String, String)>,
}

fn vocabulary(texts: &[String]) -> Vocabulary {
    let known = |c: &char| (' '..'\u{500}').contains(c) || matches!(c, '\n' | '\t' | '\u{2581}' | '世' | '界');
    let spelled: Vec<Vec<char>> = texts.iter().map(|text| text.replace(' ', "\u{2581}").chars().collect()).collect();
    let characters: BTreeSet<char> = spelled.iter().flatten().copied().filter(known).collect();
    let both = |w: &[char]| known(&w[0]) && known(&w[1]) && (w[0] == '\n') == (w[1] == '\n');
    let pairs = spelled.iter().flat_map(|text| text.windows(2)).filter(|w| both(w)).map(|w| (w[0], w[1]));
    let mut pairs: Vec<(char, char)> = pairs.collect::<BTreeSet<_>>().into_iter().collect();
    let mut random = super::generator(9);
    (1..pairs.len()).rev().for_each(|i| pairs.swap(i, random(i + 1)));
    // Triples, so that merges go on.
    let mut merges: Vec<(String, String)> = pairs.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect();
    merges.extend(pairs.iter().step_by(3).filter(|(a, _)| *a != '\n').map(|(a, b)| (format!("{a}{b}"), a.to_string())));
    let mut tokens: Vec<String> = CONTROL.map(String::from).to_vec();
    tokens.extend((0..=255).map(|byte| format!("<0x{byte:02X}>")));
    let types = [vec![3; CONTROL.len()], vec![6; 256]].concat();
    tokens.extend(characters.iter().map(char::to_string));
    tokens.extend(merges.iter().map(|(a, b)| format!("{a}{b}")));
    tokens.push("\n\n\n".into());
    let types = types.into_iter().chain(std::iter::repeat(1)).take(tokens.len()).collect();
    Vocabulary { tokens, types, merges }
}

impl Vocabulary {
    fn keys(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("model", "gemma4".into()),
            ("tokens", Array::of_strings(&self.tokens).into()),
            ("token_type", Array::of(&self.types).into()),
            ("merges", Array::of_strings(self.merges.iter().map(|(a, b)| format!("{a} {b}"))).into()),
            ("bos_token_id", 2u32.into()),
            ("eos_token_id", 1u32.into()),
            ("add_bos_token", false.into()),
        ]
    }
}

fn texts() -> Vec<String> {
    let mut texts = super::pre::texts();
    texts.extend(super::oracle::texts(500));
    for n in 1..8 {
        texts.extend(["", " ", "a", "\r"].map(|around| format!("{around}{}{around}", "\n".repeat(n))));
    }
    texts
}

#[test]
fn characters_merge_as_in_the_tokenizers_crate() {
    let texts = texts();
    let vocabulary = vocabulary(&texts);
    let tokenizer = Tokenizer::from_gguf(&super::file(vocabulary.keys())).unwrap();
    let vocab: Vocab = vocabulary.tokens.iter().enumerate().map(|(i, t)| (t.clone(), i as u32)).collect();
    let model = BPE::builder().vocab_and_merges(vocab, vocabulary.merges.clone()).byte_fallback(true).build().unwrap();
    let spaces = Replace::new(" ", "\u{2581}").unwrap();
    let lines =
        Split::new(SplitPattern::Regex(r"[^\n]+|[\n]+".into()), SplitDelimiterBehavior::Isolated, false).unwrap();
    for text in &texts {
        let mut normalized = NormalizedString::from(text.as_str());
        spaces.normalize(&mut normalized).unwrap();
        let mut parts = PreTokenizedString::from(normalized);
        lines.pre_tokenize(&mut parts).unwrap();
        let tokens = |part: &str| match model.token_to_id(part) {
            Some(id) if part.starts_with('\n') => vec![id],
            _ => model.tokenize(part).unwrap().iter().map(|token| token.id).collect(),
        };
        let parts = parts.get_splits(OffsetReferential::Original, OffsetType::Byte);
        let expected: Vec<u32> = parts.iter().flat_map(|(part, ..)| tokens(part)).collect();
        let ids = tokenizer.encode(text, Encode::PLAIN).unwrap();
        assert_eq!(ids, expected, "{text:?}");
        assert_eq!(tokenizer.decode(&ids), *text);
    }
}

#[test]
fn line_feeds_and_unknown_bytes() {
    let tokens = ["<bos>", "a", "\u{2581}", "\n", "\n\n", "\n\n\n", "a\n", "\u{2581}a", "<0xC3>", "<0xA9>"];
    let keys = |tokens: &[&str]| -> Vec<(&'static str, Value)> {
        let types: Vec<i32> =
            tokens.iter().map(|t| if t.starts_with("<0x") { 6 } else { 1 + 2 * i32::from(*t == "<bos>") }).collect();
        vec![
            ("model", "gemma4".into()),
            ("tokens", Array::of_strings(tokens).into()),
            ("token_type", Array::of(&types).into()),
            ("merges", Array::of_strings(["\n \n", "a \n", "\u{2581} a"]).into()),
            ("bos_token_id", 0u32.into()),
        ]
    };
    let tokenizer = Tokenizer::from_gguf(&super::file(keys(&tokens))).unwrap();
    #[rustfmt::skip]
    let cases: &[(&str, &[u32])] = &[
        ("\n", &[3]), ("\n\n", &[4]), ("\n\n\n", &[5]),
        // No token is as long: merges only, from the left.
        ("\n\n\n\n", &[4, 4]), ("\n\n\n\n\n", &[4, 4, 3]),
        // Nothing goes across the end of a line, although there is a merge for it.
        ("a\na", &[1, 3, 1]), ("a\n\n\n a", &[1, 5, 7]), ("a a", &[1, 7]), ("  a", &[2, 7]), ("\u{2581}a", &[7]),
        ("é", &[8, 9]), ("aéa", &[1, 8, 9, 1]),
        ("", &[]),
    ];
    for (text, ids) in cases {
        assert_eq!(tokenizer.encode(text, Encode::PLAIN).unwrap(), *ids, "{text:?}");
        assert_eq!(tokenizer.decode(ids), text.replace('\u{2581}', " "), "no space is put before or taken away");
        let with_bos = [&[0][..], ids].concat();
        assert_eq!(tokenizer.encode(text, Encode::default()).unwrap(), with_bos, "{text:?}: BOS always");
    }
    assert_eq!(tokenizer.kind(8), TokenKind::Byte);
    assert_eq!(tokenizer.encode("<0xC3>", Encode::PLAIN).unwrap_err().to_string().matches("0x3c").count(), 1);
    assert_eq!(tokenizer.encode("b", Encode::PLAIN).unwrap_err().to_string().matches("0x62").count(), 1);
    let mut without_merges = keys(&tokens);
    without_merges.retain(|(key, _)| *key != "merges");
    let error = Tokenizer::from_gguf(&super::file(without_merges)).err().unwrap().to_string();
    assert!(error.contains("tokenizer.ggml.merges"), "{error}");
}
