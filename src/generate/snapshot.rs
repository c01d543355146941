//! Saved sessions: a conversation with its cache, so that it goes on without computing it again.
//!
//! Layout, little endian: magic, version u32, fingerprint of the model u64, length of the notes u64,
//! length of the cache u64, checksum u64 of all that follows; then the notes (JSON: tokens, and what
//! the caller keeps beside them) and the cache as the decoder writes it. Both ways it goes through page by page.

use std::{
    fs::{self, File},
    io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write},
    path::Path,
};

use serde_json::{Value, json};

use super::{GenerateError, Session};
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

/// Whether a file is a saved session, by its first bytes.
pub fn is_session(path: &Path) -> bool {
    let mut magic = [0; MAGIC.len()];
    // Asked before opening: opening a pipe would wait for its writer.
    let is_file = fs::metadata(path).is_ok_and(|m| m.is_file());
    is_file && File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *MAGIC
}

/// A session that was loaded.
#[derive(Debug)]
pub struct Loaded {
    /// What the caller kept beside it.
    pub notes: Value,
    /// Why the cache in the file could not be used (it is of another model, or of another cache type): the
    /// conversation is computed again with the next prompt.
    pub computed_again: Option<String>,
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

impl Session {
    /// Saves tokens, cache and the caller's `notes` (any JSON). The file appears whole or not at all.
    ///
    /// # Errors
    /// The file system's; the model's, where a part of the cache has to be computed again.
    pub fn save(&mut self, path: &Path, notes: &Value) -> Result<(), SaveError> {
        let io = |source| SaveError::Io { file: path.display().to_string(), source };
        let mut unfinished = path.as_os_str().to_owned();
        unfinished.push(".part");
        self.hold()?;
        let saved = self.write(Path::new(&unfinished), notes).and_then(|()| fs::rename(&unfinished, path));
        let cached = std::mem::take(&mut self.cached);
        self.scheduler.forward_mut().release(0, &cached);
        self.cached = cached;
        saved.inspect_err(|_| drop(fs::remove_file(&unfinished))).map_err(io)
    }

    /// Takes what is cached into sequence 0; what other prompts have pushed out is computed again.
    fn hold(&mut self) -> Result<(), GenerateError> {
        let held = self.scheduler.forward_mut().attach(0, &self.cached) as usize;
        if held < self.cached.len() {
            let cached = std::mem::take(&mut self.cached);
            self.scheduler.forward_mut().release(0, &cached[..held]);
            self.prepare(&cached)?;
            let held = self.scheduler.forward_mut().attach(0, &self.cached) as usize;
            self.cached.truncate(held);
        }
        Ok(())
    }

    fn write(&self, path: &Path, notes: &Value) -> io::Result<()> {
        let notes = json!({ "tokens": self.cached, "notes": notes }).to_string().into_bytes();
        let mut file = File::create(path)?;
        let mut header = Header { fingerprint: self.engine.fingerprint(), notes: 0, cache: 0, checksum: 0 };
        header.write(&mut file)?;
        let mut out = Summed { inner: BufWriter::new(&mut file), bytes: 0, sum: Fnv1a::default() };
        out.write_all(&notes)?;
        self.scheduler.forward().save(0, &mut out)?;
        out.flush()?;
        header.notes = notes.len() as u64;
        header.cache = out.bytes - header.notes;
        header.checksum = out.sum.0;
        drop(out);
        file.seek(SeekFrom::Start(0))?;
        header.write(&mut file)?;
        file.sync_all()
    }

    /// Loads what [`Session::save`] wrote. A cache of another model or of another type is left aside.
    ///
    /// # Errors
    /// A file that is damaged or not a session; nothing changes then.
    pub fn load(&mut self, path: &Path) -> Result<Loaded, SaveError> {
        let name = path.display().to_string();
        let io = |source| SaveError::Io { file: name.clone(), source };
        let wrong = |expected, found: String| SaveError::Wrong { file: name.clone(), expected, found };
        let damaged = |found: String| wrong("an undamaged qrun session", found);
        let size = fs::metadata(path).map_err(io)?.len();
        if !is_session(path) {
            return Err(wrong("a qrun session", format!("a file of {size} bytes of another kind")));
        }
        let mut file = BufReader::with_capacity(1 << 16, File::open(path).map_err(io)?);
        let mut bytes = [0; HEADER];
        file.read_exact(&mut bytes).map_err(|_| damaged(format!("{size} bytes")))?;
        let version = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
        if version != VERSION {
            return Err(wrong("session version 1", format!("version {version}")));
        }
        let number = |i: usize| u64::from_le_bytes(bytes[12 + 8 * i..20 + 8 * i].try_into().expect("8 bytes"));
        let header = Header { fingerprint: number(0), notes: number(1), cache: number(2), checksum: number(3) };
        let body = size - HEADER as u64;
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
        let mut notes: Value = serde_json::from_slice(&notes).map_err(|e| damaged(e.to_string()))?;
        let tokens: Vec<u32> = serde_json::from_value(notes["tokens"].take()).map_err(|e| damaged(e.to_string()))?;
        let computed_again = if header.fingerprint != self.engine.fingerprint() {
            Some("it was saved with another model".to_owned())
        } else if tokens.len() > self.n_ctx() {
            Some(format!("it holds {} tokens, the context has room for {}", tokens.len(), self.n_ctx()))
        } else {
            self.restore(tokens, &mut file.take(header.cache)).err().map(|error| error.to_string())
        };
        if computed_again.is_some() {
            self.cached.clear();
        }
        Ok(Loaded { notes: notes["notes"].take(), computed_again })
    }

    /// Puts a saved cache beside what the prefix cache holds.
    fn restore(&mut self, tokens: Vec<u32>, cache: &mut dyn Read) -> io::Result<()> {
        let forward = self.scheduler.forward_mut();
        forward.release(0, &[]);
        forward.load(0, cache)?;
        if forward.len(0) as usize != tokens.len() {
            forward.release(0, &[]);
            return Err(io::Error::other("tokens and cache are of different lengths"));
        }
        forward.release(0, &tokens);
        self.cached = tokens;
        Ok(())
    }
}
