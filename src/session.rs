//! From tokens to text: one conversation with a model.
//!
//! A [`Session`] owns a decoder and what is in its cache. A prompt that begins like what is cached
//! costs only its new part, so a chat hands over the whole conversation every turn.

mod answer;
mod engine;
mod file;
mod place;
mod timeline;
mod timings;

use std::{ops::ControlFlow, sync::Arc, time::Instant};

use qrun_models::{Entry, Forward, ForwardError, Output, SamplingRequest};

pub(crate) use answer::Answer;
pub use engine::{Engine, EngineOptions, OpenError};
pub use file::{SaveError, is_session, read_notes};
pub use place::{Backend, BackendError, DevicePreference, LoadError};
pub use timeline::{Step, Timeline};
pub use timings::Timings;

use crate::sampler::{Sampler, SamplerError, SamplerParams};

/// What to generate.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The whole prompt; the part that the cache holds already is not computed again.
    pub prompt: Vec<u32>,
    /// Most tokens to generate; `None`: until the model ends or the context is full.
    pub limit: Option<usize>,
    /// Texts that end the answer (and are not part of it).
    pub stops: Vec<String>,
    /// Write special tokens out.
    pub special: bool,
    /// Go on after a token that ends a turn: an answer of exactly `limit` tokens, to be measured.
    pub ignore_eos: bool,
}

/// What happens meanwhile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Event<'a> {
    /// `done` of `total` prompt tokens are in the cache.
    Prompt {
        /// Tokens in the cache.
        done: usize,
        /// Tokens of the prompt.
        total: usize,
    },
    /// A token was chosen. Its text may come with a later one (half a character, half a stop string).
    Token {
        /// The token.
        id: u32,
        /// What can be shown now.
        text: &'a str,
    },
    /// The answer has ended; this much was held back.
    Flush {
        /// The last token.
        id: u32,
        /// The end of the text.
        text: &'a str,
    },
}

/// Why a generation ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finish {
    /// The model ended its turn.
    Eos,
    /// The limit of the request.
    Limit,
    /// One of the stop texts.
    Stop(String),
    /// The context is full.
    Context,
    /// The caller wanted no more.
    Interrupted,
}

impl Finish {
    /// The name in JSON: llama-server's `stop_type`, and two more.
    pub fn name(&self) -> &'static str {
        match self {
            Finish::Eos => "eos",
            Finish::Limit => "limit",
            Finish::Stop(_) => "word",
            Finish::Context => "context",
            Finish::Interrupted => "interrupted",
        }
    }
}

/// A finished generation.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The text, without special tokens and stop texts.
    pub text: String,
    /// The tokens, the one that ended the turn included.
    pub tokens: Vec<u32>,
    /// Why it ended.
    pub finish: Finish,
    /// How long it took.
    pub timings: Timings,
}

/// Why there is no reply.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SessionError {
    /// Nothing to continue.
    #[error("the prompt is empty, and this model has no token to begin with")]
    EmptyPrompt,
    /// The prompt does not leave room for one token.
    #[error("prompt is too long ({tokens} tokens, max {max}); -c enlarges the context")]
    PromptTooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// Most that a prompt may have.
        max: usize,
    },
    /// The decoder refused.
    #[error(transparent)]
    Forward(#[from] ForwardError),
    /// No token could be chosen.
    #[error(transparent)]
    Sampler(#[from] SamplerError),
}

/// One conversation: a decoder, its cache, and how tokens are chosen.
pub struct Session {
    engine: Arc<Engine>,
    forward: Box<dyn Forward>,
    /// The tokens whose keys and values the cache holds.
    cached: Vec<u32>,
    params: SamplerParams,
    n_ubatch: usize,
    /// Time spent in the sampler since the generation began.
    sample_ms: f64,
}

impl Session {
    /// A session on a decoder with an empty cache.
    pub fn new(engine: Arc<Engine>, forward: Box<dyn Forward>, params: SamplerParams) -> Self {
        let n_ubatch = engine.options().n_ubatch.max(1);
        Self { engine, forward, cached: Vec::new(), params, n_ubatch, sample_ms: 0.0 }
    }

    /// The model, tokenizer and template.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }
    /// How tokens are chosen; changes hold from the next generation on.
    pub fn params_mut(&mut self) -> &mut SamplerParams {
        &mut self.params
    }
    /// How tokens are chosen.
    pub fn params(&self) -> &SamplerParams {
        &self.params
    }
    /// Tokens in the cache.
    pub fn cached(&self) -> &[u32] {
        &self.cached
    }
    /// Context size, in tokens.
    pub fn n_ctx(&self) -> usize {
        self.forward.n_ctx()
    }
    /// Bytes of KV cache in use.
    pub fn kv_bytes(&self) -> u64 {
        self.forward.kv_bytes()
    }
    /// Bytes of weights that one token reads.
    pub fn bytes_per_token(&self) -> u64 {
        self.forward.bytes_per_token()
    }

    /// Answers a prompt. `watch` sees every token and ends the generation by `Break`.
    ///
    /// # Errors
    /// A prompt that is empty or does not fit, logits that are no numbers, a bad sampler parameter.
    pub fn generate(
        &mut self,
        request: &Request,
        watch: &mut dyn FnMut(Event) -> ControlFlow<()>,
    ) -> Result<Reply, SessionError> {
        let (total, max) = (request.prompt.len(), self.n_ctx().saturating_sub(1));
        if total == 0 {
            return Err(SessionError::EmptyPrompt);
        }
        if total > max {
            return Err(SessionError::PromptTooLong { tokens: total, max });
        }
        let mut sampler = Sampler::new(self.params.clone(), self.forward.n_vocab())?;
        sampler.reset(&request.prompt);
        let mut answer = Answer::new(request);
        self.sample_ms = 0.0;
        answer.timings.cache_n = self.reuse(&request.prompt);
        let started = Instant::now();
        let first = self.prefill(&request.prompt, &mut sampler, watch)?;
        answer.timings.prompt_ms = milliseconds(started);
        answer.timings.prompt_n = self.cached.len() - answer.timings.cache_n;
        let Some(first) = first else { return Ok(answer.end(Finish::Interrupted, watch)) };
        let started = Instant::now();
        let finish = self.decode(first, &mut sampler, &mut answer, watch);
        self.forward.end_drawing()?;
        let finish = finish?;
        answer.timings.predicted_ms = milliseconds(started);
        answer.timings.predicted_n = answer.tokens.len();
        answer.timings.sample_ms = self.sample_ms;
        Ok(answer.end(finish, watch))
    }

    /// Forgets everything: the next prompt is computed from its first token.
    pub fn clear(&mut self) {
        self.forward.rewind(0, 0);
        self.cached.clear();
    }

    /// Makes the cache hold these tokens and nothing after them, without choosing a token.
    ///
    /// # Errors
    /// The decoder's; more tokens than the context holds.
    pub fn prepare(&mut self, tokens: &[u32]) -> Result<(), SessionError> {
        let common = self.cached.iter().zip(tokens).take_while(|(a, b)| a == b).count();
        let kept = self.forward.rewind(0, common as u32) as usize;
        self.cached.truncate(kept);
        while self.cached.len() < tokens.len() {
            let done = self.cached.len();
            self.feed(&tokens[done..tokens.len().min(done + self.n_ubatch)], None)?;
        }
        Ok(())
    }

    /// Goes back to what the cache and the prompt have in common; the last token is always computed,
    /// for its logits. Returns the number of tokens kept.
    fn reuse(&mut self, prompt: &[u32]) -> usize {
        let common = self.cached.iter().zip(prompt).take_while(|(a, b)| a == b).count();
        let keep = common.min(prompt.len() - 1);
        let kept = self.forward.rewind(0, keep as u32) as usize;
        self.cached.truncate(kept);
        kept
    }

    /// Feeds what the cache lacks of the prompt and chooses the first token; `None` when `watch` wants
    /// no more. The cache then holds a part of the prompt.
    fn prefill(&mut self, prompt: &[u32], sampler: &mut Sampler, watch: Watch) -> Result<Option<u32>, SessionError> {
        let total = prompt.len();
        loop {
            let done = self.cached.len();
            if watch(Event::Prompt { done, total }).is_break() {
                return Ok(None);
            }
            let end = total.min(done + self.n_ubatch);
            if end == total {
                let first = self.feed(&prompt[done..], Some(sampler))?;
                // The last event of the prompt; an answer to it is asked for with the first token.
                let _ = watch(Event::Prompt { done: total, total });
                return Ok(first);
            }
            self.feed(&prompt[done..end], None)?;
        }
    }

    /// Token after token, until something ends the answer.
    fn decode(
        &mut self,
        first: u32,
        sampler: &mut Sampler,
        answer: &mut Answer,
        watch: Watch,
    ) -> Result<Finish, SessionError> {
        let mut token = first;
        loop {
            if answer.tokens.len() >= answer.limit {
                return Ok(Finish::Limit);
            }
            sampler.accept(token);
            // From the second token on the device may choose by itself, beside the model.
            if answer.tokens.is_empty() {
                self.begin_drawing(token, sampler)?;
            }
            if let Some(finish) = answer.take(token, &self.engine, watch) {
                return Ok(finish);
            }
            if answer.tokens.len() >= answer.limit {
                return Ok(Finish::Limit);
            }
            if self.cached.len() >= self.n_ctx() {
                return Ok(Finish::Context);
            }
            token = self.next(token, sampler)?;
        }
    }

    /// Leaves the choice of tokens to the decoder, if it takes it. `token` is the one it will be fed next.
    fn begin_drawing(&mut self, token: u32, sampler: &Sampler) -> Result<(), SessionError> {
        let params = sampler.params();
        if let Some(sampling) = params.on_device(sampler.position()) {
            let history = self.cached.iter().copied().chain([token]).collect();
            self.forward.begin_drawing(0, &SamplingRequest { sampling, bias: params.logit_bias.clone(), history })?;
        }
        Ok(())
    }

    /// The token after `token`, chosen by the decoder or here.
    fn next(&mut self, token: u32, sampler: &mut Sampler) -> Result<u32, SessionError> {
        if let Some(drawn) = self.forward.draw(token)? {
            self.cached.push(token);
            return Ok(Sampler::outcome(&drawn)?);
        }
        let next = self.feed(&[token], Some(sampler))?;
        Ok(next.expect("a sampler was given"))
    }

    /// Runs tokens that continue the cache, and with a sampler chooses the token after them.
    fn feed(&mut self, tokens: &[u32], sampler: Option<&mut Sampler>) -> Result<Option<u32>, SessionError> {
        let start = self.cached.len();
        let wanted = |i| sampler.is_some() && i + 1 == tokens.len();
        let entry =
            |(i, &token)| Entry { token, pos: (start + i) as u32, seq: 0, output: Output::logits_if(wanted(i)) };
        let batch: Vec<Entry> = tokens.iter().enumerate().map(entry).collect();
        let logits = self.forward.forward(&batch)?;
        self.cached.extend_from_slice(tokens);
        let started = Instant::now();
        let token = sampler.map(|s| s.sample(logits)).transpose()?;
        self.sample_ms += milliseconds(started);
        Ok(token)
    }
}

type Watch<'a> = &'a mut dyn FnMut(Event) -> ControlFlow<()>;

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}
