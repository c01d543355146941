//! What the scheduler tells about itself while it runs.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use qrun_models::PageCount;

use super::{RequestId, StepRows};

/// Upper ends of the buckets of [`Stats::step_seconds`].
const SECONDS: [f64; 14] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0];
/// Upper ends of the buckets of [`Stats::step_rows`].
const ROWS: [f64; 10] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];

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
    /// How many of them took how long: each counts in the first bucket of [`Stats::STEP_SECONDS`] whose end it does not
    /// exceed, longer ones in the last.
    pub step_seconds: [u64; SECONDS.len() + 1],
    /// The same of their rows, of prompts and of decoding together, in the buckets of [`Stats::STEP_ROWS`].
    pub step_rows: [u64; ROWS.len() + 1],
    /// Tokens of the prompts of all requests that were begun.
    pub tokens_in: u64,
    /// Tokens that were chosen.
    pub tokens_out: u64,
    /// Steps of sequences that had guesses.
    pub drafts: u64,
    /// Tokens that were guessed ahead.
    pub drafted: u64,
    /// How many of them were what was chosen then.
    pub accepted: u64,
}

impl Stats {
    /// Upper ends of the buckets of [`Stats::step_seconds`], in seconds; the last bucket has none.
    pub const STEP_SECONDS: [f64; SECONDS.len()] = SECONDS;
    /// Upper ends of the buckets of [`Stats::step_rows`], in rows; the last bucket has none.
    pub const STEP_ROWS: [f64; ROWS.len()] = ROWS;

    pub(super) fn note(&mut self, rows: StepRows, took: Duration) {
        self.steps += 1;
        self.prompt_rows += rows.prompt as u64;
        self.decode_rows += rows.decode as u64;
        self.step_time += took;
        self.last_step = took;
        self.step_seconds[bucket(&SECONDS, took.as_secs_f64())] += 1;
        self.step_rows[bucket(&ROWS, (rows.prompt + rows.decode) as f64)] += 1;
    }
}

/// The first bucket whose end a number does not exceed, or the one after the last end.
fn bucket(ends: &[f64], number: f64) -> usize {
    ends.partition_point(|end| *end < number)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_count_in_the_bucket_of_their_time_and_rows() {
        for (prompt, decode, ms, seconds, rows) in [
            (0, 1, 0, 0, 0),
            (0, 1, 1, 0, 0),
            (1, 1, 2, 1, 1),
            (0, 3, 3, 2, 2),
            (16, 0, 200, 8, 4),
            (16, 1, 201, 9, 5),
            (512, 0, 5000, 13, 9),
            (512, 1, 5001, 14, 10),
        ] {
            let mut stats = Stats::default();
            stats.note(StepRows { prompt, decode }, Duration::from_millis(ms));
            let found = (stats.step_seconds.iter().position(|n| *n == 1), stats.step_rows.iter().position(|n| *n == 1));
            assert_eq!(found, (Some(seconds), Some(rows)), "{prompt} + {decode} rows in {ms} ms");
            assert_eq!([stats.step_seconds.iter().sum::<u64>(), stats.step_rows.iter().sum()], [1, 1]);
        }
    }
}
