//! One running answer, for a thread that waits or for an event loop that is told.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc::Sender},
    time::{Duration, Instant},
};

use pyo3::{
    prelude::*,
    types::{PyByteArray, PyDict, PyString},
};
use qrun::{
    generate::{Chunk, Finish, GenerateError, Reply, TokenProbs},
    text::chat::Parser,
};

use crate::{
    errors::{self, Error},
    inbox::{Inbox, Next, Wake},
    prompt::{self, Content},
    work,
};

/// Calls Python from a thread of its own, so that the scheduler never waits for the interpreter.
pub type Waker = Sender<Py<PyAny>>;

/// What is known of an answer before it begins.
#[derive(Default)]
pub struct About {
    pub seed: u64,
    /// Its tokens.
    pub prompt: Vec<u32>,
    pub parser: Option<Parser>,
    /// Whether it answers a conversation.
    pub chat: bool,
    /// What the caller's processor has raised.
    pub raised: Raised,
}

/// An exception of Python that ends an answer.
pub type Raised = Arc<Mutex<Option<PyErr>>>;

/// A running answer. Dropping it ends it.
#[pyclass(module = "qrun._qrun", frozen)]
pub struct Answer {
    inbox: Arc<Inbox>,
    waker: Waker,
    process: u32,
    about: About,
    read: Mutex<Read>,
}

/// What was read so far.
#[derive(Default)]
struct Read {
    tokens: Vec<u32>,
    probs: Vec<TokenProbs>,
    /// Sum of the log-probabilities of scored tokens of the prompt, and how many these are.
    scores: (f64, usize),
    /// Of the prompt, `[rows][n_vocab]`.
    logits: Vec<f32>,
    prompt: (usize, usize),
    end: Option<Result<Reply, GenerateError>>,
}

/// A step of reading.
enum Step {
    Text(String),
    /// Nothing to show; there may be more.
    Silent,
    Empty,
    Ended,
}

impl Answer {
    pub fn new(inbox: Arc<Inbox>, waker: Waker, about: About) -> Self {
        Self { inbox, waker, process: std::process::id(), about, read: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Read> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self) -> PyResult<()> {
        if self.process == std::process::id() { Ok(()) } else { Err(forked("engine")) }
    }

    /// Takes what is next into account.
    fn take(&self, next: Next) -> Step {
        let chunk = match next {
            Next::Empty => return Step::Empty,
            Next::Ended => return Step::Ended,
            Next::Chunk(chunk) => chunk,
        };
        let mut read = self.lock();
        match chunk {
            Chunk::Prompt { done, total, .. } => {
                read.prompt = (done, total);
                Step::Silent
            }
            Chunk::Score { probs, .. } => {
                read.scores.0 += f64::from(probs.logprob);
                read.scores.1 += 1;
                Step::Silent
            }
            Chunk::Logits { logits, .. } => {
                read.logits.extend(logits);
                Step::Silent
            }
            Chunk::Token { id, text, probs } => {
                read.tokens.push(id);
                read.probs.extend(probs);
                if text.is_empty() { Step::Silent } else { Step::Text(text) }
            }
            Chunk::Text(text) => Step::Text(text),
            Chunk::End(reply) => {
                read.end = Some(reply);
                Step::Ended
            }
        }
    }

    /// Reads for at most `time`: to the next text, or to the end.
    fn read_within(&self, time: Duration, to_the_end: bool) -> Step {
        let until = Instant::now() + time;
        loop {
            let step = self.take(self.inbox.next_within(until.saturating_duration_since(Instant::now())));
            match step {
                Step::Silent => {}
                Step::Text(_) if to_the_end => {}
                step => return step,
            }
            if Instant::now() >= until {
                return Step::Empty;
            }
        }
    }

    /// Waits, and asks for signals now and then. One whose handler raises ends the answer.
    fn wait_for(&self, py: Python, to_the_end: bool) -> PyResult<Option<String>> {
        self.check()?;
        loop {
            match py.detach(|| self.read_within(work::TICK, to_the_end)) {
                Step::Text(text) => return Ok(Some(text)),
                Step::Ended => return Ok(None),
                Step::Empty | Step::Silent => py.check_signals().inspect_err(|_| self.inbox.cancel.cancel())?,
            }
        }
    }
}

#[pymethods]
impl Answer {
    /// The next text; None at the end.
    fn next(&self, py: Python) -> PyResult<Option<String>> {
        let text = self.wait_for(py, false)?;
        if text.is_none() {
            self.ended()?;
        }
        Ok(text)
    }

    /// Waits for the end.
    fn wait(&self, py: Python) -> PyResult<()> {
        while self.wait_for(py, true)?.is_some() {}
        self.ended()
    }

    /// The next text if it is there, None at the end; else False, and `wake()` is called once from another thread when
    /// there is more (with `only_end`: when the end is there).
    fn poll<'py>(&self, py: Python<'py>, wake: Py<PyAny>, only_end: bool) -> PyResult<Bound<'py, PyAny>> {
        self.check()?;
        loop {
            let (waker, call) = (self.waker.clone(), wake.clone_ref(py));
            let wake: Wake = Box::new(move || drop(waker.send(call)));
            match self.take(self.inbox.next_or_wake(wake, only_end)) {
                Step::Text(_) if only_end => {}
                Step::Silent => {}
                Step::Text(text) => return Ok(PyString::new(py, &text).into_any()),
                Step::Empty => return Ok(false.into_pyobject(py)?.to_owned().into_any()),
                Step::Ended => {
                    self.ended()?;
                    return Ok(py.None().into_bound(py));
                }
            }
        }
    }

    /// What tells which of its text is for the reader; None: all of it is.
    fn content(&self) -> Option<Content> {
        self.about.parser.clone().map(Content)
    }

    /// Ends the answer; what it has so far can still be read.
    fn cancel(&self) {
        self.inbox.cancel.cancel();
    }

    /// Tokens that were read so far.
    #[getter]
    fn tokens(&self) -> Vec<u32> {
        self.lock().tokens.clone()
    }

    /// Log-probabilities of these tokens, where asked for: (of the token, [(token, of it), …] of the likeliest).
    #[getter]
    fn logprobs(&self) -> Vec<(f32, Vec<(u32, f32)>)> {
        self.lock().probs.iter().map(|probs| (probs.logprob, probs.top.clone())).collect()
    }

    /// Prompt tokens that are computed, and all of them.
    #[getter]
    fn prompt_progress(&self) -> (usize, usize) {
        self.lock().prompt
    }

    /// Sum of the log-probabilities of the scored tokens of the prompt, and how many these are.
    #[getter]
    fn scores(&self) -> (f64, usize) {
        self.lock().scores
    }

    /// The logits that were asked for, as bytes of f32 in the machine's order.
    fn logits<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyByteArray>> {
        let logits = std::mem::take(&mut self.lock().logits);
        let bytes: Vec<u8> = py.detach(|| logits.iter().flat_map(|logit| logit.to_ne_bytes()).collect());
        Ok(PyByteArray::new(py, &bytes))
    }

    /// The tokens of the prompt and of the answer so far.
    #[getter]
    fn held(&self) -> Vec<u32> {
        [&self.about.prompt[..], &self.lock().tokens].concat()
    }

    /// The finished answer, as the keywords of a Completion.
    fn reply<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (reply, probs) = {
            let read = self.lock();
            match &read.end {
                Some(Ok(reply)) => (reply.clone(), read.probs.clone()),
                _ => return Err(Error::new_err("the answer has not ended")),
            }
        };
        let (finish, stop) = match &reply.finish {
            Finish::Eos => ("stop", None),
            Finish::Stop(text) => ("stop", Some(text)),
            Finish::Limit | Finish::Context => ("length", None),
            Finish::Interrupted => ("cancelled", None),
        };
        let message = self.about.chat.then(|| prompt::message(self.about.parser.clone(), &reply.text).to_string());
        let dict = PyDict::new(py);
        dict.set_item("text", &reply.text)?;
        dict.set_item("tokens", &reply.tokens)?;
        dict.set_item("finish_reason", finish)?;
        dict.set_item("stop", stop)?;
        dict.set_item("prompt_tokens", self.about.prompt.len())?;
        dict.set_item("cached_tokens", reply.timings.cache_n)?;
        dict.set_item("seed", self.about.seed)?;
        let probs: Vec<_> = probs.into_iter().map(|probs| (probs.logprob, probs.top)).collect();
        dict.set_item("logprobs", probs)?;
        dict.set_item("message", message)?;
        let times = self.inbox.times();
        let ms = |time: Option<Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1e3);
        let timings = PyDict::new(py);
        timings.set_item("cache_n", reply.timings.cache_n)?;
        timings.set_item("prompt_n", reply.timings.prompt_n)?;
        timings.set_item("prompt_ms", reply.timings.prompt_ms)?;
        timings.set_item("prompt_per_second", reply.timings.prompt_per_second())?;
        timings.set_item("predicted_n", reply.timings.predicted_n)?;
        timings.set_item("predicted_ms", reply.timings.predicted_ms)?;
        timings.set_item("predicted_per_second", reply.timings.predicted_per_second())?;
        timings.set_item("ttft_ms", ms(times.first))?;
        timings.set_item("latency_ms", ms(times.end))?;
        dict.set_item("timings", timings)?;
        Ok(dict)
    }
}

impl Answer {
    /// # Errors
    /// Why there is no answer.
    fn ended(&self) -> PyResult<()> {
        match &self.lock().end {
            Some(Ok(_)) => Ok(()),
            Some(Err(error)) => {
                let raised = self.about.raised.lock().unwrap_or_else(PoisonError::into_inner).take();
                Err(raised.unwrap_or_else(|| errors::generate(error.clone())))
            }
            None => Err(work::panicked("the engine")),
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.inbox.cancel.cancel();
    }
}

/// Threads do not survive a fork.
pub fn forked(what: &str) -> PyErr {
    Error::new_err(format!(
        "this {what} was opened before os.fork(): its threads are not in this process. Use the start method \"spawn\", or open an {what} in the child",
    ))
}
