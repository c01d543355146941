//! Timings of an answer that still comes, for streams that tell them with each token.

use std::time::{Duration, Instant};

use crate::{
    generate::{Chunk, Timings},
    server::{error::ApiError, fields::Fields},
};

/// The timings of an answer as far as it has come here. The engine's own come with its end.
#[derive(Debug, Clone, Default)]
pub struct TimingsSoFar {
    /// When its prompt was begun, and when its first token came.
    begun: Option<Instant>,
    first: Option<Instant>,
    timings: Timings,
}

impl TimingsSoFar {
    /// For each of `n` answers where `timings_per_token` asks for them, else for none.
    ///
    /// # Errors
    /// 400: it is no flag.
    pub fn wanted(fields: Fields, n: usize) -> Result<Vec<Self>, ApiError> {
        let wanted = fields.flag("timings_per_token")?.unwrap_or(false);
        Ok(vec![Self::default(); if wanted { n } else { 0 }])
    }

    /// Notes a chunk that has come.
    pub fn note(&mut self, chunk: &Chunk) {
        let now = Instant::now();
        match chunk {
            Chunk::Prompt { done, total, .. } if self.begun.is_none() => {
                self.begun = Some(now);
                self.timings.cache_n = *done;
                self.timings.prompt_n = total.saturating_sub(*done);
            }
            Chunk::Token { .. } => {
                let first = *self.first.get_or_insert(now);
                self.timings.prompt_ms = ms(first - self.begun.unwrap_or(first));
                self.timings.predicted_n += 1;
                self.timings.predicted_ms = ms(now - first);
            }
            _ => {}
        }
    }

    /// From the first token on.
    pub fn timings(&self) -> Option<Timings> {
        self.first.map(|_| self.timings)
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
