//! A mask that waits: free text up to a trigger, a grammar from there on.

use std::sync::Arc;

use super::{Thoughts, env::Vocabulary};
use crate::sampler::{Mask, TokenMask};

/// What starts a lazy grammar. Control tokens count by their written form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trigger {
    /// This text, anywhere.
    Word(String),
    /// A text that begins so, white space aside; the trigger itself has none.
    Start(String),
}

/// Lets everything through until a trigger is met.
#[derive(Clone)]
pub struct Lazy {
    grammar: TokenMask,
    vocabulary: Arc<Vocabulary>,
    triggers: Vec<Trigger>,
    thoughts: Option<Thoughts>,
    /// Everything may come.
    all: Vec<u32>,
    active: bool,
    /// The answer so far, in bytes.
    text: Vec<u8>,
    /// Its tokens, and where the bytes of each begin.
    tokens: Vec<(u32, usize)>,
    place: Place,
    /// Where the text begins that is searched: after the thoughts.
    from: usize,
    /// Where the search for words goes on.
    at: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A thought may begin.
    Start,
    Thought,
    Text,
}

impl Lazy {
    pub fn new(
        grammar: TokenMask,
        vocabulary: Arc<Vocabulary>,
        triggers: Vec<Trigger>,
        thoughts: Option<Thoughts>,
    ) -> Self {
        let place = match &thoughts {
            None => Place::Text,
            Some(thoughts) if thoughts.opened => Place::Thought,
            Some(_) => Place::Start,
        };
        Self {
            all: vec![u32::MAX; vocabulary.n_vocab().div_ceil(32)],
            grammar,
            vocabulary,
            triggers,
            thoughts,
            active: false,
            text: Vec::new(),
            tokens: Vec::new(),
            place,
            from: 0,
            at: 0,
        }
    }

    /// Moves past the thoughts; whether the text after them has begun.
    fn past_thoughts(&mut self) -> bool {
        let Some(thoughts) = &self.thoughts else { return true };
        let (open, close) = (thoughts.open.as_bytes(), thoughts.close.as_bytes());
        if self.place == Place::Start {
            let text = self.text.trim_ascii_start();
            if text.len() < open.len() && open.starts_with(text) {
                return false;
            }
            self.at = if text.starts_with(open) { self.text.len() - text.len() + open.len() } else { 0 };
            self.place = if text.starts_with(open) { Place::Thought } else { Place::Text };
        }
        if self.place == Place::Thought {
            match find(&self.text[self.at..], close) {
                Some(found) => {
                    self.at += found + close.len();
                    self.from = self.at;
                    self.place = Place::Text;
                }
                None => self.at = self.at.max((self.text.len() + 1).saturating_sub(close.len())),
            }
        }
        self.place == Place::Text
    }

    /// Where a trigger begins.
    fn triggered(&mut self) -> Option<usize> {
        let mut longest = 1;
        let mut first = None;
        for trigger in &self.triggers {
            let found = match trigger {
                Trigger::Start(start) => begins(&self.text[self.from..], start.as_bytes()).map(|at| self.from + at),
                Trigger::Word(word) => {
                    longest = longest.max(word.len());
                    find(&self.text[self.at..], word.as_bytes()).map(|at| self.at + at)
                }
            };
            first = [first, found].into_iter().flatten().min();
        }
        if first.is_none() {
            self.at = self.at.max((self.text.len() + 1).saturating_sub(longest));
        }
        first
    }

    /// The grammar after the text from `start` on; `None` where that text does not fit.
    fn replay(&self, start: usize) -> Option<TokenMask> {
        let mut grammar = self.grammar.clone();
        let ends = self.tokens.iter().skip(1).map(|(_, begin)| *begin).chain([self.text.len()]);
        for (&(token, begin), end) in self.tokens.iter().zip(ends).filter(|(_, end)| *end > start) {
            if begin >= start {
                grammar.accept(token).ok()?;
            } else {
                let spelled = self.vocabulary.spell(&self.text[start..end]);
                spelled.into_iter().try_for_each(|token| grammar.accept(token)).ok()?;
            }
        }
        Some(grammar)
    }
}

impl Mask for Lazy {
    fn allowed(&mut self) -> Result<&[u32], String> {
        if self.active { self.grammar.allowed() } else { Ok(&self.all) }
    }

    fn accept(&mut self, token: u32) -> Result<(), String> {
        if self.active {
            return self.grammar.accept(token);
        }
        self.tokens.push((token, self.text.len()));
        self.text.extend_from_slice(self.vocabulary.written(token));
        if !self.past_thoughts() {
            return Ok(());
        }
        // What looked like a call and is none is free text; the search goes on behind its first byte.
        while let Some(start) = self.triggered() {
            match self.replay(start) {
                Some(grammar) => {
                    (self.grammar, self.active) = (grammar, true);
                    break;
                }
                None => {
                    self.triggers.retain(|trigger| !matches!(trigger, Trigger::Start(_)));
                    self.at = self.at.max(start + 1);
                }
            }
        }
        Ok(())
    }

    fn clone_box(&self) -> Box<dyn Mask> {
        Box::new(self.clone())
    }
}

/// Where `wanted` first is in `text`.
fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    if wanted.is_empty() {
        return None;
    }
    text.windows(wanted.len()).position(|window| window == wanted)
}

/// Where the first byte of `start` is, if the text begins with it, white space aside.
fn begins(text: &[u8], start: &[u8]) -> Option<usize> {
    let mut wanted = start.iter();
    for byte in text.iter().filter(|byte| !byte.is_ascii_whitespace()) {
        match wanted.next() {
            Some(next) if next == byte => {}
            Some(_) => return None,
            None => break,
        }
    }
    wanted.next().is_none().then(|| text.len() - text.trim_ascii_start().len())
}
