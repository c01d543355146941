//! An answer in the making: tokens become bytes, characters, and text without stop strings.

use super::{Finish, Request};
use crate::{
    text::stop::StopMatcher,
    text::tokenizer::{Tokenizer, Utf8Stream},
};

/// What has been generated, and what is held back of it.
pub struct Answer {
    special: bool,
    marks: Vec<u32>,
    ignore_eos: bool,
    stops: Vec<String>,
    characters: Utf8Stream,
    matcher: StopMatcher,
    /// What has been given so far.
    pub text: String,
    pub tokens: Vec<u32>,
}

/// What a token did to the answer.
pub struct Taken {
    /// What can be shown now.
    pub text: String,
    /// Why the answer ends here, if it does.
    pub finish: Option<Finish>,
}

impl Answer {
    pub fn new(request: &Request) -> Self {
        Self {
            special: request.special,
            marks: request.marks.clone(),
            ignore_eos: request.ignore_eos,
            stops: request.stops.clone(),
            characters: Utf8Stream::default(),
            matcher: StopMatcher::new(request.stops.clone()),
            text: String::new(),
            tokens: Vec::new(),
        }
    }

    /// One more token. Without a tokenizer there is no text, and nothing that ends a turn.
    pub fn take(&mut self, token: u32, tokenizer: Option<&Tokenizer>) -> Taken {
        self.tokens.push(token);
        let Some(tokenizer) = tokenizer else { return Taken { text: String::new(), finish: None } };
        let ended = tokenizer.is_eog(token);
        let piece = tokenizer.piece(token);
        let shown = self.special || self.marks.contains(&token);
        let written = if shown && piece.is_empty() { tokenizer.text(token).as_bytes() } else { &piece };
        // What ends a turn is not part of the text, even where the vocabulary gives it letters.
        let text = if ended && !self.special { String::new() } else { self.characters.push(written) };
        let emit = self.matcher.push(&text);
        self.text.push_str(&emit.text);
        let finish = match emit.stopped {
            Some(stop) => Some(Finish::Stop(self.stops[stop].clone())),
            None => (ended && !self.ignore_eos).then_some(Finish::Eos),
        };
        Taken { text: emit.text, finish }
    }

    /// The end: what was held back as a possible character or stop text is text after all. Returns it, and why the answer
    /// ended, which may be a stop text now.
    pub fn end(&mut self, finish: Finish) -> (String, Finish) {
        if matches!(finish, Finish::Stop(_)) {
            return (String::new(), finish);
        }
        let last = self.characters.finish();
        let emit = self.matcher.push(&last);
        let rest = emit.text + &self.matcher.finish();
        self.text.push_str(&rest);
        let finish = emit.stopped.map_or(finish, |stop| Finish::Stop(self.stops[stop].clone()));
        (rest, finish)
    }
}
