//! One conversation with a model.
//!
//! A prompt that begins like what is cached costs only its new part, so a chat hands over the whole conversation every turn.

use std::{ops::ControlFlow, sync::Arc};

use qrun_models::EventHandler;

use super::{Event, Finished, GenerateError, Reply, Request, RequestId, Scheduler};
use crate::{
    engine::{Engine, LoadError},
    sampler::SamplerParams,
};

/// A scheduler with one request at a time, and how its tokens are chosen.
pub struct Session {
    pub(super) engine: Arc<Engine>,
    pub(super) scheduler: Scheduler,
    /// The tokens that the prefix cache was left with.
    pub(super) cached: Vec<u32>,
    params: SamplerParams,
}

impl Session {
    /// Loads the model of an engine ([`Scheduler::open`]); nothing is cached yet.
    ///
    /// # Errors
    /// The device fails and nothing else was allowed; the system gives no threads.
    pub fn open(engine: Arc<Engine>, params: SamplerParams, on_event: EventHandler) -> Result<Self, LoadError> {
        let scheduler = Scheduler::open(engine.clone(), on_event)?;
        Ok(Self { scheduler, engine, cached: Vec::new(), params })
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
        self.scheduler.forward().n_ctx()
    }
    /// Bytes of KV cache in use.
    pub fn kv_bytes(&self) -> u64 {
        self.scheduler.forward().kv_bytes()
    }
    /// Bytes of weights that one token reads.
    pub fn bytes_per_token(&self) -> u64 {
        self.scheduler.forward().bytes_per_token()
    }
    /// The scheduler, for several requests at once.
    pub fn scheduler(&mut self) -> &mut Scheduler {
        &mut self.scheduler
    }

    /// Answers a prompt. `watch` sees every token and ends the generation by `Break`.
    ///
    /// # Errors
    /// A prompt that is empty or does not fit, logits that are not finite, a bad sampler parameter.
    pub fn generate(
        &mut self,
        request: &Request,
        watch: &mut dyn FnMut(Event) -> ControlFlow<()>,
    ) -> Result<Reply, GenerateError> {
        let id = self.scheduler.submit(request.clone(), self.params.clone())?;
        let finished = loop {
            self.scheduler.step(&mut |_: RequestId, event: Event| watch(event));
            match self.scheduler.finished() {
                Some(finished) if finished.id == id => break finished,
                _ => {}
            }
        };
        let Finished { held, result, .. } = finished;
        self.cached = held;
        result
    }

    /// Forgets everything: the next prompt is computed from its first token.
    pub fn clear(&mut self) {
        self.scheduler.forget(&[]);
        self.cached.clear();
    }

    /// Makes the cache hold these tokens and nothing after them, without choosing a token.
    ///
    /// # Errors
    /// The decoder's; more tokens than the context holds.
    pub fn prepare(&mut self, tokens: &[u32]) -> Result<(), GenerateError> {
        self.scheduler.forget(tokens);
        let forward = self.scheduler.forward_mut();
        let held = forward.attach(0, tokens) as usize;
        forward.release(0, &tokens[..held]);
        self.cached = tokens[..held].to_vec();
        if held < tokens.len() {
            let request = Request { prompt: tokens.to_vec(), max_tokens: Some(0), ..Request::default() };
            self.generate(&request, &mut |_| ControlFlow::Continue(()))?;
        }
        Ok(())
    }
}
