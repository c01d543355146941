//! Echo of the terminal: off while an answer is written, or keys that are typed meanwhile would stand in its text. The
//! keys themselves are kept by the terminal and come to the next line.

/// While it lives, keys are not echoed.
pub struct EchoOff;

#[cfg(unix)]
mod unix {
    use std::{
        mem::MaybeUninit,
        sync::{
            OnceLock,
            atomic::{AtomicBool, Ordering::SeqCst},
        },
    };

    use nix::libc::{self, ECHO, ECHONL, STDIN_FILENO, TCSANOW, termios};

    /// The terminal as it was when the first answer began.
    static ORIGINAL: OnceLock<termios> = OnceLock::new();
    static OFF: AtomicBool = AtomicBool::new(false);

    pub fn off() {
        let mut now = MaybeUninit::uninit();
        // SAFETY: writes a whole `termios` where it returns 0.
        if unsafe { libc::tcgetattr(STDIN_FILENO, now.as_mut_ptr()) } != 0 {
            return;
        }
        // SAFETY: it returned 0.
        let now = unsafe { now.assume_init() };
        let quiet = termios { c_lflag: now.c_lflag & !(ECHO | ECHONL), ..*ORIGINAL.get_or_init(|| now) };
        OFF.store(true, SeqCst);
        // SAFETY: reads a whole `termios`.
        unsafe { libc::tcsetattr(STDIN_FILENO, TCSANOW, &quiet) };
    }

    pub fn restore() {
        if let (true, Some(original)) = (OFF.swap(false, SeqCst), ORIGINAL.get()) {
            // SAFETY: reads a whole `termios`; may be called in a signal handler.
            unsafe { libc::tcsetattr(STDIN_FILENO, TCSANOW, original) };
        }
    }
}

#[cfg(not(unix))]
mod unix {
    pub fn off() {}
    pub fn restore() {}
}

impl EchoOff {
    pub fn begin() -> Self {
        unix::off();
        EchoOff
    }
}

impl Drop for EchoOff {
    fn drop(&mut self) {
        unix::restore();
    }
}

/// Switches echo on again if it is off. For those who end the program in the middle of an answer; it takes no lock and
/// allocates nothing, so a signal handler may call it.
pub fn restore() {
    unix::restore();
}
