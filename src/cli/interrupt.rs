//! Ctrl-C: the first one ends the answer, the next one the program. (SIGTERM ends it as the system does.)
//!
//! While a line is edited the terminal sends Ctrl-C as a key, not as a signal. Between an answer and the
//! next line it is a signal still, and whoever pressed it wanted to stop an answer that ended just then:
//! that press counts as one at the prompt.

use std::sync::{
    Mutex,
    atomic::{AtomicU8, Ordering::SeqCst},
};

use crate::generate::Cancel;

use super::{
    echo,
    exit::{Code, Exit},
};

/// Nothing to stop: a signal ends the program.
const IDLE: u8 = 0;
/// A line editor is about to take over.
const PROMPT: u8 = 1;
/// Ctrl-C was pressed on the way there.
const PRESSED: u8 = 2;
/// An answer is being written.
const BUSY: u8 = 3;
/// It has been asked to end.
const STOPPING: u8 = 4;

static STATE: AtomicU8 = AtomicU8::new(IDLE);
/// Ends the answer in the middle of a step of its prompt.
static ANSWER: Mutex<Option<Cancel>> = Mutex::new(None);

/// Watches for Ctrl-C from now on.
///
/// # Errors
/// Exit code 1: the system refuses, or it is watched for already.
pub fn watch() -> Result<(), Exit> {
    ctrlc::set_handler(handle).map_err(|e| Exit::new(Code::Failure, format!("Ctrl-C cannot be watched: {e}")))
}

/// Runs on a thread of its own, a moment after the press.
fn handle() {
    if change(BUSY, STOPPING) {
        let answer = ANSWER.lock().unwrap_or_else(|e| e.into_inner());
        answer.iter().for_each(Cancel::cancel);
    } else if !change(PROMPT, PRESSED) {
        echo::restore();
        std::process::exit(Code::Interrupted as i32);
    }
}

fn change(from: u8, to: u8) -> bool {
    STATE.compare_exchange(from, to, SeqCst, SeqCst).is_ok()
}

/// A line editor follows, or has just ended. Whether Ctrl-C was pressed since the last answer.
pub fn pressed_at_prompt() -> bool {
    STATE.swap(PROMPT, SeqCst) == PRESSED
}

/// While it lives, a signal ends the answer and not the program.
pub struct Busy {
    before: u8,
}

impl Busy {
    /// `cancel` is the answer's.
    pub fn begin(cancel: &Cancel) -> Self {
        cancel.reset();
        *ANSWER.lock().unwrap_or_else(|e| e.into_inner()) = Some(cancel.clone());
        let before = STATE.swap(BUSY, SeqCst);
        if before == PRESSED {
            // Since the line was entered: while its prompt was made ready.
            handle();
        }
        Busy { before: if before == IDLE { IDLE } else { PROMPT } }
    }
    /// Whether the answer should end.
    pub fn stopping(&self) -> bool {
        STATE.load(SeqCst) == STOPPING
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        STATE.store(self.before, SeqCst);
    }
}
