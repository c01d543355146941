//! SentencePiece-style vocabularies (`tokenizer.ggml.model` = "llama"): spaces are written as U+2581,
//! and the pair of neighbours whose joined text has the highest score is merged first.
//!
//! The rule is over whole texts. No merge can cross a place whose two sides stand together in no
//! token, though, so the text is cut into words there: same tokens, and most words are known ones.

use qrun_quant::{Bytes, Error, Gguf, gguf::ValueType};

use super::{
    TokenizeError,
    merge::{Join, NONE},
    run::{Run, Work},
    vocab::{Entries, Vocab},
};

/// U+2581, which stands for a space in these vocabularies.
pub const SPACE: &str = "\u{2581}";
const SCORES: &str = "tokenizer.ggml.scores";

/// What an SPM vocabulary has besides its entries.
pub struct Spm {
    /// One little-endian f32 per token.
    scores: Bytes,
    /// A space is put before the text, at its start and after each special token.
    pub add_space_prefix: bool,
    /// By byte: some token has a space after a character that ends in this byte.
    before_space: [bool; 256],
    /// Tokens for the bytes of characters that have no token; [`NONE`] where there is none.
    bytes: [u32; 256],
}

impl Spm {
    pub fn from_gguf(g: &Gguf, vocab: &Vocab, unknown: Option<u32>) -> Result<Self, Error> {
        let place = || format!("key {SCORES}");
        let expected = || format!("{} values of type F32, one per token", vocab.len());
        let scores = g.array(SCORES)?.ok_or_else(|| g.error(place(), expected(), "no such key"))?;
        if scores.ty != ValueType::F32 || scores.len != vocab.len() {
            return Err(g.error(place(), expected(), format!("{} values of type {:?}", scores.len, scores.ty)));
        }
        let entries = vocab.entries();
        let bytes = std::array::from_fn(|b| {
            let plain = || entries.find_text(&[b as u8]).filter(|_| b < 128);
            entries.find_byte(b as u8).or_else(plain).or(unknown).unwrap_or(NONE)
        });
        Ok(Self {
            scores: scores.bytes.clone(),
            add_space_prefix: g.bool("tokenizer.ggml.add_space_prefix")?.unwrap_or(true),
            before_space: before_space(vocab),
            bytes,
        })
    }

    /// Tokens of one fragment. `prefix` is put before it.
    pub fn encode<'t>(
        &self,
        entries: Entries<'_>,
        run: &mut Run<'t>,
        text: &'t str,
        prefix: &str,
    ) -> Result<(), TokenizeError> {
        let mut words = Words { spm: self, rest: text.as_bytes() };
        if !prefix.is_empty() {
            let first = words.next().unwrap_or_default();
            self.merge(entries, &mut run.work, &mut run.out, [prefix.as_bytes(), first])?;
        }
        for word in words {
            run.word(word, |work, out| self.merge(entries, work, out, [b"", word]))?;
        }
        Ok(())
    }

    fn merge(
        &self,
        entries: Entries<'_>,
        work: &mut Work,
        out: &mut Vec<u32>,
        parts: [&[u8]; 2],
    ) -> Result<(), TokenizeError> {
        let Work { merger, spelled } = work;
        merger.clear();
        spelled.clear();
        for &byte in parts.into_iter().flatten() {
            match byte {
                b' ' => spelled.extend_from_slice(SPACE.as_bytes()),
                _ => spelled.push(byte),
            }
        }
        for chunk in spelled.chunk_by(|_, &next| is_continuation(next)) {
            merger.push(NONE, chunk.len());
        }
        merger.merge(|left, right| {
            let id = entries.find_text(&spelled[left.start as usize..right.range().end])?;
            Some(Join { turn: self.turn(id), id })
        });
        for symbol in merger.symbols() {
            let text = &spelled[symbol.range()];
            if symbol.id != NONE {
                out.push(symbol.id);
            } else if let Some(id) = entries.find_text(text) {
                out.push(id);
            } else {
                for &byte in text {
                    let id = self.bytes[byte as usize];
                    out.push(if id == NONE { return Err(TokenizeError::NoToken { byte }) } else { id });
                }
            }
        }
        Ok(())
    }

    /// Scores in falling order as numbers in rising order; NaN comes last.
    fn turn(&self, id: u32) -> u32 {
        let at = id as usize * 4;
        let score = f32::from_le_bytes(std::array::from_fn(|i| self.scores[at + i])) + 0.0;
        let bits = score.to_bits();
        match score.is_nan() {
            true => u32::MAX,
            false if score.is_sign_negative() => bits,
            false => !(bits | 1 << 31),
        }
    }
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

fn before_space(vocab: &Vocab) -> [bool; 256] {
    let mut found = [false; 256];
    let entries = vocab.entries();
    for (id, kind) in vocab.kinds.iter().enumerate() {
        if kind.is_text() {
            for w in entries.bytes(id as u32).windows(4) {
                if w[1..] == *SPACE.as_bytes() {
                    found[w[0] as usize] = true;
                }
            }
        }
    }
    found
}

/// Cuts a text before the spaces that no token has after what stands there.
struct Words<'s, 't> {
    spm: &'s Spm,
    rest: &'t [u8],
}

impl<'t> Iterator for Words<'_, 't> {
    type Item = &'t [u8];

    fn next(&mut self) -> Option<&'t [u8]> {
        let last_byte = |b| if b == b' ' { SPACE.as_bytes()[2] } else { b };
        let is_cut = |w: &[u8]| w[1] == b' ' && !self.spm.before_space[last_byte(w[0]) as usize];
        let end = self.rest.windows(2).position(is_cut).map_or(self.rest.len(), |at| at + 1);
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }
}
