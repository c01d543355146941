//! Cheap slices of a memory-mapped file (or of memory that we own) that keep their owner alive.

use std::{fs::File, ops::Deref, ops::Range, path::Path, sync::Arc};

use crate::{Error, Result};

/// A reference-counted byte slice: a window of a mapped file, of a `Vec`, or of static data.
///
/// Cloning and sub-slicing copy a pointer, never the bytes.
#[derive(Clone)]
pub struct Bytes {
    owner: Arc<dyn AsRef<[u8]> + Send + Sync>,
    range: Range<usize>,
}

impl Bytes {
    /// Maps a file read-only. Pages come in as they are touched.
    pub fn map(path: &Path) -> Result<Self> {
        let io = |e: std::io::Error| Error::new(path, "file", "a readable file", e.to_string());
        let refuse = |found: &str| Err(Error::new(path, "file", "a GGUF file", found));
        // Asked before opening: opening a pipe would wait for its writer.
        let meta = std::fs::metadata(path).map_err(io)?;
        if meta.is_dir() {
            return refuse("a directory");
        }
        if !meta.is_file() {
            return refuse("a pipe or device");
        }
        if meta.len() == 0 {
            return refuse("an empty file");
        }
        let file = File::open(path).map_err(io)?;
        // SAFETY: the map is read-only and private to this process. Another process that truncates
        // the file while we run can raise SIGBUS; that is documented in the README, and is the price
        // of not copying gigabytes.
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(io)?;
        Ok(Self::new(map))
    }

    /// Takes any owner of bytes.
    pub fn new(owner: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        let range = 0..owner.as_ref().len();
        Self { owner: Arc::new(owner), range }
    }

    /// A sub-slice that shares the owner. Panics when `range` is out of bounds, like slicing.
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len(), "slice {range:?} of {}", self.len());
        let start = self.range.start + range.start;
        Self { owner: self.owner.clone(), range: start..start + range.len() }
    }
}

impl Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &(*self.owner).as_ref()[self.range.clone()]
    }
}

impl PartialEq for Bytes {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}
impl Eq for Bytes {}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bytes[{}]", self.len())
    }
}
