//! The one integration binary.

mod cli;
mod cpu;
mod formats;
mod gguf;
mod mixture;
mod golden;
mod quantize;
mod sampler;
mod stop;
mod synth;
mod template;
mod tidy;
mod tokenizer;
mod tiny;
