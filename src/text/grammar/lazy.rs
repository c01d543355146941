//! A mask that waits: free text up to a trigger, a grammar from there on.

use std::sync::Arc;

use super::env::Vocabulary;
use crate::sampler::{Mask, TokenMask};

/// What starts a lazy grammar. Control tokens count by their written form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trigger {
    /// This text, anywhere.
    Word(String),
    /// A text that begins so, white space aside.
    Start(String),
}

/// Lets everything through until a trigger is met.
pub struct Lazy {
    grammar: TokenMask,
    vocabulary: Arc<Vocabulary>,
    triggers: Vec<Trigger>,
    thoughts: Option<[String; 2]>,
    /// The text begins inside of a thought.
    thinking: bool,
    tokens: Vec<u32>,
    active: bool,
    all: Vec<u32>,
}

impl Lazy {
    pub fn new(
        grammar: TokenMask,
        vocabulary: Arc<Vocabulary>,
        triggers: Vec<Trigger>,
        thoughts: Option<[String; 2]>,
        thinking: bool,
    ) -> Self {
        let all = vec![u32::MAX; vocabulary.n_vocab().div_ceil(32)];
        Self { grammar, vocabulary, triggers, thoughts, thinking, tokens: Vec::new(), active: false, all }
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
        self.tokens.push(token);
        Ok(())
    }

    fn clone_box(&self) -> Box<dyn Mask> {
        Box::new(Self {
            grammar: self.grammar.clone(),
            vocabulary: self.vocabulary.clone(),
            triggers: self.triggers.clone(),
            thoughts: self.thoughts.clone(),
            thinking: self.thinking,
            tokens: self.tokens.clone(),
            active: self.active,
            all: self.all.clone(),
        })
    }
}
