//! The one integration binary.

mod formats;
mod gguf;
mod quantize;
mod tidy;
mod tokenizer;
