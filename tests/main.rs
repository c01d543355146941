//! The one integration binary. Modules that need the emulator of CUDA are for x86-64 Linux, where it runs.

// The lints against printing are for libraries; tests say what they measured and what they skip.
#![allow(clippy::print_stdout, clippy::print_stderr)]

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod bench;
mod blocks;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod card;
mod chat;
mod circles;
mod cli;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod compare;
mod cpu;
mod decoder;
mod demo;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod device;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod device_sampling;
mod download;
mod each_format;
mod embeddings;
mod experts;
mod formats;
mod generate;
mod gguf;
mod golden;
mod grammar;
mod masked;
mod mixture;
mod quality;
mod quantize;
mod sampler;
#[cfg(unix)]
mod server;
mod session;
mod skip;
mod stop;
mod synth;
mod template;
mod tidy;
mod tidy_github;
mod tiny;
mod tokenizer;

pub use skip::skip;
