//! What vocabularies that write spaces as U+2581 have in common: the spelling, words that no token goes across, and
//! tokens for the bytes of characters that have none.

use super::{TokenizeError, merge::NONE, vocab::Vocab};

/// U+2581, which stands for a space in these vocabularies.
pub const SPACE: &str = "\u{2581}";

/// Writes bytes of a text as the vocabulary spells them, in place of what `out` holds.
pub fn spell<'t>(out: &mut Vec<u8>, bytes: impl Iterator<Item = &'t u8>) {
    out.clear();
    for &byte in bytes {
        match byte {
            b' ' => out.extend_from_slice(SPACE.as_bytes()),
            _ => out.push(byte),
        }
    }
}

/// The characters of a UTF-8 text, as bytes.
pub fn characters(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.chunk_by(|_, &next| next & 0xc0 == 0x80)
}

/// Tokens for the bytes of characters that have no token; [`NONE`] where there is none.
pub struct ByteTokens([u32; 256]);

impl ByteTokens {
    /// `unknown` stands for bytes that the vocabulary lacks.
    pub fn of(vocab: &Vocab, unknown: Option<u32>) -> Self {
        let entries = vocab.entries();
        Self(std::array::from_fn(|b| {
            let plain = || entries.find_text(&[b as u8]).filter(|_| b < 128);
            entries.find_byte(b as u8).or_else(plain).or(unknown).unwrap_or(NONE)
        }))
    }

    /// Appends a token for each byte.
    ///
    /// # Errors
    /// A byte without a token.
    pub fn spell_out(&self, text: &[u8], out: &mut Vec<u32>) -> Result<(), TokenizeError> {
        for &byte in text {
            let id = self.0[byte as usize];
            out.push(if id == NONE { return Err(TokenizeError::NoToken { byte }) } else { id });
        }
        Ok(())
    }
}

/// Where texts may be cut: before spaces that no token has after what stands there. What is merged stays the same.
pub struct Words {
    /// By byte: some token has a space after a character that ends in this byte.
    before_space: [bool; 256],
}

impl Words {
    pub fn of(vocab: &Vocab) -> Self {
        let mut before_space = [false; 256];
        let entries = vocab.entries();
        for (id, kind) in vocab.kinds.iter().enumerate() {
            if kind.is_text() {
                for w in entries.bytes(id as u32).windows(4) {
                    if w[1..] == *SPACE.as_bytes() {
                        before_space[w[0] as usize] = true;
                    }
                }
            }
        }
        Self { before_space }
    }

    /// The words of a text; none is empty, and together they are all of it.
    pub fn of_text<'t>(&self, mut rest: &'t [u8]) -> impl Iterator<Item = &'t [u8]> {
        let last_byte = |b| if b == b' ' { SPACE.as_bytes()[2] } else { b };
        let is_cut = move |w: &[u8]| w[1] == b' ' && !self.before_space[last_byte(w[0]) as usize];
        std::iter::from_fn(move || {
            let end = rest.windows(2).position(&is_cut).map_or(rest.len(), |at| at + 1);
            let (word, tail) = rest.split_at(end);
            rest = tail;
            (!word.is_empty()).then_some(word)
        })
    }
}
