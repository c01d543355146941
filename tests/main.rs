//! The one integration binary.

mod formats;
mod gguf;
mod golden;
mod tiny;
mod quantize;
mod synth;
mod tidy;
