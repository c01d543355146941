//! The one integration binary.

mod formats;
mod gguf;
mod golden;
mod tiny;
