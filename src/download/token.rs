//! The secret that opens gated repositories.

use std::fmt;

/// A token; it shows itself to nobody but the header that carries it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Without the white space around it; `None` where nothing is left.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Token(text.to_owned()))
    }
    /// The value of the header `Authorization`; `None` where it has characters that no header can carry.
    pub fn header(&self) -> Option<String> {
        self.0.bytes().all(|b| b.is_ascii_graphic()).then(|| format!("Bearer {}", self.0))
    }
    /// A text without the token in it.
    pub fn hidden(&self, text: &str) -> String {
        text.replace(&self.0, "…")
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}
