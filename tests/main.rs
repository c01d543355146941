//! The one integration binary.

mod formats;
mod gguf;
mod quantize;
mod synth;
mod tidy;
