//! The scheduler on a thread of its own: what a server, a Python module or any program with many callers talks to.

use std::{
    ops::ControlFlow,
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel},
    thread::JoinHandle,
    time::Duration,
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
    /// The request has ended.
    End(Result<Reply, GenerateError>),
}

/// Gets the chunks of one request, on the thread of the scheduler: it must not wait. `Break` ends the request.
pub type Sink = Box<dyn FnMut(Chunk) -> ControlFlow<()> + Send>;

/// A request on its way to the thread.
struct Submission {
    request: Request,
    params: SamplerParams,
    sink: Sink,
}

/// A scheduler on a thread of its own. When it is dropped its requests end as cancelled ones do, and the thread with them.
pub struct Generator {
    submissions: Option<Sender<Submission>>,
    thread: Option<JoinHandle<()>>,
    stats: StatsReader,
}

/// The chunks of one request. Dropping it ends the request.
pub struct Stream {
    chunks: Receiver<Chunk>,
    cancel: Cancel,
    ended: bool,
}

impl Generator {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(scheduler: Scheduler) -> std::io::Result<Self> {
        let (submissions, receiver) = channel();
        let stats = scheduler.reader();
        let thread = std::thread::Builder::new().name("qrun-generate".into()).spawn(|| run(scheduler, receiver))?;
        Ok(Self { submissions: Some(submissions), thread: Some(thread), stats })
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
            let _ = submissions.send(Submission { request, params, sink });
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

/// The thread: waits where there is nothing to do, else steps.
fn run(mut scheduler: Scheduler, submissions: Receiver<Submission>) {
    let mut callers: Vec<(RequestId, Sink)> = Vec::new();
    loop {
        let next = if scheduler.is_idle() {
            submissions.recv().map_err(|_| TryRecvError::Disconnected)
        } else {
            submissions.try_recv()
        };
        match next {
            Ok(Submission { request, params, mut sink }) => {
                match scheduler.submit(request, params) {
                    Ok(id) => callers.push((id, sink)),
                    Err(error) => drop(sink(Chunk::End(Err(error)))),
                }
                continue;
            }
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) if scheduler.is_idle() => return,
            Err(TryRecvError::Disconnected) => callers.iter().for_each(|(id, _)| scheduler.cancel(*id)),
        }
        scheduler.step(&mut |id, event| {
            let Some((_, sink)) = callers.iter_mut().find(|(of, _)| *of == id) else {
                return ControlFlow::Continue(());
            };
            match event {
                Event::Prompt { done, total } => sink(Chunk::Prompt { done, total }),
                Event::Token { id, text, probs } => {
                    sink(Chunk::Token { id, text: text.to_owned(), probs: probs.cloned() })
                }
                Event::Flush { text, .. } => sink(Chunk::Text(text.to_owned())),
                Event::Logits { .. } => ControlFlow::Continue(()),
            }
        });
        while let Some(finished) = scheduler.finished() {
            if let Some(at) = callers.iter().position(|(id, _)| *id == finished.id) {
                let (_, mut sink) = callers.swap_remove(at);
                let _ = sink(Chunk::End(finished.result));
            }
        }
    }
}
