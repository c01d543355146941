//! The one integration binary.

mod cli;
mod cpu;
mod decoder;
mod demo;
mod formats;
mod gguf;
mod golden;
mod mixture;
mod quality;
mod quantize;
mod sampler;
mod session;
mod stop;
mod synth;
mod template;
mod tidy;
mod tiny;
mod tokenizer;
