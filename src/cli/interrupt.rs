//! Ctrl-C and SIGTERM: the first one ends the answer, the next one the program.

use std::sync::atomic::{AtomicU8, Ordering::SeqCst};

use super::exit::{Code, Exit};

/// Nothing to stop: a signal ends the program.
const IDLE: u8 = 0;
/// An answer is being written.
const BUSY: u8 = 1;
/// It has been asked to end.
const STOPPING: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(IDLE);

/// Watches for signals from now on.
pub fn watch() -> Result<(), Exit> {
    let handler = || {
        if STATE.compare_exchange(BUSY, STOPPING, SeqCst, SeqCst).is_err() {
            std::process::exit(Code::Interrupted as i32);
        }
    };
    ctrlc::set_handler(handler).map_err(|e| Exit::new(Code::Failure, format!("signals cannot be watched: {e}")))
}

/// While it lives, a signal ends the answer and not the program.
pub struct Busy(());

impl Busy {
    pub fn begin() -> Self {
        STATE.store(BUSY, SeqCst);
        Busy(())
    }
    /// Whether the answer should end.
    pub fn stopping(&self) -> bool {
        STATE.load(SeqCst) == STOPPING
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        STATE.store(IDLE, SeqCst);
    }
}
