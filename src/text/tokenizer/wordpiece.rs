//! WordPiece (`tokenizer.ggml.model` = "bert"): a text is lower-cased and loses its accents, words end at white space,
//! punctuation and Chinese characters, and each word is its longest known beginning, then the longest that goes on there.
//!
//! In the file a beginning is written behind U+2581, and what goes on a word as it is (`##` in published vocabularies).
//! Which characters are what is as the `tokenizers` package has it, that is by the Unicode of the models' time.

mod normalize;
mod table;

use super::{
    TokenizeError,
    run::Run,
    spaces::{SPACE, characters},
    vocab::{Entries, Vocab},
};
use normalize::Normalizer;

/// Characters of the longest word that is taken apart: longer ones are unknown.
const LONGEST_WORD: usize = 100;

/// What such a vocabulary has besides its entries.
pub struct WordPiece {
    unknown: Option<u32>,
    normalizer: Normalizer,
}

impl WordPiece {
    pub fn of(vocab: &Vocab, unknown: Option<u32>) -> Self {
        Self { unknown, normalizer: if is_cased(vocab) { Normalizer::Cased } else { Normalizer::Uncased } }
    }

    /// Tokens of one fragment.
    ///
    /// # Errors
    /// [`TokenizeError::NoToken`]: a word has no pieces, and the vocabulary has no token for what is unknown.
    pub fn encode(&self, entries: Entries<'_>, run: &mut Run<'_>, text: &str) -> Result<(), TokenizeError> {
        let Run { out, work, .. } = run;
        self.normalizer.words(text, |word| {
            let spelled = &mut work.spelled;
            spelled.clear();
            spelled.extend_from_slice(SPACE.as_bytes());
            spelled.extend_from_slice(word.as_bytes());
            let start = out.len();
            if word.chars().count() > LONGEST_WORD || !pieces(entries, spelled, out) {
                out.truncate(start);
                let byte = word.as_bytes()[0];
                out.push(self.unknown.ok_or(TokenizeError::NoToken { byte })?);
            }
            Ok(())
        })
    }
}

/// Appends the pieces of a word, which has U+2581 in front; `false` where some part of it has none.
fn pieces(entries: Entries<'_>, mut rest: &[u8], out: &mut Vec<u32>) -> bool {
    // A beginning is at least a character behind U+2581.
    let mut least = SPACE.len() + 1;
    while !rest.is_empty() {
        // A U+2581 of the text itself is not where a word begins.
        if least == 1 && rest.starts_with(SPACE.as_bytes()) {
            return false;
        }
        let ends = characters(rest).scan(0, |end, character| {
            *end += character.len();
            Some(*end)
        });
        let ends: Vec<usize> = ends.filter(|&end| end >= least).collect();
        let longest = ends.into_iter().rev().find_map(|end| Some((entries.find_text(&rest[..end])?, end)));
        let Some((id, end)) = longest else { return false };
        out.push(id);
        rest = &rest[end..];
        least = 1;
    }
    true
}

/// Whether words keep their capitals and accents: some word of the vocabulary has a capital. No file says it.
fn is_cased(vocab: &Vocab) -> bool {
    let entries = vocab.entries();
    let cased = |id: u32| {
        let word = entries.bytes(id).strip_prefix(SPACE.as_bytes());
        word.is_some_and(|word| word[0] != b'[' && word.iter().any(u8::is_ascii_uppercase))
    };
    (0..vocab.len() as u32).filter(|&id| vocab.kinds[id as usize].is_text()).any(cased)
}
