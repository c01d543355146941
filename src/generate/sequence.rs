//! One request while it runs: its tokens, how far they are computed, and how the next one is chosen.

use std::time::Instant;

use qrun_models::{Entry, Output, Row, SamplingRequest};

use super::{
    Event, Finish, GenerateError, Reply, Request, RequestId, RequestState, Timings, TokenProbs, answer::Answer,
    plan::Pending,
};
use crate::{
    sampler::{Sampler, SamplerParams, TokenMask},
    text::tokenizer::Tokenizer,
};

/// Most logits of one prompt that are asked for at once: 64 MB as f32.
const LOGITS: usize = 1 << 24;

/// A request with all that it needs to go on; also while it waits, or waits again.
pub struct Sequence {
    pub id: RequestId,
    pub request: Request,
    sampler: Sampler,
    answer: Answer,
    /// The request's mask, as far as the answer has come.
    mask: Option<TokenMask>,
    /// The prompt and the answer so far.
    pub tokens: Vec<u32>,
    /// How many of them the cache holds.
    pub held: usize,
    /// Guesses of what follows them, for the next step.
    pub draft: Vec<u32>,
    /// The decoder's sequence that it runs in, or ran in last.
    pub slot: Option<usize>,
    pub timings: Timings,
    /// Its caller has answered an event with `Break`.
    pub stopped: bool,
    /// How often younger requests went before it.
    pub passed: u32,
    /// Tokens that the prefix cache knows, and whose windows it has let go of: it is to keep them this time. 0: none.
    pub branch: usize,
    /// Tokens at which the chunk of this step ends for the sake of others. 0: anywhere.
    pub cut: usize,
    /// When its prompt was begun, and when its first token was chosen.
    begun: Option<Instant>,
    first: Option<Instant>,
    /// Of the token that was chosen last.
    probs: Option<TokenProbs>,
}

impl Sequence {
    /// # Errors
    /// A prompt that is empty or leaves no room for a token in `n_ctx`; a bad sampler parameter.
    pub fn new(
        id: RequestId,
        mut request: Request,
        params: SamplerParams,
        size: [usize; 2],
    ) -> Result<Self, GenerateError> {
        let [n_vocab, n_ctx] = size;
        let (tokens, room) = (request.prompt.len(), usize::from(request.max_tokens != Some(0)));
        if tokens == 0 {
            return Err(GenerateError::EmptyPrompt);
        }
        let max = n_ctx.saturating_sub(room);
        if tokens > max {
            return Err(GenerateError::PromptTooLong { tokens, max });
        }
        let mut sampler = Sampler::new(params, n_vocab)?;
        sampler.reset(&request.prompt);
        Ok(Self {
            id,
            answer: Answer::new(&request),
            mask: request.mask.take(),
            tokens: request.prompt.clone(),
            request,
            sampler,
            held: 0,
            draft: Vec::new(),
            slot: None,
            timings: Timings::default(),
            stopped: false,
            passed: 0,
            branch: 0,
            cut: 0,
            begun: None,
            first: None,
            probs: None,
        })
    }

    /// Notes that it runs from here on in sequence `slot`, and that the cache holds `held` of its tokens.
    pub fn begin(&mut self, slot: usize, held: usize) {
        (self.slot, self.held) = (Some(slot), held);
        if self.begun.is_none() {
            self.begun = Some(Instant::now());
            self.timings.cache_n = held;
        }
    }

    /// Whether it has not run yet.
    pub fn begins(&self) -> bool {
        self.begun.is_none()
    }

    /// Whether its caller wants no more.
    pub fn ends(&self) -> bool {
        self.stopped || self.request.cancel.is_cancelled()
    }

    /// Whether its prompt is still being computed for the first time.
    pub fn in_prompt(&self) -> bool {
        self.first.is_none()
    }

    /// Whether tokens are chosen after the prompt.
    fn generates(&self) -> bool {
        self.request.max_tokens != Some(0)
    }

    /// What planning looks at.
    pub fn pending(&self, n_vocab: usize) -> Pending {
        let tokens = self.tokens.len() - self.held;
        let most = match &self.request.logits {
            Some(wanted) if self.held < wanted.start => wanted.start - self.held,
            Some(_) => (LOGITS / n_vocab).max(1),
            None => usize::MAX,
        };
        let most = if self.cut > self.held { most.min(self.cut - self.held) } else { most };
        let drafted = self.draft.len();
        Pending { tokens, most, decodes: self.decodes(), drafted, order: self.id.0, passed: self.passed }
    }

    /// Whether one token is to be computed, which was chosen in the step before.
    pub fn decodes(&self) -> bool {
        !self.in_prompt() && self.tokens.len() == self.held + 1
    }

    /// What others see of it.
    pub fn state(&self) -> RequestState {
        let n_prompt = self.request.prompt.len();
        RequestState {
            id: self.id,
            n_prompt,
            n_prompt_cached: self.timings.cache_n,
            n_decoded: self.tokens.len() - n_prompt,
            max_tokens: self.request.max_tokens,
        }
    }

    /// Most guesses that may be of use: where its limit and the context leave room for them and for the token behind them.
    pub fn room_for_drafts(&self, n_ctx: usize) -> usize {
        let left = self.request.max_tokens.map_or(usize::MAX, |most| most.saturating_sub(self.answer.tokens.len()));
        if self.decodes() { left.min(n_ctx - self.held).saturating_sub(1) } else { 0 }
    }

    /// The next `rows` tokens, and behind them guesses, as entries of a batch.
    pub fn entries(&self, seq: u32, rows: usize) -> impl Iterator<Item = Entry> {
        let known = self.tokens[self.held..].iter().map(|&token| (token, false));
        let tokens = known.chain(self.draft.iter().map(|&token| (token, true)));
        tokens.take(rows).enumerate().map(move |(i, (token, drafted))| {
            let pos = self.held + i;
            let scored = self.request.logits.as_ref().is_some_and(|wanted| wanted.contains(&pos));
            let last = pos + 1 >= self.tokens.len() && self.generates();
            let output = match (scored, last) {
                (true, _) => Output::Logits,
                (false, true) => Output::Token,
                (false, false) => Output::None,
            };
            Entry { token, pos: pos as u32, seq, output, drafted }
        })
    }

    /// How the decoder may sample the next token; `None` where only the host can, or has to see the logits.
    pub fn sampling(&self) -> Option<SamplingRequest> {
        let params = self.sampler.params();
        let on_device = self.generates() && self.request.n_probs.is_none() && self.request.processor.is_none();
        let sampling = params.on_device(self.sampler.position()).filter(|_| on_device)?;
        let (bias, history) = (params.logit_bias.clone(), self.tokens.clone());
        Some(SamplingRequest { sampling, bias, history, masked: self.mask.is_some() })
    }

    /// Which tokens may come next, for a decoder that samples. `None` without a mask, and where the mask cannot tell: the
    /// decoder leaves the token to [`Sequence::choose`] then, which asks once more and says why.
    pub fn allowed(&mut self) -> Option<&[u32]> {
        let started = Instant::now();
        let allowed = self.mask.as_mut()?.allowed().ok();
        self.timings.sample_ms += milliseconds(started);
        allowed
    }

    /// The token that a row gives.
    ///
    /// # Errors
    /// [`GenerateError::Sampler`]: no token is left, or a logit is NaN or +infinity. [`GenerateError::Mask`]: the
    /// constraint cannot tell what may come next. [`GenerateError::Processor`]: the caller's processor fails.
    pub fn choose(&mut self, row: Row) -> Result<u32, GenerateError> {
        match row {
            Row::Token(sampled) => {
                let token = Sampler::outcome(&sampled)?;
                self.mask.as_mut().map_or(Ok(()), |mask| mask.accept(token)).map_err(GenerateError::Mask)?;
                Ok(token)
            }
            Row::Logits(logits) => {
                let started = Instant::now();
                let token = self.sample(logits);
                self.timings.sample_ms += milliseconds(started);
                let token = token?;
                self.probs = match self.request.n_probs {
                    Some(n) if self.request.post_sampling => {
                        Some(TokenProbs::drawn(&self.sampler.distribution(logits)?, token, n))
                    }
                    n => n.map(|n| TokenProbs::of(logits, token, n)),
                };
                Ok(token)
            }
        }
    }

    /// Chooses a token on the host, from what the processor makes of the logits, among those that the mask allows.
    fn sample(&mut self, logits: &[f32]) -> Result<u32, GenerateError> {
        let mut processed = Vec::new();
        let logits = match &self.request.processor {
            None => logits,
            Some(processor) => {
                processed.extend_from_slice(logits);
                (processor.0)(&self.tokens, &mut processed).map_err(GenerateError::Processor)?;
                &processed
            }
        };
        let Some(mask) = &mut self.mask else { return Ok(self.sampler.sample(logits)?) };
        self.sampler.restrict(Some(mask.allowed().map_err(GenerateError::Mask)?));
        let token = self.sampler.sample(logits)?;
        mask.accept(token).map_err(GenerateError::Mask)?;
        Ok(token)
    }

    /// Notes how much of the prompt was computed and how long that took.
    pub fn end_prompt(&mut self) {
        if let (Some(begun), None) = (self.begun, self.first) {
            self.timings.prompt_n = self.held.saturating_sub(self.timings.cache_n);
            self.timings.prompt_ms = milliseconds(begun);
            self.first = Some(Instant::now());
        }
    }

    /// Takes the token that was chosen; `watch` gets its text. Says why the answer ends here, if it does.
    pub fn take(
        &mut self,
        token: u32,
        tokenizer: Option<&Tokenizer>,
        n_ctx: usize,
        watch: &mut dyn FnMut(Event),
    ) -> Option<Finish> {
        self.sampler.accept(token);
        self.tokens.push(token);
        let taken = self.answer.take(token, tokenizer);
        watch(Event::Token { id: token, text: &taken.text, probs: self.probs.as_ref() });
        taken.finish.or_else(|| {
            if self.request.max_tokens.is_some_and(|most| self.answer.tokens.len() >= most) {
                return Some(Finish::Limit);
            }
            (self.held >= n_ctx).then_some(Finish::Context)
        })
    }

    /// Whether something was generated.
    pub fn has_answer(&self) -> bool {
        !self.answer.tokens.is_empty()
    }

    /// The answer as it is now; `watch` gets what was held back of it.
    pub fn end(&mut self, finish: Finish, watch: &mut dyn FnMut(Event)) -> Reply {
        let interrupted = self.in_prompt() && finish == Finish::Interrupted;
        self.end_prompt();
        let (rest, finish) = self.answer.end(finish);
        if let (false, Some(&id)) = (rest.is_empty(), self.answer.tokens.last()) {
            watch(Event::Flush { id, text: &rest });
        }
        if let (Some(first), false) = (self.first, interrupted) {
            self.timings.predicted_ms = milliseconds(first);
        }
        self.timings.predicted_n = self.answer.tokens.len();
        let (text, tokens) = (std::mem::take(&mut self.answer.text), std::mem::take(&mut self.answer.tokens));
        Reply { text, tokens, finish, timings: self.timings, slot: self.slot }
    }
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}
