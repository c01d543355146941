//! The one integration binary.
mod gguf;
