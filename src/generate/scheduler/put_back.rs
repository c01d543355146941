//! Sequences that lose their places and are computed again: for want of pages, or because the device has failed. And
//! what is left of a scheduler that has panicked.

use qrun_models::ForwardError;

use super::{Scheduler, Watch};
use crate::generate::{
    Finish, Stats, StatsReader,
    pace::{CPU_STEP_MS, Pace},
    sequence::Sequence,
};

impl Scheduler {
    /// After a step for which there were no pages: leaves guesses out, or puts the youngest sequence back. One that is alone
    /// ends.
    pub(super) fn make_room(&mut self, error: ForwardError, watch: Watch) {
        if self.forget_drafts() {
            return;
        }
        let running = self.running.iter().enumerate().filter_map(|(seq, s)| Some((s.as_ref()?.id, seq)));
        let (alone, youngest) = (running.clone().count() == 1, running.max());
        let Some((_, seq)) = youngest else { return };
        if alone {
            let has_answer = self.running[seq].as_ref().is_some_and(Sequence::has_answer);
            return match has_answer {
                true => self.finish(seq, Finish::Context, watch),
                false => self.end(seq, Err(error.into())),
            };
        }
        if let Some(sequence) = self.running[seq].take() {
            self.forward.release(seq as u32, &sequence.tokens[..sequence.held]);
            self.wait_again(sequence);
            self.stats.preempted += 1;
        }
    }

    /// The decoder has failed. Where another one goes on all running sequences are put back; else they end and hear why.
    /// Returns whether one goes on.
    pub(super) fn fail(&mut self, error: &ForwardError) -> bool {
        let spare = match (error, &mut self.recover) {
            (ForwardError::Device(error), Some(recover)) => recover(error),
            _ => None,
        };
        let Some(forward) = spare else {
            (0..self.running.len()).for_each(|seq| self.end(seq, Err(error.clone().into())));
            return false;
        };
        let running = std::mem::take(&mut self.running);
        running.into_iter().flatten().for_each(|sequence| self.wait_again(sequence));
        self.running.resize_with(forward.n_seq(), || None);
        self.left = vec![Default::default(); self.running.len()];
        self.forward = forward;
        // Another machine, and in general the CPU.
        self.pace = Pace::new(self.step_ms.unwrap_or(CPU_STEP_MS));
        self.stats.recovered += 1;
        true
    }

    /// Takes the place of a scheduler that has panicked, with an empty cache: its numbers go on.
    pub(in crate::generate) fn replace(&mut self, stats: Stats, reader: StatsReader) {
        (self.stats, self.reader) = (Stats { recovered: stats.recovered + 1, ..stats }, reader);
        self.publish();
    }

    /// Puts a sequence among those that wait, in the order of their arrival. Its answer and its sampler are kept.
    fn wait_again(&mut self, mut sequence: Sequence) {
        sequence.held = 0;
        sequence.draft.clear();
        let at = self.waiting.partition_point(|other| other.id < sequence.id);
        self.waiting.insert(at, sequence);
    }
}
