//! Saved sessions: a conversation with its cache, so that it goes on without computing it again.

use std::{
    io::{self, Read},
    path::Path,
};

use serde_json::Value;

use super::{
    GenerateError, Session,
    saved::{Draft, SaveError, Saved},
};

/// A session that was loaded.
#[derive(Debug)]
pub struct Loaded {
    /// What the caller kept beside it.
    pub notes: Value,
    /// Why the cache in the file could not be used (it is of another model, or of another cache type): the
    /// conversation is computed again with the next prompt.
    pub computed_again: Option<String>,
}

impl Session {
    /// Saves tokens, cache and the caller's `notes` (any JSON). The file appears whole or not at all.
    ///
    /// # Errors
    /// The file system's; the model's, where a part of the cache has to be computed again.
    pub fn save(&mut self, path: &Path, notes: &Value) -> Result<(), SaveError> {
        let mut unfinished = path.as_os_str().to_owned();
        unfinished.push(".part");
        self.hold()?;
        let saved = self.write(Draft::new(path, unfinished.into()), notes);
        let cached = std::mem::take(&mut self.cached);
        self.scheduler.forward_mut().release(0, &cached);
        self.cached = cached;
        saved.map_err(|source| SaveError::Io { file: path.display().to_string(), source })
    }

    fn write(&self, draft: io::Result<Draft>, notes: &Value) -> io::Result<()> {
        let mut draft = draft?;
        let forward = self.scheduler.forward();
        draft.fill(self.engine.fingerprint(), (&self.cached, notes), |out| forward.save(0, out))?;
        draft.finish()
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

    /// Loads what [`Session::save`] wrote. A cache of another model or of another type is left aside.
    ///
    /// # Errors
    /// A file that is damaged or not a session; nothing changes then.
    pub fn load(&mut self, path: &Path) -> Result<Loaded, SaveError> {
        let Saved { fingerprint, tokens, notes, mut cache, .. } = Saved::open(path)?;
        let computed_again = if fingerprint != self.engine.fingerprint() {
            Some("it was saved with another model".to_owned())
        } else if tokens.len() > self.n_ctx() {
            Some(format!("it holds {} tokens, the context has room for {}", tokens.len(), self.n_ctx()))
        } else {
            self.restore(tokens, &mut cache).err().map(|error| error.to_string())
        };
        if computed_again.is_some() {
            self.cached.clear();
        }
        Ok(Loaded { notes, computed_again })
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
