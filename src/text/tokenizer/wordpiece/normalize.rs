//! From a text to the words that WordPiece takes apart.

use std::cmp::Ordering;

use super::{
    super::TokenizeError,
    table::{BASES, FORMATS, MARKS, PARTS, PUNCTUATION},
};

/// What becomes of capitals and accents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Normalizer {
    /// They stay.
    Cased,
    /// Letters become small, and characters are taken apart and lose their marks.
    Uncased,
}

impl Normalizer {
    /// Calls `f` with each word of a text, none of them empty.
    ///
    /// # Errors
    /// That of `f`.
    pub fn words(self, text: &str, mut f: impl FnMut(&str) -> Result<(), TokenizeError>) -> Result<(), TokenizeError> {
        let mut word = String::new();
        let mut end = |word: &mut String| {
            let done = if word.is_empty() { Ok(()) } else { f(word) };
            word.clear();
            done
        };
        let mut parts = Vec::new();
        for c in text.chars().filter(|&c| !is_dropped(c)) {
            let alone = is_chinese(c);
            if alone || c.is_whitespace() {
                end(&mut word)?;
            }
            parts.clear();
            self.parts(c, &mut parts);
            for &part in parts.iter().filter(|part| !part.is_whitespace()) {
                let is_sign = part.is_ascii_punctuation() || is_in(&PUNCTUATION, part);
                if is_sign {
                    end(&mut word)?;
                }
                word.push(part);
                if is_sign {
                    end(&mut word)?;
                }
            }
            if alone {
                end(&mut word)?;
            }
        }
        end(&mut word)
    }

    /// What a character becomes.
    fn parts(self, c: char, out: &mut Vec<char>) {
        match self {
            Self::Cased => out.push(c),
            Self::Uncased => decompose(c, |part| out.extend(part.to_lowercase())),
        }
    }
}

/// Canonical parts of a character but for marks that take no space.
fn decompose(c: char, mut f: impl FnMut(char)) {
    if c.is_ascii() {
        return f(c);
    }
    let c = u32::from(c);
    let char_of = |c: u32| char::from_u32(c).unwrap_or(char::REPLACEMENT_CHARACTER);
    if let Some(syllable) = c.checked_sub(0xac00).filter(|&s| s < 11_172) {
        // Hangul: 19 leading consonants, 21 vowels, 27 trailing consonants or none.
        f(char_of(0x1100 + syllable / (21 * 28)));
        f(char_of(0x1161 + syllable / 28 % 21));
        match syllable % 28 {
            0 => {}
            last => f(char_of(0x11a7 + last)),
        }
    } else if let Ok(at) = BASES.binary_search_by_key(&c, |row| row.0) {
        f(char_of(BASES[at].1));
    } else if let Ok(at) = PARTS.binary_search_by_key(&c, |row| row.0) {
        PARTS[at].1.chars().for_each(f);
    } else if !is_in(&MARKS, char_of(c)) {
        f(char_of(c));
    }
}

/// Characters that a text loses: controls but for white space, marks of formats, private ones, and what stands for nothing.
fn is_dropped(c: char) -> bool {
    match c {
        '\t' | '\n' | '\r' => false,
        '\u{fffd}' | '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{ffffd}' | '\u{100000}'..='\u{10fffd}' => true,
        c => c.is_control() || !c.is_ascii() && is_in(&FORMATS, c),
    }
}

/// Each of these is a word (the blocks of Chinese characters).
fn is_chinese(c: char) -> bool {
    matches!(
        c,
        '\u{4e00}'..='\u{9fff}'
            | '\u{3400}'..='\u{4dbf}'
            | '\u{20000}'..='\u{2a6df}'
            | '\u{2a700}'..='\u{2b73f}'
            | '\u{2b740}'..='\u{2b81f}'
            | '\u{2b920}'..='\u{2ceaf}'
            | '\u{f900}'..='\u{faff}'
            | '\u{2f800}'..='\u{2fa1f}'
    )
}

/// Whether one of the runs, first and last, has the character.
fn is_in(runs: &[(u32, u32)], c: char) -> bool {
    let c = u32::from(c);
    let place = |&(first, last): &(u32, u32)| match () {
        () if last < c => Ordering::Less,
        () if first > c => Ordering::Greater,
        () => Ordering::Equal,
    };
    runs.binary_search_by(place).is_ok()
}
