//! How the program ends when it does not end well: a code that scripts can test, and a message.

use super::terminal::say;
use crate::error::{Kind, Kinded};

/// Why the program stops early.
#[derive(Debug)]
pub struct Exit {
    /// The exit code, which scripts test.
    pub code: Code,
    /// What is said on stderr, without `error:`; empty where nothing needs saying.
    pub message: String,
}

/// Exit codes. 0 and 1 (a failure of no other kind, such as a full disk) are as everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// All is well: help was shown, or the reader of a pipe went away.
    Done = 0,
    /// Something outside the model and the flags failed.
    Failure = 1,
    /// A flag or a value that is not supported.
    Usage = 2,
    /// The model file is missing or damaged, or holds what qrun does not implement.
    File = 3,
    /// The model does not fit into memory.
    Memory = 4,
    /// The device that was asked for is not there.
    Device = 5,
    /// A model that is asked for by name was not fetched.
    NotFetched = 6,
    /// Ctrl-C in one-turn mode.
    Interrupted = 130,
}

impl Exit {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Exit { code, message: message.into() }
    }
    pub fn usage(message: impl Into<String>) -> Self {
        Exit::new(Code::Usage, message)
    }
    /// An error of the library, with the code of its kind.
    pub fn of(error: &impl Kinded) -> Self {
        Exit::new(error.kind().into(), error.to_string())
    }
    /// Nothing more to say.
    pub fn quiet(code: Code) -> Self {
        Exit::new(code, "")
    }
    /// Says the message; returns the code.
    pub fn report(self) -> u8 {
        if !self.message.is_empty() {
            say(&format!("error: {}", self.message));
        }
        self.code as u8
    }
}

impl From<Kind> for Code {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Usage => Code::Usage,
            // The template is in the file.
            Kind::File | Kind::Template => Code::File,
            Kind::Memory => Code::Memory,
            Kind::Device => Code::Device,
            Kind::Network => Code::NotFetched,
            Kind::Failure => Code::Failure,
        }
    }
}

impl From<qrun_quant::Error> for Exit {
    fn from(error: qrun_quant::Error) -> Self {
        // What the system says needs no frame around it.
        match error.found.split_once(" (os error ") {
            Some((said, _)) if error.place == "file" => {
                Exit::new(error.kind().into(), format!("{}: {said}", error.file.display()))
            }
            _ => Exit::of(&error),
        }
    }
}

/// What the system says, without its number.
pub fn system_error(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error ").map_or(text.clone(), |(said, _)| said.to_owned())
}

/// A closed pipe (`qrun … | head -1`) is not a failure; anything else on stdout or stdin is.
impl From<std::io::Error> for Exit {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Exit::quiet(Code::Done),
            std::io::ErrorKind::OutOfMemory => {
                Exit::new(Code::Memory, format!("not enough memory: {}", system_error(&error)))
            }
            _ => Exit::new(Code::Failure, system_error(&error)),
        }
    }
}
