//! The one integration binary.

mod cpu;
mod decoder;
mod formats;
mod gguf;
mod golden;
mod quantize;
mod sampler;
mod stop;
mod synth;
mod template;
mod tidy;
mod tiny;
