//! Harmony, the form of gpt-oss: an answer is messages in channels, `<|channel|>analysis<|message|>…<|end|>` and so on. The
//! channel `final` is content, calls go to a recipient, everything else is thoughts.

use super::{
    Delta,
    marks::{CHANNEL, CONSTRAIN, END, MESSAGE, START},
    reading::Reading,
    scan::{Scan, beginning},
    syntax::Syntax,
};

/// The longest header that is waited for, in bytes; what is longer is none.
const MAX_HEADER: usize = 4096;

/// Takes the messages of an answer apart.
#[derive(Debug, Clone)]
pub struct Harmony {
    reading: Reading,
    state: State,
    /// Text that was not given yet.
    held: String,
    /// Calls that have begun: the index of the next one.
    calls: usize,
    /// A thought was given, so that the next one begins on a line of its own.
    thought: bool,
    deltas: Vec<Delta>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the first mark: what is no header is content.
    Start,
    /// Up to `<|message|>`.
    Header,
    /// In a message.
    Body(Body),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    Content,
    Thought {
        /// Whether any of it was given.
        begun: bool,
    },
    /// The arguments of a call, up to the end of their object.
    Arguments {
        scan: Scan,
        /// Whether there was more than white space.
        begun: bool,
    },
    /// Behind the arguments, up to the end of the message: not shown.
    Rest,
}

impl Harmony {
    /// A parser at the beginning of an answer, or inside of a message that goes on.
    pub fn new(reading: Reading) -> Self {
        let state = match (reading.thinking, reading.continued) {
            (true, _) => State::Body(Body::Thought { begun: false }),
            (_, true) => State::Body(Body::Content),
            _ => State::Start,
        };
        Self { reading, state, held: String::new(), calls: 0, thought: false, deltas: Vec::new() }
    }

    /// Takes the next piece of text.
    pub fn push(&mut self, text: &str) -> Vec<Delta> {
        self.held.push_str(text);
        while self.step(false) {}
        std::mem::take(&mut self.deltas)
    }

    /// The answer ends here: gives what was held back.
    pub fn finish(&mut self) -> Vec<Delta> {
        while self.step(true) {}
        self.close();
        std::mem::take(&mut self.deltas)
    }

    /// Does what can be done with the text held; whether there may be more to do.
    fn step(&mut self, last: bool) -> bool {
        match self.state {
            State::Start => self.start(last),
            State::Header => self.header(last),
            State::Body(body) => self.body(body, last),
        }
    }

    /// Whether the text begins with a header.
    fn start(&mut self, last: bool) -> bool {
        let text = self.held.trim_start();
        let begins = [CHANNEL, START, MESSAGE, CONSTRAIN, "to="];
        let is_header = begins.iter().any(|begin| text.starts_with(begin));
        if !is_header && !last && begins.iter().any(|begin| begin.starts_with(text)) {
            return false;
        }
        self.state = if is_header { State::Header } else { State::Body(Body::Content) };
        true
    }

    fn header(&mut self, last: bool) -> bool {
        let Some(end) = self.held.find(MESSAGE) else {
            if self.held.len() > MAX_HEADER {
                self.state = State::Body(Body::Content);
                return true;
            }
            if last {
                // A message that was cut off before it began says nothing.
                let header = std::mem::take(&mut self.held);
                let plain = ![CHANNEL, START, CONSTRAIN].iter().any(|mark| header.contains(mark));
                self.give(if plain { header } else { String::new() }, Delta::Content);
            }
            return false;
        };
        let header: String = self.held.drain(..end + MESSAGE.len()).collect();
        let Header { channel, recipient } = Header::of(&header);
        let name = recipient.map(|to| to.strip_prefix("functions.").unwrap_or(to));
        let tool = name.filter(|name| self.reading.tools.iter().any(|tool| tool == name));
        self.state = State::Body(match (tool, channel) {
            (Some(name), _) => {
                let id = Syntax::Harmony.id(self.reading.salt, self.calls);
                self.deltas.push(Delta::ToolCall { index: self.calls, id, name: name.to_owned() });
                self.calls += 1;
                Body::Arguments { scan: Scan::default(), begun: false }
            }
            (None, "" | "final") if recipient.is_none() => Body::Content,
            _ => {
                if !self.reading.apart {
                    self.give(header, Delta::Content);
                }
                Body::Thought { begun: false }
            }
        });
        true
    }

    /// The text of a message, up to what ends it.
    fn body(&mut self, body: Body, last: bool) -> bool {
        let ends = [END, START, CHANNEL];
        let found = ends.iter().filter_map(|mark| Some((self.held.find(mark)?, *mark))).min();
        let held_back = || ends.iter().map(|mark| beginning(&self.held, mark)).max().unwrap_or_default();
        let end = match found {
            Some((at, _)) => at,
            None if last => self.held.len(),
            None => self.held.len() - held_back(),
        };
        let text: String = self.held.drain(..end).collect();
        self.take(body, text);
        let Some((_, mark)) = found else { return false };
        let is_thought = matches!(self.state, State::Body(Body::Thought { .. }));
        self.close();
        if mark == END {
            self.held.drain(..END.len());
            if is_thought && !self.reading.apart {
                self.give(END.to_owned(), Delta::Content);
            }
        }
        self.state = State::Header;
        true
    }

    /// Gives a piece of a message.
    fn take(&mut self, body: Body, text: String) {
        match body {
            Body::Content => self.give(text, Delta::Content),
            Body::Rest => {}
            Body::Thought { .. } if !self.reading.apart => self.give(text, Delta::Content),
            Body::Thought { begun } => {
                let text = if begun { &*text } else { text.trim_start() };
                if text.is_empty() {
                    return;
                }
                let gap = if self.thought && !begun { "\n\n" } else { "" };
                self.give(format!("{gap}{text}"), Delta::Reasoning);
                self.thought = true;
                self.state = State::Body(Body::Thought { begun: true });
            }
            Body::Arguments { mut scan, begun } => {
                let text = if begun { &*text } else { text.trim_start() };
                let closed = text.bytes().position(|byte| scan.take(byte)).map(|at| at + 1);
                let begun = begun || !text.is_empty();
                let index = self.calls - 1;
                self.give(text[..closed.unwrap_or(text.len())].to_owned(), |text| Delta::Arguments { index, text });
                self.state = State::Body(if closed.is_some() { Body::Rest } else { Body::Arguments { scan, begun } });
            }
        }
    }

    /// The message ends. A call without arguments has none.
    fn close(&mut self) {
        if let State::Body(Body::Arguments { begun: false, .. }) = self.state {
            let index = self.calls - 1;
            self.give("{}".into(), |text| Delta::Arguments { index, text });
            self.state = State::Body(Body::Rest);
        }
    }

    fn give(&mut self, text: String, kind: impl Fn(String) -> Delta) {
        if !text.is_empty() {
            self.deltas.push(kind(text));
        }
    }
}

/// What stands before a message.
struct Header<'t> {
    channel: &'t str,
    /// Whom the message is for, where it is not the reader.
    recipient: Option<&'t str>,
}

impl<'t> Header<'t> {
    fn of(text: &'t str) -> Self {
        let word = |mark: &str| {
            let rest = &text[text.find(mark)? + mark.len()..];
            rest.find(|c: char| c.is_whitespace() || c == '<').map(|end| &rest[..end])
        };
        Self { channel: word(CHANNEL).unwrap_or_default(), recipient: word("to=") }
    }
}
