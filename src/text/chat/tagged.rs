//! Answers that are one text, with marks around thoughts and calls.

use super::{
    Delta,
    head::Head,
    marked,
    reading::Reading,
    scan::{Scan, beginning},
    syntax::{Begin, Syntax},
};
use crate::text::grammar::quoted;

/// The longest beginning of a call that is waited for, in bytes; what is longer is no call.
const MAX_HEAD: usize = 64 << 10;

/// Takes such an answer apart.
#[derive(Debug, Clone)]
pub struct Tagged {
    reading: Reading,
    state: State,
    /// Text that was not given yet.
    held: String,
    /// Calls that have begun: the index of the next one.
    calls: usize,
    /// Whether nothing but white space came since the beginning, the thoughts or a call.
    fresh: bool,
    deltas: Vec<Delta>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing but white space so far: a thought may begin.
    Start,
    Thinking {
        /// Whether there was more than white space.
        begun: bool,
    },
    /// After a thought or a call: white space is not shown.
    Gap,
    /// Content. Calls that are marked may begin anywhere.
    Text,
    Arguments(Scan),
    /// Arguments that are no JSON text, each given when it has ended.
    Parameters {
        tool: usize,
        first: bool,
    },
    /// After the arguments: what is left of the call's object.
    Rest(Scan),
    /// After a call: what ends it, or goes on to the next.
    Closing,
}

impl Tagged {
    /// A parser at the beginning of an answer.
    pub fn new(reading: Reading) -> Self {
        let state = if reading.thinking { State::Thinking { begun: false } } else { State::Start };
        Self { reading, state, held: String::new(), calls: 0, fresh: true, deltas: Vec::new() }
    }

    /// Takes the next piece of text.
    pub fn push(&mut self, text: &str) -> Vec<Delta> {
        self.held.push_str(text);
        while self.step(false) {}
        std::mem::take(&mut self.deltas)
    }

    /// The answer ends here, complete or not: gives what was held back.
    pub fn finish(&mut self) -> Vec<Delta> {
        while self.step(true) {}
        std::mem::take(&mut self.deltas)
    }

    /// Does what can be done with the text held; whether there may be more to do.
    fn step(&mut self, last: bool) -> bool {
        match self.state {
            State::Start => self.start(last),
            State::Thinking { begun } => self.think(begun, last),
            State::Gap | State::Text => self.text(last),
            State::Arguments(scan) => self.arguments(scan),
            State::Parameters { tool, first } => self.parameters(tool, first, last),
            State::Rest(scan) => self.rest(scan),
            State::Closing => self.close(last),
        }
    }

    fn start(&mut self, last: bool) -> bool {
        let Some([open, _]) = &self.reading.thoughts else {
            self.state = State::Text;
            return true;
        };
        let text = self.held.trim_start();
        if text.starts_with(&**open) {
            let end = self.held.len() - text.len() + open.len();
            self.keep(end);
            self.state = State::Thinking { begun: false };
            return true;
        }
        if open.starts_with(text) && !last {
            return false;
        }
        self.state = State::Text;
        true
    }

    fn think(&mut self, begun: bool, last: bool) -> bool {
        let close = self.reading.thoughts.as_ref().map_or("", |[_, close]| &**close).to_owned();
        if !self.reading.apart {
            let found = self.held.find(&*close).map(|at| at + close.len());
            let end = found.unwrap_or_else(|| self.held.len() - if last { 0 } else { beginning(&self.held, &close) });
            self.keep(end);
            self.state = if found.is_some() { State::Text } else { self.state };
            return found.is_some();
        }
        if !begun {
            let blank = self.held.len() - self.held.trim_start().len();
            self.held.drain(..blank);
        }
        let found = self.held.find(&*close);
        let end = found.unwrap_or_else(|| self.held.len() - if last { 0 } else { beginning(&self.held, &close) });
        // White space at the end of a thought is not part of it.
        let end = self.held[..end].trim_end().len();
        let thought: String = self.held.drain(..end).collect();
        self.state = State::Thinking { begun: begun || !thought.is_empty() };
        self.give(thought, Delta::Reasoning);
        if found.is_some() {
            let at = self.held.find(&*close).unwrap_or_default() + close.len();
            self.held.drain(..at);
            self.state = State::Gap;
        } else if last {
            self.held.clear();
        }
        found.is_some()
    }

    /// Content, up to where a call begins.
    fn text(&mut self, last: bool) -> bool {
        if self.state == State::Gap {
            let blank = self.held.len() - self.held.trim_start().len();
            self.held.drain(..blank);
        }
        if self.held.is_empty() {
            return false;
        }
        let Some(syntax) = self.reading.syntax else {
            let all = std::mem::take(&mut self.held);
            self.state = State::Text;
            self.give(all, Delta::Content);
            return false;
        };
        let at = match syntax.begins(&self.held, self.fresh) {
            Begin::At(at) => at,
            Begin::Maybe(at) if !last => {
                // What may be the beginning of a mark stays, and white space before it: before a call it is dropped.
                self.content(self.held[..at].trim_end().len());
                return false;
            }
            Begin::Maybe(_) => {
                self.content(self.held.len());
                return false;
            }
        };
        match syntax.head(&self.held[at..]) {
            Head::Call { name, arguments, end } if end <= MAX_HEAD && self.reading.tools.contains(&name) => {
                let shown = self.held[..at].trim_end().len();
                self.content(shown);
                let from = at - shown;
                let id = syntax.id(self.reading.salt, self.calls);
                let tool = self.reading.tools.iter().position(|tool| *tool == name).unwrap_or_default();
                self.deltas.push(Delta::ToolCall { index: self.calls, id, name });
                self.calls += 1;
                self.fresh = true;
                self.held.drain(..from + end);
                self.state = match (&arguments, syntax) {
                    (None, _) => State::Arguments(Scan::default()),
                    (Some(_), Syntax::Marked(_)) => State::Parameters { tool, first: true },
                    (Some(_), _) => State::Rest(Scan::inside(syntax.depth())),
                };
                if let Some(text) = arguments {
                    self.deltas.push(Delta::Arguments { index: self.calls - 1, text });
                }
                true
            }
            Head::More if !last && self.held.len() - at <= MAX_HEAD => {
                self.content(self.held[..at].trim_end().len());
                false
            }
            // No call after all: its first character is text, and the search goes on behind it.
            Head::Call { .. } | Head::More | Head::None => {
                let first = self.held[at..].chars().next().map_or(0, char::len_utf8);
                self.content(at + first);
                true
            }
        }
    }

    fn arguments(&mut self, mut scan: Scan) -> bool {
        let end = self.held.bytes().position(|byte| scan.take(byte)).map(|at| at + 1);
        let text: String = self.held.drain(..end.unwrap_or(self.held.len())).collect();
        if !text.is_empty() {
            self.deltas.push(Delta::Arguments { index: self.calls - 1, text });
        }
        let depth = self.reading.syntax.map_or(0, Syntax::depth);
        self.state = match end {
            None => State::Arguments(scan),
            Some(_) if depth == 0 => State::Closing,
            Some(_) => State::Rest(Scan::inside(depth)),
        };
        end.is_some()
    }

    /// The next parameter of a call; what is none ends the call.
    fn parameters(&mut self, tool: usize, first: bool, last: bool) -> bool {
        let Some(Syntax::Marked(form)) = self.reading.syntax else { return false };
        let root = &self.reading.schemas[tool];
        let found = form.parameter(&self.held).map(|(key, value, end)| {
            let value = marked::json(value, &root["properties"][key], root);
            (format!("{}{}: {value}", if first { "" } else { ", " }, quoted(key)), end)
        });
        let (text, end) = match found {
            Ok(found) => found,
            Err(Head::More) if !last => return false,
            // Cut off inside of a value: no part of it is given.
            Err(Head::More) if !self.held.trim().is_empty() => {
                self.held.clear();
                return false;
            }
            Err(_) => ("}".to_owned(), 0),
        };
        self.held.drain(..end);
        self.state = if end > 0 { State::Parameters { tool, first: false } } else { State::Closing };
        self.deltas.push(Delta::Arguments { index: self.calls - 1, text });
        true
    }

    fn rest(&mut self, mut scan: Scan) -> bool {
        let end = self.held.bytes().position(|byte| scan.take(byte)).map(|at| at + 1);
        self.held.drain(..end.unwrap_or(self.held.len()));
        self.state = if end.is_some() { State::Closing } else { State::Rest(scan) };
        end.is_some()
    }

    fn close(&mut self, last: bool) -> bool {
        let Some(syntax) = self.reading.syntax else { return false };
        let text = self.held.trim_start();
        let blank = self.held.len() - text.len();
        for close in syntax.closes() {
            if text.starts_with(close) {
                // There may be more of them.
                self.held.drain(..blank + close.len());
                return true;
            }
            if close.starts_with(text) && !last {
                return false;
            }
        }
        self.held.drain(..blank);
        self.state = State::Gap;
        true
    }

    /// Shows the beginning of what is held as content.
    fn content(&mut self, end: usize) {
        let text: String = self.held.drain(..end).collect();
        if !text.is_empty() {
            self.state = State::Text;
            self.fresh &= text.trim().is_empty();
        }
        self.give(text, Delta::Content);
    }

    /// Takes marks of thoughts from what is held: content where thoughts are not told apart.
    fn keep(&mut self, end: usize) {
        let text: String = self.held.drain(..end).collect();
        if !self.reading.apart {
            self.give(text, Delta::Content);
        }
    }

    fn give(&mut self, text: String, kind: impl Fn(String) -> Delta) {
        if !text.is_empty() {
            self.deltas.push(kind(text));
        }
    }
}
