//! How many rows of prompts a step may have: learned from how long the last steps took.

use super::plan::{LEAST, START, StepRows};

/// Steps that are remembered of each sort: two that took much longer than the others change nothing.
const STEPS: usize = 5;

/// Time that a step may take while anybody decodes, in milliseconds, on the CPU.
pub const CPU_STEP_MS: f64 = 225.0;
/// The same on a GPU.
pub const GPU_STEP_MS: f64 = 30.0;

/// A line through the last steps: milliseconds without prompts, and for each row of one. Both are medians, so that a step
/// that the system has held up does not count.
#[derive(Debug, Clone)]
pub struct Pace {
    step_ms: f64,
    /// Milliseconds of steps of decoding alone.
    decode: Last,
    /// Milliseconds per row of a prompt, of steps that had some beside decoding.
    beside: Last,
    /// The same of steps of prompts alone, which has no rows with logits in it.
    alone: Last,
}

/// The last few of some numbers.
#[derive(Debug, Clone, Default)]
struct Last {
    numbers: Vec<f64>,
}

impl Last {
    fn push(&mut self, number: f64) {
        if self.numbers.len() == STEPS {
            self.numbers.remove(0);
        }
        self.numbers.push(number);
    }

    /// The lower one of two in the middle: what is held up once takes longer, never shorter.
    fn median(&self) -> Option<f64> {
        let mut sorted = self.numbers.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len().saturating_sub(1) / 2).copied()
    }
}

impl Pace {
    /// Knows nothing yet; steps are to take `step_ms` milliseconds at most.
    pub fn new(step_ms: f64) -> Self {
        Self { step_ms, decode: Last::default(), beside: Last::default(), alone: Last::default() }
    }

    /// Learns from a step of so many milliseconds.
    pub fn note(&mut self, rows: StepRows, ms: f64) {
        if rows.prompt == 0 {
            self.decode.push(ms);
        } else if rows.prompt >= START.min(self.rows()) {
            // Fewer rows than were allowed say little about one.
            if rows.decode > 0 {
                let decode = self.decode.median().unwrap_or(0.0);
                self.beside.push((ms - decode).max(0.0) / rows.prompt as f64);
            } else {
                self.alone.push(ms / rows.prompt as f64);
            }
        }
    }

    /// Rows of prompts beside decoding: as many as fit the time, and 8 at least; 16 where nothing is known.
    pub fn rows(&self) -> usize {
        let Some(row) = self.beside.median().or_else(|| self.alone.median()) else { return START };
        let left = self.step_ms - self.decode.median().unwrap_or(0.0);
        // Saturates where a row takes no time at all.
        ((left / row.max(1e-9)) as usize).clamp(LEAST, 1 << 20)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a machine takes for a step.
    fn ms(rows: StepRows) -> f64 {
        14.0 + 0.9 * rows.decode as f64 + 3.5 * rows.prompt as f64
    }

    #[test]
    fn a_step_takes_the_time_that_it_may() {
        for step_ms in [1.0, 30.0, 90.0, 200.0, 1000.0] {
            let mut pace = Pace::new(step_ms);
            assert_eq!(pace.rows(), START);
            for decode in [0, 1, 3, 16] {
                (0..8).for_each(|_| pace.note(StepRows { prompt: 0, decode }, ms(StepRows { prompt: 0, decode })));
                for _ in 0..8 {
                    let rows = StepRows { prompt: pace.rows(), decode };
                    assert!(ms(rows) <= step_ms || rows.prompt <= START, "{step_ms}: {rows:?}");
                    pace.note(rows, ms(rows));
                }
                assert!(pace.rows() == LEAST || ms(StepRows { prompt: pace.rows(), decode }) <= step_ms);
                let more = StepRows { prompt: pace.rows() + 2, decode };
                // Where nobody decodes the time does not count.
                assert!(decode == 0 || ms(more) > step_ms, "{step_ms}: {more:?} would do");
            }
        }
    }

    #[test]
    fn steps_that_were_held_up_change_nothing() {
        let mut pace = Pace::new(200.0);
        let (decode, prompt) = (StepRows { prompt: 0, decode: 3 }, StepRows { prompt: 48, decode: 3 });
        for _ in 0..5 {
            pace.note(decode, ms(decode));
            pace.note(prompt, ms(prompt));
        }
        let rows = pace.rows();
        for _ in 0..2 {
            pace.note(decode, 5000.0);
            pace.note(prompt, 5000.0);
            assert_eq!(pace.rows(), rows);
        }
        // A machine that has become slower is believed after three.
        pace.note(prompt, 5000.0);
        assert_eq!(pace.rows(), LEAST);
        // Prompts alone, whose rows take less, say nothing any more.
        let rows = pace.rows();
        (0..5).for_each(|_| pace.note(StepRows { prompt: 512, decode: 0 }, 1.0));
        assert_eq!(pace.rows(), rows);
        // The end of a prompt and a clock that stands still say nothing.
        let mut pace = Pace::new(200.0);
        pace.note(StepRows { prompt: 3, decode: 0 }, 100.0);
        assert_eq!(pace.rows(), START);
        pace.note(prompt, 0.0);
        assert!(pace.rows() >= 1 << 20);
    }
}
