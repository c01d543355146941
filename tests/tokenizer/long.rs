//! A megabyte of one character: no time that grows with the square, nothing cut off.

use std::time::{Duration, Instant};

use qrun::text::tokenizer::Encode;

#[test]
fn a_megabyte_of_one_character_takes_no_time_to_speak_of() {
    for name in super::TINY {
        let tokenizer = super::tiny(name);
        for c in [" ", "a", "\n", "=", "\u{2581}", "1", "é", "A"] {
            let text = c.repeat(1_000_000 / c.len());
            let start = Instant::now();
            let ids = tokenizer.encode(&text, Encode::PLAIN).unwrap();
            // Well under a second alone; a square would take minutes.
            assert!(start.elapsed() < Duration::from_secs(20), "{name}: {c:?} took {:?}", start.elapsed());
            let expected = if name.contains("gemma") || name.contains("tiny-llama") {
                text.replace('\u{2581}', " ")
            } else {
                text
            };
            let decoded = tokenizer.decode(&ids);
            assert!(decoded == expected || decoded == expected.replace(' ', "\u{2581}"), "{name}: {c:?} comes back");
        }
    }
}

#[test]
fn white_space_that_ends_in_a_word_is_not_scanned_again_and_again() {
    for pre in [
        "llama-bpe",
        "qwen2",
        "qwen35",
        "gpt-2",
        "tekken",
        "gpt-4o",
        "smollm",
        "deepseek-llm",
        "deepseek-coder",
        "deepseek-v3",
        "minicpm5",
        "laguna",
        "falcon",
        "default",
    ] {
        // Bytes as their own tokens: all the time goes into the cutting.
        let spelled: Vec<String> = (0..=0x17fu32).filter_map(char::from_u32).map(String::from).collect();
        let mut keys = super::bpe(&spelled.iter().map(String::as_str).collect::<Vec<_>>(), &[]);
        keys[1] = ("pre", pre.into());
        let tokenizer = qrun::text::tokenizer::Tokenizer::from_gguf(&super::file(keys)).unwrap();
        for unit in [" ", "\t", "\n", "A", "中", "\u{301}", "'", "/", "12"] {
            let text = unit.repeat(300_000 / unit.len()) + "x";
            let start = Instant::now();
            let ids = tokenizer.encode(&text, Encode::PLAIN).unwrap();
            assert!(start.elapsed() < Duration::from_secs(10), "{pre}: {unit:?} took {:?}", start.elapsed());
            assert_eq!(tokenizer.decode(&ids), text, "{pre}: {unit:?}");
        }
    }
}
