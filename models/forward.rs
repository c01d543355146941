//! The one interface between text and transformer: a batch of tokens in, logits out.

use std::{
    io::{Read, Write},
    sync::Arc,
};

use qrun_cuda::{
    DeviceError,
    ops::sample::{SampledToken, Sampling},
};
use qrun_quant::cpu::par::Pool;

use crate::Tap;

/// One token of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Token id, below the vocabulary's size.
    pub token: u32,
    /// Position in its sequence; the next free one.
    pub pos: u32,
    /// Id of its sequence, below the number that the decoder was opened for.
    pub seq: u32,
    /// What is wanted after this token.
    pub output: Output,
    /// Whether the token is a guess: it does not join the sequence before [`Forward::accept`]. Behind a guess its sequence has
    /// nothing but guesses in the batch, none of them is its first token, and the decoder takes as many ([`Forward::n_draft`]).
    pub drafted: bool,
}

/// What a step gives for a token of the batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Output {
    /// Nothing: the token only goes into the cache.
    #[default]
    None,
    /// The logits after it; of a decoder that gives hidden states ([`crate::Gives`]) that of the token.
    Logits,
    /// The token that follows it, where the decoder samples this sequence (see [`Forward::set_sampling`]); else the
    /// logits, from which the caller samples.
    Token,
}

impl Output {
    /// Logits where `wanted`, else nothing.
    pub fn logits_if(wanted: bool) -> Self {
        if wanted { Self::Logits } else { Self::None }
    }
}

/// A sequence that a draft is wanted of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DraftRequest {
    /// Id of the sequence.
    pub seq: u32,
    /// Its next token, which it does not hold yet.
    pub token: u32,
    /// Most tokens to guess behind that one.
    pub most: usize,
}

/// Tokens among which the probability of the likeliest one counts.
const LIKELIEST: usize = 10;

/// Tokens that go through the layers together: any mix of prompt chunks and decode steps of many sequences. The
/// tokens of one sequence follow each other in the order of their positions.
#[derive(Clone, Copy)]
pub struct Batch<'a> {
    /// The tokens; those of one sequence in the order of their positions.
    pub entries: &'a [Entry],
    /// Asked between layers (on a GPU, and for a few tokens of a model with recurrent layers, between chunks); once it says
    /// true the step ends with [`ForwardError::Cancelled`] and the caches are as they were before.
    pub cancelled: &'a (dyn Fn() -> bool + Sync),
}

impl<'a> From<&'a [Entry]> for Batch<'a> {
    fn from(entries: &'a [Entry]) -> Self {
        Self { entries, cancelled: &|| false }
    }
}

/// What a step gives for one entry.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Row<'a> {
    /// The logits after the token, `[n_vocab]`; or its hidden state, `[n_embd]`.
    Logits(&'a [f32]),
    /// The token that follows it, sampled by the decoder.
    Token(SampledToken),
}

/// The rows of a step: one per entry that wants an output, in the order of the batch.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    width: usize,
    tokens: &'a [Option<SampledToken>],
    logits: &'a [f32],
}

impl<'a> Rows<'a> {
    /// `tokens` has an element per row; `logits` are those of the rows without a token, `[rows][width]`.
    pub fn new(width: usize, tokens: &'a [Option<SampledToken>], logits: &'a [f32]) -> Self {
        debug_assert_eq!(logits.len(), width * tokens.iter().filter(|t| t.is_none()).count());
        Self { width, tokens, logits }
    }

    /// How many rows of logits there are.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }
    /// Whether no entry wanted an output.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }
    /// The logits of the rows without a token, `[rows][n_vocab]`; or hidden states, `[rows][n_embd]`.
    pub fn logits(&self) -> &'a [f32] {
        self.logits
    }
    /// The rows in the order of the batch.
    pub fn iter(&self) -> impl Iterator<Item = Row<'a>> + use<'a> {
        let mut logits = self.logits.chunks_exact(self.width);
        self.tokens.iter().map(move |token| match token {
            Some(token) => Row::Token(*token),
            None => Row::Logits(logits.next().expect("logits for each row without a token")),
        })
    }
}

/// Why a batch was refused. The caches are as they were before the call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ForwardError {
    /// A position at or beyond the context size.
    #[error("position {pos} is past the end of the context of {n_ctx} tokens")]
    ContextFull {
        /// The position that was asked for.
        pos: u32,
        /// Context size in tokens.
        n_ctx: usize,
    },
    /// A position that does not continue its sequence.
    #[error("position {found} of sequence {seq}: expected {expected}, the next free one")]
    Position {
        /// Id of the sequence in the batch.
        seq: u32,
        /// The next free position.
        expected: u32,
        /// The position in the batch.
        found: u32,
    },
    /// A text that goes on, of a model whose tokens see those behind them.
    #[error("sequence {seq} holds {held} tokens: this model takes a text whole; rewind the sequence to 0 first")]
    Whole {
        /// Id of the sequence in the batch.
        seq: u32,
        /// Tokens that it holds.
        held: u32,
    },
    /// A token outside the vocabulary.
    #[error("token {token}: expected an id below {n_vocab}")]
    Token {
        /// The id in the batch.
        token: u32,
        /// Tokens of the vocabulary.
        n_vocab: usize,
    },
    /// A sequence that the decoder was not opened for.
    #[error("sequence {seq}: expected an id below {n_seq}")]
    Sequence {
        /// Id of the sequence in the batch.
        seq: u32,
        /// How many there are.
        n_seq: usize,
    },
    /// The caller wanted the step no more.
    #[error("the step was cancelled")]
    Cancelled,
    /// More guesses than the decoder takes.
    #[error("{found} guesses for sequence {seq}: expected at most {most}")]
    Drafted {
        /// Id of the sequence in the batch.
        seq: u32,
        /// Guesses of it in the batch.
        found: usize,
        /// Most that the decoder takes, [`Forward::n_draft`].
        most: usize,
    },
    /// No page is left for this batch; fewer sequences or shorter ones would fit.
    #[error("the KV cache is full: {needed} more pages of 64 tokens are needed, {free} are free")]
    Pages {
        /// Pages that the batch needs.
        needed: usize,
        /// Pages that are free or can be taken from the prefix cache.
        free: usize,
    },
    /// The device failed. What it held is lost.
    #[error("GPU: {0}")]
    Device(#[from] DeviceError),
}

/// How a device samples a sequence: the sampler's parameters as the kernel takes them, and what it has seen.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingRequest {
    /// Temperature, filters, penalties and seed as the kernel takes them.
    pub sampling: Sampling,
    /// Pairs of token and bias, added in this order.
    pub bias: Vec<(u32, f32)>,
    /// Tokens accepted so far: those before the position of the next token.
    pub history: Vec<u32>,
    /// Whether not every token may come: each has a mask of its own (see [`Forward::set_mask`]).
    pub masked: bool,
}

/// Pages of a KV cache, 64 tokens each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageCount {
    /// Pages that hold nothing.
    pub free: usize,
    /// Held by the prefix cache alone: taken when others are needed.
    pub evictable: usize,
    /// Pages of the whole pool.
    pub total: usize,
}

impl Default for PageCount {
    /// As many as anyone wants: of a decoder that does not count them.
    fn default() -> Self {
        Self { free: usize::MAX, evictable: 0, total: usize::MAX }
    }
}

/// What sequences must have in common besides tokens to share pages; `None`: with all that have none.
pub type Salt = Option<Arc<str>>;

/// What the prefix cache has of some tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cached {
    /// Tokens that [`Forward::attach`] would take over.
    pub held: u32,
    /// Tokens of the whole pages that the cache knows, a multiple of 64. More than `held` where layers with a sliding
    /// window have let go of what a sequence would look at that goes on there.
    pub known: u32,
}

/// A decoder: the CPU's, or a device's.
pub trait Forward: Send {
    /// Tokens of the vocabulary: the length of a row of logits.
    fn n_vocab(&self) -> usize;
    /// Context size per sequence, in tokens.
    fn n_ctx(&self) -> usize;
    /// Number of sequences: ids are below it.
    fn n_seq(&self) -> usize;
    /// Runs a batch of any size. Single tokens, prompts in any chunking and several sequences are the same call.
    ///
    /// # Errors
    /// Entries that do not continue their sequences, no pages, a cancelled step: the caches are as before. A failed
    /// device.
    fn step(&mut self, batch: &Batch) -> Result<Rows<'_>, ForwardError>;
    /// Runs entries that want [`Output::Logits`] or nothing; returns the logits, `[rows][n_vocab]` (or hidden states,
    /// `[rows][n_embd]`).
    ///
    /// # Errors
    /// As [`Forward::step`].
    fn forward(&mut self, entries: &[Entry]) -> Result<&[f32], ForwardError> {
        Ok(self.step(&entries.into())?.logits())
    }
    /// Most tokens of a sequence that a step takes as guesses ([`Entry::drafted`]); 0: it takes none.
    fn n_draft(&self) -> usize {
        0
    }
    /// Guesses with the model's draft head how sequences go on: for each request at most as many tokens as it asks for, none
    /// where there is no such head or where pages are missing. A token whose probability among the ten likeliest is below
    /// `least` ends its draft. What sequences hold does not change.
    fn draft(&mut self, wanted: &[DraftRequest], _least: f32) -> Vec<Vec<u32>> {
        vec![Vec::new(); wanted.len()]
    }
    /// The first `n` guesses of a sequence in the last step join it, as if they had been fed one by one; the others are
    /// gone. So are all where something else happens to the sequence first.
    fn accept(&mut self, _seq: u32, _n: usize) {}
    /// What the last [`Forward::step`] returned.
    fn rows(&self) -> Rows<'_>;
    /// Tokens held for a sequence: the next free position.
    fn len(&self, seq: u32) -> u32;
    /// Forgets positions from `pos` on and returns how many tokens are kept: `pos`, or 0 where a
    /// sliding window has already let go of pages that position `pos` would look at.
    fn rewind(&mut self, seq: u32, pos: u32) -> u32;
    /// Empties a sequence and fills it with as much of `tokens` as earlier sequences have left in the prefix cache
    /// (see [`Forward::release`]), all of it at most. Returns how many tokens it then holds. What is taken is equal
    /// token by token; its pages are shared, never written.
    fn attach(&mut self, seq: u32, _tokens: &[u32]) -> u32 {
        self.rewind(seq, 0)
    }
    /// The salt of what a sequence finds in the prefix cache and leaves there from now on: sequences of different salts
    /// share nothing.
    fn set_salt(&mut self, _seq: u32, _salt: &Salt) {}
    /// What [`Forward::attach`] would find for a sequence of this salt; nothing changes.
    fn cached(&self, _salt: &Salt, _tokens: &[u32]) -> Cached {
        Cached::default()
    }
    /// Empties sequence `to` and gives it the first `len` tokens of `from`, which goes on: pages are shared, and the last
    /// one is copied before either writes into it. Returns `len`, or 0 where that cannot be: a sliding window of `from`
    /// has passed what is seen from there, or this decoder does not share.
    fn fork(&mut self, _from: u32, to: u32, _len: u32) -> u32 {
        self.rewind(to, 0)
    }
    /// Shares the whole pages of a sequence with the prefix cache while it goes on. `tokens` are those it holds.
    fn share(&mut self, _seq: u32, _tokens: &[u32]) {}
    /// Leaves the pages of a sequence to the prefix cache and empties it. `tokens` are those it holds, whose keys and
    /// values were computed; an empty slice leaves nothing.
    fn release(&mut self, seq: u32, _tokens: &[u32]) {
        self.rewind(seq, 0);
    }
    /// Drops from the prefix cache what does not begin as `keep` does, or goes on beyond it, and all that has a salt.
    fn forget(&mut self, _keep: &[u32]) {}
    /// Drops from the prefix cache the end of these tokens, as far back as nothing else begins like that.
    fn erase(&mut self, _salt: &Salt, _tokens: &[u32]) {}
    /// Pages of 64 tokens of the layers that see everything; those with a sliding window have enough for every sequence.
    fn pages(&self) -> PageCount {
        PageCount::default()
    }
    /// How the device samples [`Output::Token`] rows of a sequence from the next step on; `sampling.position` is the
    /// number of tokens accepted when the first of them is sampled. `false`: this decoder leaves that to the caller, or
    /// does not take these parameters, and such rows give logits.
    ///
    /// Only the last row of a sequence in a batch is sampled, and guesses behind it as far as they are what is sampled: the others
    /// give [`Status::NotReached`](qrun_cuda::ops::sample::Status::NotReached). After that the sequence has to be fed the token
    /// that was sampled last, with nothing but guesses behind it and with [`Output::Token`]; where it is fed something else, rewound, attached, released or
    /// loaded, its rows give logits again until this is called anew.
    ///
    /// # Errors
    /// The device's.
    fn set_sampling(&mut self, _seq: u32, _sampling: &SamplingRequest) -> Result<bool, ForwardError> {
        Ok(false)
    }
    /// Whether the next token of a sequence is sampled here from a mask ([`SamplingRequest::masked`]), for which
    /// [`Forward::set_mask`] has to be called before the step.
    fn wants_mask(&self, _seq: u32) -> bool {
        false
    }
    /// The tokens that may be sampled after the next [`Output::Token`] row of a sequence: bit `i % 32` of word `i / 32` is token
    /// `i`; those beyond the last word may not. For that row alone: one whose mask was not given gives logits, and
    /// the sequence's rows do so from then on.
    fn set_mask(&mut self, _seq: u32, _allowed: &[u32]) {}
    /// Sends intermediate results to `tap` from the next step on, or no more; `false` where this decoder has none to
    /// give. Meanwhile it samples nothing.
    fn set_tap(&mut self, _tap: Option<Tap>) -> bool {
        false
    }
    /// The threads that steps run on, idle between them; `None` where steps run elsewhere.
    fn pool(&self) -> Option<&Pool> {
        None
    }
    /// Steps of so many rows, or a multiple of that, leave nothing of what they compute unused.
    fn row_multiple(&self) -> usize {
        16
    }
    /// Bytes of weights that one token reads.
    fn bytes_per_token(&self) -> u64;
    /// Bytes of KV cache in use.
    fn kv_bytes(&self) -> u64;
    /// Writes the cache of a sequence: the pages that its next position sees.
    ///
    /// # Errors
    /// `out` cannot be written, or the device fails.
    fn save(&self, seq: u32, out: &mut dyn Write) -> std::io::Result<()>;
    /// Reads what `save` wrote, for a model of the same shape and cache types.
    ///
    /// # Errors
    /// `InvalidData` where it was saved with another model or other cache types, has more tokens than the context has
    /// room for, or is damaged; `input` ends early, no pages are free, or the device fails. The sequence is empty then.
    fn load(&mut self, seq: u32, input: &mut dyn Read) -> std::io::Result<()>;
}

/// The sequences of some entries, and where each of them ends after these: `(sequence, tokens)`.
pub(crate) fn ends<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Vec<(usize, usize)> {
    let mut ends: Vec<(usize, usize)> = Vec::new();
    for e in entries {
        let (seq, end) = (e.seq as usize, e.pos as usize + 1);
        match ends.iter_mut().rev().find(|(of, _)| *of == seq) {
            Some((_, last)) => *last = end,
            None => ends.push((seq, end)),
        }
    }
    ends
}

/// The same of those that are no guesses.
pub(crate) fn certain_ends(entries: &[Entry]) -> Vec<(usize, usize)> {
    ends(entries.iter().filter(|e| !e.drafted))
}

/// Whether the sequences of a batch begin in it (`held`: tokens that each holds), as models ask that see texts whole.
///
/// # Errors
/// [`ForwardError::Whole`] with the first sequence that holds tokens already.
pub(crate) fn check_whole(batch: &[Entry], held: &[u32]) -> Result<(), ForwardError> {
    let goes_on = batch.iter().find(|e| held.get(e.seq as usize).is_some_and(|&held| held > 0));
    goes_on.map_or(Ok(()), |e| Err(ForwardError::Whole { seq: e.seq, held: held[e.seq as usize] }))
}

/// Whether no sequence of a batch has more guesses than `most`.
///
/// # Errors
/// [`ForwardError::Drafted`] with the first sequence that has.
pub(crate) fn check_drafted(batch: &[Entry], most: usize) -> Result<(), ForwardError> {
    let guesses = |seq| batch.iter().filter(|e| e.drafted && e.seq == seq).count();
    let drafted = batch.iter().filter(|e| e.drafted).map(|e| (e.seq, guesses(e.seq)));
    let too_many = drafted.into_iter().find(|(_, found)| *found > most);
    too_many.map_or(Ok(()), |(seq, found)| Err(ForwardError::Drafted { seq, found, most }))
}

/// Whether every entry continues its sequence (`next`: the free position of each), within the context and the
/// vocabulary.
///
/// # Errors
/// What is wrong with the first entry that does not fit: its sequence does not exist, its position is not the next one
/// or past the context, or its token is not in the vocabulary.
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

/// The likeliest token; `None` where its probability among the likeliest is below `least`.
pub(crate) fn likeliest(logits: &[f32], least: f32) -> Option<u32> {
    // A NaN is no guess worth making.
    let key = |&i: &u32| if logits[i as usize].is_nan() { f32::NEG_INFINITY } else { logits[i as usize] };
    let order = |a: &u32, b: &u32| key(b).total_cmp(&key(a)).then(a.cmp(b));
    let best = (0..logits.len() as u32).min_by(order)?;
    if least <= 0.0 {
        return Some(best);
    }
    let mut ids: Vec<u32> = (0..logits.len() as u32).collect();
    if ids.len() > LIKELIEST {
        ids.select_nth_unstable_by(LIKELIEST - 1, order);
        ids.truncate(LIKELIEST);
    }
    let sum: f32 = ids.iter().map(|id| (key(id) - key(&best)).exp()).sum();
    (1.0 / sum >= least).then_some(best)
}
