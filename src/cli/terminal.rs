//! What kind of terminal there is, and what is said on stderr.

use std::io::{IsTerminal, Write, stderr, stdin, stdout};

use super::output::{Output, printable};

/// How much is said on stderr, and how.
#[derive(Debug, Clone, Copy)]
pub struct Terminal {
    /// Whether standard input is a terminal.
    pub stdin: bool,
    /// Someone reads the text as it comes.
    pub stdout: bool,
    /// Someone reads what is said beside it.
    pub stderr: bool,
    /// Colours on stderr and stdout.
    pub color: bool,
    /// Cursor tricks are allowed.
    pub rich: bool,
    verbosity: i64,
}

/// Colours by what they are for.
#[derive(Debug, Clone, Copy)]
pub enum Style {
    /// What the user types.
    Input,
    /// What is said beside the text.
    Aside,
}

/// A line on stderr, its control characters written out.
pub fn say(text: &str) {
    put(&format!("{}\n", printable(text)));
}

/// Text on stderr, as it is. Where stderr is closed nobody listens, and the program goes on.
pub fn put(text: &str) {
    let mut err = stderr().lock();
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}

impl Terminal {
    pub fn new(output: &Output) -> Self {
        let err = stderr().is_terminal();
        let plain = output.simple_io || std::env::var("TERM").is_ok_and(|t| t == "dumb");
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        Self {
            stdin: stdin().is_terminal(),
            stdout: stdout().is_terminal(),
            stderr: err,
            color: output.color.unwrap_or(err && !plain && !unwanted),
            rich: err && !plain,
            verbosity: output.verbosity,
        }
    }

    /// A line that everyone should see: something is not as asked for.
    pub fn warn(&self, text: &str) {
        if self.verbosity >= 2 {
            self.print(&format!("note: {text}"));
        }
    }

    /// The same in the middle of an answer: where both appear on one screen, not behind a half line of text.
    pub fn print_above_prompt(&self, text: &str) {
        if self.verbosity >= 2 && self.stdout && self.stderr {
            put("\n");
        }
        self.warn(text);
    }

    /// A line for a person at a terminal, or for one who asked with `-v`.
    pub fn info(&self, text: &str) {
        if self.verbose() || (self.stderr && self.verbosity >= 3) {
            self.print(text);
        }
    }

    /// A line that was asked for.
    pub fn print(&self, text: &str) {
        self.line(Style::Aside, text);
    }

    /// A message of the user that was not typed here, as if it had been.
    pub fn print_input(&self, text: &str) {
        self.line(Style::Input, &format!("> {text}"));
    }

    fn line(&self, style: Style, text: &str) {
        put(&format!("{}\n", self.paint(style, &printable(text))));
    }

    /// A line for one who asked with `-v`.
    pub fn debug(&self, text: &str) {
        if self.verbose() {
            self.print(text);
        }
    }

    /// `-v` or more.
    pub fn verbose(&self) -> bool {
        self.verbosity >= 4
    }

    /// Whether moving things (progress) may be drawn on stderr.
    pub fn draws(&self) -> bool {
        self.rich && self.verbosity >= 3
    }

    /// The text in a colour, where colours are wanted.
    pub fn paint(&self, style: Style, text: &str) -> String {
        let code = match style {
            Style::Input => "1;32",
            Style::Aside => "2",
        };
        if self.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}
