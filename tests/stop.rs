//! Stop strings, however the text is cut into pieces.

use qrun::text::stop::StopMatcher;

/// What is shown of the pieces, and which stop string ended them.
fn shown(stops: &[&str], pieces: &[&str]) -> (String, Option<usize>) {
    let mut matcher = StopMatcher::new(stops.iter().map(ToString::to_string).collect());
    let mut text = String::new();
    for piece in pieces {
        let emit = matcher.push(piece);
        text += &emit.text;
        if emit.stopped.is_some() {
            assert_eq!(matcher.push("more").text, "");
            assert_eq!(matcher.finish(), "");
            return (text, emit.stopped);
        }
    }
    text += &matcher.finish();
    (text, None)
}

const CASES: &[(&[&str], &str, &str, Option<usize>)] = &[
    (&[], "plain text", "plain text", None),
    (&[""], "an empty one never stops", "an empty one never stops", None),
    (&["\nUser:"], "Hi.\nUser: x", "Hi.", Some(0)),
    (&["\nUser:"], "Hi.\nUser", "Hi.\nUser", None),
    (&["</s>", "<|im_end|>"], "a < b <|im_end|> c", "a < b ", Some(1)),
    (&["aab"], "aaaab", "aa", Some(0)),
    (&["abcd", "bc"], "abcd", "a", Some(1)),
    (&["abcd", "bc"], "abd", "abd", None),
    (&["b", "ab"], "xab", "x", Some(1)),
    (&["ab", "abc"], "abc", "", Some(0)),
    (&["é!", "👩‍👧"], "né👩‍👩‍👧 né!", "né👩‍", Some(1)),
    (&["👧"], "👩‍👩‍👧 end", "👩‍👩‍", Some(0)),
    (&["é!"], "né👩‍👧 né!", "né👩‍👧 n", Some(0)),
    (&["。"], "はい。終", "はい", Some(0)),
];

#[test]
fn every_cut_into_pieces_gives_the_same() {
    for (stops, text, expected, stopped) in CASES {
        let chars: Vec<usize> = text.char_indices().map(|(at, _)| at).skip(1).collect();
        assert!(chars.len() < 24, "2^n cuts");
        let mut cuts: Vec<u32> = (0..1u32 << chars.len().min(12)).collect();
        // Of longer texts, all cuts of the beginning and, shifted, of the end.
        if chars.len() > 12 {
            cuts.extend((0..1u32 << 12).map(|cut| cut << (chars.len() - 12)));
        }
        for cut in cuts {
            let mut pieces = Vec::new();
            let mut start = 0;
            for (bit, &at) in chars.iter().enumerate() {
                if cut >> bit & 1 == 1 {
                    pieces.push(&text[start..at]);
                    start = at;
                }
            }
            pieces.push(&text[start..]);
            assert_eq!(shown(stops, &pieces), (expected.to_string(), *stopped), "{stops:?} in {pieces:?}");
        }
    }
}

#[test]
fn nothing_is_held_that_cannot_become_a_stop_string() {
    let mut matcher = StopMatcher::new(vec!["<end>".into()]);
    assert_eq!(matcher.push("abc <en").text, "abc ");
    assert_eq!(matcher.push("joy").text, "<enjoy");
    assert_eq!(matcher.push("<").text, "");
    assert_eq!(matcher.finish(), "<");
}
