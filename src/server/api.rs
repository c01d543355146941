//! The dialects: fields in, answers out.

pub mod chat;
pub mod completions;
pub mod health;
pub mod openai;
pub mod prompt;
pub mod sampling;
