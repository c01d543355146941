//! Saved sessions: a conversation with its cache, so that it goes on without computing it again.
//!
//! Layout, little endian: magic, version u32, fingerprint of the model u64, length of the notes u64,
//! length of the cache u64, checksum u64 of all that follows; then the notes (JSON: tokens, and what
//! the caller keeps beside them) and the cache as the decoder writes it.

use std::{
    fs,
    io::{self, Read, Write},
    path::Path,
};

use serde_json::{Value, json};

use super::Session;

const MAGIC: &[u8; 8] = b"qrunsess";
const VERSION: u32 = 1;
const HEADER: usize = 8 + 4 + 4 * 8;

/// Why a session was not saved or loaded. What is in memory stays as it was.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// The file system.
    #[error("{file}: {source}")]
    Io {
        /// The file.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// The file is not a session, or one of another version.
    #[error("{file}: expected {expected}, found {found}")]
    Wrong {
        /// The file.
        file: String,
        /// What a session of this model has there.
        expected: &'static str,
        /// What the file has.
        found: String,
    },
}

/// FNV-1a, 64 bits: the same number on every machine and in every version.
pub(super) fn checksum<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let step = |state: u64, byte: &u8| (state ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    parts.into_iter().flatten().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Whether a file is a saved session, by its first bytes.
pub fn is_session(path: &Path) -> bool {
    let mut magic = [0; MAGIC.len()];
    // Asked before opening: opening a pipe would wait for its writer.
    let is_file = fs::metadata(path).is_ok_and(|m| m.is_file());
    is_file && fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *MAGIC
}

/// The caller's notes of a saved session of any model, without its cache.
///
/// # Errors
/// A file that is damaged or not a session.
pub fn read_notes(path: &Path) -> Result<Value, SaveError> {
    let bytes = read(path)?;
    let (_, mut notes, _) = parse(path, &bytes)?;
    Ok(notes["notes"].take())
}

/// The bytes of a session; other files are not read further than their first ones.
fn read(path: &Path) -> Result<Vec<u8>, SaveError> {
    let file = path.display().to_string();
    let found = fs::metadata(path).map_err(|source| SaveError::Io { file: file.clone(), source })?;
    if !is_session(path) {
        let found = format!("a file of {} bytes of another kind", found.len());
        return Err(SaveError::Wrong { file, expected: "a qrun session", found });
    }
    fs::read(path).map_err(|source| SaveError::Io { file, source })
}

/// Fingerprint of the model, notes with tokens, and cache of a session's bytes; the checksum holds.
fn parse<'a>(path: &Path, bytes: &'a [u8]) -> Result<(u64, Value, &'a [u8]), SaveError> {
    let wrong = |expected, found: String| SaveError::Wrong { file: path.display().to_string(), expected, found };
    let damaged = |found: &str| wrong("an undamaged qrun session", found.to_owned());
    if bytes.len() < HEADER {
        return Err(damaged(&format!("{} bytes", bytes.len())));
    }
    let version = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
    if version != VERSION {
        return Err(wrong("session version 1", format!("version {version}")));
    }
    let number = |i: usize| {
        let at = 12 + 8 * i;
        u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
    };
    let [fingerprint, notes_len, cache_len, sum] = [number(0), number(1), number(2), number(3)];
    let body = &bytes[HEADER..];
    if notes_len.checked_add(cache_len) != Some(body.len() as u64) {
        return Err(damaged(&format!("{} bytes after the header", body.len())));
    }
    let (notes, cache) = body.split_at(notes_len as usize);
    if checksum([notes, cache]) != sum {
        return Err(damaged("another checksum"));
    }
    let notes = serde_json::from_slice(notes).map_err(|e| damaged(&e.to_string()))?;
    Ok((fingerprint, notes, cache))
}

impl Session {
    /// Saves tokens, cache and the caller's `notes` (any JSON). The file appears whole or not at all.
    ///
    /// # Errors
    /// [`SaveError::Io`].
    pub fn save(&self, path: &Path, notes: &Value) -> Result<(), SaveError> {
        let io = |source| SaveError::Io { file: path.display().to_string(), source };
        let notes = json!({ "tokens": self.cached, "notes": notes }).to_string().into_bytes();
        let mut cache = Vec::new();
        self.forward.save(0, &mut cache).map_err(io)?;
        let mut header = MAGIC.to_vec();
        header.extend(VERSION.to_le_bytes());
        let sizes = [notes.len() as u64, cache.len() as u64];
        for number in [self.engine.fingerprint(), sizes[0], sizes[1], checksum([&notes[..], &cache])] {
            header.extend(number.to_le_bytes());
        }
        let mut unfinished = path.as_os_str().to_owned();
        unfinished.push(".part");
        let write = || {
            let mut file = fs::File::create(&unfinished)?;
            [&header, &notes, &cache].into_iter().try_for_each(|part| file.write_all(part))?;
            file.sync_all()?;
            fs::rename(&unfinished, path)
        };
        write().inspect_err(|_| drop(fs::remove_file(&unfinished))).map_err(io)
    }

    /// Loads what [`Session::save`] wrote for the same model; returns the caller's notes.
    ///
    /// # Errors
    /// A file that is damaged, of another model, or too long for this context; nothing changes then.
    pub fn load(&mut self, path: &Path) -> Result<Value, SaveError> {
        let bytes = read(path)?;
        let (fingerprint, mut notes, cache) = parse(path, &bytes)?;
        let wrong = |expected, found: String| SaveError::Wrong { file: path.display().to_string(), expected, found };
        let damaged = |found: &str| wrong("an undamaged qrun session", found.to_owned());
        if fingerprint != self.engine.fingerprint() {
            return Err(wrong("a session of this model", "one of another model".into()));
        }
        let tokens: Vec<u32> = serde_json::from_value(notes["tokens"].take()).map_err(|e| damaged(&e.to_string()))?;
        if tokens.len() > self.n_ctx() {
            return Err(wrong("a session that fits the context", format!("{} tokens", tokens.len())));
        }
        self.restore(&tokens, cache).map_err(|e| damaged(&e.to_string()))?;
        Ok(notes["notes"].take())
    }

    /// Puts a saved cache in place of the present one; on an error the present one comes back.
    fn restore(&mut self, tokens: &[u32], mut cache: &[u8]) -> io::Result<()> {
        let mut present = Vec::new();
        self.forward.save(0, &mut present)?;
        let loaded = self.forward.load(0, &mut cache);
        if loaded.is_ok() && self.forward.len(0) as usize == tokens.len() {
            self.cached = tokens.to_vec();
            return Ok(());
        }
        if self.forward.load(0, &mut present.as_slice()).is_err() {
            self.forward.rewind(0, 0);
            self.cached.clear();
        }
        Err(loaded.err().unwrap_or_else(|| io::Error::other("tokens and cache are of different lengths")))
    }
}
