//! The one integration binary.

// The lints against printing are for libraries; tests say what they measured and what they skip.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod bench;
mod blocks;
mod card;
mod circles;
mod cli;
mod compare;
mod cpu;
mod decoder;
mod demo;
mod device;
mod device_sampling;
mod formats;
mod generate;
mod gguf;
mod golden;
mod mixture;
mod quality;
mod quantize;
mod sampler;
mod session;
mod skip;
mod stop;
mod synth;
mod template;
mod tidy;
mod tiny;
mod tokenizer;

pub use skip::skip;
