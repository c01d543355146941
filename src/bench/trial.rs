//! The clock: one generation, timed as the one who waits for it sees it.
//!
//! Sampling and detokenising are inside, as they are for a user. The first token comes out of the prompt, so `n` tokens
//! are `n − 1` steps.

use std::{ops::ControlFlow, time::Instant};

use super::statistics::rate;
use crate::{
    generate::{Event, GenerateError, Request, Session},
    sampler::SamplerParams,
};

/// What is generated.
#[derive(Debug, Clone)]
pub struct Job {
    /// The prompt.
    pub prompt: Vec<u32>,
    /// How many of its tokens are in the cache before the clock starts.
    pub depth: usize,
    /// Exactly so many tokens are generated.
    pub n_gen: usize,
    /// How they are chosen.
    pub params: SamplerParams,
}

/// One generation.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// From the start to the first token's text, in milliseconds.
    pub ttft_ms: f64,
    /// From each token's text to the next one's, in milliseconds.
    pub step_ms: Vec<f64>,
    /// From the start to the end, in milliseconds.
    pub wall_ms: f64,
    /// Generated tokens.
    pub tokens: Vec<u32>,
    /// How many of them end a turn.
    pub n_eos: usize,
    /// Bytes of KV cache in use at the end.
    pub kv_bytes: u64,
}

impl Trial {
    /// Generates; `tick` hears of each token.
    ///
    /// # Errors
    /// As [`Session::generate`].
    pub fn run(session: &mut Session, job: &Job, tick: &mut dyn FnMut()) -> Result<Self, GenerateError> {
        // Of what the last trial left, only the same prefix stays.
        session.prepare(&job.prompt[..job.depth])?;
        *session.params_mut() = job.params.clone();
        let request =
            Request { prompt: job.prompt.clone(), max_tokens: Some(job.n_gen), ignore_eos: true, ..Request::default() };
        let mut at = Vec::with_capacity(job.n_gen);
        let started = Instant::now();
        let reply = session.generate(&request, &mut |event| {
            if let Event::Token { .. } = event {
                at.push(started.elapsed().as_secs_f64() * 1e3);
                tick();
            }
            ControlFlow::Continue(())
        })?;
        let wall_ms = started.elapsed().as_secs_f64() * 1e3;
        debug_assert_eq!(reply.timings.cache_n, job.depth, "the cache held what it was to hold");
        let tokenizer = session.engine().tokenizer();
        let n_eos = reply.tokens.iter().filter(|&&token| tokenizer.is_eog(token)).count();
        Ok(Self {
            ttft_ms: at.first().copied().unwrap_or(wall_ms),
            step_ms: at.windows(2).map(|pair| pair[1] - pair[0]).collect(),
            wall_ms,
            tokens: reply.tokens,
            n_eos,
            kv_bytes: session.kv_bytes(),
        })
    }

    /// Steps per second once it runs.
    pub fn decode_per_second(&self) -> f64 {
        rate(self.step_ms.len(), self.step_ms.iter().sum::<f64>() / 1e3)
    }
    /// Prompt tokens per second, the choice of the first token included.
    pub fn prompt_per_second(&self, n_prompt: usize) -> f64 {
        rate(n_prompt, self.ttft_ms / 1e3)
    }
    /// Generated tokens per second of the wall clock, the prompt included.
    pub fn end_to_end_per_second(&self) -> f64 {
        rate(self.tokens.len(), self.wall_ms / 1e3)
    }
}
