//! Special tokens: where they count, what is put around a text, what ends a generation.

use qrun::text::tokenizer::{Encode, TokenKind, Tokenizer};

const BOTH: Encode = Encode { add_special: true, parse_special: true };
const ADD: Encode = Encode { add_special: true, parse_special: false };
const PARSE: Encode = Encode { add_special: false, parse_special: true };

#[test]
fn the_begin_of_a_text_is_marked_once() {
    for name in super::TINY {
        let tokenizer = super::tiny(name);
        let bos = tokenizer.bos().unwrap();
        let marked = format!("{}Hello", tokenizer.text(bos));
        for text in ["Hello", &marked] {
            let ids = tokenizer.encode(text, BOTH).unwrap();
            assert_eq!(ids.iter().filter(|&&id| id == bos).count(), 1, "{name}: {text}");
            assert_eq!((ids[0], tokenizer.decode(&ids).as_str()), (bos, "Hello"), "{name}: {text}");
        }
        assert!(!tokenizer.encode("Hello", PARSE).unwrap().contains(&bos), "{name}: not asked for");
        assert_eq!(tokenizer.encode("", BOTH).unwrap(), [bos], "{name}: of an empty text, too");
        assert_eq!(tokenizer.encode("", Encode::PLAIN).unwrap(), [0; 0], "{name}");
    }
}

#[test]
fn control_tokens_never_come_out_of_plain_text() {
    for name in super::TINY {
        let tokenizer = super::tiny(name);
        let control = |id: &u32| matches!(tokenizer.kind(*id), TokenKind::Control | TokenKind::Unknown);
        for id in (0..tokenizer.n_vocab() as u32).filter(control) {
            let text = tokenizer.text(id);
            let plain = tokenizer.encode(text, Encode::PLAIN).unwrap();
            assert!(!plain.iter().any(control), "{name}: {text:?} became {plain:?}");
            assert_eq!(tokenizer.decode(&plain), text, "{name}");
            assert_eq!(tokenizer.encode(text, PARSE).unwrap(), [id], "{name}");
            assert!(tokenizer.piece(id).is_empty(), "{name}: {text:?} adds nothing to the text");
        }
    }
}

fn row(text: &str, kind: i32) -> (&str, f32, i32) {
    (text, 0.0, kind)
}

#[test]
fn user_defined_tokens_count_always_and_the_longest_first() {
    let rows = [
        row("<unk>", 2),
        row("<s>", 3),
        row("</s>", 3),
        row("a", 1),
        row("b", 1),
        row("ab", 4),
        row("bab", 4),
        row("  ", 4),
    ];
    let mut keys = super::spm(&rows);
    keys.push(("add_space_prefix", false.into()));
    let tokenizer = Tokenizer::from_gguf(&super::file(keys)).unwrap();
    for (text, ids) in [
        ("ab", vec![5]),
        ("abab", vec![3, 6]),
        ("babab", vec![6, 5]),
        ("a  b", vec![3, 7, 4]),
        ("<s>ab", vec![0, 0, 0, 5]),
    ] {
        assert_eq!(tokenizer.encode(text, Encode::PLAIN).unwrap(), ids, "{text}");
    }
    assert_eq!(tokenizer.encode("<s>ab", PARSE).unwrap(), [1, 5]);
    assert_eq!(tokenizer.encode("a  b", ADD).unwrap(), [1, 3, 7, 4]);
}

#[test]
fn a_space_stands_before_a_text_and_after_each_special_token() {
    let rows = [row("<unk>", 2), row("<s>", 3), row("</s>", 3), row("▁a", 1), row("a", 1), row("▁", 1)];
    let tokenizer = Tokenizer::from_gguf(&super::file(super::spm(&rows))).unwrap();
    assert_eq!(tokenizer.encode("a</s>a a", BOTH).unwrap(), [1, 3, 2, 3, 3]);
    assert_eq!(tokenizer.decode(&[1, 3, 3]), "a a");
    assert_eq!(tokenizer.encode(" a", Encode::PLAIN).unwrap(), [5, 3]);
}

#[test]
fn the_end_of_a_generation_is_found_by_text() {
    // (text, type, ends a generation)
    let rows = [
        ("<unk>", 2, false),
        ("<s>", 3, false),
        ("<eos>", 3, true),
        ("<end_of_turn>", 4, true),
        ("<|im_end|>", 1, true),
        ("</s>", 4, false),
        ("a", 1, false),
    ];
    let entries: Vec<_> = rows.iter().map(|r| row(r.0, r.1)).collect();
    let tokenizer = Tokenizer::from_gguf(&super::file(super::spm(&entries))).unwrap();
    for (text, _, ends) in rows {
        let id = tokenizer.find(text).unwrap();
        assert_eq!(tokenizer.is_eog(id), ends, "{text}");
        assert!(!ends || tokenizer.kind(id) == TokenKind::Control, "{text}");
    }
    assert_eq!(tokenizer.eot(), tokenizer.find("<|im_end|>"), "named by no key");
    assert_eq!(tokenizer.eog().collect::<Vec<_>>(), [2, 3, 4]);
}

/// Texts of a vocabulary of control tokens; those that end a generation; the one that ends a turn.
#[rustfmt::skip]
const ENDS: &[(&[&str], &[&str], &str)] = &[
    (&["<|im_end|>", "<|endoftext|>", "<|im_start|>"], &["<|im_end|>", "<|endoftext|>"], "<|im_end|>"),
    // Of a coder that fills a gap.
    (&["<|im_end|>", "<|fim_prefix|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<fim_pad>", "<reponame>"],
        &["<|im_end|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<fim_pad>", "<reponame>"], "<|im_end|>"),
    (&["<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|python_tag|>"], &["<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"], "<|eot_id|>"),
    (&["<turn|>", "<|turn>", "<|tool_response>", "<eos>", "<|tool_call>"], &["<turn|>", "<|tool_response>", "<eos>"], "<turn|>"),
    (&["<end_of_turn>", "<start_of_turn>"], &["<end_of_turn>"], "<end_of_turn>"),
    (&["<EOT>", "[EOT]", "<｜end▁of▁sentence｜>"], &["<EOT>", "[EOT]", "<｜end▁of▁sentence｜>"], "<EOT>"),
    (&["<|end|>", "<|user|>"], &["<|end|>"], "<|end|>"),
    (&["<|end|>", "<|return|>"], &["<|end|>", "<|return|>"], "<|end|>"),
    // Harmony: a message ends, the answer goes on.
    (&["<|end|>", "<|return|>", "<|call|>", "<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"], &["<|return|>", "<|call|>"], "<|return|>"),
];

#[test]
fn what_ends_a_generation_in_vocabularies_of_the_families() {
    for (texts, ends, turn) in ENDS {
        let mut rows = vec![row("<unk>", 2), row("<s>", 3), row("</s>", 1)];
        rows.extend(texts.iter().map(|text| row(text, 3)));
        let end = texts.iter().position(|text| *text == "<|end|>").map(|at| at as u32 + 3);
        // A file may name the end of a message as that of a turn.
        for named in [None, end] {
            let mut keys = super::spm(&rows);
            keys.extend(named.map(|id| ("eot_token_id", id.into())));
            let tokenizer = Tokenizer::from_gguf(&super::file(keys)).unwrap();
            // Not `</s>`, the format's default.
            let found: Vec<&str> = tokenizer.eog().filter(|&id| id > 2).map(|id| tokenizer.text(id)).collect();
            let expected: Vec<&str> = texts.iter().copied().filter(|text| ends.contains(text)).collect();
            assert_eq!(found, expected, "{texts:?}");
            assert_eq!(tokenizer.text(tokenizer.eot().unwrap()), *turn, "{texts:?}");
            assert!(tokenizer.eog().all(|id| id == 2 || tokenizer.piece(id).is_empty()), "{texts:?}: no text");
        }
    }
}
