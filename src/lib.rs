//! Text and people: tokenizers, templates, sampling, sessions.
//!
//! What this crate deliberately does not know: kernels, block layouts.

pub mod bench;
mod checksum;
mod clock;
pub mod compare;
pub mod embedded;
pub mod engine;
pub mod generate;
pub mod plan;
pub mod quality;
pub mod quantize;
pub mod sampler;
pub mod stop;
pub mod synth;
pub mod template;
pub mod tokenizer;

/// One conversation and what it stands on.
pub mod session {
    pub use crate::{engine::*, generate::*};
}
