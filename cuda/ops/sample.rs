//! Sampling on the device: from a row of logits to its next token, the one that the CPU sampler would draw.
//!
//! The state of a sequence (parameters, position, what the penalties see) lives on the device and moves on by
//! itself, so a captured step samples by being replayed. The host reads the tokens from a pinned ring, when it likes.
//! Everything but top-n-sigma and typical sampling is done here, masks by [`SampleState::mask`]; see [`SampleShape::holds`] for what the
//! buffers must be large enough for.

mod mask;

use std::sync::atomic::{Ordering, fence};

use crate::{ArenaLayout, Grid, Params, Pinned, Ptr, Result, Stream};

/// Tokens of a chunk, as in the kernel.
const CHUNK: usize = 512;
/// Threads of a block, and chunks that it has under way.
const THREADS: u32 = 256;
const WARPS: usize = THREADS as usize / 32;
/// Bins of a histogram, and candidates that are listed, as in the kernel.
const BINS: usize = 2048;
const LISTED: usize = 2048;
/// Blocks per row: one chunk per warp at 2^18 tokens.
const MAX_BLOCKS: usize = 64;
/// Tokens that the ring holds of each sequence.
const RING: usize = 64;

/// How a sequence is sampled, and how far it has come. The default is greedy.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// Same seed, same text.
    pub seed: u64,
    /// The number of tokens accepted so far.
    pub position: u64,
    /// 0 or less: greedy.
    pub temperature: f32,
    /// Only the k best; 0: all.
    pub top_k: i32,
    /// Only the best that hold this share; 1 or more: all.
    pub top_p: f32,
    /// Only logits of at least the best one and this; -inf: all.
    pub ln_min_p: f32,
    /// Divides (or multiplies, below 0) the logits of recent tokens.
    pub repeat: f32,
    /// Subtracted for each recent occurrence.
    pub frequency: f32,
    /// Subtracted once from the logit of every recent token.
    pub presence: f32,
    /// How many tokens are recent; -1: all; 0: penalties are off.
    pub window: i32,
}

impl Sampling {
    /// Always the best token, from position 0 on.
    pub const GREEDY: Self = Self {
        seed: 0,
        position: 0,
        temperature: 0.0,
        top_k: 0,
        top_p: 1.0,
        ln_min_p: f32::NEG_INFINITY,
        repeat: 1.0,
        frequency: 0.0,
        presence: 0.0,
        window: 0,
    };
}

impl Default for Sampling {
    fn default() -> Self {
        Self::GREEDY
    }
}

/// Added to a logit.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Bias {
    token: i32,
    value: f32,
}

/// What became of a step.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// A token was drawn.
    Sampled = 0,
    /// A logit was NaN or +inf.
    NotFinite = 1,
    /// All logits were -inf.
    NoToken = 2,
    /// The row's token was a guess, and wrong, or behind such a one: nothing was drawn.
    NotReached = 3,
}

/// One step of a sequence, as the device tells it.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SampledToken {
    number: u32,
    token: i32,
    status: i32,
    value: f32,
}

impl SampledToken {
    /// What comes of a row that was not reached.
    pub const NOT_REACHED: Self = Self { number: 0, token: -1, status: Status::NotReached as i32, value: 0.0 };

    /// The token drawn; the first bad one if not finite.
    pub fn token(&self) -> u32 {
        self.token as u32
    }
    /// Its logit after bias and penalties.
    pub fn logit(&self) -> f32 {
        self.value
    }
    /// What became of the step. Where no token was drawn, token and position of the row stay as they were.
    pub fn status(&self) -> Status {
        match self.status {
            0 => Status::Sampled,
            1 => Status::NotFinite,
            2 => Status::NoToken,
            _ => Status::NotReached,
        }
    }
}

/// What the blocks and launches of a step tell each other; only the kernels look inside.
#[repr(C)]
#[derive(Clone, Copy)]
struct Work {
    words: [u64; 12],
}

/// What the buffers are made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleShape {
    /// Sequences that have a state; `seq` of a row is below it.
    pub sequences: usize,
    /// Logits of a row, at most 2^22.
    pub vocab: usize,
    /// Tokens that the penalties can look back; 0: no penalties, and no memory for them.
    pub history: usize,
    /// Biased tokens of a sequence.
    pub biases: usize,
}

/// Parts of an arena that hold the state of all sequences.
#[derive(Debug, Clone, Copy)]
pub struct SampleBuffers {
    sampling: Ptr<Sampling>,
    work: Ptr<Work>,
    counts: Ptr<u32>,
    history: Ptr<i32>,
    bias: Ptr<Bias>,
    totals: Ptr<u64>,
    candidates: Ptr<u64>,
    bin_mass: Ptr<u64>,
    bin_count: Ptr<u32>,
    masks: Ptr<u32>,
}

/// Words of a mask, a bit per token.
fn mask_words(vocab: usize) -> usize {
    vocab.div_ceil(u32::BITS as usize)
}

impl SampleShape {
    /// Takes the buffers from an arena; what they need is what this takes.
    pub fn take(&self, layout: &mut ArenaLayout) -> SampleBuffers {
        assert!((1..=1 << 22).contains(&self.vocab), "a vocabulary of {} tokens", self.vocab);
        let n = self.sequences;
        SampleBuffers {
            sampling: layout.take("sample.sampling", n),
            work: layout.take("sample.work", n),
            counts: layout.take("sample.counts", if self.history == 0 { 0 } else { n * self.vocab }),
            history: layout.take("sample.history", n * self.history),
            bias: layout.take("sample.bias", n * self.biases),
            totals: layout.take("sample.totals", n * self.vocab.div_ceil(CHUNK)),
            candidates: layout.take("sample.candidates", n * LISTED),
            bin_mass: layout.take("sample.bin_mass", n * BINS),
            bin_count: layout.take("sample.bin_count", n * BINS),
            masks: layout.take("sample.masks", n * mask_words(self.vocab)),
        }
    }

    /// Whether a sequence can be sampled here: its penalties look back at `recent` tokens now and at no more than
    /// `window` ever (-1: all), and so many of its tokens have a bias.
    pub fn holds(&self, window: i32, recent: usize, biases: usize) -> bool {
        let penalties = match window {
            0 => true,
            -1 => self.history > 0 && recent <= self.history,
            window => window as usize <= self.history,
        };
        penalties && biases <= self.biases
    }
}

/// The rows of a step, each of one sequence.
#[derive(Debug, Clone, Copy)]
pub struct SampleRows {
    /// `[rows][vocab]`; bias and penalties change them in place.
    pub logits: Ptr<f32>,
    /// `[rows]`: the tokens drawn are written here.
    pub token: Ptr<i32>,
    /// `[rows]`: one is added.
    pub pos: Ptr<i32>,
    /// `[rows]`: the sequence of each, different ones; below 0: idle.
    pub seq: Ptr<i32>,
    /// Null; or `[rows]`: what the launch before has drawn for the same sequences. A row whose `token` is another one was a wrong
    /// guess: nothing is drawn for it, nor for guesses behind it.
    pub drawn: Ptr<i32>,
    /// Rows to sample, one token each.
    pub rows: u32,
}

/// How much of the sampler a step launches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleSteps {
    /// One launch: right where every sequence is greedy ([`SampleState::is_greedy`]).
    Greedy,
    /// Three launches: right for all.
    All,
}

/// Where a sequence begins, or goes on.
#[derive(Debug, Clone, Copy)]
pub struct SampleStart<'a> {
    /// Parameters, seed, and the position of the next token.
    pub sampling: Sampling,
    /// Tokens and what is added to their logits, in this order.
    pub biases: &'a [(u32, f32)],
    /// All tokens accepted so far, or at least as many of the last ones as the penalties see. Their number may
    /// be less than the position.
    pub history: &'a [u32],
}

/// The state of all sequences, and the ring that the host reads.
pub struct SampleState {
    shape: SampleShape,
    buffers: SampleBuffers,
    ring: Pinned<SampledToken>,
    ring_on_device: Ptr<SampledToken>,
    staged_history: Pinned<i32>,
    staged_bias: Pinned<Bias>,
    staged_masks: Pinned<u32>,
    greedy: Vec<bool>,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct SampleParams {
    logits: Ptr<f32>,
    token: Ptr<i32>,
    pos: Ptr<i32>,
    seq: Ptr<i32>,
    drawn: Ptr<i32>,
    buffers: [u64; 9],
    ring: Ptr<SampledToken>,
    vocab: i32,
    history_len: i32,
    bias_len: i32,
    ring_len: i32,
}

// SAFETY: SampleParams in kernels/sample.cu; the test below compares size and offsets.
unsafe impl Params for SampleParams {}

#[repr(C)]
#[derive(Clone, Copy)]
struct RestartParams {
    sampling: Sampling,
    to: Ptr<Sampling>,
    work: Ptr<Work>,
    counts: Ptr<u32>,
    history: Ptr<i32>,
    vocab: i32,
    recent: i32,
    biases: i32,
    pad: i32,
}

// SAFETY: RestartParams in kernels/sample.cu; the test below compares size and offsets.
unsafe impl Params for RestartParams {}

impl SampleState {
    /// The state of `shape.sequences` greedy sequences at position 0, in buffers that `shape` has taken.
    ///
    /// # Errors
    /// No page-locked or device memory is left, or an earlier launch has failed.
    ///
    /// # Safety
    /// The contract of [`ops`](crate::ops): `shape` has taken `buffers` from memory of the stream's GPU, and no other state
    /// uses them.
    pub unsafe fn new(stream: &Stream, shape: SampleShape, buffers: SampleBuffers) -> Result<Self> {
        let (gpu, n) = (stream.gpu(), shape.sequences);
        let mut ring = Pinned::new(gpu, n * RING)?;
        // SAFETY: `shape` has taken the buffers for so many sequences, says the caller.
        unsafe {
            stream.zero(buffers.sampling, n)?;
            stream.zero(buffers.work, n)?;
            stream.zero(buffers.bin_mass, n * BINS)?;
            stream.zero(buffers.bin_count, n * BINS)?;
        }
        Ok(Self {
            shape,
            buffers,
            ring_on_device: ring.on_device()?,
            ring,
            staged_history: Pinned::new(gpu, shape.history)?,
            staged_bias: Pinned::new(gpu, shape.biases)?,
            staged_masks: Pinned::new(gpu, n * mask_words(shape.vocab))?,
            greedy: vec![true; n],
        })
    }

    /// Queues a sequence's new start behind the steps of it that are queued already. The host goes on: only a second start
    /// waits, until the copies of this one have left the staging buffers.
    ///
    /// # Errors
    /// The driver refuses the launch, or an earlier launch has failed.
    ///
    /// # Safety
    /// The contract of [`ops`](crate::ops) for the buffers that [`SampleState::new`] was given.
    pub unsafe fn restart(&mut self, stream: &Stream, sequence: usize, start: &SampleStart) -> Result<()> {
        let sampling = start.sampling;
        let window = if sampling.window < 0 { start.history.len() } else { sampling.window as usize };
        let recent = &start.history[start.history.len().saturating_sub(window)..];
        let holds = self.shape.holds(sampling.window, recent.len(), start.biases.len());
        assert!(holds && sequence < self.shape.sequences, "a sampler larger than its buffers");
        let history = self.buffers.history.add(sequence * self.shape.history);
        if window > 0 {
            assert!(sampling.position >= recent.len() as u64, "more tokens than positions");
            // Where the kernel will look for the token of a position, if the window is limited.
            let staged = &mut self.staged_history.as_mut_slice()[..window];
            staged.fill(-1);
            for (i, &token) in recent.iter().enumerate() {
                let position = sampling.position - recent.len() as u64 + i as u64;
                let place = if sampling.window < 0 { i } else { (position % window as u64) as usize };
                staged[place] = i32::try_from(token).unwrap_or(-1);
            }
            // SAFETY: the shape holds the window of the sequence (checked above), and so do its buffers, says the caller.
            unsafe { stream.copy_in(history, &self.staged_history, window)? };
        }
        if !start.biases.is_empty() {
            let staged = &mut self.staged_bias.as_mut_slice()[..start.biases.len()];
            for (to, &(token, value)) in staged.iter_mut().zip(start.biases) {
                assert!((token as usize) < self.shape.vocab, "a bias for token {token}");
                *to = Bias { token: token as i32, value };
            }
            // Stable: the pairs of one token stay in their order.
            staged.sort_by_key(|bias| bias.token);
            let to = self.buffers.bias.add(sequence * self.shape.biases);
            // SAFETY: as for the window.
            unsafe { stream.copy_in(to, &self.staged_bias, start.biases.len())? };
        }
        self.greedy[sequence] = sampling.temperature <= 0.0;
        let params = RestartParams {
            sampling,
            to: self.buffers.sampling.add(sequence),
            work: self.buffers.work.add(sequence),
            counts: self.buffers.counts.add(sequence * self.shape.vocab),
            history,
            vocab: self.shape.vocab as i32,
            recent: window as i32,
            biases: start.biases.len() as i32,
            pad: 0,
        };
        // SAFETY: the kernel takes these parameters (compared by the test below); the caller answers for the rest.
        unsafe { stream.launch("sample_restart", Grid::linear(1, THREADS), &params) }
    }

    /// Whether a sequence is greedy since its last start.
    pub fn is_greedy(&self, sequence: usize) -> bool {
        self.greedy[sequence]
    }

    /// Draws a token for each row and moves its sequence on: `token` and `pos` of the row, the sequence's state, the
    /// ring. May be captured.
    ///
    /// # Errors
    /// The driver refuses the launch, or an earlier launch has failed.
    ///
    /// # Safety
    /// The contract of [`ops`](crate::ops) for the buffers that [`SampleState::new`] was given, and for the addresses in
    /// `rows`, which have the sizes that its fields name.
    pub unsafe fn sample(&self, stream: &Stream, rows: &SampleRows, steps: SampleSteps) -> Result<()> {
        let (b, shape) = (&self.buffers, &self.shape);
        let params = SampleParams {
            logits: rows.logits,
            token: rows.token,
            pos: rows.pos,
            seq: rows.seq,
            drawn: rows.drawn,
            buffers: [
                b.sampling.address(),
                b.work.address(),
                b.counts.address(),
                b.history.address(),
                b.bias.address(),
                b.totals.address(),
                b.candidates.address(),
                b.bin_mass.address(),
                b.bin_count.address(),
            ],
            ring: self.ring_on_device,
            vocab: shape.vocab as i32,
            history_len: shape.history as i32,
            bias_len: shape.biases as i32,
            ring_len: RING as i32,
        };
        let blocks = shape.vocab.div_ceil(CHUNK).div_ceil(WARPS).min(MAX_BLOCKS) as u32;
        let grid = Grid::plane(blocks, rows.rows, THREADS);
        // SAFETY: the kernels take these parameters (compared by the test below); the caller answers for the rest.
        unsafe {
            stream.launch_dependent("sample_scan", grid, &params)?;
            if steps == SampleSteps::All {
                stream.launch_dependent("sample_bins", grid, &params)?;
                stream.launch_dependent("sample_draw", grid, &params)?;
            }
        }
        Ok(())
    }

    /// The `number`-th step of a sequence (from 1, counted since the state was made), if the device has got so far.
    /// The ring holds the last 64.
    pub fn drawn(&self, sequence: usize, number: u32) -> Option<SampledToken> {
        let place = sequence * RING + (number.wrapping_sub(1) as usize) % RING;
        if self.ring.read_volatile(place).number != number {
            return None;
        }
        // The device writes the number last: what is read from here on belongs to it.
        fence(Ordering::Acquire);
        Some(self.ring.read_volatile(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::twin;

    #[test]
    fn the_kernels_have_the_same() {
        twin::fields!(Sampling as "sample::Sampling" {
            seed, position, temperature, top_k, top_p, ln_min_p, repeat, frequency, presence, window,
        });
        twin::fields!(Bias as "sample::Bias" { token, value });
        twin::fields!(SampledToken as "sample::SampledToken" { number as "sequence", token, status, value });
        twin::fields!(SampleParams as "sample::SampleParams" {
            logits, token, pos, seq, drawn, buffers as "sampling", ring, vocab, history_len, bias_len, ring_len,
        });
        twin::fields!(RestartParams as "sample::RestartParams" {
            sampling, to, work, counts, history, vocab, recent, biases, pad,
        });
        twin::constants([
            ("sizeof(sample::Work)", size_of::<Work>()),
            ("sample::CHUNK", CHUNK),
            ("sample::SAMPLE_THREADS", THREADS as usize),
            ("sample::BINS", BINS),
            ("sample::LISTED", LISTED),
            ("sample::DRAWN", Status::Sampled as usize),
            ("sample::NOT_FINITE", Status::NotFinite as usize),
            ("sample::NO_TOKEN", Status::NoToken as usize),
            ("sample::NOT_REACHED", Status::NotReached as usize),
        ]);
    }
}
