//! GGUF files, the block formats inside them, and CPU arithmetic on those formats.
//!
//! What this crate deliberately does not know: GPUs, transformers, text. A tensor here is a name, a
//! shape and bytes; which tensor plays which role is decided in `qrun-models`.

pub mod bytes;
pub mod cpu;
pub mod error;
pub mod formats;
pub mod gguf;
pub mod simd;

pub use bytes::Bytes;
pub use error::{Error, Result};
pub use formats::{Format, GgmlType};
pub use gguf::Gguf;
