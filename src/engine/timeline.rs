//! Where the time went: named steps, one after the other, without gaps.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Steps of a run since it began.
#[derive(Debug, Clone)]
pub struct Timeline {
    steps: Vec<Step>,
    /// The end of the last step.
    last: Instant,
}

/// One step of a start, and how long it took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// What was done: `model`, `tokenizer`, `template`, …
    pub step: String,
    /// How long it took, in milliseconds.
    pub ms: f64,
}

impl Timeline {
    /// A timeline that begins now.
    pub fn start() -> Self {
        Self { steps: Vec::new(), last: Instant::now() }
    }

    /// What happened since the last step is this one.
    pub fn lap(&mut self, step: &str) {
        let now = Instant::now();
        self.steps.push(Step { step: step.into(), ms: now.duration_since(self.last).as_secs_f64() * 1e3 });
        self.last = now;
    }

    /// So much of what happened since the last step is this one; the rest belongs to the next.
    pub fn took(&mut self, step: &str, time: Duration) {
        self.steps.push(Step { step: step.into(), ms: time.as_secs_f64() * 1e3 });
        self.last += time;
    }

    /// Steps that something else has counted, within the time since the last one.
    pub fn append(&mut self, inner: &Self) {
        for Step { step, ms } in &inner.steps {
            self.took(step, Duration::from_secs_f64(ms / 1e3));
        }
    }

    /// All steps so far.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }
}
