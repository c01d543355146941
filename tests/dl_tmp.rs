#![allow(missing_docs, clippy::print_stderr)]
mod download;
mod skip;
pub use skip::skip;
