//! `qrun quantize`: a model file into a smaller one.

pub mod mixture;

pub use mixture::{FileType, Mixture};
