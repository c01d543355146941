//! What the scheduler tells about itself while it runs.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use qrun_models::PageCount;

use super::{RequestId, StepRows};

/// Numbers of a scheduler since it was made. Of tokens, rows and steps they only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Requests that have a sequence.
    pub running: usize,
    /// Requests that wait for one.
    pub waiting: usize,
    /// Pages of the KV cache.
    pub pages: PageCount,
    /// How often a sequence was put back for want of pages.
    pub preempted: u64,
    /// How often a decoder was replaced, after its device had failed or the scheduler had panicked.
    pub recovered: u64,
    /// Prompt tokens that the prefix cache was asked for, and how many of them it had.
    pub prefix_queries: u64,
    /// Those that it had, or that another running sequence shared.
    pub prefix_hits: u64,
    /// Steps that ran through the layers.
    pub steps: u64,
    /// Rows of prompts in them, those that were computed again included.
    pub prompt_rows: u64,
    /// Rows of decoding in them.
    pub decode_rows: u64,
    /// Time that they took.
    pub step_time: Duration,
    /// Time that the last of them took.
    pub last_step: Duration,
    /// Tokens of the prompts of all requests that were begun.
    pub tokens_in: u64,
    /// Tokens that were chosen.
    pub tokens_out: u64,
}

impl Stats {
    pub(super) fn note(&mut self, rows: StepRows, took: Duration) {
        self.steps += 1;
        self.prompt_rows += rows.prompt as u64;
        self.decode_rows += rows.decode as u64;
        self.step_time += took;
        self.last_step = took;
    }
}

/// A request that runs in one of the decoder's sequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestState {
    /// The id that [`super::Scheduler::submit`] gave it.
    pub id: RequestId,
    /// Tokens of its prompt.
    pub n_prompt: usize,
    /// How many of them were not computed for it.
    pub n_prompt_cached: usize,
    /// Tokens of its answer so far.
    pub n_decoded: usize,
    /// Most tokens of its answer.
    pub max_tokens: Option<usize>,
}

/// Reads a scheduler's numbers from any thread, as they were after its last step. Clones read the same.
#[derive(Debug, Clone, Default)]
pub struct StatsReader(Arc<Mutex<(Stats, Vec<Option<RequestState>>)>>);

impl StatsReader {
    /// A copy of the numbers, as they were after the last step.
    pub fn stats(&self) -> Stats {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    /// The decoder's sequences, by their ids: who runs there.
    pub fn sequences(&self) -> Vec<Option<RequestState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    pub(super) fn publish(&self, stats: Stats, sequences: impl Iterator<Item = Option<RequestState>>) {
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shared.0 = stats;
        shared.1.clear();
        shared.1.extend(sequences);
    }
}
