//! Sets of characters.

/// The last character of Unicode.
pub const MAX_CHAR: u32 = 0x10_ffff;

/// A set of characters, as ranges in rising order that do not touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chars(Vec<(u32, u32)>);

impl Chars {
    /// The set of some ranges, both ends included.
    pub fn new(mut ranges: Vec<(u32, u32)>) -> Self {
        ranges.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::new();
        for (first, last) in ranges {
            match merged.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        Self(merged)
    }

    pub fn one(c: u32) -> Self {
        Self(vec![(c, c)])
    }

    pub fn any() -> Self {
        Self(vec![(0, MAX_CHAR)])
    }

    /// All characters that are not in the set.
    pub fn others(&self) -> Self {
        let mut next = 0;
        let mut ranges = Vec::new();
        for &(first, last) in &self.0 {
            if first > next {
                ranges.push((next, first - 1));
            }
            next = last + 1;
        }
        if next <= MAX_CHAR {
            ranges.push((next, MAX_CHAR));
        }
        Self(ranges)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the two have a character in common.
    pub fn meets(&self, other: &Self) -> bool {
        let (mut a, mut b) = (self.0.iter().peekable(), other.0.iter().peekable());
        while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
            if x.0 <= y.1 && y.0 <= x.1 {
                return true;
            }
            if x.1 < y.1 {
                a.next()
            } else {
                b.next()
            };
        }
        false
    }

    /// The set as a regular expression. Everything but letters and digits is written as a number.
    pub fn regex(&self) -> String {
        let one = |c: u32| match char::from_u32(c) {
            Some(c) if c.is_ascii_alphanumeric() => c.to_string(),
            _ => format!("\\x{{{c:X}}}"),
        };
        match self.0.as_slice() {
            [(first, last)] if first == last => one(*first),
            ranges => {
                // Surrogates are no characters: regular expressions take no range that begins or ends in them.
                let inner = ranges.iter().map(|&(first, last)| match first == last {
                    true => one(first),
                    false => {
                        let first = if (0xd800..0xe000).contains(&first) { 0xe000 } else { first };
                        let last = if (0xd800..0xe000).contains(&last) { 0xd7ff } else { last };
                        format!("{}-{}", one(first), one(last))
                    }
                });
                format!("[{}]", inner.collect::<String>())
            }
        }
    }
}
