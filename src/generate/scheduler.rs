//! The one loop that runs a model: many requests, one step after the other.
//!
//! Before a step requests leave and join; in it every sequence that decodes has a row, and what is left of the batch goes to
//! prompts, in chunks. Where no page is left the youngest sequence is put back and computed again later; its answer, its
//! sampler and its place in the order are kept, so nobody sees it. Holds no thread and no clock: callers step it.

use std::{collections::VecDeque, ops::ControlFlow, sync::Arc};

use qrun_models::{Batch, Entry, Forward, ForwardError, Output, kv::PAGE};

use super::{Cancel, Event, Finish, GenerateError, Reply, Request, RequestId, plan, sequence::Sequence};
use crate::{engine::Engine, sampler::SamplerParams};

/// What a caller sees of the requests while they run; `Break` ends the request.
pub type Watch<'a> = &'a mut dyn FnMut(RequestId, Event) -> ControlFlow<()>;

/// A request that has ended.
#[derive(Debug)]
pub struct Finished {
    /// The id that `submit` gave it.
    pub id: RequestId,
    /// Its tokens whose keys and values were computed: of the prompt, and of the answer.
    pub held: Vec<u32>,
    /// The answer, or why there is none.
    pub result: Result<Reply, GenerateError>,
}

/// Tokens that went through the layers in a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StepRows {
    /// Of prompts, those that were computed again among them.
    pub prompt: usize,
    /// Tokens that were sampled before, one of each sequence that goes on.
    pub decode: usize,
}

/// Runs requests on a decoder, as many at once as it has sequences.
pub struct Scheduler {
    forward: Box<dyn Forward>,
    /// What makes text of tokens.
    engine: Option<Arc<Engine>>,
    waiting: VecDeque<Sequence>,
    /// By the decoder's sequence ids.
    running: Vec<Option<Sequence>>,
    finished: VecDeque<Finished>,
    submitted: u64,
    preempted: u64,
    n_ubatch: usize,
}

impl Scheduler {
    /// A scheduler on a decoder with an empty cache.
    pub fn new(engine: Arc<Engine>, forward: Box<dyn Forward>) -> Self {
        let n_ubatch = engine.options().n_ubatch;
        Self { engine: Some(engine), n_ubatch, ..Self::of_tokens(forward) }
    }

    /// The same without text: nothing but limits ends an answer.
    pub fn of_tokens(forward: Box<dyn Forward>) -> Self {
        let running = (0..forward.n_seq()).map(|_| None).collect();
        Self {
            forward,
            engine: None,
            waiting: VecDeque::new(),
            running,
            finished: VecDeque::new(),
            submitted: 0,
            preempted: 0,
            n_ubatch: qrun_models::Options::default().n_ubatch,
        }
    }

    /// The decoder that the steps run on.
    pub fn forward(&self) -> &dyn Forward {
        &*self.forward
    }
    /// The decoder, for one who knows that nothing runs.
    pub(super) fn forward_mut(&mut self) -> &mut dyn Forward {
        &mut *self.forward
    }
    /// The model, its tokenizer and template; `None` for a scheduler of tokens.
    pub fn engine(&self) -> Option<&Arc<Engine>> {
        self.engine.as_ref()
    }
    /// Requests that run, and requests that wait.
    pub fn load(&self) -> (usize, usize) {
        (self.running.iter().flatten().count(), self.waiting.len())
    }
    /// Whether there is nothing to do.
    pub fn is_idle(&self) -> bool {
        self.load() == (0, 0)
    }
    /// How often a sequence was put back for want of pages.
    pub fn preempted(&self) -> u64 {
        self.preempted
    }

    /// Takes a request; `params` say how its tokens are chosen.
    ///
    /// # Errors
    /// A prompt that is empty, does not fit or has a token outside of the vocabulary; a bad sampler parameter.
    pub fn submit(&mut self, request: Request, params: SamplerParams) -> Result<RequestId, GenerateError> {
        let (n_vocab, n_ctx) = (self.forward.n_vocab(), self.forward.n_ctx());
        if let Some(&token) = request.prompt.iter().find(|&&token| token as usize >= n_vocab) {
            return Err(ForwardError::Token { token, n_vocab }.into());
        }
        let id = RequestId(self.submitted);
        self.waiting.push_back(Sequence::new(id, request, params, [n_vocab, n_ctx])?);
        self.submitted += 1;
        Ok(id)
    }

    /// Ends a request with the next step; what it has so far is its answer.
    pub fn cancel(&mut self, id: RequestId) {
        let all = self.running.iter_mut().flatten().chain(&mut self.waiting);
        all.filter(|sequence| sequence.id == id).for_each(|sequence| sequence.stopped = true);
    }

    /// The next request that has ended, in the order of their ends.
    pub fn finished(&mut self) -> Option<Finished> {
        self.finished.pop_front()
    }

    /// Lets requests leave and join, and runs one step of all that run. `watch` gets their events.
    pub fn step(&mut self, watch: Watch) -> StepRows {
        self.leave(watch);
        self.join(watch);
        loop {
            let rows = self.plan();
            let entries = self.entries(&rows);
            if entries.is_empty() {
                return StepRows::default();
            }
            // A step is given up for a request whose prompt is in it; decode steps are short enough to wait for.
            let prompts: Vec<Cancel> = self.prompts(&rows).map(|s| s.request.cancel.clone()).collect();
            let cancelled = || prompts.iter().any(Cancel::is_cancelled);
            match self.forward.step(&Batch { entries: &entries, cancelled: &cancelled }) {
                Ok(_) => return self.take(&entries, &rows, watch),
                Err(ForwardError::Cancelled) => {
                    self.leave(watch);
                }
                Err(error @ ForwardError::Pages { .. }) => self.make_room(error, watch),
                Err(error) => {
                    self.fail(&error);
                    return StepRows::default();
                }
            }
        }
    }

    /// Drops from the prefix cache what does not begin as `keep`.
    pub fn forget(&mut self, keep: &[u32]) {
        self.forward.forget(keep);
    }

    /// Ends requests whose callers want no more.
    fn leave(&mut self, watch: Watch) {
        for seq in 0..self.running.len() {
            if self.running[seq].as_ref().is_some_and(|s| s.ends()) {
                self.finish(seq, Finish::Interrupted, watch);
            }
        }
        let (gone, rest): (VecDeque<_>, _) = std::mem::take(&mut self.waiting).into_iter().partition(|s| s.ends());
        self.waiting = rest;
        for mut sequence in gone {
            let id = sequence.id;
            let reply = sequence.end(Finish::Interrupted, &mut |event| {
                let _ = watch(id, event);
            });
            self.finished.push_back(Finished { id, held: Vec::new(), result: Ok(reply) });
        }
    }

    /// Gives free sequences to waiting requests, the oldest first.
    fn join(&mut self, watch: Watch) {
        while let Some(seq) = self.running.iter().position(Option::is_none) {
            let Some(next) = self.next() else { return };
            let Some(mut sequence) = self.waiting.remove(next) else { return };
            let held = if sequence.request.fresh {
                self.forward.release(seq as u32, &[]);
                0
            } else {
                let last = sequence.tokens.len() - 1;
                self.forward.attach(seq as u32, &sequence.tokens[..last]) as usize
            };
            sequence.begin(held);
            if let Some(sampling) = sequence.sampling()
                && let Err(error) = self.forward.set_sampling(seq as u32, &sampling)
            {
                self.finished.push_back(Finished { id: sequence.id, held: Vec::new(), result: Err(error.into()) });
                continue;
            }
            let (id, total, fresh) = (sequence.id, sequence.request.prompt.len(), !sequence.has_answer());
            self.running[seq] = Some(sequence);
            if fresh && watch(id, Event::Prompt { done: held.min(total), total }).is_break() {
                self.finish(seq, Finish::Interrupted, watch);
            }
        }
    }

    /// Which waiting request is next: one whose pages are there, and of whose prompt no whole page is just being computed
    /// for another (it will find that page in the prefix cache).
    fn next(&self) -> Option<usize> {
        let running = self.running.iter().flatten();
        let computed = |s: &Sequence| {
            running.clone().filter(|r| r.in_prompt() && !r.request.fresh).any(|r| common(&r.tokens, &s.tokens) >= PAGE)
        };
        let next = self.waiting.iter().position(|s| s.request.fresh || !computed(s))?;
        let (pages, others) = (self.forward.pages(), running.clone().count());
        let needed = self.waiting[next].tokens.len() / PAGE + 1 + others;
        (others == 0 || needed <= pages.free.saturating_add(pages.evictable)).then_some(next)
    }

    /// Rows of each sequence in the next step, by sequence id.
    fn plan(&self) -> Vec<usize> {
        let n_vocab = self.forward.n_vocab();
        let ids: Vec<usize> = (0..self.running.len()).filter(|&seq| self.running[seq].is_some()).collect();
        let pending: Vec<_> = self.running.iter().flatten().map(|s| s.pending(n_vocab)).collect();
        let mut rows = vec![0; self.running.len()];
        for (seq, n) in ids.into_iter().zip(plan::rows(&pending, self.n_ubatch)) {
            rows[seq] = n;
        }
        rows
    }

    fn entries(&self, rows: &[usize]) -> Vec<Entry> {
        let sequences = self.running.iter().enumerate().filter_map(|(seq, s)| Some((seq, s.as_ref()?)));
        sequences.flat_map(|(seq, s)| s.entries(seq as u32, rows[seq])).collect()
    }

    /// The sequences that have rows of a prompt in a step.
    fn prompts(&self, rows: &[usize]) -> impl Iterator<Item = &Sequence> {
        self.running.iter().zip(rows).filter_map(|(s, &n)| s.as_ref().filter(|s| n > 0 && s.in_prompt()))
    }

    /// Takes what a step gave: logits for those who want them, and the next token of each sequence that is due.
    fn take(&mut self, entries: &[Entry], rows: &[usize], watch: Watch) -> StepRows {
        let mut done = StepRows::default();
        let mut ended = Vec::new();
        let n_ctx = self.forward.n_ctx();
        let tokenizer = self.engine.as_ref().map(|engine| engine.tokenizer());
        for (sequence, &n) in self.running.iter_mut().zip(rows) {
            let Some(sequence) = sequence.as_mut().filter(|_| n > 0) else { continue };
            let decodes = !sequence.in_prompt() && n == 1;
            *(if decodes { &mut done.decode } else { &mut done.prompt }) += n;
            sequence.held += n;
            let (id, total) = (sequence.id, sequence.request.prompt.len());
            // Asked for its next chunk, not for its end: an answer to that comes with the first token.
            if sequence.in_prompt()
                && watch(id, Event::Prompt { done: sequence.held, total }).is_break()
                && sequence.held < total
            {
                sequence.stopped = true;
            }
        }
        let wanted = entries.iter().filter(|e| e.output != Output::None);
        for (entry, row) in wanted.zip(self.forward.rows().iter()) {
            let seq = entry.seq as usize;
            let Some(sequence) = self.running[seq].as_mut() else { continue };
            let id = sequence.id;
            if let (Output::Logits, qrun_models::Row::Logits(logits)) = (entry.output, row) {
                if watch(id, Event::Logits { pos: entry.pos as usize, logits }).is_break() {
                    sequence.stopped = true;
                }
                let goes_on = entry.pos as usize + 1 < sequence.tokens.len();
                if goes_on || sequence.request.max_tokens == Some(0) {
                    continue;
                }
            }
            let chosen = sequence.choose(row);
            sequence.end_prompt();
            let mut broken = false;
            let finish = chosen.map(|token| {
                sequence.take(token, tokenizer, n_ctx, &mut |event| broken |= watch(id, event).is_break())
            });
            match finish {
                Ok(None) if broken => ended.push((seq, Ok(Finish::Interrupted))),
                Ok(None) => {}
                Ok(Some(finish)) => ended.push((seq, Ok(finish))),
                Err(error) => ended.push((seq, Err(error))),
            }
        }
        for seq in 0..self.running.len() {
            let Some(sequence) = self.running[seq].as_mut().filter(|_| rows[seq] > 0) else { continue };
            let prompt = sequence.request.prompt.len();
            let crossed = sequence.held >= prompt && sequence.held - rows[seq] < prompt;
            if crossed && sequence.request.max_tokens == Some(0) {
                ended.push((seq, Ok(Finish::Limit)));
            } else if crossed && !sequence.request.fresh {
                self.forward.share(seq as u32, &sequence.tokens[..sequence.held]);
            }
        }
        for (seq, end) in ended {
            match end {
                Ok(finish) => self.finish(seq, finish, watch),
                Err(error) => self.end(seq, Err(error)),
            }
        }
        self.leave(watch);
        done
    }

    /// After a step for which there were no pages: puts the youngest sequence back. One that is alone ends.
    fn make_room(&mut self, error: ForwardError, watch: Watch) {
        let youngest = (0..self.running.len()).filter_map(|seq| Some((self.running[seq].as_ref()?.id, seq))).max();
        let Some((_, seq)) = youngest else { return };
        let alone = self.running.iter().flatten().count() == 1;
        match self.running[seq].take() {
            Some(mut sequence) if !alone => {
                self.forward.release(seq as u32, &sequence.tokens[..sequence.held]);
                sequence.held = 0;
                self.waiting.push_front(sequence);
                self.preempted += 1;
            }
            alone => {
                let has_answer = alone.as_ref().is_some_and(Sequence::has_answer);
                self.running[seq] = alone;
                if has_answer { self.finish(seq, Finish::Context, watch) } else { self.end(seq, Err(error.into())) }
            }
        }
    }

    /// The decoder has failed: everybody hears why.
    fn fail(&mut self, error: &ForwardError) {
        for seq in 0..self.running.len() {
            self.end(seq, Err(error.clone().into()));
        }
    }

    fn finish(&mut self, seq: usize, finish: Finish, watch: Watch) {
        let Some(sequence) = self.running[seq].as_mut() else { return };
        let id = sequence.id;
        let reply = sequence.end(finish, &mut |event| {
            let _ = watch(id, event);
        });
        self.end(seq, Ok(reply));
    }

    /// Frees a sequence and leaves its pages to the prefix cache.
    fn end(&mut self, seq: usize, result: Result<Reply, GenerateError>) {
        let Some(mut sequence) = self.running[seq].take() else { return };
        let keeps = !sequence.request.fresh && result.is_ok();
        sequence.tokens.truncate(if keeps { sequence.held } else { 0 });
        self.forward.release(seq as u32, &sequence.tokens);
        self.finished.push_back(Finished { id: sequence.id, held: sequence.tokens, result });
    }
}

/// How many tokens two lists begin with in common.
pub(super) fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
