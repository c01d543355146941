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
    spaces::{ByteTokens, Words, characters, spell},
    vocab::{Entries, Vocab},
};

const SCORES: &str = "tokenizer.ggml.scores";

/// What an SPM vocabulary has besides its entries.
pub struct Spm {
    /// One little-endian f32 per token.
    scores: Bytes,
    /// A space is put before the text, at its start and after each special token.
    pub add_space_prefix: bool,
    words: Words,
    bytes: ByteTokens,
}

impl Spm {
    /// Reads the scores; `unknown` stands for bytes without a token.
    ///
    /// # Errors
    /// There are no scores, other than one F32 per token, or `add_space_prefix` is no bool.
    pub fn from_gguf(g: &Gguf, vocab: &Vocab, unknown: Option<u32>) -> Result<Self, Error> {
        let place = || format!("key {SCORES}");
        let expected = || format!("{} values of type F32, one per token", vocab.len());
        let scores = g.array(SCORES)?.ok_or_else(|| g.error(place(), expected(), "no such key"))?;
        if scores.ty != ValueType::F32 || scores.len != vocab.len() {
            return Err(g.error(place(), expected(), format!("{} values of type {:?}", scores.len, scores.ty)));
        }
        Ok(Self {
            scores: scores.bytes.clone(),
            add_space_prefix: g.bool("tokenizer.ggml.add_space_prefix")?.unwrap_or(true),
            words: Words::of(vocab),
            bytes: ByteTokens::of(vocab, unknown),
        })
    }

    /// Tokens of one fragment. `prefix` is put before it.
    ///
    /// # Errors
    /// [`TokenizeError::NoToken`]: the vocabulary has no token for a byte, and none for what is unknown.
    pub fn encode<'t>(
        &self,
        entries: Entries<'_>,
        run: &mut Run<'t>,
        text: &'t str,
        prefix: &str,
    ) -> Result<(), TokenizeError> {
        let mut words = self.words.of_text(text.as_bytes());
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
        spell(spelled, parts.into_iter().flatten());
        for character in characters(spelled) {
            merger.push(NONE, character.len());
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
                self.bytes.spell_out(text, out)?;
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
