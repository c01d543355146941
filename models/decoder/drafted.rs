//! Tokens that a step takes as guesses, and what becomes of them.
//!
//! Keys and values of guesses lie behind the end of their sequence: accepted are those that it then reaches over. A state cannot be
//! there for each of them. A step leaves it before the first guess, with what projections give for all, and those that were
//! right are taken into it afterwards: a launch per recurrent layer, recorded once.
//!
//! Where the device samples it chooses a token behind each guess that is the one it has chosen before (see `batch.rs`). So it
//! goes on by itself as far as guesses are right, and the host only learns how far that was.

use std::sync::Arc;

use qrun_cuda::{Gpu, LazyGraph, Pinned, Result, ops::attention::Tiling};

use super::{
    GpuDecoder,
    batch::{Row, describe},
    memory,
    step::{Guesses, Step},
};
use crate::{Entry, Options};

/// What sequences have guessed in their last steps.
pub struct Drafted {
    sequences: Vec<OfSequence>,
    /// Takes right ones into states.
    graph: LazyGraph,
    /// What the device is told of them, `[3][step_rows]`.
    staging: Pinned<i32>,
}

/// The guesses of a sequence in its last step, and how many of them were what the device has sampled.
#[derive(Clone, Default)]
struct OfSequence {
    guesses: Vec<Guess>,
    reached: usize,
}

/// A guess, and its row in the step that took it.
#[derive(Clone, Copy)]
struct Guess {
    entry: Entry,
    row: usize,
}

impl Drafted {
    /// No guesses.
    ///
    /// # Errors
    /// No page-locked memory is left.
    pub fn new(gpu: &Arc<Gpu>, o: &Options) -> Result<Self> {
        let rows = if memory::n_draft(o) > 0 { memory::step_rows(o) } else { 0 };
        let staging = Pinned::new(gpu, 3 * rows)?;
        Ok(Self { sequences: vec![OfSequence::default(); o.n_seq], graph: LazyGraph::default(), staging })
    }

    /// The guesses of a sequence are gone.
    pub fn forget(&mut self, seq: u32) {
        self.sequences[seq as usize] = OfSequence::default();
    }

    /// Notes that a guess was what the device has sampled.
    pub fn reach(&mut self, seq: u32) {
        self.sequences[seq as usize].reached += 1;
    }

    /// Notes which rows of a step were guesses.
    pub fn note(&mut self, rows: &[Row]) {
        for (row, Row { entry, .. }) in rows.iter().enumerate().filter(|(_, row)| row.entry.drafted) {
            self.sequences[entry.seq as usize].guesses.push(Guess { entry: *entry, row });
        }
    }
}

impl GpuDecoder {
    /// See [`crate::Forward::accept`].
    pub(super) fn accept_drafted(&mut self, seq: u32, n: usize) {
        let OfSequence { mut guesses, reached } = std::mem::take(&mut self.drafted.sequences[seq as usize]);
        let len = self.pages.tables.len(seq as usize);
        if guesses.first().is_none_or(|guess| guess.entry.pos as usize != len) {
            return;
        }
        guesses.truncate(n);
        // The sampler has seen what it has chosen itself.
        if reached != guesses.len() {
            self.sampler.stop(seq);
        }
        if !guesses.is_empty() && self.pages.tables.has_states() && self.take_into_states(&guesses).is_err() {
            // A device that fails here fails the next step too.
            guesses.clear();
        }
        self.pages.tables.accept(seq as usize, len + guesses.len());
    }

    fn take_into_states(&mut self, guesses: &[Guess]) -> Result<()> {
        let (at, staging) = (self.memory.accepted, &mut self.drafted.staging);
        let rows = staging.len() / 3;
        let entry_of = |row| guesses.iter().find(|guess| guess.row == row).map(|guess| guess.entry);
        describe(staging.as_mut_slice(), (0..rows).map(entry_of));
        // SAFETY: the part of the arena for these rows has the same length (see `decoder`).
        unsafe { self.stream.copy_in(at.token, staging, staging.len())? };
        let mut graph = std::mem::take(&mut self.drafted.graph);
        let step = |_: &_| Step { at, guesses: Guesses::Accepted, ..self.step_of(rows, Tiling::Rows) }.accept_guesses();
        let launched = graph.launch(&self.stream, step);
        self.drafted.graph = graph;
        launched
    }
}
