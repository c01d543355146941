//! A conversation, turn after turn.

mod commands;
mod execute;
mod files;
mod history;
mod lines;
mod settings;

use std::ops::ControlFlow;

use crate::{
    generate::{Finish, GenerateError, Reply, Request, Session},
    text::template::Message,
};
use serde_json::{Map, Value};

use self::{
    commands::Command,
    lines::{Line, Lines},
};
use super::{
    args::Args,
    echo::EchoOff,
    exit::Exit,
    reply::{AnswerPrinter, render, verbose_prompt},
};

/// A conversation and the session that carries it.
pub struct Chat {
    session: Session,
    shown: AnswerPrinter,
    /// Limit, stops and the like; its prompt is made anew each turn.
    request: Request,
    /// Variables of the template.
    variables: Map<String, Value>,
    system: Option<String>,
    messages: Vec<Message>,
    /// Text of `/read` that goes in front of the next message, and waits where that one does not reach the model.
    pending: String,
    last: Option<Reply>,
    verbose_prompt: bool,
    /// The oldest turns make room where the context is full.
    drop_oldest: bool,
    /// Lines are edited: what is typed during an answer is shown with the next line, not in the answer.
    edited: bool,
}

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Sent {
    /// It has an answer, if only the beginning of one.
    Answered,
    /// Ctrl-C came before the answer began.
    Stopped,
    /// It could not be put to the model.
    Refused,
}

impl Chat {
    pub fn new(
        session: Session,
        shown: AnswerPrinter,
        request: Request,
        variables: Map<String, Value>,
        system: Option<String>,
    ) -> Self {
        let mut chat = Self {
            session,
            shown,
            request,
            variables,
            system,
            messages: Vec::new(),
            pending: String::new(),
            last: None,
            verbose_prompt: false,
            drop_oldest: false,
            edited: false,
        };
        chat.clear();
        chat
    }

    /// Talks until the input ends or the user leaves.
    ///
    /// # Errors
    /// Exit code 1: stdin, stdout or a step fails. 3: the model's logits are not finite. 5: the device fails. 130:
    /// Ctrl-C before the first line.
    pub fn run(mut self, args: &Args, first: Option<String>) -> Result<(), Exit> {
        self.verbose_prompt = args.output.verbose_prompt;
        self.drop_oldest = args.chat.drop_oldest;
        let terminal = self.shown.terminal;
        let mut lines = Lines::new(&terminal, args)?;
        self.edited = lines.edited();
        if terminal.stdin {
            self.banner();
        }
        if let Some(text) = first {
            if terminal.stdin {
                terminal.print_input(&text);
            }
            self.turn(text)?;
        }
        let mut pressed = false;
        loop {
            match lines.next()? {
                Line::Interrupt if pressed => return Ok(()),
                Line::Interrupt => {
                    terminal.print("Ctrl-C again or /exit to leave");
                    pressed = true;
                    continue;
                }
                Line::Cleared => {}
                Line::End => return Ok(()),
                Line::Text(text) if text.trim().is_empty() => {}
                Line::Text(text) => {
                    if self.take(text)?.is_break() {
                        return Ok(());
                    }
                }
            }
            pressed = false;
        }
    }

    /// One input: a command, or a message.
    fn take(&mut self, text: String) -> Result<ControlFlow<()>, Exit> {
        if let Some(message) = text.strip_prefix("//") {
            self.turn(format!("/{message}"))?;
            return Ok(ControlFlow::Continue(()));
        }
        if !text.starts_with('/') {
            self.turn(text)?;
            return Ok(ControlFlow::Continue(()));
        }
        match Command::parse(&text) {
            Ok((Command::Exit, _)) => return Ok(ControlFlow::Break(())),
            Ok((command, rest)) => self.execute(command, rest)?,
            Err(unknown) => self.say(&format!("{unknown}. Nothing was sent to the model; //… sends a slash")),
        }
        Ok(ControlFlow::Continue(()))
    }

    /// A message of the user and the answer to it.
    fn turn(&mut self, text: String) -> Result<(), Exit> {
        let read = std::mem::take(&mut self.pending);
        self.messages.push(Message::new("user", format!("{read}{text}")));
        let sent = self.answer()?;
        if sent != Sent::Answered {
            // The message did not reach the model: the history stays what the model has seen.
            self.messages.pop();
            if sent == Sent::Refused && !read.is_empty() {
                self.say("What /read has loaded waits for the next message; /read - forgets it");
            }
            self.pending = read;
        }
        Ok(())
    }

    /// Answers the conversation as it stands.
    fn answer(&mut self) -> Result<Sent, Exit> {
        let (text, prompt) = match self.fitting_prompt() {
            Ok(found) => found,
            Err(why) => {
                self.say(&format!("error: {why}"));
                return Ok(Sent::Refused);
            }
        };
        if self.verbose_prompt {
            verbose_prompt(&self.session, &text, &prompt);
        }
        let echo = self.edited.then(EchoOff::begin);
        let reply = self.shown.answer(&mut self.session, &Request { prompt, ..self.request.clone() });
        drop(echo);
        let reply = reply?;
        let stopped = reply.finish == Finish::Interrupted;
        let begun = !stopped || !reply.tokens.is_empty();
        if stopped {
            let what = if begun { "(stopped)" } else { "(stopped before the answer began: the message was not sent)" };
            self.shown.terminal.info(what);
        }
        if begun {
            self.messages.push(Message::new("assistant", reply.text.clone()));
        }
        self.last = Some(reply);
        Ok(if begun { Sent::Answered } else { Sent::Stopped })
    }

    /// The conversation as text and tokens, without its oldest turns where that was asked for and they do not fit.
    fn fitting_prompt(&mut self) -> Result<(String, Vec<u32>), String> {
        let n_ctx = self.session.n_ctx();
        // An answer should fit too, if there are turns to give for it.
        let room = self.request.max_tokens.unwrap_or(n_ctx).min(n_ctx / 4);
        let mut kept = self.messages.clone();
        let mut dropped = 0;
        loop {
            let (text, prompt) = self.prompt(&kept)?;
            let wanted = prompt.len() + if self.drop_oldest { room } else { 0 };
            if wanted >= n_ctx && self.drop_oldest && history::drop_oldest(&mut kept) {
                dropped += 1;
            } else if prompt.len() < n_ctx {
                if dropped > 0 {
                    self.say(&format!("(dropped {} to make room)", history::turns(dropped)));
                    self.messages = kept;
                }
                return Ok((text, prompt));
            } else {
                let error = GenerateError::PromptTooLong { tokens: prompt.len(), max: n_ctx - 1 };
                return Err(format!("{error}. The message was not sent{}", self.way_out()));
            }
        }
    }

    /// What helps where the context is full.
    fn way_out(&self) -> &'static str {
        match history::count(&self.messages) {
            0 | 1 => "",
            _ => {
                ". /drop forgets the oldest turn (--drop-oldest does it by itself); or /save FILE, start again with a \
                 larger -c, and /load FILE"
            }
        }
    }

    /// A conversation as text and tokens.
    fn prompt(&self, messages: &[Message]) -> Result<(String, Vec<u32>), String> {
        let text = render(&self.session, messages, &self.variables).map_err(|exit| exit.message)?;
        let prompt = self.session.engine().prompt(&text).map_err(|error| error.to_string())?;
        Ok((text, prompt))
    }

    /// Tokens that the conversation takes.
    fn used(&self) -> usize {
        if self.messages.is_empty() { 0 } else { self.prompt(&self.messages).map_or(0, |(_, tokens)| tokens.len()) }
    }

    /// An empty conversation, but for the system prompt.
    fn clear(&mut self) {
        self.messages = self.system.iter().map(|text| Message::new("system", text)).collect();
        self.pending.clear();
        self.last = None;
    }

    fn say(&self, text: &str) {
        self.shown.terminal.print(text);
    }

    fn banner(&self) {
        let engine = self.session.engine();
        let config = &engine.model().config;
        self.say(&format!("{} ({})", config.name, engine.gguf().path().display()));
        if self.system.is_some() {
            self.say("using a system prompt");
        }
        self.say("/help lists the commands; Ctrl-C stops an answer\n");
    }
}
