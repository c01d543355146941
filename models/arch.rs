//! The architectures qrun runs, one file each.
//!
//! To add one: `arch/x.rs` with its const, and its row here.

mod gemma2;
mod gemma3;
mod llama;
mod qwen2;
mod qwen3;
mod smollm3;

use crate::spec::ArchSpec;

/// Every architecture that loads; a new one is a row here and its file.
pub static ARCHITECTURES: &[ArchSpec] =
    &[llama::LLAMA, smollm3::SMOLLM3, qwen2::QWEN2, qwen3::QWEN3, gemma2::GEMMA2, gemma3::GEMMA3];

/// The architecture with this `general.architecture`, if qrun runs it.
pub fn find(name: &str) -> Option<&'static ArchSpec> {
    ARCHITECTURES.iter().find(|a| a.name == name)
}
