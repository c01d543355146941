//! How long an answer took, under llama-server's field names.

use serde::Serialize;

/// Counts and milliseconds of one generation.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Timings {
    /// Prompt tokens that the cache held already.
    pub cache_n: usize,
    /// Prompt tokens that were computed.
    pub prompt_n: usize,
    /// Time for them, the choice of the first token included.
    pub prompt_ms: f64,
    /// Tokens generated, as llama-server counts them.
    pub predicted_n: usize,
    /// Time from the first generated token to the last.
    pub predicted_ms: f64,
    /// Time for choosing tokens from logits; a part of the two above.
    pub sample_ms: f64,
    /// Tokens that were guessed ahead.
    pub draft_n: usize,
    /// How many of them were what was chosen then.
    pub draft_n_accepted: usize,
}

impl Timings {
    /// Tokens that were chosen in `predicted_ms`: all but the first, which comes out of the prompt. As many as decode steps
    /// where nothing is guessed.
    pub fn predicted_runs(&self) -> usize {
        self.predicted_n.saturating_sub(1)
    }
    /// Computed prompt tokens per second: `prompt_n / prompt_ms`; 0 where there was none.
    pub fn prompt_per_second(&self) -> f64 {
        rate(self.prompt_n, self.prompt_ms)
    }
    /// The same per second: `predicted_runs / predicted_ms`.
    pub fn predicted_per_second(&self) -> f64 {
        rate(self.predicted_runs(), self.predicted_ms)
    }
}

/// Per second; 0 where nothing was done.
fn rate(n: usize, ms: f64) -> f64 {
    if n == 0 || ms <= 0.0 { 0.0 } else { n as f64 * 1e3 / ms }
}

fn each(n: usize, ms: f64) -> f64 {
    if n == 0 { 0.0 } else { ms / n as f64 }
}

impl Serialize for Timings {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let drafts = [("draft_n", self.draft_n), ("draft_n_accepted", self.draft_n_accepted)];
        let drafts = drafts.into_iter().filter(|_| self.draft_n > 0);
        let mut s = serializer.serialize_struct("Timings", 9 + drafts.clone().count())?;
        s.serialize_field("cache_n", &self.cache_n)?;
        s.serialize_field("prompt_n", &self.prompt_n)?;
        s.serialize_field("prompt_ms", &self.prompt_ms)?;
        s.serialize_field("prompt_per_token_ms", &each(self.prompt_n, self.prompt_ms))?;
        s.serialize_field("prompt_per_second", &self.prompt_per_second())?;
        s.serialize_field("predicted_n", &self.predicted_n)?;
        s.serialize_field("predicted_ms", &self.predicted_ms)?;
        s.serialize_field("predicted_per_token_ms", &each(self.predicted_runs(), self.predicted_ms))?;
        s.serialize_field("predicted_per_second", &self.predicted_per_second())?;
        drafts.into_iter().try_for_each(|(name, n)| s.serialize_field(name, &n))?;
        s.end()
    }
}
