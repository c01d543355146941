//! A CUDA device, as far as this machine has one.
//!
//! What this crate deliberately does not know: architectures, files, text.

pub mod device;
pub mod image;
