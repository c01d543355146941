//! Text from tokens as it comes: whole characters only.

/// Puts bytes together to UTF-8 text. What can still become a character is held back; what cannot
/// becomes U+FFFD, at the same places as in [`String::from_utf8_lossy`] over all the bytes.
#[derive(Debug, Default, Clone)]
pub struct Utf8Stream {
    held: Vec<u8>,
}

impl Utf8Stream {
    /// Takes more bytes and returns the characters that are complete now.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.held.extend_from_slice(bytes);
        let cut = self.held.len() - unfinished(&self.held);
        let text = String::from_utf8_lossy(&self.held[..cut]).into_owned();
        self.held.drain(..cut);
        text
    }

    /// The end of the text: what is still held back cannot become a character any more.
    pub fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.held)).into_owned()
    }
}

/// Length of an unfinished character at the end of `bytes` (0 to 3).
fn unfinished(bytes: &[u8]) -> usize {
    match bytes.utf8_chunks().last().map(|chunk| chunk.invalid()) {
        // Complete sequences that are invalid are never a prefix of a character.
        Some(tail) if !tail.is_empty() && is_prefix(tail) => tail.len(),
        _ => 0,
    }
}

/// Whether some character's encoding begins with these bytes and is longer.
fn is_prefix(bytes: &[u8]) -> bool {
    match bytes.first() {
        Some(0xc2..=0xdf) => bytes.len() < 2,
        Some(0xe0..=0xef) => bytes.len() < 3,
        Some(0xf0..=0xf4) => bytes.len() < 4,
        _ => false,
    }
}
