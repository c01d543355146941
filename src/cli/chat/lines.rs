//! What the user types: an editor at a terminal, plain lines from a pipe.

use std::{
    io::{self, BufRead, Read},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

use rustyline::{
    Behavior, Cmd, CompletionType, ConditionalEventHandler, Config, Context, Editor, Event, EventContext, EventHandler,
    Helper, Highlighter, Hinter, KeyEvent, RepeatCount, Validator,
    completion::{Completer, FilenameCompleter, Pair},
    error::ReadlineError,
    history::FileHistory,
};

use super::commands::Command;
use crate::cli::{
    args::Args,
    exit::{Code, Exit},
    input, interrupt,
    terminal::{Style, Terminal, put},
};

/// What a person typed, or did instead of typing.
#[derive(Debug, PartialEq)]
pub enum Line {
    /// A message or a command; several lines where they were joined.
    Text(String),
    /// Ctrl-C, and nothing was typed before it.
    Interrupt,
    /// Ctrl-C on a line in the making: it is given up.
    Cleared,
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
    Editor(Box<Edited>),
    Plain,
}

/// The line editor.
struct Edited {
    editor: Editor<Words, FileHistory>,
    /// A key other than Ctrl-C was pressed since the line began.
    typed: Arc<AtomicBool>,
    /// Where what was typed is kept for the next time.
    history: Option<PathBuf>,
}

impl Lines {
    /// A line editor where someone types at a terminal, plain lines elsewhere.
    ///
    /// # Errors
    /// Exit code 130: Ctrl-C was pressed meanwhile. 1: the editor does not start.
    pub fn new(terminal: &Terminal, args: &Args) -> Result<Self, Exit> {
        let edited = terminal.stdin && !args.output.simple_io;
        if edited && interrupt::pressed_at_prompt() {
            return Err(Exit::quiet(Code::Interrupted));
        }
        let source = if edited { Source::Editor(Box::new(Edited::new(terminal, args)?)) } else { Source::Plain };
        Ok(Self { source, terminal: *terminal, multiline: args.chat.multiline })
    }

    /// Whether an editor takes the keys.
    pub fn edited(&self) -> bool {
        matches!(self.source, Source::Editor(_))
    }

    /// The next input, lines joined.
    ///
    /// # Errors
    /// Exit code 2: a line that is too long or not UTF-8. 1: stdin cannot be read.
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
                if let Source::Editor(edited) = &mut self.source {
                    edited.remember(&text);
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
            Source::Editor(edited) => match edited.editor.readline(prompt) {
                Ok(line) => {
                    // A press that was noticed too late to count: a line has been typed since.
                    interrupt::pressed_at_prompt();
                    edited.typed.store(false, SeqCst);
                    Ok(Line::Text(line))
                }
                Err(ReadlineError::Interrupted) if edited.typed.swap(false, SeqCst) => Ok(Line::Cleared),
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
                let mut stdin = io::stdin().lock().take(input::LONGEST_PROMPT + 1);
                if stdin.read_until(b'\n', &mut bytes)? == 0 {
                    return Ok(Line::End);
                }
                if bytes.len() as u64 > input::LONGEST_PROMPT {
                    return Err(input::too_long("a line of stdin", input::LONGEST_PROMPT));
                }
                let line = input::text("stdin", bytes)?;
                Ok(Line::Text(line.trim_end_matches(['\n', '\r']).to_owned()))
            }
        }
    }
}

impl Edited {
    fn new(terminal: &Terminal, args: &Args) -> Result<Self, Exit> {
        // stdout is for the text of the model: where it goes elsewhere, the line is edited on the terminal.
        let behavior = if terminal.stdout { Behavior::Stdio } else { Behavior::PreferTerm };
        let config = Config::builder().behavior(behavior).completion_type(CompletionType::List);
        let config = config.history_ignore_space(true).max_history_size(KEPT);
        let failed = |e: ReadlineError| Exit::from(io::Error::other(e));
        let config = config.map_err(failed)?.build();
        let history = FileHistory::with_config(&config);
        let mut editor = Editor::with_history(config, history).map_err(failed)?;
        editor.set_helper(Some(Words { files: FilenameCompleter::new() }));
        let typed = Arc::new(AtomicBool::new(false));
        editor.bind_sequence(Event::Any, EventHandler::Conditional(Box::new(Keys(typed.clone()))));
        let history = args.output.history.then(history_file).flatten();
        if let Some(file) = &history {
            // A comfort: where there is none yet, or it cannot be read, the chat goes on without.
            let _ = editor.load_history(file);
        }
        Ok(Self { editor, typed, history })
    }

    /// Keeps what was typed, for the arrow keys of this chat and the next ones.
    fn remember(&mut self, text: &str) {
        let added = self.editor.add_history_entry(text).unwrap_or(false);
        if let (true, Some(file)) = (added, &self.history) {
            // As above.
            let _ = self.editor.append_history(file);
        }
    }
}

/// The most lines that the history keeps.
const KEPT: usize = 1000;

/// `$XDG_STATE_HOME/qrun/history`, or below `~/.local/state`; `None` where there is no such folder. The folder and (by
/// rustyline) the file are for their owner alone.
fn history_file() -> Option<PathBuf> {
    let named = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let state = named("XDG_STATE_HOME").or_else(|| Some(named("HOME")?.join(".local/state")))?;
    let folder = state.join("qrun");
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(&folder).ok()?;
    Some(folder.join("history"))
}

/// Notices whether anything was typed: Ctrl-C means another thing then. It changes no key.
struct Keys(Arc<AtomicBool>);

impl ConditionalEventHandler for Keys {
    fn handle(&self, event: &Event, _: RepeatCount, _: bool, context: &EventContext) -> Option<Cmd> {
        if event.get(0) != Some(&KeyEvent::ctrl('C')) || !context.line().is_empty() {
            self.0.store(true, SeqCst);
        }
        None
    }
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
