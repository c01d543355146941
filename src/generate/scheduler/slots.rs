//! What the last request of a sequence has left in the prefix cache: written to a file, read from one, forgotten.
//!
//! All of this is for sequences that are free, and for callers of the salt of that request: to others the sequence has
//! nothing.

use std::io::{self, Read};

use qrun_models::Salt;
use serde_json::Value;

use super::Scheduler;
use crate::generate::Draft;

impl Scheduler {
    /// Whether there is such a sequence, and no request runs in it.
    pub fn is_free(&self, slot: usize) -> bool {
        self.running.get(slot).is_some_and(Option::is_none)
    }

    fn left(&self, slot: usize, salt: &Salt) -> Vec<u32> {
        let (of, tokens) = &self.left[slot];
        if of == salt { tokens.clone() } else { Vec::new() }
    }

    /// Writes the tokens that the last request has left, as far as the prefix cache still has them, for a model of this
    /// fingerprint. Returns how many tokens these are, and the bytes of the file.
    ///
    /// # Errors
    /// The file system's.
    ///
    /// # Panics
    /// There is no such sequence; see [`Scheduler::is_free`], which has to be so.
    pub fn save_slot(
        &mut self,
        slot: usize,
        salt: &Salt,
        (draft, fingerprint): (&mut Draft, u64),
    ) -> io::Result<(usize, u64)> {
        let left = self.left(slot, salt);
        self.save_tokens(slot, salt, &left, (draft, fingerprint, &Value::Null))
    }

    /// The same of any tokens, and with notes (any JSON) beside them.
    ///
    /// # Errors
    /// The file system's.
    ///
    /// # Panics
    /// As [`Scheduler::save_slot`].
    pub fn save_tokens(
        &mut self,
        slot: usize,
        salt: &Salt,
        tokens: &[u32],
        (draft, fingerprint, notes): (&mut Draft, u64, &Value),
    ) -> io::Result<(usize, u64)> {
        let id = slot as u32;
        self.forward.set_salt(id, salt);
        let held = self.forward.attach(id, tokens) as usize;
        let forward = &*self.forward;
        let bytes = draft.fill(fingerprint, (&tokens[..held], notes), |out| forward.save(id, out));
        self.forward.release(id, &tokens[..held]);
        Ok((held, bytes?))
    }

    /// Puts tokens and their keys and values into the prefix cache, as if a request had left them.
    ///
    /// # Errors
    /// What was read does not fit this model or these tokens.
    ///
    /// # Panics
    /// As [`Scheduler::save_slot`].
    pub fn restore_slot(
        &mut self,
        slot: usize,
        salt: Salt,
        (tokens, cache): (Vec<u32>, &mut dyn Read),
    ) -> io::Result<()> {
        let id = slot as u32;
        self.left[slot] = Default::default();
        self.forward.release(id, &[]);
        self.forward.set_salt(id, &salt);
        let loaded = self.forward.load(id, cache);
        let whole = loaded.is_ok() && self.forward.len(id) as usize == tokens.len();
        self.forward.release(id, if whole { &tokens } else { &[] });
        loaded?;
        if !whole {
            return Err(io::Error::other("tokens and cache are of different lengths"));
        }
        self.left[slot] = (salt, tokens);
        Ok(())
    }

    /// Drops from the prefix cache what only the last request had there; returns how many tokens it had.
    ///
    /// # Panics
    /// As [`Scheduler::save_slot`].
    pub fn erase_slot(&mut self, slot: usize, salt: &Salt) -> usize {
        let tokens = self.left(slot, salt);
        self.forward.erase(salt, &tokens);
        if !tokens.is_empty() {
            self.left[slot] = Default::default();
        }
        tokens.len()
    }
}
