//! A checked GGUF reader (v2, v3): metadata and tensor directory over a memory map.
//!
//! Nothing is copied that the file holds already: strings and arrays stay in the mapping as byte
//! ranges. Every count and offset of the file is checked before it is used or allocated for.

mod cursor;
mod file;
mod foreign;
mod index;
#[cfg(test)]
mod memory;
mod owned;
mod parse;
mod shards;
mod value;
pub mod write;

use std::path::Path;

pub use file::{ALIGNMENT_KEY, DEFAULT_ALIGNMENT, Gguf, Tensor};
pub use owned::Scalar;
pub use value::{Array, Text, Value, ValueType};

use crate::{Bytes, Result};

impl Gguf {
    /// Opens a model. Of a sharded model any shard may be named; the others are found beside it.
    ///
    /// # Errors
    /// A file that cannot be read, is not GGUF, or breaks its format: which file, the key, tensor or offset, what was
    /// expected there and what was found.
    pub fn open(path: &Path) -> Result<Self> {
        shards::open(path)
    }

    /// Reads a model from memory (the embedded model, tests). `name` stands for the file in errors.
    ///
    /// # Errors
    /// As [`Gguf::open`]; and a shard of a model, whose other files cannot be found from here.
    pub fn from_bytes(name: &str, bytes: Bytes) -> Result<Self> {
        let gguf = parse::single(Path::new(name), bytes)?;
        shards::refuse(&gguf)?;
        Ok(gguf)
    }
}
