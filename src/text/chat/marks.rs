//! The marks that models put around their thoughts and messages.

use crate::text::{grammar::mark_parts, tokenizer::Tokenizer};

/// Before the name of a channel.
pub const CHANNEL: &str = "<|channel|>";
/// Before the text of a message.
pub const MESSAGE: &str = "<|message|>";
/// Before the header of a message.
pub const START: &str = "<|start|>";
/// Before the type of a message's text.
pub const CONSTRAIN: &str = "<|constrain|>";
/// After a message.
pub const END: &str = "<|end|>";
/// The marks of harmony, the form of gpt-oss.
pub const HARMONY: &[&str] = &[CHANNEL, MESSAGE, START, CONSTRAIN, END];
/// The beginning of a message of harmony that is content.
pub const FINAL: &str = "<|channel|>final<|message|>";

/// How thoughts are marked: before them, after them, and what follows where there was a thought.
pub type Row = [&'static str; 3];

/// The thoughts of harmony.
pub const ANALYSIS: Row = ["<|channel|>analysis<|message|>", END, "<|start|>assistant"];

/// The thoughts of a template are those whose marks it has.
pub const THOUGHTS: &[Row] = &[
    ["<think>", "</think>", ""],
    ["[THINK]", "[/THINK]", ""],
    ["<|START_THINKING|>", "<|END_THINKING|>", ""],
    ["<|channel>thought", "<channel|>", ""],
];

/// The tokens of a mark: the one of that text, or those of its parts.
pub fn tokens(tokenizer: &Tokenizer, mark: &str) -> Vec<u32> {
    match tokenizer.find(mark) {
        Some(id) => vec![id],
        None => mark_parts(mark).filter(|part| part.starts_with('<')).filter_map(|part| tokenizer.find(part)).collect(),
    }
}
