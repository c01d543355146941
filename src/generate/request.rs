//! What is asked of the scheduler, and what it tells.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use qrun_models::{ForwardError, Salt};

use super::Timings;
use crate::sampler::{LogitsProcessor, SamplerError, TokenMask};

/// What to generate.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The whole prompt; what the prefix cache holds of it is not computed again.
    pub prompt: Vec<u32>,
    /// Most tokens to generate; `None`: until the model ends or the context is full. 0: only the prompt is computed.
    pub max_tokens: Option<usize>,
    /// Texts that end the answer (and are not part of it).
    pub stops: Vec<String>,
    /// Write special tokens out.
    pub special: bool,
    /// Control tokens that are written out all the same: the marks by which a chat's answer is taken apart.
    pub marks: Vec<u32>,
    /// What the answer may be; it begins with the first token after the prompt.
    pub mask: Option<TokenMask>,
    /// Changes the logits before each token is chosen. With one the host samples.
    pub processor: Option<LogitsProcessor>,
    /// Go on after a token that ends a turn: an answer of exactly `max_tokens` tokens, to be measured.
    pub ignore_eos: bool,
    /// Positions of the prompt whose logits are wanted, each as [`Event::Logits`].
    pub logits: Option<Range<usize>>,
    /// A [`Generator`](super::Generator) gives them whole, not as scores.
    pub whole_logits: bool,
    /// The log-probability of each chosen token is wanted, and those of so many likeliest tokens.
    pub n_probs: Option<usize>,
    /// These are what the sampler draws from, after all of its steps; else what the model says.
    pub post_sampling: bool,
    /// Compute the whole prompt: take nothing from the prefix cache and leave nothing there.
    pub fresh: bool,
    /// Only requests with the same one share what was computed.
    pub salt: Salt,
    /// Others are likely to begin with so many tokens of the prompt, as with a system message: where layers have windows
    /// or states, these are kept at the end of the last whole page of them. 0: nowhere.
    pub mark: usize,
    /// The sequence to run in, which is waited for while another request runs there. Without this, and where there is
    /// no such sequence: any.
    pub slot: Option<usize>,
    /// Ends the request from another thread, in the middle of a step of its prompt too.
    pub cancel: Cancel,
}

/// A flag that ends a request; clones are the same flag.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Asks for the end.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }
    /// Takes it back: the flag serves the next request.
    pub fn reset(&self) {
        self.0.store(false, Ordering::Release);
    }
    /// Whether the end was asked for.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Tells requests apart: numbers in the order in which they were submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// What happens while a request runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Event<'a> {
    /// `done` of `total` prompt tokens are in the cache.
    Prompt {
        /// Tokens in the cache.
        done: usize,
        /// Tokens of the prompt.
        total: usize,
        /// The decoder's sequence that it runs in.
        slot: usize,
    },
    /// The logits after a token of the prompt.
    Logits {
        /// The position of the token.
        pos: usize,
        /// `[n_vocab]`, before any sampling.
        logits: &'a [f32],
    },
    /// A token was chosen. Its text may come with a later one (half a character, half a stop string).
    Token {
        /// Id of the token.
        id: u32,
        /// What can be shown now.
        text: &'a str,
        /// Where [`Request::n_probs`] asks for them.
        probs: Option<&'a TokenProbs>,
    },
    /// The answer has ended; this much was held back.
    Flush {
        /// Id of the token that ended it.
        id: u32,
        /// The text that was held back.
        text: &'a str,
    },
}

/// How probable a token was: natural logarithms of the softmax of the model's logits, before any sampling, or where
/// [`Request::post_sampling`] says so of what the sampler drew from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TokenProbs {
    /// Of the token itself.
    pub logprob: f32,
    /// The likeliest tokens, the likeliest first.
    pub top: Vec<(u32, f32)>,
}

/// Why a generation ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finish {
    /// The model ended its turn.
    Eos,
    /// [`Request::max_tokens`] were generated.
    Limit,
    /// This stop text came; it is not a part of the answer.
    Stop(String),
    /// The context is full.
    Context,
    /// The caller wanted no more.
    Interrupted,
}

impl Finish {
    /// The name in JSON: llama-server's `stop_type`, and two more.
    pub fn name(&self) -> &'static str {
        match self {
            Finish::Eos => "eos",
            Finish::Limit => "limit",
            Finish::Stop(_) => "word",
            Finish::Context => "context",
            Finish::Interrupted => "interrupted",
        }
    }
}

/// A finished generation.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The text, without special tokens and stop texts.
    pub text: String,
    /// The tokens, the one that ended the turn included.
    pub tokens: Vec<u32>,
    /// Which limit, stop text or token ended it.
    pub finish: Finish,
    /// How long it took.
    pub timings: Timings,
    /// The decoder's sequence that it ran in last; `None`: it never ran.
    pub slot: Option<usize>,
}

/// Why a request was not answered.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum GenerateError {
    /// The prompt has no token, and the vocabulary has no BOS to begin with.
    #[error("the prompt is empty, and this model has no token to begin with")]
    EmptyPrompt,
    /// The prompt does not leave room for one token.
    #[error("prompt is too long ({tokens} tokens, max {max}); -c enlarges the context")]
    PromptTooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// Most that a prompt may have.
        max: usize,
    },
    /// The decoder refused a step, or its device failed.
    #[error(transparent)]
    Forward(#[from] ForwardError),
    /// No token could be chosen.
    #[error(transparent)]
    Sampler(#[from] SamplerError),
    /// The constraint on the answer allows no token, or cannot tell which.
    #[error("grammar: {0}")]
    Mask(String),
    /// The caller's processor has failed.
    #[error("logits processor: {0}")]
    Processor(String),
    /// The scheduler has panicked, and another one goes on without this request.
    #[error("the engine has failed and was started again; try once more")]
    Panicked,
}
