//! The one interface between text and transformer: a batch of tokens in, logits out.

use std::io::{Read, Write};

/// One token of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Token id.
    pub token: u32,
    /// Position in its sequence; the next free one.
    pub pos: u32,
    /// Sequence.
    pub seq: u32,
    /// Whether the logits after this token are wanted.
    pub logits: bool,
}

/// Why a batch was refused. The caches are as they were before the call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ForwardError {
    /// A position at or beyond the context size.
    #[error("position {pos} is past the end of the context of {n_ctx} tokens")]
    ContextFull {
        /// The position.
        pos: u32,
        /// The context size.
        n_ctx: usize,
    },
    /// A position that does not continue its sequence.
    #[error("position {found} of sequence {seq}: expected {expected}, the next free one")]
    Position {
        /// The sequence.
        seq: u32,
        /// The next free position.
        expected: u32,
        /// The position in the batch.
        found: u32,
    },
    /// A token outside the vocabulary.
    #[error("token {token}: expected an id below {n_vocab}")]
    Token {
        /// The token.
        token: u32,
        /// The vocabulary size.
        n_vocab: usize,
    },
    /// A sequence that the decoder was not opened for.
    #[error("sequence {seq}: expected an id below {n_seq}")]
    Sequence {
        /// The sequence.
        seq: u32,
        /// How many there are.
        n_seq: usize,
    },
}

/// A decoder: the CPU's, or a device's.
pub trait Forward: Send {
    /// Vocabulary size.
    fn n_vocab(&self) -> usize;
    /// Context size per sequence, in tokens.
    fn n_ctx(&self) -> usize;
    /// Runs a batch of any size; returns the logits of the marked entries, `[marked][n_vocab]`.
    /// Single tokens, prompts in any chunking and several sequences are the same call.
    fn forward(&mut self, batch: &[Entry]) -> Result<&[f32], ForwardError>;
    /// Tokens held for a sequence: the next free position.
    fn len(&self, seq: u32) -> u32;
    /// Forgets positions from `pos` on and returns how many tokens are kept: `pos`, or 0 where a
    /// sliding window has already let go of pages that position `pos` would look at.
    fn rewind(&mut self, seq: u32, pos: u32) -> u32;
    /// Bytes of weights that one token reads.
    fn bytes_per_token(&self) -> u64;
    /// Bytes of KV cache in use.
    fn kv_bytes(&self) -> u64;
    /// Writes the cache of a sequence.
    fn save(&self, seq: u32, out: &mut dyn Write) -> std::io::Result<()>;
    /// Reads what `save` wrote, for a model of the same shape and cache types. On an error the
    /// sequence is empty.
    fn load(&mut self, seq: u32, input: &mut dyn Read) -> std::io::Result<()>;
}
