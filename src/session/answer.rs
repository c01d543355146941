//! An answer in the making: tokens become bytes, characters, and text without stop strings.

use super::{Engine, Event, Finish, Reply, Request, Timings, Watch};
use crate::{stop::StopMatcher, tokenizer::Utf8Stream};

/// What has been generated, and what is held back of it.
pub struct Answer {
    /// Most tokens.
    pub limit: usize,
    special: bool,
    ignore_eos: bool,
    stops: Vec<String>,
    characters: Utf8Stream,
    matcher: StopMatcher,
    text: String,
    pub tokens: Vec<u32>,
    pub timings: Timings,
}

impl Answer {
    pub fn new(request: &Request) -> Self {
        Self {
            limit: request.limit.unwrap_or(usize::MAX),
            special: request.special,
            ignore_eos: request.ignore_eos,
            stops: request.stops.clone(),
            characters: Utf8Stream::default(),
            matcher: StopMatcher::new(request.stops.clone()),
            text: String::new(),
            tokens: Vec::new(),
            timings: Timings::default(),
        }
    }

    /// One more token; says why the answer ends, if it does.
    pub fn take(&mut self, token: u32, engine: &Engine, watch: Watch) -> Option<Finish> {
        self.tokens.push(token);
        let tokenizer = engine.tokenizer();
        let ended = tokenizer.is_eog(token);
        let piece = tokenizer.piece(token);
        let written = if self.special && piece.is_empty() { tokenizer.text(token).as_bytes() } else { &piece };
        // What ends a turn is not part of the text, even where the vocabulary gives it letters.
        let text = if ended && !self.special { String::new() } else { self.characters.push(written) };
        let emit = self.matcher.push(&text);
        self.text.push_str(&emit.text);
        let watched = watch(Event::Token { id: token, text: &emit.text });
        if let Some(stop) = emit.stopped {
            return Some(Finish::Stop(self.stops[stop].clone()));
        }
        if ended && !self.ignore_eos {
            return Some(Finish::Eos);
        }
        watched.is_break().then_some(Finish::Interrupted)
    }

    /// The end: what was held back as a possible character or stop text is text after all.
    pub fn end(mut self, mut finish: Finish, watch: Watch) -> Reply {
        if !matches!(finish, Finish::Stop(_)) {
            let last = self.characters.finish();
            let emit = self.matcher.push(&last);
            let rest = emit.text + &self.matcher.finish();
            if let Some(stop) = emit.stopped {
                finish = Finish::Stop(self.stops[stop].clone());
            }
            if let (false, Some(&id)) = (rest.is_empty(), self.tokens.last()) {
                let _ = watch(Event::Flush { id, text: &rest });
            }
            self.text.push_str(&rest);
        }
        Reply { text: self.text, tokens: self.tokens, finish, timings: self.timings }
    }
}
