//! Bad vocabularies: an error that names the key, or something that works; never a panic.

use qrun::text::tokenizer::{Encode, Tokenizer};
use qrun_quant::gguf::{Array, Value};

type Keys = Vec<(&'static str, Value)>;

fn with(mut keys: Keys, key: &'static str, value: impl Into<Value>) -> Keys {
    keys.retain(|(k, _)| *k != key);
    keys.push((key, value.into()));
    keys
}

fn without(mut keys: Keys, key: &str) -> Keys {
    keys.retain(|(k, _)| *k != key);
    keys
}

fn good_spm() -> Keys {
    super::spm(&[("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3), ("a", -1.0, 1), ("aa", -2.0, 1), ("▁", -3.0, 1)])
}

fn good_bpe() -> Keys {
    super::bpe(&["a", "b", "ab", "Ġ"], &["a b"])
}

#[test]
fn what_is_wrong_is_named() {
    let cases: Vec<(Keys, &str, &str)> = vec![
        (without(good_spm(), "model"), "tokenizer.ggml.model", "no such key"),
        (with(good_spm(), "model", "rwkv"), "tokenizer.ggml.model", "\"rwkv\""),
        (with(good_spm(), "model", 7u32), "tokenizer.ggml.model", "7"),
        (without(good_spm(), "tokens"), "tokenizer.ggml.tokens", "no such key"),
        (with(good_spm(), "tokens", Array::of(&[1u32, 2])), "tokenizer.ggml.tokens", "U32"),
        (with(good_spm(), "tokens", Array::of_strings([""; 0])), "tokenizer.ggml.tokens", "0 values"),
        (without(good_spm(), "scores"), "tokenizer.ggml.scores", "no such key"),
        (with(good_spm(), "scores", Array::of(&[0f32; 5])), "tokenizer.ggml.scores", "5 values"),
        (with(good_spm(), "scores", Array::of(&[0f64; 6])), "tokenizer.ggml.scores", "F64"),
        (with(good_spm(), "token_type", Array::of(&[1i32; 7])), "tokenizer.ggml.token_type", "7"),
        (with(good_spm(), "token_type", Array::of(&[1, 1, 1, 1, 1, 7])), "tokenizer.ggml.token_type", "7 for token 5"),
        (with(good_spm(), "token_type", Array::of(&[-1i32; 6])), "tokenizer.ggml.token_type", "-1 for token 0"),
        (with(good_spm(), "token_type", Array::of(&[f32::NAN; 6])), "tokenizer.ggml.token_type", "NaN for token 0"),
        (with(good_spm(), "token_type", Array::of_strings(["1"; 6])), "tokenizer.ggml.token_type", "Str"),
        (with(good_spm(), "bos_token_id", "1"), "tokenizer.ggml.bos_token_id", "\"1\""),
        (with(good_spm(), "add_bos_token", 1u8), "tokenizer.ggml.add_bos_token", "1"),
        (without(good_bpe(), "merges"), "tokenizer.ggml.merges", "no such key"),
        (with(good_bpe(), "merges", Array::of(&[0u8; 3])), "tokenizer.ggml.merges", "U8"),
        (with(good_bpe(), "merges", Array::of_strings(["a b", "a x"])), "tokenizer.ggml.merges, merge 1", "a x"),
        (with(good_bpe(), "merges", Array::of_strings(["b a"])), "tokenizer.ggml.merges, merge 0", "b a"),
        (with(good_bpe(), "merges", Array::of_strings(["ab"])), "tokenizer.ggml.merges, merge 0", "ab"),
        (with(good_bpe(), "merges", Array::of_strings([""])), "tokenizer.ggml.merges, merge 0", "\"\""),
        (with(good_bpe(), "merges", Array::of_strings([" "])), "tokenizer.ggml.merges, merge 0", "\" \""),
        (
            with(good_bpe(), "merges", Array::of_strings(["aaaaaaa ".repeat(99)])),
            "tokenizer.ggml.merges, merge 0",
            "aaa",
        ),
        (with(good_bpe(), "pre", "unheard-of"), "llama-bpe, llama3", "\"unheard-of\""),
    ];
    for (keys, place, found) in cases {
        let error = Tokenizer::from_gguf(&super::file(keys)).err().unwrap_or_else(|| panic!("{place} passed"));
        let text = error.to_string();
        assert!(text.contains("crafted") && text.contains(place) && text.contains(found), "{place}, {found}: {text}");
    }
}

#[test]
fn what_is_odd_works() {
    let odd: Vec<Keys> = vec![
        super::spm(&[("", 0.0, 1), ("", 0.0, 3), ("", 0.0, 4), ("a", f32::NAN, 1), ("aa", f32::NAN, 1), ("a", 9.0, 1)]),
        super::spm(&[("a", f32::INFINITY, 1), ("aa", f32::NEG_INFINITY, 1), ("aaa", -0.0, 4), ("\u{0}", 0.0, 1)]),
        super::spm(&[("<0x", 0.0, 6), ("<0xZZ>", 0.0, 6), ("<0x+1>", 0.0, 6), ("<0x41>", 0.0, 6), ("<unk>", 0.0, 2)]),
        with(good_spm(), "bos_token_id", u32::MAX),
        with(good_spm(), "eos_token_id", -1i32),
        with(good_spm(), "unknown_token_id", 6u32),
        with(good_spm(), "add_space_prefix", false),
        without(good_spm(), "token_type"),
        super::bpe(&["", "", "a", "a", "Ġ"], &[]),
        super::bpe(&["a", "aa", "aaaa"], &["a a", "a a", "aa aa", "aa aa"]),
        super::bpe(&["中", "文", "中文"], &["中 文"]),
        without(good_bpe(), "pre"),
        with(good_bpe(), "token_type", Array::of(&[3i32, 4, 2, 6])),
    ];
    let texts = ["", "a", "aaaaa", " a b", "<s></s><unk>", "中文\0\u{10ffff}", "A\n\n"];
    for (i, keys) in odd.into_iter().enumerate() {
        let tokenizer = Tokenizer::from_gguf(&super::file(keys)).unwrap_or_else(|e| panic!("vocabulary {i}: {e}"));
        let n = tokenizer.n_vocab() as u32;
        for how in [Encode::default(), Encode::PLAIN] {
            for text in texts {
                // A vocabulary without a token for some byte says so instead of leaving it out.
                let ids = tokenizer.encode(text, how).unwrap_or_default();
                assert!(ids.iter().all(|&id| id < n), "vocabulary {i}: {ids:?}");
                tokenizer.decode(&ids);
            }
        }
        for id in (0..n).chain([n, u32::MAX]) {
            tokenizer.piece(id);
            tokenizer.find(tokenizer.text(id));
            assert!(!tokenizer.is_eog(id) || id < n);
        }
        assert!(tokenizer.piece(n).is_empty() && tokenizer.text(u32::MAX).is_empty());
    }
}

#[test]
fn a_byte_without_a_token_is_an_error() {
    let tokenizer = Tokenizer::from_gguf(&super::file(good_bpe())).unwrap();
    let error = tokenizer.encode("abc", Encode::PLAIN).unwrap_err();
    assert!(error.to_string().contains("0x63"), "{error}");
    assert_eq!(tokenizer.encode("ab a", Encode::PLAIN).unwrap(), [2, 3, 0]);
    let tokenizer = Tokenizer::from_gguf(&super::file(good_spm())).unwrap();
    assert_eq!(tokenizer.encode("ab", Encode::PLAIN).unwrap(), [5, 3, 0], "the unknown token");
}

#[test]
fn many_special_tokens_of_many_lengths_take_no_time_to_speak_of() {
    let texts: Vec<String> = (1..1500).map(|n| "<".repeat(n)).collect();
    let rows: Vec<_> = texts.iter().map(|t| (t.as_str(), 0.0, 4)).collect();
    let tokenizer = Tokenizer::from_gguf(&super::file(super::spm(&rows))).unwrap();
    let start = std::time::Instant::now();
    let ids = tokenizer.encode(&"<".repeat(100_000), Encode::PLAIN).unwrap();
    assert_eq!(tokenizer.decode(&ids), "<".repeat(100_000));
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}
