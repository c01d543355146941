//! The clock: one generation, timed as the one who waits for it sees it.
//!
//! Sampling and detokenising are inside, as they are for a user. The first token comes out of the prompt, so `n` tokens
//! are `n − 1` steps.

use std::{ops::ControlFlow, time::Instant};

use super::rate;
use crate::{
    generate::{Event, GenerateError, Reply, Request, Session},
    sampler::SamplerParams,
};

/// Prompt tokens that take about as long as one step, for an estimate of the time left.
const PROMPT_PER_STEP: usize = 8;
/// Tokens that a warm-up generates at most: what is to be warm is warm after so many.
const WARMUP_TOKENS: usize = 16;

/// Hears how many more steps are done.
pub type Tick<'a> = &'a mut dyn FnMut(usize);

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

/// How often something is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeat {
    /// Untimed runs: the whole prompt, and at most 16 tokens.
    pub warmups: usize,
    /// Timed runs after them.
    pub times: usize,
}

impl Repeat {
    /// The whole work on a prompt and an answer of these lengths in steps that take about equally long.
    pub fn steps(&self, n_prompt: usize, n_gen: usize) -> usize {
        let run = |n_gen: usize| n_prompt / PROMPT_PER_STEP + n_gen;
        let warmups = self.warmups.saturating_mul(run(n_gen.min(WARMUP_TOKENS)));
        self.times.saturating_mul(run(n_gen)).saturating_add(warmups)
    }

    /// Runs a job; `tick` hears how many more of [`Repeat::steps`] are done.
    ///
    /// # Errors
    /// As [`Session::generate`].
    pub fn run(&self, session: &mut Session, job: &Job, tick: Tick) -> Result<Vec<Trial>, GenerateError> {
        let warmup = Job { n_gen: job.n_gen.min(WARMUP_TOKENS), ..job.clone() };
        let mut run = |job: &Job| {
            let trial = Trial::run(session, job, tick);
            tick((job.prompt.len() - job.depth) / PROMPT_PER_STEP);
            trial
        };
        (0..self.warmups).try_for_each(|_| run(&warmup).map(drop))?;
        (0..self.times).map(|_| run(job)).collect()
    }
}

/// One generation.
#[derive(Debug, Clone)]
pub struct Trial {
    /// Tokens of the prompt.
    pub n_prompt: usize,
    /// From the start to the first token's text, in milliseconds.
    pub ttft_ms: f64,
    /// From each token's text to the next one's, in milliseconds.
    pub step_ms: Vec<f64>,
    /// From the start to the end, in milliseconds.
    pub wall_ms: f64,
    /// Bytes of KV cache in use at the end.
    pub kv_bytes: u64,
    /// The answer.
    pub reply: Reply,
}

impl Trial {
    /// Generates what a job asks for; `tick` hears of each token.
    ///
    /// # Errors
    /// As [`Session::generate`].
    pub fn run(session: &mut Session, job: &Job, tick: Tick) -> Result<Self, GenerateError> {
        // Of what the last trial left, only the same prefix stays.
        session.prepare(&job.prompt[..job.depth])?;
        *session.params_mut() = job.params.clone();
        let (prompt, max_tokens) = (job.prompt.clone(), Some(job.n_gen));
        let trial = Self::of(session, &Request { prompt, max_tokens, ignore_eos: true, ..Request::default() }, tick)?;
        debug_assert_eq!(trial.reply.timings.cache_n, job.depth, "the cache held what it was to hold");
        Ok(trial)
    }

    /// Answers a request, whatever the cache holds of its prompt; `tick` hears of each token.
    ///
    /// # Errors
    /// As [`Session::generate`].
    pub fn of(session: &mut Session, request: &Request, tick: Tick) -> Result<Self, GenerateError> {
        let mut at = Vec::with_capacity(request.max_tokens.unwrap_or(0));
        let started = Instant::now();
        let reply = session.generate(request, &mut |event| {
            if let Event::Token { .. } = event {
                at.push(started.elapsed().as_secs_f64() * 1e3);
                tick(1);
            }
            ControlFlow::Continue(())
        })?;
        let wall_ms = started.elapsed().as_secs_f64() * 1e3;
        Ok(Self {
            n_prompt: request.prompt.len(),
            ttft_ms: at.first().copied().unwrap_or(wall_ms),
            step_ms: at.windows(2).map(|pair| pair[1] - pair[0]).collect(),
            wall_ms,
            kv_bytes: session.kv_bytes(),
            reply,
        })
    }

    /// Steps per second once it runs.
    pub fn decode_per_second(&self) -> f64 {
        rate(self.step_ms.len(), self.step_ms.iter().sum::<f64>() / 1e3)
    }
    /// Prompt tokens per second, the choice of the first token included.
    pub fn prompt_per_second(&self) -> f64 {
        rate(self.n_prompt, self.ttft_ms / 1e3)
    }
    /// Generated tokens per second of the wall clock, the prompt included.
    pub fn end_to_end_per_second(&self) -> f64 {
        rate(self.reply.tokens.len(), self.wall_ms / 1e3)
    }
}
