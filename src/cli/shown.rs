//! What of an answer's text is shown.

use std::borrow::Cow;

use crate::text::chat::{Delta, Parser};

/// Shows all of an answer's text, or what a parser says is for the reader, and thoughts where they are asked for.
pub struct Shown {
    parser: Option<Parser>,
    thoughts: bool,
    /// What was for the reader so far.
    content: String,
    /// Thoughts were shown, and nothing after them.
    after_thought: bool,
}

impl Shown {
    pub fn new(parser: Option<Parser>, thoughts: bool) -> Self {
        Self { parser, thoughts, content: String::new(), after_thought: false }
    }

    /// Takes a piece of the answer and returns what is shown now.
    pub fn push<'t>(&mut self, text: &'t str) -> Cow<'t, str> {
        match &mut self.parser {
            None => text.into(),
            Some(parser) => {
                let deltas = parser.push(text);
                self.show(deltas).into()
            }
        }
    }

    /// The answer has ended: what is still to be shown, and where a parser was at work, all that was for the reader.
    pub fn finish(mut self) -> (String, Option<String>) {
        match self.parser.as_mut().map(Parser::finish) {
            None => (String::new(), None),
            Some(deltas) => {
                let rest = self.show(deltas);
                (rest, Some(self.content))
            }
        }
    }

    fn show(&mut self, deltas: Vec<Delta>) -> String {
        let mut out = String::new();
        for delta in deltas {
            match delta {
                Delta::Content(text) => {
                    if std::mem::take(&mut self.after_thought) {
                        out.push_str("\n\n");
                    }
                    out.push_str(&text);
                    self.content.push_str(&text);
                }
                Delta::Reasoning(text) if self.thoughts => {
                    out.push_str(&text);
                    self.after_thought = true;
                }
                Delta::Reasoning(_) | Delta::ToolCall { .. } | Delta::Arguments { .. } => {}
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        embedded,
        engine::{DevicePreference, Engine, EngineOptions},
        text::{chat::channels, template::builtin},
    };
    use qrun_quant::{Bytes, Gguf};

    #[test]
    fn thoughts_are_shown_where_they_are_asked_for() {
        let model = Gguf::from_bytes("demo", Bytes::new(embedded::model().unwrap().to_vec())).unwrap();
        let template = builtin("harmony").map(String::from);
        let options = EngineOptions { template, device: DevicePreference::Cpu, ..EngineOptions::default() };
        let (parser, _) = channels(&Engine::open(model, options).unwrap()).unwrap();
        let answer = "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>final<|message|>Yes <|";
        for (parser, thoughts, expected, content) in [
            (Some(parser.clone()), false, "Yes <|", Some("Yes <|")),
            (Some(parser), true, "Hm\n\nYes <|", Some("Yes <|")),
            (None, true, answer, None),
        ] {
            let mut shown = Shown::new(parser, thoughts);
            let mut out = String::new();
            for piece in answer.split_inclusive('>') {
                out += &shown.push(piece);
            }
            let (rest, said) = shown.finish();
            assert_eq!((out + &rest, said.as_deref()), (expected.to_owned(), content));
        }
    }
}
