//! Text and people: tokenizers, templates, sampling, sessions.
//!
//! What this crate deliberately does not know: kernels, block layouts.

pub mod bench;
mod clock;
pub mod embedded;
pub mod plan;
pub mod quality;
pub mod quantize;
pub mod sampler;
pub mod session;
pub mod stop;
pub mod synth;
pub mod template;
pub mod tokenizer;
