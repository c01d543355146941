//! Waiting as Python expects it: others run meanwhile, Ctrl-C returns at once, a panic becomes an exception.

use std::{
    any::Any,
    panic,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc::{RecvTimeoutError, sync_channel},
    },
    time::{Duration, Instant},
};

use pyo3::prelude::*;

use crate::errors::Error;

/// How long a wait goes on without asking for signals.
pub const TICK: Duration = Duration::from_millis(25);

/// What the last panic said.
static LAST: Mutex<Option<String>> = Mutex::new(None);

/// Panics are not written to stderr, which is Python's; what they say goes into the exception.
pub fn panics_to_exceptions() {
    panic::set_hook(Box::new(|info| {
        let text = said(info.payload());
        let place = info.location().map_or(String::new(), |at| format!(" ({}:{})", at.file(), at.line()));
        *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some(format!("{text}{place}"));
    }));
}

/// As a program has it: on stderr.
pub fn panics_to_stderr() {
    let _ = panic::take_hook();
}

fn said(payload: &dyn Any) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("a panic without words")
}

/// A thread of ours has ended by a panic.
pub fn panicked(what: &str) -> PyErr {
    let last = LAST.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let why = last.map_or(String::new(), |text| format!(": {text}"));
    Error::new_err(format!("{what} has stopped by a defect of qrun{why}"))
}

/// Says whether whoever waits for a job has gone.
#[derive(Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Whether nobody waits any more.
    pub fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
    /// Ends the job here, in the middle of what tells of its progress: what it holds is dropped, its files too.
    pub fn here(&self) {
        if self.asked() {
            panic::resume_unwind(Box::new("nobody waits for it"));
        }
    }
}

/// Does `job` on a thread of its own and waits for it. After a signal whose handler raises it returns at once; the job
/// ends where it asks [`Stop`], or comes to its end, behind it.
///
/// # Errors
/// The job's own, the handler's, a panic of the job.
pub fn run<T: Send + 'static>(
    py: Python,
    what: &str,
    job: impl FnOnce(&Stop) -> PyResult<T> + Send + 'static,
) -> PyResult<T> {
    let stop = Stop::default();
    let asked = stop.clone();
    let (sender, mut result) = sync_channel(1);
    let thread = std::thread::Builder::new().name("qrun-work".into());
    let work = move || {
        // Whoever waited may have gone.
        let _ = sender.send(job(&asked));
    };
    thread.spawn(work).map_err(|error| Error::new_err(error.to_string()))?;
    loop {
        let waiting = &mut result;
        match py.detach(move || waiting.recv_timeout(TICK)) {
            Ok(done) => return done,
            Err(RecvTimeoutError::Timeout) => {
                py.check_signals().inspect_err(|_| stop.0.store(true, Ordering::Relaxed))?;
            }
            Err(RecvTimeoutError::Disconnected) => return Err(panicked(what)),
        }
    }
}

/// Whether the interpreter is about to end, and how many threads of ours are in it.
static ENDING: AtomicBool = AtomicBool::new(false);
static INSIDE: AtomicUsize = AtomicUsize::new(0);

/// Longest wait for them, in case a callback does not come back.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// Runs Python on a thread of ours; `None` where the interpreter is ending: up to CPython 3.13 a thread that waits for it
/// then is unwound through our frames, which aborts the process.
pub fn in_python<T>(work: impl FnOnce(Python) -> T) -> Option<T> {
    INSIDE.fetch_add(1, Ordering::SeqCst);
    let done = if ENDING.load(Ordering::SeqCst) { None } else { Python::try_attach(work) };
    INSIDE.fetch_sub(1, Ordering::SeqCst);
    done
}

/// Called at the interpreter's exit, before it ends: from here on no thread of ours enters it.
#[pyfunction]
pub fn _end(py: Python) {
    ENDING.store(true, Ordering::SeqCst);
    py.detach(|| {
        let began = Instant::now();
        while INSIDE.load(Ordering::SeqCst) > 0 && began.elapsed() < LAST_WAIT {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}
