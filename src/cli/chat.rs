//! A conversation, turn after turn.

mod commands;
mod files;
mod lines;
mod settings;

use std::ops::ControlFlow;

use qrun::{
    session::{Finish, Reply, Request, Session, SessionError},
    template::Message,
};
use serde_json::{Map, Value};

use self::{
    commands::Command,
    lines::{Line, Lines},
};
use super::{
    args::Args,
    exit::Exit,
    reply::AnswerPrinter,
    run::{render, verbose_prompt},
    terminal::Style,
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
    /// Text of `/read` that goes in front of the next message.
    pending: String,
    last: Option<Reply>,
    verbose_prompt: bool,
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
        };
        chat.clear();
        chat
    }

    /// Talks until the input ends or the user leaves.
    pub fn run(mut self, args: &Args, first: Option<String>) -> Result<(), Exit> {
        self.verbose_prompt = args.output.verbose_prompt;
        let terminal = self.shown.terminal;
        let mut lines = Lines::new(&terminal, args)?;
        if terminal.stdin {
            self.banner();
        }
        if let Some(text) = first {
            if terminal.stdin {
                terminal.always(&terminal.paint(Style::Input, &format!("> {text}")));
            }
            self.turn(text)?;
        }
        let mut pressed = false;
        loop {
            match lines.next()? {
                Line::Interrupt if pressed => return Ok(()),
                Line::Interrupt => {
                    terminal.always("Ctrl-C again or /exit to leave");
                    pressed = true;
                    continue;
                }
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
            Err(word) => {
                let list = commands::summary();
                self.say(&format!("unknown command {word}; nothing was sent to the model (//… sends a slash)\n{list}"));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// A message of the user and the answer to it.
    fn turn(&mut self, text: String) -> Result<(), Exit> {
        let text = std::mem::take(&mut self.pending) + &text;
        self.messages.push(Message::new("user", text));
        if !self.answer()? {
            // The message did not reach the model: the history stays what the model has seen.
            self.messages.pop();
        }
        Ok(())
    }

    /// Answers the conversation as it stands; false when it could not be put to the model.
    fn answer(&mut self) -> Result<bool, Exit> {
        let text = match render(&self.session, &self.messages, &self.variables) {
            Ok(text) => text,
            Err(exit) => return self.refused(&exit.message),
        };
        let prompt = match self.session.engine().prompt(&text) {
            Ok(prompt) => prompt,
            Err(error) => return self.refused(&error.to_string()),
        };
        if self.verbose_prompt {
            verbose_prompt(&self.session, &text, &prompt);
        }
        let (tokens, n_ctx) = (prompt.len(), self.session.n_ctx());
        if tokens >= n_ctx {
            let error = SessionError::PromptTooLong { tokens, max: n_ctx - 1 };
            return self.refused(&format!("{error}; /clear begins anew. The message was not sent"));
        }
        let reply = self.shown.answer(&mut self.session, &Request { prompt, ..self.request.clone() })?;
        if reply.finish == Finish::Interrupted {
            self.shown.terminal.inform("(stopped)");
        }
        self.messages.push(Message::new("assistant", reply.text.clone()));
        self.last = Some(reply);
        Ok(true)
    }

    fn refused(&self, why: &str) -> Result<bool, Exit> {
        self.shown.terminal.always(&format!("error: {why}"));
        Ok(false)
    }

    /// An empty conversation, but for the system prompt.
    fn clear(&mut self) {
        self.messages = self.system.iter().map(|text| Message::new("system", text)).collect();
        self.pending.clear();
        self.last = None;
    }

    fn say(&self, text: &str) {
        self.shown.terminal.always(text);
    }

    fn banner(&self) {
        let engine = self.session.engine();
        let config = &engine.model().config;
        let n_ctx = self.session.n_ctx();
        self.say(&format!("{} ({}), context of {n_ctx} tokens", config.name, engine.gguf().path().display()));
        if self.system.is_some() {
            self.say("using a system prompt");
        }
        self.say("/help lists the commands; Ctrl-C stops an answer\n");
    }
}
