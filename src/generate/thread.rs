//! The scheduler on a thread of its own: what a server, a Python module or any program with many callers talks to.

use std::{
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use super::{Cancel, Event, GenerateError, Reply, Request, RequestId, Scheduler, StatsReader, TokenProbs};
use crate::sampler::SamplerParams;

/// What a caller gets of its request, in order; the last one is [`Chunk::End`].
#[derive(Debug, Clone)]
pub enum Chunk {
    /// `done` of `total` prompt tokens are in the cache.
    Prompt {
        /// Tokens in the cache.
        done: usize,
        /// Tokens of the prompt.
        total: usize,
        /// The decoder's sequence that it runs in.
        slot: usize,
    },
    /// How probable a token of the prompt was after those before it, where [`Request::logits`] has their last one.
    Score {
        /// The position of the token in the prompt, from 1 on.
        pos: usize,
        /// Its log-probability and those of the likeliest tokens.
        probs: TokenProbs,
    },
    /// The logits after a token of the prompt, where [`Request::whole_logits`] asks for them in place of scores.
    Logits {
        /// The position of the token in the prompt.
        pos: usize,
        /// `[n_vocab]`, before any sampling.
        logits: Vec<f32>,
    },
    /// A token, and the text that can be shown now.
    Token {
        /// Id of the token.
        id: u32,
        /// The text; may be empty.
        text: String,
        /// Its log-probability and those of the likeliest tokens, where they were asked for.
        probs: Option<TokenProbs>,
    },
    /// Text that was held back, after the last token.
    Text(String),
    /// The last chunk: the whole answer, or why there is none.
    End(Result<Reply, GenerateError>),
}

/// Gets the chunks of one request, on the thread of the scheduler: it must not wait. `Break` ends the request.
pub type Sink = Box<dyn FnMut(Chunk) -> ControlFlow<()> + Send>;

/// What is done between two steps, on the thread of the scheduler.
pub type Between = Box<dyn FnOnce(&mut Scheduler) + Send>;

/// Makes another scheduler after one has panicked; `None` where that cannot be.
pub type Reopen = Box<dyn FnMut() -> Option<Scheduler> + Send>;

/// What is on its way to the thread.
enum Submission {
    Request(Box<(Request, SamplerParams)>, Sink),
    /// Between steps, once this sequence is free.
    Between(usize, Between),
}

/// A scheduler on a thread of its own. When it is dropped its requests end as cancelled ones do, and the thread with them.
pub struct Generator {
    submissions: Option<Sender<Submission>>,
    thread: Option<JoinHandle<()>>,
    stats: StatsReader,
    step: StepStart,
}

/// When the step that runs now began; `None` between steps.
type StepStart = Arc<Mutex<Option<Instant>>>;

/// The chunks of one request. Dropping it ends the request.
pub struct Stream {
    chunks: Receiver<Chunk>,
    cancel: Cancel,
    ended: bool,
}

impl Generator {
    /// Starts the thread. A panic in it ends it, and its requests without a [`Chunk::End`].
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(scheduler: Scheduler) -> std::io::Result<Self> {
        Self::start_with(scheduler, None)
    }

    /// The same, but after a panic all requests end with [`GenerateError::Panicked`], and the thread goes on with what
    /// `reopen` gives.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start_with(scheduler: Scheduler, reopen: Option<Reopen>) -> std::io::Result<Self> {
        let (submissions, receiver) = channel();
        let (stats, step) = (scheduler.reader(), StepStart::default());
        let watched = step.clone();
        let thread = std::thread::Builder::new().name("qrun-generate".into());
        let thread = thread.spawn(move || run(scheduler, &receiver, &watched, reopen))?;
        Ok(Self { submissions: Some(submissions), thread: Some(thread), stats, step })
    }

    /// How long the step that runs now has taken so far; `None` where the thread has ended, which only a panic in it does.
    pub fn step_age(&self) -> Option<Duration> {
        let runs = self.thread.as_ref().is_some_and(|thread| !thread.is_finished());
        let began = *self.step.lock().unwrap_or_else(PoisonError::into_inner);
        runs.then(|| began.map_or(Duration::ZERO, |began| began.elapsed()))
    }

    /// The scheduler's numbers, for any thread.
    pub fn stats(&self) -> &StatsReader {
        &self.stats
    }

    /// Hands in a request. What is wrong with it comes as its [`Chunk::End`].
    pub fn submit(&self, request: Request, params: SamplerParams) -> Stream {
        let (chunks, receiver) = channel();
        let cancel = request.cancel.clone();
        let gone = |_| ControlFlow::Break(());
        self.submit_to(
            request,
            params,
            Box::new(move |chunk| chunks.send(chunk).map_or_else(gone, ControlFlow::Continue)),
        );
        Stream { chunks: receiver, cancel, ended: false }
    }

    /// The same for a caller that is told: `sink` gets the chunks as they come. It is dropped without a [`Chunk::End`] where
    /// the thread has ended.
    pub fn submit_to(&self, request: Request, params: SamplerParams, sink: Sink) {
        if let Some(submissions) = &self.submissions {
            let _ = submissions.send(Submission::Request(Box::new((request, params)), sink));
        }
    }

    /// Does `work` between two steps, once no request runs in sequence `slot` and before another one does. It is dropped
    /// where the thread has ended.
    pub fn between(&self, slot: usize, work: Between) {
        if let Some(submissions) = &self.submissions {
            let _ = submissions.send(Submission::Between(slot, work));
        }
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        self.submissions = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Stream {
    /// Ends the request; its [`Chunk::End`] still comes.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// The next chunk if it comes within `time`.
    ///
    /// # Errors
    /// [`RecvTimeoutError::Timeout`], or `Disconnected` after the end.
    pub fn next_within(&mut self, time: Duration) -> Result<Chunk, RecvTimeoutError> {
        if self.ended {
            return Err(RecvTimeoutError::Disconnected);
        }
        let chunk = self.chunks.recv_timeout(time)?;
        self.ended = matches!(chunk, Chunk::End(_));
        Ok(chunk)
    }
}

impl Iterator for Stream {
    type Item = Chunk;

    fn next(&mut self) -> Option<Chunk> {
        if self.ended {
            return None;
        }
        let chunk = self.chunks.recv().ok()?;
        self.ended = matches!(chunk, Chunk::End(_));
        Some(chunk)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.ended {
            self.cancel.cancel();
        }
    }
}

/// Who gets the chunks of a request.
struct Caller {
    id: RequestId,
    sink: Sink,
    /// The prompt, where its tokens are scored, and how many of the likeliest are wanted beside each.
    scored: Option<(Vec<u32>, usize)>,
    /// Whether it wants the logits themselves.
    whole: bool,
}

impl Caller {
    /// What the logits after token `pos` of the prompt say of the next one.
    fn score(&mut self, pos: usize, logits: &[f32]) -> ControlFlow<()> {
        if self.whole {
            return (self.sink)(Chunk::Logits { pos, logits: logits.to_vec() });
        }
        let Some((prompt, n)) = &self.scored else { return ControlFlow::Continue(()) };
        let Some(&token) = prompt.get(pos + 1) else { return ControlFlow::Continue(()) };
        (self.sink)(Chunk::Score { pos: pos + 1, probs: TokenProbs::of(logits, token, *n) })
    }
}

/// The thread: one scheduler after the other, each until it panics.
fn run(mut scheduler: Scheduler, submissions: &Receiver<Submission>, step: &StepStart, mut reopen: Option<Reopen>) {
    let mut callers = Vec::new();
    while catch_unwind(AssertUnwindSafe(|| serve(&mut scheduler, submissions, step, &mut callers))).is_err() {
        let Some(reopen) = &mut reopen else { return };
        for mut caller in callers.drain(..) {
            let _ = (caller.sink)(Chunk::End(Err(GenerateError::Panicked)));
        }
        let (stats, reader) = (scheduler.stats(), scheduler.reader());
        // Gives its memory back before another one takes as much.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(scheduler)));
        let Some(next) = reopen() else { return };
        scheduler = next;
        scheduler.replace(stats, reader);
    }
}

/// Waits where there is nothing to do, else steps.
fn serve(scheduler: &mut Scheduler, submissions: &Receiver<Submission>, step: &StepStart, callers: &mut Vec<Caller>) {
    let note = |began| *step.lock().unwrap_or_else(PoisonError::into_inner) = began;
    let mut between: Vec<(usize, Between)> = Vec::new();
    note(None);
    loop {
        for (slot, work) in std::mem::take(&mut between) {
            if scheduler.is_free(slot) { work(scheduler) } else { between.push((slot, work)) }
        }
        let next = if scheduler.is_idle() {
            submissions.recv().map_err(|_| TryRecvError::Disconnected)
        } else {
            submissions.try_recv()
        };
        match next {
            Ok(Submission::Between(slot, work)) => {
                between.push((slot, work));
                continue;
            }
            Ok(Submission::Request(asked, mut sink)) => {
                let (request, params) = *asked;
                let whole = request.whole_logits;
                let scored = request.logits.as_ref().map(|_| (request.prompt.clone(), request.n_probs.unwrap_or(0)));
                match scheduler.submit(request, params) {
                    Ok(id) => callers.push(Caller { id, sink, scored, whole }),
                    Err(error) => drop(sink(Chunk::End(Err(error)))),
                }
                continue;
            }
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) if scheduler.is_idle() => return,
            Err(TryRecvError::Disconnected) => callers.iter().for_each(|caller| scheduler.cancel(caller.id)),
        }
        note(Some(Instant::now()));
        scheduler.step(&mut |id, event| {
            let Some(caller) = callers.iter_mut().find(|caller| caller.id == id) else {
                return ControlFlow::Continue(());
            };
            let sink = &mut caller.sink;
            match event {
                Event::Prompt { done, total, slot } => sink(Chunk::Prompt { done, total, slot }),
                Event::Token { id, text, probs } => {
                    sink(Chunk::Token { id, text: text.to_owned(), probs: probs.cloned() })
                }
                Event::Flush { text, .. } => sink(Chunk::Text(text.to_owned())),
                Event::Logits { pos, logits } => caller.score(pos, logits),
            }
        });
        note(None);
        while let Some(finished) = scheduler.finished() {
            if let Some(at) = callers.iter().position(|caller| caller.id == finished.id) {
                let _ = (callers.swap_remove(at).sink)(Chunk::End(finished.result));
            }
        }
    }
}
