//! Text that comes in pieces of bytes.

use qrun::text::tokenizer::Utf8Stream;

const TEXTS: [&str; 5] = ["😀", "a👩\u{200d}👩\u{200d}👧b", "é中😀\u{10ffff}", "plain", "🇩🇪\u{301}"];

fn streamed<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
    let mut stream = Utf8Stream::default();
    let mut out: Vec<String> = pieces.into_iter().map(|piece| stream.push(piece)).collect();
    out.push(stream.finish());
    out
}

#[test]
fn a_character_comes_whole_wherever_its_bytes_are_split() {
    for text in TEXTS {
        let bytes = text.as_bytes();
        for at in 0..=bytes.len() {
            for then in at..=bytes.len() {
                let parts = streamed([&bytes[..at], &bytes[at..then], &bytes[then..]]);
                assert_eq!(parts.concat(), text, "split at {at} and {then}");
                assert!(parts.iter().all(|part| !part.contains('\u{fffd}')), "{parts:?}");
            }
        }
    }
}

#[test]
fn what_is_complete_is_not_held_back() {
    let mut stream = Utf8Stream::default();
    assert_eq!(stream.push("ab😀".as_bytes()), "ab😀");
    assert_eq!(stream.push(&[b'c', 0xf0, 0x9f]), "c");
    assert_eq!(stream.push(b"d"), "\u{fffd}d");
}

#[test]
fn invalid_bytes_are_replaced_where_from_utf8_lossy_replaces_them() {
    let mut random = super::generator(3);
    let interesting = [
        0x00, 0x41, 0x7f, 0x80, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xed, 0xef, 0xf0, 0xf1, 0xf4,
        0xf5, 0xff,
    ];
    for _ in 0..20_000 {
        let bytes: Vec<u8> = (0..1 + random(9)).map(|_| interesting[random(interesting.len())]).collect();
        let expected = String::from_utf8_lossy(&bytes);
        assert_eq!(streamed(bytes.chunks(1)).concat(), expected, "one by one: {bytes:x?}");
        assert_eq!(streamed(bytes.chunks(1 + random(4))).concat(), expected, "in chunks: {bytes:x?}");
    }
}
