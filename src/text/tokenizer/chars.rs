//! BPE over characters (`tokenizer.ggml.model` = "gemma4"): spaces are written as U+2581, a text is cut at line feeds
//! only, its characters are the first pieces, and the pair that stands earliest in the list of merges is merged first.

use qrun_quant::{Error, Gguf};

use super::{
    TokenizeError,
    merge::NONE,
    pairs::Pairs,
    run::{Run, Work},
    spaces::{ByteTokens, Words, characters, spell},
    vocab::{Entries, Vocab},
};

/// What such a vocabulary has besides its entries.
pub struct CharBpe {
    pairs: Pairs,
    words: Words,
    bytes: ByteTokens,
}

impl CharBpe {
    /// Reads the merges; `unknown` stands for bytes without a token.
    ///
    /// # Errors
    /// As [`Pairs::from_gguf`].
    pub fn from_gguf(g: &Gguf, vocab: &Vocab, unknown: Option<u32>) -> Result<Self, Error> {
        let (words, bytes) = (Words::of(vocab), ByteTokens::of(vocab, unknown));
        Ok(Self { pairs: Pairs::from_gguf(g, vocab)?, words, bytes })
    }

    /// Tokens of one fragment.
    ///
    /// # Errors
    /// [`TokenizeError::NoToken`]: the vocabulary has no token for a byte, and none for what is unknown.
    pub fn encode<'t>(&self, entries: Entries<'_>, run: &mut Run<'t>, text: &'t str) -> Result<(), TokenizeError> {
        for line in text.as_bytes().chunk_by(|a, b| (*a == b'\n') == (*b == b'\n')) {
            // Line feeds that are a token are taken whole: not all such tokens come out of merges.
            match entries.find_text(line).filter(|_| line[0] == b'\n') {
                Some(id) => run.out.push(id),
                None => {
                    for word in self.words.of_text(line) {
                        run.word(word, |work, out| self.merge(entries, work, out, word))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn merge(
        &self,
        entries: Entries<'_>,
        work: &mut Work,
        out: &mut Vec<u32>,
        word: &[u8],
    ) -> Result<(), TokenizeError> {
        let Work { merger, spelled } = work;
        merger.clear();
        spell(spelled, word.iter());
        for character in characters(spelled) {
            merger.push(entries.find_text(character).unwrap_or(NONE), character.len());
        }
        merger.merge(|left, right| self.pairs.get(left.id, right.id));
        for symbol in merger.symbols() {
            match symbol.id {
                NONE => self.bytes.spell_out(&spelled[symbol.range()], out)?,
                id => out.push(id),
            }
        }
        Ok(())
    }
}
