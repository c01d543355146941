//! The text of an answer, taken apart as it comes.

use super::{Delta, harmony::Harmony, reading::Reading, syntax::Syntax, tagged::Tagged};

/// Tells content, thoughts and calls apart. The same text gives the same deltas however it is cut, but for where the
/// pieces of one kind are cut.
#[derive(Debug, Clone)]
pub struct Parser(Form);

/// How a model writes its answers.
#[derive(Debug, Clone)]
enum Form {
    /// One text, with marks around thoughts and calls.
    Tagged(Tagged),
    /// Messages in channels.
    Harmony(Harmony),
}

impl Parser {
    /// A parser at the beginning of an answer.
    pub(super) fn new(reading: Reading) -> Self {
        Self(match reading.syntax {
            Some(Syntax::Harmony) => Form::Harmony(Harmony::new(reading)),
            _ => Form::Tagged(Tagged::new(reading)),
        })
    }

    /// Takes the next piece of text.
    pub fn push(&mut self, text: &str) -> Vec<Delta> {
        match &mut self.0 {
            Form::Tagged(tagged) => tagged.push(text),
            Form::Harmony(harmony) => harmony.push(text),
        }
    }

    /// The answer ends here, complete or not: gives what was held back.
    pub fn finish(&mut self) -> Vec<Delta> {
        match &mut self.0 {
            Form::Tagged(tagged) => tagged.finish(),
            Form::Harmony(harmony) => harmony.finish(),
        }
    }
}
