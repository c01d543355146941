//! Waiting for the device, for as long as a launch may take.
//!
//! The driver's own waits never return where a kernel never ends. So a wait asks, again and again; what has made no step for
//! [`LAUNCH_LIMIT`] is an error that names it, and from then on every call on that GPU fails: also freeing would wait.

use std::{
    collections::VecDeque,
    fmt,
    time::{Duration, Instant},
};

use cudarc::driver::sys;

use super::{Event, Gpu, Stream};
use crate::error::{DeviceError, Result, check};

/// What has not ended after this time never will: the longest of our launches takes a twentieth of a second.
pub const LAUNCH_LIMIT: Duration = Duration::from_secs(20);

/// Launches between two marks of how far a stream has come. Fewer would cost time, more would be less exact.
const MARK: usize = 16;

/// Launches that follow each other.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Launches {
    count: usize,
    first: &'static str,
    last: &'static str,
}

impl Launches {
    fn add(&mut self, name: &'static str) {
        let first = if self.count == 0 { name } else { self.first };
        *self = Self { count: self.count + 1, first, last: name };
    }
}

impl fmt::Display for Launches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            0 => write!(f, "a copy"),
            1 => write!(f, "{}", self.first),
            n => write!(f, "one of {n} launches from {} to {}", self.first, self.last),
        }
    }
}

/// What a stream was given since it was last known to be idle.
#[derive(Default)]
pub(super) struct Backlog {
    /// Each comes when the launches beside it have ended.
    marks: VecDeque<(Event, Launches)>,
    /// Events for further marks.
    free: Vec<Event>,
    /// Behind the last mark.
    open: Launches,
}

impl Stream {
    /// Notes a launch.
    pub(super) fn launched(&self, name: &'static str) -> Result<()> {
        let mut backlog = self.backlog().borrow_mut();
        backlog.open.add(name);
        if backlog.open.count < MARK || self.recording().get() {
            return Ok(());
        }
        let event = backlog.free.pop().map_or_else(|| Event::new(self.gpu()), Ok)?;
        event.record(self)?;
        let launches = std::mem::take(&mut backlog.open);
        backlog.marks.push_back((event, launches));
        Ok(())
    }

    /// What was launched behind the last mark, which is then another one.
    pub(super) fn swap_launches(&self, launches: Launches) -> Launches {
        std::mem::replace(&mut self.backlog().borrow_mut().open, launches)
    }

    /// Waits until everything so far is done.
    ///
    /// # Errors
    /// The driver's, those of kernels launched before among them; [`DeviceError::Hung`].
    pub fn synchronize(&self) -> Result<()> {
        let mut since = Instant::now();
        while !self.is_idle()? {
            if self.has_passed_a_mark()? {
                since = Instant::now();
            }
            self.expect_progress(since)?;
            std::thread::yield_now();
        }
        let mut backlog = self.backlog().borrow_mut();
        let Backlog { marks, free, open } = &mut *backlog;
        free.extend(marks.drain(..).map(|(event, _)| event));
        *open = Launches::default();
        // SAFETY: a live stream, which is idle: this does not wait.
        check(unsafe { sys::cuStreamSynchronize(self.raw()) }, || "cuStreamSynchronize".into())
    }

    /// Fails where the stream has been at the same launches since `since` and that is too long.
    ///
    /// # Errors
    /// [`DeviceError::Hung`], as does every later call.
    pub fn expect_progress(&self, since: Instant) -> Result<()> {
        let backlog = self.backlog().borrow();
        let launches = backlog.marks.front().map_or(backlog.open, |(_, launches)| *launches);
        self.gpu().expect_progress(since, launches)
    }

    fn has_passed_a_mark(&self) -> Result<bool> {
        let mut backlog = self.backlog().borrow_mut();
        let passed = match backlog.marks.front() {
            Some((event, _)) => event.has_come()?,
            None => false,
        };
        if passed {
            let event = backlog.marks.pop_front().map(|(event, _)| event);
            backlog.free.extend(event);
        }
        Ok(passed)
    }
}

impl Event {
    /// Blocks until the event has completed; not at all if it was never recorded.
    ///
    /// # Errors
    /// The driver's; [`DeviceError::Hung`].
    pub fn synchronize(&self) -> Result<()> {
        let since = Instant::now();
        while !self.has_come()? {
            self.gpu().expect_progress(since, Launches::default())?;
            std::thread::yield_now();
        }
        // SAFETY: a live event that has completed: this does not wait.
        check(unsafe { sys::cuEventSynchronize(self.raw()) }, || "cuEventSynchronize".into())
    }

    fn has_come(&self) -> Result<bool> {
        self.gpu().bind()?;
        // SAFETY: a live event.
        match unsafe { sys::cuEventQuery(self.raw()) } {
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            code => check(code, || "cuEventQuery".into()).map(|()| true),
        }
    }
}

impl Gpu {
    fn expect_progress(&self, since: Instant, launches: Launches) -> Result<()> {
        let limit = self.launch_limit();
        if since.elapsed() <= limit {
            return Ok(());
        }
        Err(self.give_up(DeviceError::Hung { what: launches.to_string(), seconds: limit.as_secs() }))
    }
}
