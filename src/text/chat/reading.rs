//! What a parser of answers has to know.

use serde_json::Value;

use super::syntax::Syntax;

/// How an answer is to be read.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// How calls are written; `None`: there are none.
    pub syntax: Option<Syntax>,
    /// Names of the tools that may be called.
    pub tools: Vec<String>,
    /// The schema of each tool's arguments.
    pub schemas: Vec<Value>,
    /// How thoughts begin and end.
    pub thoughts: Option<[String; 2]>,
    /// The answer begins inside of a thought.
    pub thinking: bool,
    /// The answer begins inside of its content: a message goes on.
    pub continued: bool,
    /// Thoughts are told apart from the content.
    pub apart: bool,
    /// What the ids of calls are made of.
    pub salt: u64,
}
