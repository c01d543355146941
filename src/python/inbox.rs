//! Where the chunks of one answer wait for whoever reads them: a thread that blocks, or a callback that is told.

use std::{
    collections::VecDeque,
    ops::ControlFlow,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use qrun::generate::{Cancel, Chunk, Sink};

/// Called once, on the thread of the scheduler: it must not wait.
pub type Wake = Box<dyn FnOnce() + Send>;

/// The chunks of one answer.
pub struct Inbox {
    inner: Mutex<Inner>,
    arrived: Condvar,
    /// Ends the answer.
    pub cancel: Cancel,
    /// When the request was handed in.
    pub started: Instant,
}

#[derive(Default)]
struct Inner {
    chunks: VecDeque<Chunk>,
    /// Nothing more comes.
    ended: bool,
    wake: Option<Wake>,
    /// Whether `wake` waits for the end rather than for any chunk.
    only_end: bool,
    times: Times,
}

/// When things happened to an answer, from its request on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Times {
    /// To the first token.
    pub first: Option<Duration>,
    /// To the end.
    pub end: Option<Duration>,
}

/// What is there.
pub enum Next {
    Chunk(Chunk),
    /// Nothing yet.
    Empty,
    /// The thread of the scheduler is gone, or the end was read before.
    Ended,
}

impl Inbox {
    pub fn new(cancel: Cancel) -> Arc<Self> {
        Arc::new(Self { inner: Mutex::default(), arrived: Condvar::new(), cancel, started: Instant::now() })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next chunk if it comes within `time`.
    pub fn next_within(&self, time: Duration) -> Next {
        let inner = self.lock();
        let waits = |inner: &mut Inner| inner.chunks.is_empty() && !inner.ended;
        let (mut inner, _) =
            self.arrived.wait_timeout_while(inner, time, waits).unwrap_or_else(PoisonError::into_inner);
        inner.take()
    }

    /// The next chunk if it is there; else `wake` is called once when one has come, or, with `only_end`, the last one.
    pub fn next_or_wake(&self, wake: Wake, only_end: bool) -> Next {
        let mut inner = self.lock();
        if only_end && !inner.ended {
            (inner.wake, inner.only_end) = (Some(wake), true);
            return Next::Empty;
        }
        let next = inner.take();
        if matches!(next, Next::Empty) {
            (inner.wake, inner.only_end) = (Some(wake), false);
        }
        next
    }

    pub fn times(&self) -> Times {
        self.lock().times
    }

    fn put(&self, chunk: Option<Chunk>) {
        let mut inner = self.lock();
        let now = self.started.elapsed();
        if let Some(Chunk::Token { .. }) = &chunk {
            inner.times.first.get_or_insert(now);
        }
        if matches!(chunk, None | Some(Chunk::End(_))) {
            inner.times.end.get_or_insert(now);
            inner.ended = true;
        }
        inner.chunks.extend(chunk);
        let due = inner.ended || !inner.only_end;
        let wake = inner.wake.take_if(|_| due);
        drop(inner);
        self.arrived.notify_all();
        if let Some(wake) = wake {
            wake();
        }
    }

    /// Puts what comes in here. Where it is dropped without an end, that is the end.
    pub fn sink(self: &Arc<Self>) -> Sink {
        let end = Sender(self.clone());
        Box::new(move |chunk| {
            end.0.put(Some(chunk));
            ControlFlow::Continue(())
        })
    }
}

impl Inner {
    fn take(&mut self) -> Next {
        match self.chunks.pop_front() {
            Some(chunk) => Next::Chunk(chunk),
            None if self.ended => Next::Ended,
            None => Next::Empty,
        }
    }
}

/// The side of the scheduler.
struct Sender(Arc<Inbox>);

impl Drop for Sender {
    fn drop(&mut self) {
        if !self.0.lock().ended {
            self.0.put(None);
        }
    }
}
