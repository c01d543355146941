//! Cheap slices of a memory-mapped file (or of memory that we own) that keep their owner alive.

use std::{fs::File, ops::Deref, ops::Range, path::Path, sync::Arc};

use crate::{Error, Result};

/// A reference-counted byte slice: a window of a mapped file, of a `Vec`, or of static data.
///
/// Cloning and sub-slicing copy a pointer, never the bytes.
#[derive(Clone)]
pub struct Bytes {
    owner: Owner,
    range: Range<usize>,
}

#[derive(Clone)]
enum Owner {
    Map(Arc<memmap2::Mmap>),
    Memory(Arc<dyn AsRef<[u8]> + Send + Sync>),
}

impl Bytes {
    /// Maps a file read-only. Pages come in as they are touched.
    ///
    /// # Errors
    /// What is not a file, or an empty one, or cannot be opened and mapped.
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
        Ok(Self { range: 0..map.len(), owner: Owner::Map(Arc::new(map)) })
    }

    /// Takes any owner of bytes.
    pub fn new(owner: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        let range = 0..owner.as_ref().len();
        Self { owner: Owner::Memory(Arc::new(owner)), range }
    }

    /// A sub-slice that shares the owner. Panics when `range` is out of bounds, like slicing.
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len(), "slice {range:?} of {}", self.len());
        let start = self.range.start + range.start;
        Self { owner: self.owner.clone(), range: start..start + range.len() }
    }

    /// Lets go of the pages of a mapped file that lie in this slice: they stop counting as this process's
    /// memory, and come back from the file when they are touched again. Nothing for other owners.
    pub fn release_pages(&self) {
        #[cfg(unix)]
        if let Owner::Map(map) = &self.owner {
            let page = 4096; // A smaller page than the system's only makes the call fail, without harm.
            let (start, end) = (self.range.start.next_multiple_of(page), self.range.end / page * page);
            if start < end {
                // SAFETY: the map is read-only and backed by the file, so dropped pages are read again
                // with the same contents.
                let _ = unsafe { map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, start, end - start) };
            }
        }
    }
}

impl Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        let all = match &self.owner {
            Owner::Map(map) => map,
            Owner::Memory(memory) => (**memory).as_ref(),
        };
        &all[self.range.clone()]
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
