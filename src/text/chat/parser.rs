//! The text of an answer, taken apart as it comes.

use super::Delta;

/// Tells content, thoughts and calls apart.
#[derive(Debug, Clone, Default)]
pub struct Parser {}

impl Parser {
    /// Takes the next piece of text.
    pub fn push(&mut self, text: &str) -> Vec<Delta> {
        if text.is_empty() { Vec::new() } else { vec![Delta::Content(text.into())] }
    }

    /// The answer ends here, complete or not: gives what was held back.
    pub fn finish(&mut self) -> Vec<Delta> {
        Vec::new()
    }
}
