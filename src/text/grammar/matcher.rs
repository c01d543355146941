//! A compiled grammar, and how far an answer has come in it.

use std::sync::{Arc, Mutex, PoisonError};

use llguidance::{Matcher, toktrie::SimpleVob};

use super::env::Vocabulary;
use crate::sampler::Mask;

/// llguidance's words for an error, without the mark that it puts in place of its own state.
pub fn reason(text: &str) -> String {
    text.replace("<non-verbose/>", "").trim_end().into()
}

/// llguidance's parser as a mask.
pub struct Parsed {
    /// The parser may be sent to another thread, but not be looked at from two.
    matcher: Mutex<Matcher>,
    vocabulary: Arc<Vocabulary>,
    /// The bits of the last answer.
    bits: SimpleVob,
    /// Whether they hold for the next token.
    fresh: bool,
}

impl Parsed {
    pub fn new(matcher: Matcher, vocabulary: Arc<Vocabulary>) -> Self {
        Self { matcher: Mutex::new(matcher), vocabulary, bits: SimpleVob::new(), fresh: false }
    }

    fn matcher(&mut self) -> &mut Matcher {
        self.matcher.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Mask for Parsed {
    fn allowed(&mut self) -> Result<&[u32], String> {
        if !self.fresh {
            self.bits = self.matcher().compute_mask_or_eos().map_err(|error| reason(&error.to_string()))?;
            self.fresh = true;
        }
        Ok(self.bits.as_slice())
    }

    fn accept(&mut self, token: u32) -> Result<(), String> {
        self.fresh = false;
        // After the end of the grammar the end of the turn may be chosen over and over.
        if self.vocabulary.ends(token) && self.matcher().is_stopped() {
            return Ok(());
        }
        self.matcher().consume_token(token).map_err(|error| reason(&error.to_string()))
    }

    fn clone_box(&self) -> Box<dyn Mask> {
        let matcher = self.matcher.lock().unwrap_or_else(PoisonError::into_inner).deep_clone();
        Box::new(Self {
            matcher: Mutex::new(matcher),
            vocabulary: self.vocabulary.clone(),
            bits: self.bits.clone(),
            fresh: self.fresh,
        })
    }
}
