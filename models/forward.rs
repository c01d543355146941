//! The one interface between text and transformer: a batch of tokens in, logits out.

use std::io::{Read, Write};

use qrun_cuda::{
    DeviceError,
    ops::sample::{SampledToken, Sampling},
};

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
    /// The device failed. What it held is lost.
    #[error("GPU: {0}")]
    Device(#[from] DeviceError),
}

/// How a device draws tokens: the sampler's parameters as the kernel takes them, and what it has seen.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingRequest {
    /// Parameters.
    pub sampling: Sampling,
    /// Pairs of token and bias, added in this order.
    pub bias: Vec<(u32, f32)>,
    /// Tokens accepted so far, the one that the first [`Forward::draw`] feeds among them.
    pub history: Vec<u32>,
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
    /// What the last [`Forward::forward`] returned.
    fn logits(&self) -> &[f32];
    /// Tokens held for a sequence: the next free position.
    fn len(&self, seq: u32) -> u32;
    /// Forgets positions from `pos` on and returns how many tokens are kept: `pos`, or 0 where a
    /// sliding window has already let go of pages that position `pos` would look at.
    fn rewind(&mut self, seq: u32, pos: u32) -> u32;
    /// From here on [`Forward::draw`] chooses the tokens of a sequence where its logits are. `false` where this
    /// decoder leaves that to the caller, or does not know these parameters.
    ///
    /// # Errors
    /// The device's.
    fn begin_drawing(&mut self, _seq: u32, _drawing: &SamplingRequest) -> Result<bool, ForwardError> {
        Ok(false)
    }
    /// Runs `token` at the next position of the sequence that is being drawn, and draws the one after it, or says
    /// why none can be. `None`: this decoder can no longer draw (then nothing was run).
    ///
    /// A decoder may run ahead with the token that it drew; it must be the one of the next call.
    ///
    /// # Errors
    /// As [`Forward::forward`].
    fn draw(&mut self, _token: u32) -> Result<Option<SampledToken>, ForwardError> {
        Ok(None)
    }
    /// Ends drawing: what was run ahead is forgotten.
    ///
    /// # Errors
    /// The device's.
    fn end_drawing(&mut self) -> Result<(), ForwardError> {
        Ok(())
    }
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

/// Whether every entry continues its sequence (`next`: the free position of each), within the context and the
/// vocabulary.
pub(crate) fn check(batch: &[Entry], mut next: Vec<u32>, n_ctx: usize, n_vocab: usize) -> Result<(), ForwardError> {
    for e in batch {
        let n_seq = next.len();
        let expected = next.get_mut(e.seq as usize).ok_or(ForwardError::Sequence { seq: e.seq, n_seq })?;
        if e.pos as usize >= n_ctx {
            return Err(ForwardError::ContextFull { pos: e.pos, n_ctx });
        }
        if e.pos != *expected {
            return Err(ForwardError::Position { seq: e.seq, expected: *expected, found: e.pos });
        }
        if e.token as usize >= n_vocab {
            return Err(ForwardError::Token { token: e.token, n_vocab });
        }
        *expected += 1;
    }
    Ok(())
}
