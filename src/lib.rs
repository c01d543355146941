//! Text and people: tokenizers, templates, sampling, sessions.
//!
//! What this crate deliberately does not know: kernels, block layouts.

pub mod quantize;
pub mod sampler;
pub mod stop;
pub mod synth;
pub mod template;
pub mod tokenizer;
