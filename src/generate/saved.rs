//! Files of saved sequences: tokens with their keys and values, so that they need not be computed again.
//!
//! Layout, little endian: magic, version u32, fingerprint of the model u64, length of the notes u64,
//! length of the cache u64, checksum u64 of all that follows; then the notes (JSON: tokens, and what
//! the caller keeps beside them) and the cache as the decoder writes it. Both ways it goes through page by page.

use std::{
    fs::{self, File},
    io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Take, Write},
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::GenerateError;
use crate::checksum::Fnv1a;

/// The first bytes of a saved session.
const MAGIC: &[u8; 8] = b"qrunsess";
const VERSION: u32 = 1;
const HEADER: usize = 8 + 4 + 4 * 8;

/// Why a session was not saved or loaded. What is in memory stays as it was.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// The file could not be opened, read or written.
    #[error("{file}: {source}")]
    Io {
        /// Path of the saved session.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// The file is not a session, or of another version.
    #[error("{file}: expected {expected}, found {found}")]
    Wrong {
        /// Path of the saved session.
        file: String,
        /// What a session of this model has there.
        expected: &'static str,
        /// What the file has.
        found: String,
    },
    /// The part of the cache that was given up in the meantime could not be computed again.
    #[error(transparent)]
    Generate(#[from] GenerateError),
}

/// Whether a session may be saved under a name: a free one, or that of another session; not that of the model in use.
/// `otherwise` says what to do where another file is there.
///
/// # Errors
/// What stands in the way, and what to do.
pub fn may_be_saved_to(file: &Path, model: &Path, otherwise: &str) -> Result<(), String> {
    may_be_replaced(file, model)?;
    let mut part = file.as_os_str().to_owned();
    part.push(".part");
    for file in [file, Path::new(&part)] {
        if file.exists() && !is_session(file) {
            return Err(format!("{} exists and is not a session; {otherwise}", file.display()));
        }
    }
    Ok(())
}

/// Whether a session may be saved in place of any file: not of a folder, a device, or the model in use.
///
/// # Errors
/// What stands in the way.
pub fn may_be_replaced(file: &Path, model: &Path) -> Result<(), String> {
    let Ok(found) = fs::metadata(file) else { return Ok(()) };
    let same = matches!((file.canonicalize(), model.canonicalize()), (Ok(a), Ok(b)) if a == b);
    match (found.is_file(), same) {
        (false, _) => Err(format!("{} is a folder, pipe or device", file.display())),
        (_, true) => Err(format!("{} is the model in use", file.display())),
        _ => Ok(()),
    }
}

/// Whether a file is a saved session, by its first bytes.
fn is_session(path: &Path) -> bool {
    let mut magic = [0; MAGIC.len()];
    // Asked before opening: opening a pipe would wait for its writer.
    let is_file = fs::metadata(path).is_ok_and(|m| m.is_file());
    is_file && File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *MAGIC
}

/// The numbers at the beginning of a file.
struct Header {
    fingerprint: u64,
    notes: u64,
    cache: u64,
    checksum: u64,
}

impl Header {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        let numbers = [self.fingerprint, self.notes, self.cache, self.checksum];
        numbers.iter().try_for_each(|n| out.write_all(&n.to_le_bytes()))
    }
}

/// Counts what goes through and sums it up.
struct Summed<W> {
    inner: W,
    bytes: u64,
    sum: Fnv1a,
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.inner.write(bytes)?;
        self.sum.update(&bytes[..n]);
        self.bytes += n as u64;
        Ok(n)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// What stands before the cache.
#[derive(serde::Serialize, serde::Deserialize)]
struct Notes<T, N> {
    tokens: T,
    notes: N,
}

/// A file that is being written: under another name until it is whole, and gone where it does not become so.
pub struct Draft {
    path: PathBuf,
    unfinished: PathBuf,
    file: File,
    done: bool,
}

impl Draft {
    /// Begins the file `path`, which is called `unfinished` until it is whole.
    ///
    /// # Errors
    /// The file system's.
    pub fn new(path: &Path, unfinished: PathBuf) -> io::Result<Self> {
        let file = File::create(&unfinished)?;
        Ok(Self { path: path.to_owned(), unfinished, file, done: false })
    }

    /// Writes the tokens of a model with this fingerprint, notes (any JSON), and what `cache` writes. Returns the bytes of
    /// the file.
    ///
    /// # Errors
    /// The file system's.
    pub fn fill(
        &mut self,
        fingerprint: u64,
        (tokens, notes): (&[u32], &Value),
        cache: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<u64> {
        let notes = serde_json::to_vec(&Notes { tokens, notes })?;
        let mut header = Header { fingerprint, notes: 0, cache: 0, checksum: 0 };
        header.write(&mut self.file)?;
        let mut out = Summed { inner: BufWriter::new(&mut self.file), bytes: 0, sum: Fnv1a::default() };
        out.write_all(&notes)?;
        cache(&mut out)?;
        out.flush()?;
        let bytes = out.bytes;
        header.notes = notes.len() as u64;
        header.cache = bytes - header.notes;
        header.checksum = out.sum.0;
        drop(out);
        self.file.seek(SeekFrom::Start(0))?;
        header.write(&mut self.file)?;
        Ok(HEADER as u64 + bytes)
    }

    /// Waits until the disk has it, and gives it its name.
    ///
    /// # Errors
    /// The file system's.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.unfinished, &self.path)?;
        self.done = true;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.done {
            let _ = fs::remove_file(&self.unfinished);
        }
    }
}

/// A file that is whole: its checksum is right.
pub struct Saved {
    /// Of the model that computed it.
    pub fingerprint: u64,
    /// The tokens, whatever the vocabulary.
    pub tokens: Vec<u32>,
    /// What the caller kept beside them.
    pub notes: Value,
    /// What [`qrun_models::Forward::save`] wrote.
    pub cache: Take<BufReader<File>>,
    /// Bytes of the file.
    pub bytes: u64,
}

impl Saved {
    /// Reads all of a file once, and takes of it what stands before the cache.
    ///
    /// # Errors
    /// A file that is damaged or of another kind or version.
    pub fn open(path: &Path) -> Result<Self, SaveError> {
        let name = path.display().to_string();
        let io = |source| SaveError::Io { file: name.clone(), source };
        let wrong = |expected, found: String| SaveError::Wrong { file: name.clone(), expected, found };
        let damaged = |found: String| wrong("an undamaged qrun session", found);
        let bytes = fs::metadata(path).map_err(io)?.len();
        if !is_session(path) {
            return Err(wrong("a qrun session", format!("a file of {bytes} bytes of another kind")));
        }
        let mut file = BufReader::with_capacity(1 << 16, File::open(path).map_err(io)?);
        let mut head = [0; HEADER];
        file.read_exact(&mut head).map_err(|_| damaged(format!("{bytes} bytes")))?;
        let version = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
        if version != VERSION {
            return Err(wrong("session version 1", format!("version {version}")));
        }
        let number = |i: usize| u64::from_le_bytes(head[12 + 8 * i..20 + 8 * i].try_into().expect("8 bytes"));
        let header = Header { fingerprint: number(0), notes: number(1), cache: number(2), checksum: number(3) };
        let body = bytes - HEADER as u64;
        if header.notes.checked_add(header.cache) != Some(body) {
            return Err(damaged(format!("{body} bytes after the header")));
        }
        let mut sum = Summed { inner: io::sink(), bytes: 0, sum: Fnv1a::default() };
        io::copy(&mut file, &mut sum).map_err(io)?;
        if sum.sum.0 != header.checksum {
            return Err(damaged("another checksum".into()));
        }
        file.seek(SeekFrom::Start(HEADER as u64)).map_err(io)?;
        let mut notes = Vec::new();
        file.by_ref().take(header.notes).read_to_end(&mut notes).map_err(io)?;
        let notes: Notes<Vec<u32>, Value> = serde_json::from_slice(&notes).map_err(|e| damaged(e.to_string()))?;
        let (Notes { tokens, notes }, cache) = (notes, file.take(header.cache));
        Ok(Self { fingerprint: header.fingerprint, tokens, notes, cache, bytes })
    }
}
