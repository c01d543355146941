//! From what a dialect asks to the chunks of its answers.

use std::{
    ops::ControlFlow,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use axum::http::StatusCode;
use tokio::{
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
    time::{Instant, timeout_at},
};

use super::{
    error::ApiError,
    log::Line,
    state::{App, Ticket},
};
use crate::{
    generate::{Cancel, Chunk, GenerateError, Reply, Request, TokenProbs},
    sampler::SamplerParams,
};

/// What to generate: one for all dialects.
#[derive(Default)]
pub struct Ask {
    /// Tokens of each prompt; every one is answered `n` times.
    pub prompts: Vec<Vec<u32>>,
    /// Choices per prompt.
    pub n: usize,
    /// How tokens are chosen; choice `i` takes seed + i.
    pub params: SamplerParams,
    /// What ends an answer, and what is wanted besides; its prompt and cancel flag are ignored.
    pub request: Request,
    /// How probable the tokens of the prompts were is wanted too.
    pub scores: bool,
    /// Most time for an answer after its first token.
    pub time: Option<Duration>,
    /// Room for the answers, taken before anything is made ready for them.
    pub room: Option<Ticket>,
}

/// The running answers of an [`Ask`]. Dropping it ends them.
pub struct Jobs {
    chunks: UnboundedReceiver<(usize, Chunk)>,
    /// Taken from the channel to see that the answers have begun.
    first: Option<(usize, Chunk)>,
    cancels: Vec<Cancel>,
    left: usize,
    time: Option<Duration>,
    deadline: Option<Instant>,
    room: Ticket,
    started: Instant,
    /// When the last token of each answer came.
    last: Vec<Option<Instant>>,
    /// Where its tokens are counted; the cached ones of each answer's prompt once.
    line: Option<Arc<Line>>,
    begun: Vec<bool>,
}

/// One finished answer.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Text, tokens, finish, timings.
    pub reply: Reply,
    /// Text and probabilities of each token.
    pub tokens: Vec<TokenText>,
    /// How probable the tokens of the prompt were, the first of which has nothing before it; empty where nobody asked.
    pub scores: Scores,
}

/// By their positions: how probable tokens were.
pub type Scores = Vec<Option<TokenProbs>>;

/// Notes one of them; a prompt that is computed again gives the same once more.
pub fn note_score(scores: &mut Scores, pos: usize, probs: TokenProbs) {
    scores.resize(scores.len().max(pos + 1), None);
    scores[pos] = Some(probs);
}

/// A token of an answer.
#[derive(Debug, Clone)]
pub struct TokenText {
    pub id: u32,
    /// Where the request asks for them.
    pub probs: Option<TokenProbs>,
}

impl Jobs {
    /// Hands the request in and waits until the first of its answers begins.
    ///
    /// # Errors
    /// What is wrong with a prompt; 503 where the queue is full or does not move.
    pub async fn begin(app: &Arc<App>, ask: Ask) -> Result<Self, ApiError> {
        let model = app.model()?;
        let n = ask.n.max(1);
        let max = model.engine.options().n_ctx.saturating_sub(usize::from(ask.request.max_tokens != Some(0)));
        // Told at once: the engine would after its step.
        if let Some(tokens) = ask.prompts.iter().map(Vec::len).find(|&tokens| tokens > max) {
            return Err(GenerateError::PromptTooLong { tokens, max }.into());
        }
        let room = match ask.room {
            Some(room) => room,
            None => app.admit(n * ask.prompts.len())?,
        };
        let (sender, chunks) = unbounded_channel();
        let mut cancels = Vec::new();
        for (i, prompt) in ask.prompts.iter().enumerate() {
            for choice in 0..n {
                let cancel = Cancel::default();
                cancels.push(cancel.clone());
                let mut request = Request { prompt: prompt.clone(), cancel, ..ask.request.clone() };
                // One answer runs in the slot that was asked for, the others where there is room.
                request.slot = request.slot.filter(|_| cancels.len() == 1);
                if ask.scores {
                    // All of it has to go through the layers.
                    (request.logits, request.fresh) = (Some(0..prompt.len().saturating_sub(1)), true);
                }
                let params = SamplerParams { seed: ask.params.seed + choice as u64, ..ask.params.clone() };
                let (sender, index) = (sender.clone(), i * n + choice);
                let gone = |_| ControlFlow::Break(());
                let sink = move |chunk| sender.send((index, chunk)).map_or_else(gone, ControlFlow::Continue);
                model.generator.submit_to(request, params, Box::new(sink));
            }
        }
        // With the others' gone, too, nothing is waited for.
        drop(sender);
        let left = cancels.len();
        let started = Instant::now();
        let last = vec![None; left];
        let (line, begun) = (Line::current(), vec![false; left]);
        let mut jobs = Self {
            chunks,
            first: None,
            cancels,
            left,
            time: ask.time,
            deadline: None,
            room,
            started,
            last,
            line,
            begun,
        };
        let waits = started + app.options.queue_timeout;
        match timeout_at(waits, jobs.chunks.recv()).await {
            Ok(Some((_, Chunk::End(Err(error))))) => {
                jobs.left -= 1;
                Err(error.into())
            }
            Ok(Some(chunk)) => {
                jobs.first = Some(chunk);
                Ok(jobs)
            }
            Ok(None) => Err(engine_gone()),
            Err(_) => {
                let seconds = app.options.queue_timeout.as_secs();
                app.metrics.shed("queue timeout");
                let message = format!("the request waited {seconds} s and could not begin");
                Err(ApiError::unavailable(message, jobs.room.retry_after()))
            }
        }
    }

    /// How many answers there are.
    pub fn count(&self) -> usize {
        self.cancels.len()
    }

    /// The next chunk and the index of its answer; `None` after the last end.
    pub async fn next(&mut self) -> Option<(usize, Chunk)> {
        let next = match self.first.take() {
            Some(first) => Some(first),
            None if self.left == 0 => return None,
            None => match self.deadline {
                Some(deadline) => match timeout_at(deadline, self.chunks.recv()).await {
                    Ok(next) => next,
                    Err(_) => {
                        // What they have so far is their answer.
                        self.cancels.iter().for_each(Cancel::cancel);
                        self.deadline = None;
                        self.chunks.recv().await
                    }
                },
                None => self.chunks.recv().await,
            },
        };
        if let Some((index, chunk)) = &next {
            self.count_tokens(*index, chunk);
        }
        match &next {
            Some((_, Chunk::End(reply))) => {
                self.left -= 1;
                if let Ok(reply) = reply {
                    self.room.metrics().end(&reply.finish, &reply.timings, self.started.elapsed());
                }
            }
            Some((index, Chunk::Token { .. })) => {
                let before = self.last[*index].replace(Instant::now());
                self.room.metrics().token(before.is_none(), before.unwrap_or(self.started).elapsed());
                if let Some(time) = self.time.take() {
                    self.deadline = Some(Instant::now() + time);
                }
            }
            Some(_) => {}
            None => self.left = 0,
        }
        next
    }

    fn count_tokens(&mut self, index: usize, chunk: &Chunk) {
        let Some(tokens) = self.line.as_ref().map(|line| &line.tokens) else { return };
        match chunk {
            Chunk::Prompt { done, total, .. } if !std::mem::replace(&mut self.begun[index], true) => {
                tokens.prompt.fetch_add(*total, Relaxed);
                tokens.cached.fetch_add(*done, Relaxed);
            }
            Chunk::Token { .. } => drop(tokens.generated.fetch_add(1, Relaxed)),
            _ => {}
        }
    }

    /// All answers, whole, in their order.
    ///
    /// # Errors
    /// Of the first that failed; the engine's end.
    pub async fn collect(mut self) -> Result<Vec<Outcome>, ApiError> {
        let mut tokens: Vec<Vec<TokenText>> = vec![Vec::new(); self.count()];
        let mut scores: Vec<Scores> = vec![Vec::new(); self.count()];
        let mut replies: Vec<Option<Reply>> = vec![None; self.count()];
        while let Some((index, chunk)) = self.next().await {
            match chunk {
                Chunk::Prompt { .. } | Chunk::Logits { .. } | Chunk::Text(_) => {}
                Chunk::Score { pos, probs } => note_score(&mut scores[index], pos, probs),
                Chunk::Token { id, probs, .. } => tokens[index].push(TokenText { id, probs }),
                Chunk::End(reply) => replies[index] = Some(reply?),
            }
        }
        let whole = replies.into_iter().zip(tokens).zip(scores);
        let whole = whole.map(|((reply, tokens), scores)| Some(Outcome { reply: reply?, tokens, scores }));
        whole.collect::<Option<_>>().ok_or_else(engine_gone)
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        self.cancels.iter().for_each(Cancel::cancel);
        self.room.metrics().cancelled(self.left);
    }
}

/// The generator has dropped what was asked of it: it has panicked.
pub fn engine_gone() -> ApiError {
    ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "the engine has failed; try again, then start the server again")
}
