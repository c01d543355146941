//! Tokenizers, chat templates, stop strings.

pub mod stop;
pub mod template;
pub mod tokenizer;
