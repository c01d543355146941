//! Steps that run ahead: once a step has given tokens, the next one is launched before anybody asks for it.
//!
//! A step of decoding with the sampler at its end is recorded once per number of rows. It leaves each row's token and
//! position where the next step reads them, so steps follow each other without the host, which reads the tokens from
//! page-locked memory one step behind. A batch whose rows ran ahead only takes their tokens; of a row that nobody asks
//! for nothing is kept. Where sequences have joined or left, the host places the rows anew.

use qrun_cuda::{
    Gpu, LazyGraph, Pinned, Ptr, Result,
    ops::{
        attention::Tiling,
        sample::{SampleRows, SampleSteps},
    },
};

use std::sync::Arc;

use super::{
    BUCKETS, GpuDecoder,
    batch::{Slot, Split, bucket, describe},
    memory::LOGIT_ROWS,
    step::Step,
};
use crate::{Entry, forward::ends};

/// The recorded steps, and the rows that they find on the device.
pub struct Ahead {
    /// By number of rows, and by what of the sampler is launched.
    graphs: [[LazyGraph; 2]; BUCKETS.len()],
    /// `[token, position, sequence][LOGIT_ROWS]`.
    staging: Pinned<i32>,
    /// Sequences of the last launch: their next tokens and positions lie on the device.
    rows: Vec<u32>,
    /// One of them and the number of its token: once that is there, so is all that was copied before.
    last: Option<(u32, u32)>,
}

impl Ahead {
    pub fn new(gpu: &Arc<Gpu>) -> Result<Self> {
        let staging = Pinned::new(gpu, 3 * LOGIT_ROWS)?;
        Ok(Self { graphs: Default::default(), staging, rows: Vec::new(), last: None })
    }

    /// Notes that all that was launched is done.
    pub fn done(&mut self) {
        self.last = None;
    }
}

impl GpuDecoder {
    /// Takes the tokens of rows that ran ahead, and launches the step that follows those that gave a token.
    pub(super) fn advance(&mut self, split: &Split) -> Result<()> {
        let sampled: Vec<Entry> = split.sampled().copied().collect();
        if sampled.is_empty() {
            return Ok(());
        }
        let numbers: Vec<u32> = split.ahead.iter().map(|row| self.sampler.take_ahead(row.entry.seq)).collect();
        // Where the device's rows are those of this batch, the next step is queued before this one is waited for.
        let rows = &self.ahead.rows;
        let same = sampled.len() == split.ahead.len() && sampled.len() == rows.len();
        let same = same && sampled.iter().all(|e| rows.contains(&e.seq) && self.has_room(e));
        let next: Vec<_> = sampled.iter().map(|e| (e.seq as usize, e.pos as usize + 2)).collect();
        let same = same && self.reserve_ahead(&next)?;
        if same {
            self.launch_ahead()?;
        }
        for (row, number) in split.ahead.iter().zip(numbers) {
            if let Slot::Token(to) = row.slot {
                self.give(row.entry.seq, to, number)?;
            }
        }
        if same { Ok(()) } else { self.place(&sampled) }
    }

    /// Waits until the device is through with what the last launch ahead copies from page-locked memory.
    pub(super) fn settle(&mut self) -> Result<()> {
        let Some((seq, number)) = self.ahead.last.take() else { return Ok(()) };
        self.sampler.wait(&self.stream, seq, number)?;
        Ok(())
    }

    /// Whether a position follows this one.
    fn has_room(&self, e: &Entry) -> bool {
        (e.pos as usize) + 1 < self.options.n_ctx
    }

    /// Makes the tokens that follow `sampled` the rows of the next step, and launches it.
    fn place(&mut self, sampled: &[Entry]) -> Result<()> {
        let next = |e: &Entry| Some(Entry { token: self.sampler.next(e.seq)?, pos: e.pos + 1, ..*e });
        let next: Vec<Entry> = sampled.iter().filter(|e| self.has_room(e)).filter_map(next).collect();
        self.ahead.rows.clear();
        let small = !next.is_empty() && next.len() <= LOGIT_ROWS;
        if !small || !self.reserve_ahead(&ends(next.iter()))? {
            return Ok(());
        }
        self.settle()?;
        self.ahead.rows.extend(next.iter().map(|e| e.seq));
        describe(self.ahead.staging.as_mut_slice(), next.iter().copied().map(Some));
        self.stream.copy_in(self.memory.ahead.token, &self.ahead.staging, self.ahead.staging.len())?;
        self.launch_ahead()
    }

    /// Queues the next step of the rows on the device.
    fn launch_ahead(&mut self) -> Result<()> {
        let bucket = bucket(self.ahead.rows.len());
        let steps = self.sampler.steps(self.ahead.rows.iter().copied());
        let mut graph = std::mem::take(&mut self.ahead.graphs[bucket][steps as usize]);
        let launched = graph.launch(&self.stream, |_| self.sampling_step(BUCKETS[bucket], steps));
        self.ahead.graphs[bucket][steps as usize] = graph;
        launched?;
        for &seq in &self.ahead.rows {
            self.ahead.last = Some((seq, self.sampler.launch_ahead(seq)));
        }
        Ok(())
    }

    /// A step that samples: layers, head, sampler.
    fn sampling_step(&self, count: usize, steps: SampleSteps) -> Result<()> {
        let (at, logits) = (self.memory.ahead, self.memory.activations.logits);
        let step = Step { at, ..self.step_of(count, Tiling::Rows) };
        step.layers()?;
        step.head(Ptr::NULL, count)?;
        let rows = SampleRows { logits, token: at.token, pos: at.pos, seq: at.seq, rows: count as u32 };
        self.sampler.sample(&self.stream, &rows, steps)
    }
}
