//! Steps that run ahead: once a step has given tokens, the next one is launched before anybody asks for it.
//!
//! A step of decoding with the sampler at its end is recorded once per number of rows. It leaves each row's token and
//! position where the next step reads them, so steps follow each other without the host, which reads the tokens from
//! page-locked memory one step behind. A batch whose rows ran ahead only takes their tokens; of a row that nobody asks
//! for nothing is kept. Sequences with masks are not among them (see `masks.rs`).
//!
//! Where a sequence leaves, the last row takes its place on the device; where one joins, its token, position and number
//! are written behind the others: single numbers that travel with the calls, in the order of the stream. So the next step
//! is queued before the tokens of this one are waited for, and nothing is synchronised. The rows lie without gaps, for as
//! many sequences take the same kernels whoever was there before.

use qrun_cuda::{
    LazyGraph, Ptr, Result, Stream,
    ops::{
        attention::Tiling,
        sample::{SampleRows, SampleSteps},
    },
};

use super::{
    BUCKETS, GpuDecoder,
    batch::{Row, Slot, Split, bucket},
    memory::{self, Memory, Rows, STEP_ROWS},
    step::Step,
};
use crate::{Entry, forward::ends};

/// The recorded steps, and the rows that they find on the device.
pub struct Ahead {
    /// By number of rows, and by what of the sampler is launched.
    graphs: [[LazyGraph; 2]; BUCKETS.len()],
    /// Sequences of the rows on the device; those beyond are idle there.
    rows: Vec<u32>,
}

impl Ahead {
    /// All rows are idle.
    ///
    /// # Errors
    /// The driver refuses to queue the write, or an earlier launch has failed.
    pub fn new(stream: &Stream, memory: &Memory) -> Result<Self> {
        // SAFETY: the part of the arena has so many rows (see `decoder`).
        unsafe { stream.fill(memory.ahead.seq, IDLE, STEP_ROWS)? };
        Ok(Self { graphs: Default::default(), rows: Vec::new() })
    }
}

/// The sequence of an idle row.
pub const IDLE: i32 = -1;

impl GpuDecoder {
    /// Launches the step that follows the rows that give a token, and takes the tokens of those that ran ahead.
    pub(super) fn advance(&mut self, split: &Split) -> Result<()> {
        if split.sampled().all(|e| self.sampler.is_masked(e.seq)) {
            return Ok(());
        }
        let taken = |row: &Row| (*row, self.sampler.take_ahead(row.entry.seq));
        let asked: Vec<(Row, u32)> = split.ahead.iter().map(taken).collect();
        // The others waited while steps went on without them.
        let (here, apart): (Vec<_>, Vec<_>) =
            asked.into_iter().partition(|(row, _)| self.ahead.rows.contains(&row.entry.seq));
        self.take(&apart)?;
        let staying: Vec<Entry> = here.iter().map(|(row, _)| row.entry).filter(|e| self.has_room(e)).collect();
        let stays = |e: &Entry| here.iter().any(|(row, _)| row.entry.seq == e.seq);
        let next = |e: &Entry| Some(Entry { token: self.sampler.next(e.seq)?, pos: e.pos + 1, ..*e });
        let joining = split.sampled().filter(|e| !stays(e) && self.has_room(e)).filter_map(next);
        let joining: Vec<Entry> = joining.collect();
        if self.arrange(&staying, &joining)? {
            self.launch_ahead()?;
        }
        self.take(&here)
    }

    /// Waits for tokens of rows that ran ahead, each with its number.
    fn take(&mut self, rows: &[(Row, u32)]) -> Result<()> {
        for (row, number) in rows {
            if let Slot::Token(to) = row.slot {
                self.give(row.entry.seq, to, *number)?;
            }
        }
        Ok(())
    }

    /// Whether a step after this one may run ahead: a position follows, what may come there does not depend on the token, and
    /// what a step nobody asks for writes is of no consequence. States change in place; the host looks embeddings for each
    /// layer up, and guesses what follows.
    fn has_room(&self, e: &Entry) -> bool {
        let guesses = memory::n_draft(&self.options) > 0;
        let alone = !self.pages.tables.has_states() && self.per_layer.is_none() && !guesses;
        (e.pos as usize) + 1 < self.options.n_ctx && alone && !self.sampler.is_masked(e.seq)
    }

    /// Makes the rows of the next step those of the last one that go on, by what was fed to them, and these others, by what
    /// is fed to them next. Says whether there is such a step: no pages or too many sequences leave it to the host.
    fn arrange(&mut self, staying: &[Entry], joining: &[Entry]) -> Result<bool> {
        let following = staying.iter().map(|e| Entry { pos: e.pos + 1, ..*e });
        let next: Vec<Entry> = following.chain(joining.iter().copied()).collect();
        let runs = (1..=STEP_ROWS).contains(&next.len()) && self.reserve_ahead(&ends(next.iter()))?;
        for row in (0..self.ahead.rows.len()).rev() {
            if !runs || staying.iter().all(|e| e.seq != self.ahead.rows[row]) {
                self.remove(row)?;
            }
        }
        if runs {
            joining.iter().try_for_each(|e| self.append(e))?;
        }
        Ok(runs)
    }

    /// Ends a row; the last one takes its place with what the device has for it.
    fn remove(&mut self, row: usize) -> Result<()> {
        let (at, stream, last) = (self.memory.ahead, &self.stream, self.ahead.rows.len() - 1);
        self.ahead.rows.swap_remove(row);
        // SAFETY: there are at most `STEP_ROWS` rows, for which the arena has room (see `decoder`); `row` is not the last one
        // where another takes its place.
        unsafe {
            if let Some(&seq) = self.ahead.rows.get(row) {
                stream.copy_within(at.token.add(row), at.token.add(last), 1)?;
                stream.copy_within(at.pos.add(row), at.pos.add(last), 1)?;
                stream.fill(at.seq.add(row), seq as i32, 1)?;
            }
            stream.fill(at.seq.add(last), IDLE, 1)
        }
    }

    /// Adds a row behind the others.
    fn append(&mut self, e: &Entry) -> Result<()> {
        let row = [e.token as i32, e.pos as i32, e.seq as i32];
        // SAFETY: with this one there are at most `STEP_ROWS` rows (see `arrange`), for which the arena has room.
        unsafe { self.fill_row(self.memory.ahead, self.ahead.rows.len(), row)? };
        self.ahead.rows.push(e.seq);
        Ok(())
    }

    /// Writes what a row of steps that follow each other is: token, position, sequence.
    ///
    /// # Safety
    /// The arena has the row.
    pub(super) unsafe fn fill_row(&self, at: Rows, row: usize, [token, pos, seq]: [i32; 3]) -> Result<()> {
        // SAFETY: the arena has all three of it, says the caller.
        unsafe {
            self.stream.fill(at.token.add(row), token, 1)?;
            self.stream.fill(at.pos.add(row), pos, 1)?;
            self.stream.fill(at.seq.add(row), seq, 1)
        }
    }

    /// Queues the next step of the rows on the device.
    fn launch_ahead(&mut self) -> Result<()> {
        let bucket = bucket(self.ahead.rows.len());
        let steps = self.sampler.steps(self.ahead.rows.iter().copied());
        let mut graph = std::mem::take(&mut self.ahead.graphs[bucket][steps as usize]);
        let launched = graph.launch(&self.stream, |_| self.sampling_step(BUCKETS[bucket], steps));
        self.ahead.graphs[bucket][steps as usize] = graph;
        launched?;
        self.ahead.rows.iter().for_each(|&seq| self.sampler.launch_ahead(seq));
        Ok(())
    }

    /// A step that samples: layers, head, sampler.
    fn sampling_step(&self, count: usize, steps: SampleSteps) -> Result<()> {
        let (at, logits) = (self.memory.ahead, self.memory.activations.logits);
        let step = Step { at, ..self.step_of(count, Tiling::Rows) };
        step.layers()?;
        step.head(Ptr::NULL, count)?;
        let (drawn, rows) = (Ptr::NULL, count as u32);
        let rows = SampleRows { logits, token: at.token, pos: at.pos, seq: at.seq, drawn, rows };
        self.sampler.sample(&self.stream, &rows, steps)
    }
}
