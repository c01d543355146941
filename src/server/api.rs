//! The dialects: fields in, answers out.

pub mod anthropic;
pub mod chat;
pub mod completions;
pub mod health;
pub mod llama;
pub mod metrics;
pub mod models;
pub mod ollama;
pub mod openai;
pub mod prompt;
pub mod responses;
pub mod sampling;
pub mod slots;
pub mod tokens;
