//! The one integration binary.

mod formats;
mod gguf;
mod tidy;
mod quantize;
