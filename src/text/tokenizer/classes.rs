//! Unicode classes of characters, as far as pre-tokenizers tell them apart.

mod table;

use table::RANGES;

/// Class of a character; the names in brackets are Unicode's general categories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Class {
    /// Everything else: controls, formats, unassigned.
    Other,
    /// Upper case and title case (Lu, Lt).
    Upper,
    /// Lower case (Ll).
    Lower,
    /// Letters without case and modifiers (Lo, Lm).
    Letter,
    /// Combining marks (M).
    Mark,
    /// Numbers (N).
    Number,
    /// Punctuation (P).
    Punctuation,
    /// Symbols (S).
    Symbol,
    /// White space (the property, not a category).
    Space,
}

impl Class {
    /// The class of a character.
    pub fn of(c: char) -> Self {
        match BASIC.get(c as usize) {
            Some(&class) => class,
            None => {
                let after = RANGES.partition_point(|&range| range >> 4 <= c as u32);
                from_number(RANGES[after - 1] & 15)
            }
        }
    }

    /// Any letter (L).
    pub fn is_letter(self) -> bool {
        matches!(self, Self::Upper | Self::Lower | Self::Letter)
    }

    /// A letter or a combining mark (L, M).
    pub fn is_letter_or_mark(self) -> bool {
        self.is_letter() || self == Self::Mark
    }

    /// Punctuation or a symbol (P, S).
    pub fn is_sign(self) -> bool {
        matches!(self, Self::Punctuation | Self::Symbol)
    }
}

const fn from_number(n: u32) -> Class {
    use Class::*;
    match n {
        1 => Upper,
        2 => Lower,
        3 => Letter,
        4 => Mark,
        5 => Number,
        6 => Punctuation,
        7 => Symbol,
        8 => Space,
        _ => Other,
    }
}

/// The classes of the Basic Multilingual Plane, one by one.
static BASIC: [Class; 0x1_0000] = {
    let mut out = [Class::Other; 0x1_0000];
    let mut row = 0;
    while row < RANGES.len() {
        let end = if row + 1 < RANGES.len() { RANGES[row + 1] >> 4 } else { 0x11_0000 };
        let mut c = RANGES[row] >> 4;
        while c < end && c < 0x1_0000 {
            out[c as usize] = from_number(RANGES[row] & 15);
            c += 1;
        }
        row += 1;
    }
    out
};

#[cfg(test)]
mod tests {
    use super::*;

    /// All code points by the classes of the regex crate. The table is made from this.
    fn expected() -> Vec<Class> {
        let mut out = vec![Class::Other; 0x11_0000];
        let classes = [
            (r"^\p{Lu}|\p{Lt}$", Class::Upper),
            (r"^\p{Ll}$", Class::Lower),
            (r"^\p{Lo}|\p{Lm}$", Class::Letter),
            (r"^\p{M}$", Class::Mark),
            (r"^\p{N}$", Class::Number),
            (r"^\p{P}$", Class::Punctuation),
            (r"^\p{S}$", Class::Symbol),
            (r"^\s$", Class::Space),
        ];
        for (pattern, class) in classes {
            let regex = fancy_regex::Regex::new(pattern).unwrap();
            for c in '\0'..=char::MAX {
                if regex.is_match(c.encode_utf8(&mut [0; 4])).unwrap() {
                    assert_eq!(out[c as usize], Class::Other, "{c:?} has two classes");
                    out[c as usize] = class;
                }
            }
        }
        out
    }

    #[test]
    fn every_code_point_has_the_class_of_the_regex_crate() {
        let expected = expected();
        let differing = ('\0'..=char::MAX).filter(|&c| Class::of(c) != expected[c as usize]).count();
        if differing == 0 {
            return;
        }
        // A new Unicode version: write the table anew, to be put in the place of the old one.
        let mut rows = String::new();
        let mut n = 0;
        for c in 0..expected.len() {
            if c == 0 || expected[c] != expected[c - 1] {
                let gap = if n % 12 == 0 { "\n    " } else { " " };
                rows += &format!("{gap}{:#x},", (c as u32) << 4 | expected[c] as u32);
                n += 1;
            }
        }
        let path = std::env::temp_dir().join("qrun-classes-table.rs");
        let text = format!(
            "//! First code point << 4 | class, for each run of code points of one class. Written by the test in classes.rs.\n\n\
             #[rustfmt::skip]\npub static RANGES: [u32; {n}] = [{rows}\n];\n"
        );
        std::fs::write(&path, text).unwrap();
        panic!("{differing} code points differ; the right table is in {}", path.display());
    }
}
