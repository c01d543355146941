//! The state of one `encode` call: what has come out, and which words have been seen.

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::{TokenizeError, merge::Merger};

/// Words up to this length are remembered: longer ones hardly come again.
const REMEMBERED: usize = 64;

/// Output and working memory of one `encode` call over a text that lives for `'t`.
#[derive(Default)]
pub struct Run<'t> {
    /// The tokens so far.
    pub out: Vec<u32>,
    /// Where in `out` the tokens of each word are: most words of a text come again.
    seen: FxHashMap<&'t [u8], Range<usize>>,
    /// Working memory for one word.
    pub work: Work,
}

/// Working memory for the merging of one word.
#[derive(Default)]
pub struct Work {
    pub merger: Merger,
    /// The word in the spelling of the vocabulary.
    pub spelled: Vec<u8>,
}

impl<'t> Run<'t> {
    /// Appends the tokens of `word`, which `encode` finds where the word is new.
    ///
    /// # Errors
    /// Those of `encode`.
    pub fn word(
        &mut self,
        word: &'t [u8],
        encode: impl FnOnce(&mut Work, &mut Vec<u32>) -> Result<(), TokenizeError>,
    ) -> Result<(), TokenizeError> {
        if let Some(range) = self.seen.get(word) {
            self.out.extend_from_within(range.clone());
            return Ok(());
        }
        let start = self.out.len();
        encode(&mut self.work, &mut self.out)?;
        if word.len() <= REMEMBERED {
            self.seen.insert(word, start..self.out.len());
        }
        Ok(())
    }
}
