//! Which tokens may come next: step 0 of the sampler, asked anew for every token.

use std::fmt;

/// A constraint on the tokens of an answer, as far as it has come. A clone goes on by itself.
pub trait Mask: Send + Sync {
    /// The tokens that may come next: bit `i % 32` of word `i / 32` is token `i`; tokens beyond the last word may not.
    ///
    /// # Errors
    /// Why the constraint cannot tell, in words: it has run out of its budget.
    fn allowed(&mut self) -> Result<&[u32], String>;
    /// Takes the token that was chosen.
    ///
    /// # Errors
    /// The token is none of the allowed ones.
    fn accept(&mut self, token: u32) -> Result<(), String>;
    /// A copy that goes on by itself from here.
    fn clone_box(&self) -> Box<dyn Mask>;
}

/// A mask that can be part of a request.
pub struct TokenMask(pub Box<dyn Mask>);

impl TokenMask {
    /// The tokens that may come next; at least one.
    ///
    /// # Errors
    /// The mask's own, and that it allows nothing at all.
    pub fn allowed(&mut self) -> Result<&[u32], String> {
        let words = self.0.allowed()?;
        if words.iter().all(|&word| word == 0) {
            return Err("no token of the vocabulary can continue the text".into());
        }
        Ok(words)
    }

    /// Takes the token that was chosen.
    ///
    /// # Errors
    /// The token is none of the allowed ones.
    pub fn accept(&mut self, token: u32) -> Result<(), String> {
        self.0.accept(token)
    }
}

impl Clone for TokenMask {
    fn clone(&self) -> Self {
        Self(self.0.clone_box())
    }
}

impl fmt::Debug for TokenMask {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("TokenMask")
    }
}
