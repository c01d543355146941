//! The one integration binary.

mod formats;
mod gguf;
mod golden;
mod quantize;
mod synth;
mod tidy;
mod tiny;
