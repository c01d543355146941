//! Tokenizers, chat templates, chats with tools and thoughts, grammars, stop strings.

pub mod chat;
pub mod grammar;
pub mod stop;
pub mod template;
pub mod tokenizer;
