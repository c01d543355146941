//! What the last request of a sequence has left in the prefix cache: written to a file, read from one, forgotten.

use std::io::{self, Read};

use serde_json::Value;

use super::Scheduler;
use crate::generate::Draft;

impl Scheduler {
    /// Whether there is such a sequence, and no request runs in it.
    pub fn is_free(&self, slot: usize) -> bool {
        self.running.get(slot).is_some_and(Option::is_none)
    }

    /// Writes the tokens that the last request of a free sequence has left, as far as the prefix cache still has them, for a
    /// model of this fingerprint. Returns how many tokens these are, and the bytes of the file.
    pub(crate) fn save_slot(&mut self, slot: usize, draft: &mut Draft, fingerprint: u64) -> io::Result<(usize, u64)> {
        let held = self.forward.attach(slot as u32, &self.left[slot]) as usize;
        let tokens = &self.left[slot][..held];
        let forward = &*self.forward;
        let bytes = draft.fill(fingerprint, (tokens, &Value::Null), |out| forward.save(slot as u32, out));
        self.forward.release(slot as u32, tokens);
        Ok((held, bytes?))
    }

    /// Puts tokens and their keys and values into the prefix cache, as if a request of a free sequence had left them.
    pub(crate) fn restore_slot(&mut self, slot: usize, tokens: Vec<u32>, cache: &mut dyn Read) -> io::Result<()> {
        let id = slot as u32;
        self.left[slot].clear();
        self.forward.release(id, &[]);
        let loaded = self.forward.load(id, cache);
        let whole = loaded.is_ok() && self.forward.len(id) as usize == tokens.len();
        self.forward.release(id, if whole { &tokens } else { &[] });
        loaded?;
        if !whole {
            return Err(io::Error::other("tokens and cache are of different lengths"));
        }
        self.left[slot] = tokens;
        Ok(())
    }

    /// Drops from the prefix cache what only the last request of a free sequence had there; returns how many tokens it had.
    pub(crate) fn erase_slot(&mut self, slot: usize) -> usize {
        let tokens = std::mem::take(&mut self.left[slot]);
        self.forward.erase(&tokens);
        tokens.len()
    }
}
