//! The one loop that runs a model: many requests, one step after the other.
//!
//! Before a step requests leave and join; in it every sequence that decodes has a row, and what is left of the batch goes to
//! prompts, in chunks that keep to a time. Where no page is left the youngest sequence is put back and computed again
//! later; its answer, its sampler and its place in the order are kept, so nobody sees it. The same happens to all where a
//! device fails and another decoder goes on. Holds no thread: callers step it. What time it is decides how many rows a
//! step has, never what is chosen.

mod drafts;
mod join;
mod put_back;
mod slots;

use std::{
    collections::VecDeque,
    ops::ControlFlow,
    sync::Arc,
    time::{Duration, Instant},
};

use qrun_cuda::DeviceError;
use qrun_models::{Batch, Entry, EventHandler, Forward, ForwardError, Output, Row, Salt};

use super::{
    Cancel, Drafter, Event, Finish, GenerateError, Reply, Request, RequestId, Stats, StatsReader, StepRows,
    pace::{CPU_STEP_MS, GPU_STEP_MS, Pace},
    plan::{self, Budget},
    sequence::Sequence,
};
use crate::{
    engine::{Engine, LoadError},
    sampler::SamplerParams,
};

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

/// Tells the time since some moment, for measuring steps.
pub type Clock = Box<dyn FnMut() -> Duration + Send>;

/// Gives another decoder of the same model, with an empty cache, after a device has failed; `None` ends the requests. The
/// failed one still exists while it is asked.
pub type Recover = Box<dyn FnMut(&DeviceError) -> Option<Box<dyn Forward>> + Send>;

/// Runs requests on a decoder, as many at once as it has sequences.
pub struct Scheduler {
    forward: Box<dyn Forward>,
    /// What makes text of tokens.
    engine: Option<Arc<Engine>>,
    waiting: VecDeque<Sequence>,
    /// By the decoder's sequence ids.
    running: Vec<Option<Sequence>>,
    /// By the decoder's sequence ids: the salt and the tokens of the last request that ran there, which the prefix cache was
    /// left with.
    left: Vec<(Salt, Vec<u32>)>,
    finished: VecDeque<Finished>,
    submitted: u64,
    n_ubatch: usize,
    /// What a caller has asked for.
    step_ms: Option<f64>,
    pace: Pace,
    clock: Clock,
    recover: Option<Recover>,
    /// What guesses tokens ahead.
    drafter: Option<Box<dyn Drafter>>,
    stats: Stats,
    reader: StatsReader,
}

impl Scheduler {
    /// A scheduler on a decoder with an empty cache.
    pub fn new(engine: Arc<Engine>, forward: Box<dyn Forward>) -> Self {
        let n_ubatch = engine.options().n_ubatch;
        Self { engine: Some(engine), n_ubatch, ..Self::of_tokens(forward) }
    }

    /// Loads the model of an engine. Where a GPU may be given up the CPU goes on after it fails: with the requests that
    /// run then too, each from its own tokens. `on_event` hears how loading goes.
    ///
    /// # Errors
    /// The device's, where nothing else was allowed; no threads.
    pub fn open(engine: Arc<Engine>, mut on_event: EventHandler) -> Result<Self, LoadError> {
        let decoder = engine.decoder(&mut on_event)?;
        let mut scheduler = Self::new(engine.clone(), decoder.forward);
        if decoder.on_gpu {
            scheduler.pace = Pace::new(GPU_STEP_MS);
            scheduler.set_recover(Box::new(move |error| engine.spare(error, &mut on_event)));
        }
        Ok(scheduler)
    }

    /// The same as [`Scheduler::new`] without text: nothing but limits ends an answer.
    pub fn of_tokens(forward: Box<dyn Forward>) -> Self {
        let running: Vec<_> = (0..forward.n_seq()).map(|_| None).collect();
        let started = Instant::now();
        let mut scheduler = Self {
            forward,
            engine: None,
            waiting: VecDeque::new(),
            left: vec![Default::default(); running.len()],
            running,
            finished: VecDeque::new(),
            submitted: 0,
            n_ubatch: qrun_models::Options::default().n_ubatch,
            step_ms: None,
            pace: Pace::new(CPU_STEP_MS),
            clock: Box::new(move || started.elapsed()),
            recover: None,
            drafter: None,
            stats: Stats::default(),
            reader: StatsReader::default(),
        };
        scheduler.publish();
        scheduler
    }

    /// Most milliseconds that a step is to take while anybody decodes: prompts get as many rows as keep to it, 8 at
    /// least, or 16 where several have some to compute. Without this 225, or 30 for a GPU that [`Scheduler::open`] has
    /// loaded.
    pub fn set_step_ms(&mut self, step_ms: f64) {
        self.step_ms = Some(step_ms);
        self.pace = Pace::new(step_ms);
    }
    /// Most tokens of a step in which nobody decodes.
    pub fn set_ubatch(&mut self, rows: usize) {
        self.n_ubatch = rows.max(1);
    }
    /// Measures steps by another clock than the system's.
    pub fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
    }
    /// Where to go on when the device has failed; without this all running requests end with the error.
    pub fn set_recover(&mut self, recover: Recover) {
        self.recover = Some(recover);
    }
    /// What guesses tokens ahead, as many as the decoder takes ([`Forward::n_draft`]); without this nothing does. No text
    /// depends on it.
    pub fn set_drafter(&mut self, drafter: Box<dyn Drafter>) {
        self.drafter = Some(drafter);
    }
    /// Reads the numbers below from another thread.
    pub fn reader(&self) -> StatsReader {
        self.reader.clone()
    }
    /// What was done so far.
    pub fn stats(&self) -> Stats {
        self.stats
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
        let done = self.run(watch);
        self.publish();
        done
    }

    /// One step, with those who can have one.
    fn run(&mut self, watch: Watch) -> StepRows {
        self.draft();
        loop {
            let plan = self.plan();
            let entries = self.entries(&plan.rows);
            if entries.is_empty() {
                return StepRows::default();
            }
            let started = (self.clock)();
            self.restrict(&entries);
            // A step is given up for a request whose prompt is in it; decode steps are short enough to wait for.
            let prompts: Vec<Cancel> = self.prompts(&plan.rows).map(|s| s.request.cancel.clone()).collect();
            let cancelled = || prompts.iter().any(Cancel::is_cancelled);
            match self.forward.step(&Batch { entries: &entries, cancelled: &cancelled }) {
                Ok(_) => {
                    plan.passed.iter().for_each(|&seq| self.running[seq].iter_mut().for_each(|s| s.passed += 1));
                    let done = self.take(&entries, &plan.rows, watch);
                    let took = (self.clock)().saturating_sub(started);
                    self.pace.note(done, took.as_secs_f64() * 1e3);
                    self.stats.note(done, took);
                    return done;
                }
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

    /// Tells those who read from other threads.
    fn publish(&mut self) {
        (self.stats.running, self.stats.waiting) = self.load();
        self.stats.pages = self.forward.pages();
        self.reader.publish(self.stats, self.running.iter().map(|s| s.as_ref().map(Sequence::state)));
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

    /// Rows of each sequence in the next step, and the sequences that are passed in it, by sequence id.
    fn plan(&mut self) -> plan::Plan {
        self.cut();
        let n_vocab = self.forward.n_vocab();
        let ids: Vec<usize> = (0..self.running.len()).filter(|&seq| self.running[seq].is_some()).collect();
        let pending: Vec<_> = self.running.iter().flatten().map(|s| s.pending(n_vocab)).collect();
        let planned = plan::plan(&pending, self.budget());
        let mut rows = vec![0; self.running.len()];
        ids.iter().zip(planned.rows).for_each(|(&seq, n)| rows[seq] = n);
        plan::Plan { rows, passed: planned.passed.into_iter().map(|i| ids[i]).collect() }
    }

    fn budget(&self) -> Budget {
        let (mut decodes, mut prompts) = (0, self.waiting.len());
        self.running.iter().flatten().for_each(|s| *(if s.decodes() { &mut decodes } else { &mut prompts }) += 1);
        // Few rows keep streams going beside one prompt; of many prompts the last one would wait too long for a token.
        let least = if prompts > 1 { plan::START } else { plan::LEAST };
        let fit = plan::whole(self.pace.rows(), decodes, self.forward.row_multiple());
        Budget { rows: self.n_ubatch, beside: fit.max(least) }
    }

    fn entries(&self, rows: &[usize]) -> Vec<Entry> {
        let sequences = self.running.iter().enumerate().filter_map(|(seq, s)| Some((seq, s.as_ref()?)));
        sequences.flat_map(|(seq, s)| s.entries(seq as u32, rows[seq])).collect()
    }

    /// Tells a decoder that samples which tokens may come next, where that depends on the tokens so far.
    fn restrict(&mut self, entries: &[Entry]) {
        for entry in entries.iter().filter(|e| e.output == Output::Token) {
            if self.forward.wants_mask(entry.seq)
                && let Some(sequence) = &mut self.running[entry.seq as usize]
                && let Some(allowed) = sequence.allowed()
            {
                self.forward.set_mask(entry.seq, allowed);
            }
        }
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
        let before: Vec<usize> = self.running.iter().map(|s| s.as_ref().map_or(0, |s| s.held)).collect();
        for (slot, (sequence, &n)) in self.running.iter_mut().zip(rows).enumerate() {
            let Some(sequence) = sequence.as_mut().filter(|_| n > 0) else { continue };
            let decodes = sequence.decodes();
            *(if decodes { &mut done.decode } else { &mut done.prompt }) += n;
            sequence.held += n - sequence.draft.len();
            let (id, total) = (sequence.id, sequence.request.prompt.len());
            // Asked for its next chunk, not for its end: an answer to that comes with the first token.
            if sequence.in_prompt()
                && watch(id, Event::Prompt { done: sequence.held, total, slot }).is_break()
                && sequence.held < total
            {
                sequence.stopped = true;
            }
        }
        let mut due: Vec<Vec<Row>> = self.running.iter().map(|_| Vec::new()).collect();
        let wanted = entries.iter().filter(|e| e.output != Output::None);
        for (entry, row) in wanted.zip(self.forward.rows().iter()) {
            let seq = entry.seq as usize;
            let Some(sequence) = self.running[seq].as_mut() else { continue };
            if let (Output::Logits, Row::Logits(logits)) = (entry.output, row) {
                if watch(sequence.id, Event::Logits { pos: entry.pos as usize, logits }).is_break() {
                    sequence.stopped = true;
                }
                let goes_on = entry.pos as usize + 1 < sequence.tokens.len();
                if goes_on || sequence.request.max_tokens == Some(0) {
                    continue;
                }
            }
            due[seq].push(row);
        }
        // Behind the row of a sequence, one by one those of its guesses that are what it has chosen.
        for guess in 0.. {
            let sequences = self.running.iter_mut().zip(&mut due).enumerate();
            let mut chosen: Vec<_> = sequences
                .filter_map(|(seq, (sequence, rows))| Some((seq, sequence.as_mut()?, *rows.get(guess)?, rows, None)))
                .collect();
            if chosen.is_empty() {
                break;
            }
            // Each by itself, with a sampler and a mask of its own.
            let choose = |(_, sequence, row, _, token): &mut (usize, &mut Sequence, Row, _, Option<_>)| {
                *token = Some(sequence.choose(*row));
            };
            match self.forward.pool() {
                Some(pool) => pool.each(&mut chosen, choose),
                None => chosen.iter_mut().for_each(choose),
            }
            for (seq, sequence, _, rows, token) in chosen {
                let Some(token) = token else { continue };
                let id = sequence.id;
                self.stats.tokens_out += u64::from(token.is_ok());
                sequence.end_prompt();
                let mut broken = false;
                let goes_on = token.as_ref().is_ok_and(|token| sequence.draft.get(guess) == Some(token));
                let finish = token.map(|token| {
                    sequence.take(token, tokenizer, n_ctx, &mut |event| broken |= watch(id, event).is_break())
                });
                match finish {
                    Ok(None) if broken => ended.push((seq, Ok(Finish::Interrupted))),
                    Ok(None) if goes_on => {
                        sequence.held += 1;
                        continue;
                    }
                    Ok(None) => {}
                    Ok(Some(finish)) => ended.push((seq, Ok(finish))),
                    Err(error) => ended.push((seq, Err(error))),
                }
                rows.clear();
            }
        }
        self.accept(&before);
        for seq in 0..self.running.len() {
            let Some(sequence) = self.running[seq].as_mut().filter(|_| rows[seq] > 0) else { continue };
            let prompt = sequence.request.prompt.len();
            let crossed = sequence.held >= prompt && before[seq] < prompt;
            if crossed && sequence.request.max_tokens == Some(0) {
                ended.push((seq, Ok(Finish::Limit)));
            } else if (crossed || sequence.held == sequence.cut) && !sequence.request.fresh {
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
        self.left[seq] = (sequence.request.salt.clone(), sequence.tokens.clone());
        self.finished.push_back(Finished { id: sequence.id, held: sequence.tokens, result });
    }
}
