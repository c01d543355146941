//! What the user types: an editor at a terminal, plain lines from a pipe.

use std::io::{self, BufRead};

use rustyline::{
    Behavior, CompletionType, Config, Context, Editor, Helper, Highlighter, Hinter, Validator,
    completion::{Completer, FilenameCompleter, Pair},
    error::ReadlineError,
    history::MemHistory,
};

use super::commands::Command;
use crate::cli::{
    args::Args,
    exit::{Code, Exit},
    input, interrupt,
    terminal::{Style, Terminal, put},
};

/// What came in.
#[derive(Debug, PartialEq)]
pub enum Line {
    /// A message or a command; several lines where they were joined.
    Text(String),
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D, or the end of the pipe.
    End,
}

/// A source of input.
pub struct Lines {
    source: Source,
    terminal: Terminal,
    /// Lines are joined until one ends in a backslash, not as long as they do.
    multiline: bool,
}

enum Source {
    Editor(Box<Editor<Words, MemHistory>>),
    Plain,
}

impl Lines {
    pub fn new(terminal: &Terminal, args: &Args) -> Result<Self, Exit> {
        let edited = terminal.stdin && !args.output.simple_io;
        if edited && interrupt::pressed_at_prompt() {
            return Err(Exit::quiet(Code::Interrupted));
        }
        let source = if edited { Source::Editor(Box::new(editor(terminal)?)) } else { Source::Plain };
        Ok(Self { source, terminal: *terminal, multiline: args.chat.multiline })
    }

    /// The next input, lines joined.
    pub fn next(&mut self) -> Result<Line, Exit> {
        let mut text = String::new();
        let mut prompt = "> ";
        loop {
            let line = match self.line(prompt)? {
                Line::Text(line) => line,
                // What was typed before the end of a pipe still counts.
                Line::End if !text.is_empty() => return Ok(Line::Text(text)),
                other => return Ok(other),
            };
            let continued = line.strip_suffix('\\');
            text.push_str(continued.unwrap_or(&line));
            if continued.is_some() == self.multiline {
                if let Source::Editor(editor) = &mut self.source {
                    // History is a comfort: an entry that cannot be added is no reason to stop.
                    let _ = editor.add_history_entry(text.as_str());
                }
                return Ok(Line::Text(text));
            }
            text.push('\n');
            prompt = "… ";
        }
    }

    fn line(&mut self, prompt: &str) -> Result<Line, Exit> {
        match &mut self.source {
            Source::Editor(_) if interrupt::pressed_at_prompt() => Ok(Line::Interrupt),
            Source::Editor(editor) => match editor.readline(prompt) {
                Ok(line) => {
                    // A press that was noticed too late to count: a line has been typed since.
                    interrupt::pressed_at_prompt();
                    Ok(Line::Text(line))
                }
                Err(ReadlineError::Interrupted) => Ok(Line::Interrupt),
                Err(ReadlineError::Eof) => Ok(Line::End),
                Err(ReadlineError::Io(error)) => Err(error.into()),
                Err(error) => Err(io::Error::other(error).into()),
            },
            Source::Plain => {
                if self.terminal.stdin {
                    put(&self.terminal.paint(Style::Input, prompt));
                }
                let mut bytes = Vec::new();
                if io::stdin().lock().read_until(b'\n', &mut bytes)? == 0 {
                    return Ok(Line::End);
                }
                let line = input::text("stdin", bytes)?;
                Ok(Line::Text(line.trim_end_matches(['\n', '\r']).to_owned()))
            }
        }
    }
}

fn editor(terminal: &Terminal) -> Result<Editor<Words, MemHistory>, Exit> {
    // stdout is for the text of the model: where it goes elsewhere, the line is edited on the terminal.
    let behavior = if terminal.stdout { Behavior::Stdio } else { Behavior::PreferTerm };
    let config = Config::builder().behavior(behavior).completion_type(CompletionType::List).build();
    let failed = |e: ReadlineError| Exit::from(io::Error::other(e));
    let mut editor = Editor::with_history(config, MemHistory::new()).map_err(failed)?;
    editor.set_helper(Some(Words { files: FilenameCompleter::new() }));
    Ok(editor)
}

/// Completes commands, and files behind those that take one.
#[derive(Helper, Hinter, Highlighter, Validator)]
struct Words {
    files: FilenameCompleter,
}

impl Completer for Words {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, context: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let typed = &line[..pos];
        if !typed.starts_with('/') {
            return Ok((pos, Vec::new()));
        }
        if typed.contains(' ') {
            return self.files.complete(line, pos, context);
        }
        let words = Command::words().filter(|w| w.starts_with(typed));
        Ok((0, words.map(|w| Pair { display: w.into(), replacement: format!("{w} ") }).collect()))
    }
}
