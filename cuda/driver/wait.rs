//! How long a launch may take, and what it is called when it takes longer.
//!
//! The driver's own waits never return where a kernel never ends. So a wait asks, again and again; what has made no step for
//! [`LAUNCH_LIMIT`] is an error that names it, and from then on every call on that GPU fails: also freeing would wait.

use std::{fmt, time::Duration};

/// What has not ended after this time never will: the longest of our launches takes a twentieth of a second.
pub const LAUNCH_LIMIT: Duration = Duration::from_secs(20);

/// Launches between two marks of how far a stream has come. Fewer would cost time, more would be less exact.
pub(super) const MARK: usize = 16;

/// Launches that follow each other.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Launches {
    pub count: usize,
    first: &'static str,
    last: &'static str,
}

impl Launches {
    pub fn add(&mut self, name: &'static str) {
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
