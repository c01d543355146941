//! The one integration binary.

mod cpu;
mod formats;
mod gguf;
mod quantize;
mod synth;
mod tidy;
mod sampler;
mod stop;
mod template;
