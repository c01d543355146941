//! What has been read of a model file: metadata, tensors, and typed access by name.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    index::Index,
    value::{Array, Value},
};
use crate::{Bytes, Error, GgmlType, Result};

/// Alignment of tensor data when `general.alignment` is absent.
pub const DEFAULT_ALIGNMENT: u64 = 32;

/// The key that sets another alignment.
pub const ALIGNMENT_KEY: &str = "general.alignment";

/// A GGUF model: metadata and tensors, possibly spread over several shard files.
#[derive(Debug)]
pub struct Gguf {
    pub(super) path: PathBuf,
    pub(super) version: u32,
    pub(super) alignment: u64,
    pub(super) metadata: Vec<(String, Value)>,
    pub(super) keys: Index,
    pub(super) tensors: Vec<Tensor>,
    pub(super) names: Index,
    pub(super) file_bytes: u64,
    pub(super) mapping: Duration,
}

/// One row of the tensor directory together with its bytes in the mapping.
#[derive(Debug, Clone)]
pub struct Tensor {
    /// Name, such as `blk.0.attn_q.weight`.
    pub name: String,
    /// Weight format of the data.
    pub ty: GgmlType,
    /// Dimensions, fastest first: `[cols, rows, …]`, 1 to 4 of them.
    pub shape: Vec<u64>,
    /// The data, in file layout.
    pub data: Bytes,
}

impl Tensor {
    /// Elements in one row (the contiguous dimension).
    pub fn cols(&self) -> usize {
        self.shape[0] as usize
    }
    /// Number of rows: the product of all other dimensions.
    pub fn rows(&self) -> usize {
        self.shape[1..].iter().product::<u64>() as usize
    }
    /// Total number of elements.
    pub fn len(&self) -> usize {
        self.cols() * self.rows()
    }
    /// True when the tensor has no elements (the reader refuses such tensors).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Gguf {
    /// The file as it was named.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// Format version: 2 or 3.
    pub fn version(&self) -> u32 {
        self.version
    }
    /// Alignment of tensor data in bytes.
    pub fn alignment(&self) -> u64 {
        self.alignment
    }
    /// Size of all shard files in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }
    /// How long it took to open and map the files; zero for a model from memory.
    pub fn mapping(&self) -> Duration {
        self.mapping
    }
    /// All metadata in file order (of the first shard).
    pub fn metadata(&self) -> &[(String, Value)] {
        &self.metadata
    }
    /// All tensors in file order, shard after shard.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }
    /// The tensor of this name; `None` where the file has none.
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.names.find(&self.tensors, |t| &t.name, name)
    }
    /// The metadata value of a key, whatever its type; `None` where the file lacks the key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.keys.find(&self.metadata, |(key, _)| key, key).map(|(_, value)| value)
    }

    /// An error about this file.
    pub fn error(&self, place: impl Into<String>, expected: impl Into<String>, found: impl Into<String>) -> Error {
        Error::new(&self.path, place, expected, found)
    }

    /// The value of a key as `T`, `what` in words.
    fn typed<'a, T>(&'a self, key: &str, what: &str, f: impl Fn(&'a Value) -> Option<T>) -> Result<Option<T>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        f(value).map(Some).ok_or_else(|| self.error(format!("key {key}"), what, value.describe()))
    }

    /// An unsigned integer of any width; `None` when the key is absent.
    ///
    /// # Errors
    /// A value of another type; the error names file and key.
    pub fn u64(&self, key: &str) -> Result<Option<u64>> {
        self.typed(key, "an unsigned integer", Value::as_u64)
    }
    /// A float of any width (integers are accepted); `None` when the key is absent.
    ///
    /// # Errors
    /// A value of another type; the error names file and key.
    pub fn f32(&self, key: &str) -> Result<Option<f32>> {
        self.typed(key, "a number", |v| v.as_f64().map(|v| v as f32))
    }
    /// A bool; `None` when the key is absent.
    ///
    /// # Errors
    /// A value of another type; the error names file and key.
    pub fn bool(&self, key: &str) -> Result<Option<bool>> {
        self.typed(key, "a bool", Value::as_bool)
    }
    /// A string; `None` when the key is absent.
    ///
    /// # Errors
    /// A value of another type; the error names file and key.
    pub fn str(&self, key: &str) -> Result<Option<&str>> {
        self.typed(key, "a UTF-8 string", Value::as_str)
    }
    /// An array; `None` when the key is absent.
    ///
    /// # Errors
    /// A value of another type; the error names file and key.
    pub fn array(&self, key: &str) -> Result<Option<&Array>> {
        self.typed(key, "an array", Value::as_array)
    }
}
