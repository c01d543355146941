//! The one integration binary.

mod formats;
mod gguf;
mod mixture;
mod quantize;
mod synth;
mod tidy;
