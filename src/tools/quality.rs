//! How well a model predicts a text, and how far two decoders are apart.
//!
//! Perplexity is measured as llama.cpp measures it, so that its numbers can be compared: the text is
//! cut into chunks of the context size, each begins with BOS where the model adds one, and only the
//! second half of a chunk counts, so that every counted token has seen at least half a context.

mod statistics;

use std::{collections::VecDeque, ops::ControlFlow};

use qrun_models::{Forward, ForwardError};

pub use statistics::Estimate;
use statistics::{Mean, Row};

use crate::{
    generate::{Event, GenerateError, Request, Scheduler},
    sampler::SamplerParams,
};

/// Half of a smaller chunk would hold nothing to predict.
const SMALLEST: usize = 4;

/// A text as chunks of equal size; what does not fill the last one is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunks {
    tokens: Vec<u32>,
    size: usize,
}

impl Chunks {
    /// Cuts a text into chunks of `size` tokens; `bos` takes the place of the first token of each.
    ///
    /// # Errors
    /// A text that does not fill one chunk, a size below 4.
    pub fn new(mut tokens: Vec<u32>, size: usize, bos: Option<u32>) -> Result<Self, QualityError> {
        if size < SMALLEST {
            return Err(QualityError::ChunkSize { size });
        }
        tokens.truncate(tokens.len() / size * size);
        if tokens.is_empty() {
            return Err(QualityError::TooShort { size });
        }
        if let Some(bos) = bos {
            tokens.iter_mut().step_by(size).for_each(|first| *first = bos);
        }
        Ok(Self { tokens, size })
    }

    /// Tokens per chunk.
    pub fn size(&self) -> usize {
        self.size
    }
    /// Number of chunks.
    pub fn count(&self) -> usize {
        self.tokens.len() / self.size
    }
    /// The tokens of each chunk.
    pub fn iter(&self) -> impl Iterator<Item = &[u32]> {
        self.tokens.chunks(self.size)
    }
    /// Tokens whose probability is asked for, over all chunks.
    pub fn scored(&self) -> usize {
        self.count() * (self.size - 1 - self.first_scored())
    }
    /// The first position whose logits count.
    fn first_scored(&self) -> usize {
        self.size / 2
    }
}

/// How well a model predicts a text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Perplexity {
    /// Negative log-likelihood per token, in nats.
    pub nll: Estimate,
}

impl Perplexity {
    /// The perplexity: e to the mean negative log-likelihood, with its standard error.
    pub fn value(&self) -> Estimate {
        let ppl = self.nll.mean.exp();
        Estimate { mean: ppl, error: ppl * self.nll.error }
    }
}

/// How far a decoder is from another one, which counts as the truth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// Perplexity of the decoder.
    pub model: Perplexity,
    /// Of the other one, the base.
    pub base: Perplexity,
    /// ln(PPL / base PPL): the difference in log-likelihood, token by token.
    pub log_ratio: Estimate,
    /// KL(base‖model) per token, in nats.
    pub kl: Estimate,
    /// The largest KL(base‖model) of a token.
    pub kl_max: f64,
    /// Share of tokens at which both have the same most probable token.
    pub same_top: Estimate,
}

impl Comparison {
    /// PPL − base PPL. Both were measured on the same tokens, so most of their errors cancel.
    pub fn delta(&self) -> Estimate {
        let (model, base) = (self.model.value(), self.base.value());
        let square = |e: f64| e * e;
        let covariance =
            (square(self.model.nll.error) + square(self.base.nll.error) - square(self.log_ratio.error)) / 2.0;
        let variance = square(model.error) + square(base.error) - 2.0 * model.mean * base.mean * covariance;
        Estimate { mean: model.mean - base.mean, error: variance.max(0.0).sqrt() }
    }
}

/// Why nothing was measured.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum QualityError {
    /// The text does not fill a chunk.
    #[error("the text has fewer than {size} tokens, one chunk: give a longer text or a smaller context (-c)")]
    TooShort {
        /// Tokens per chunk.
        size: usize,
    },
    /// A chunk without anything to predict.
    #[error("chunks of {size} tokens: expected at least 4")]
    ChunkSize {
        /// Tokens per chunk.
        size: usize,
    },
    /// The decoder cannot hold a chunk.
    #[error("chunks of {size} tokens do not fit into the decoder's context of {n_ctx}")]
    Context {
        /// Tokens per chunk.
        size: usize,
        /// Context size of the decoder.
        n_ctx: usize,
    },
    /// Distributions over other sets of tokens have no distance.
    #[error("vocabularies of {model} and {base} tokens: models with the same vocabulary can be compared")]
    Vocabulary {
        /// Tokens of the decoder's vocabulary.
        model: usize,
        /// Tokens of the base's vocabulary.
        base: usize,
    },
    /// A logit is NaN.
    #[error("logit of token {token} at position {pos} of chunk {chunk}: expected a finite number, found {value}")]
    NotFinite {
        /// Id of the token whose logit it is.
        token: usize,
        /// Its chunk, from 0.
        chunk: usize,
        /// The position in the chunk.
        pos: usize,
        /// The logit: NaN or infinity.
        value: f32,
    },
    /// The decoder refused a chunk, or its device failed.
    #[error(transparent)]
    Forward(#[from] ForwardError),
    /// The scheduler refused a chunk.
    #[error(transparent)]
    Generate(GenerateError),
}

impl QualityError {
    fn of(error: GenerateError) -> Self {
        match error {
            GenerateError::Forward(error) => Self::Forward(error),
            error => Self::Generate(error),
        }
    }
}

/// Measures the perplexity of a text. `progress(done, total)` counts tokens.
///
/// # Errors
/// A decoder whose context is smaller than a chunk, logits that are NaN.
pub fn perplexity(
    model: &mut Scheduler,
    text: &Chunks,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Perplexity, QualityError> {
    let mut nll = Mean::default();
    walk(model, None, text, progress, &mut |next, row, _| nll.push(-row.log_p(next)))?;
    Ok(Perplexity { nll: nll.estimate() })
}

/// Compares two decoders on a text; the base counts as the truth. `progress(done, total)` counts tokens.
///
/// # Errors
/// As [`perplexity`], and decoders of other vocabulary sizes.
pub fn compare(
    model: &mut Scheduler,
    base: &mut Scheduler,
    text: &Chunks,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Comparison, QualityError> {
    let (mut nll, mut base_nll, mut log_ratio) = (Mean::default(), Mean::default(), Mean::default());
    let (mut kl, mut kl_max, mut same_top) = (Mean::default(), 0.0, Mean::default());
    walk(model, Some(base), text, progress, &mut |next, model, base| {
        let Some(base) = base else { return };
        nll.push(-model.log_p(next));
        base_nll.push(-base.log_p(next));
        log_ratio.push(base.log_p(next) - model.log_p(next));
        let divergence = base.divergence(&model);
        kl.push(divergence);
        kl_max = f64::max(kl_max, divergence);
        same_top.push(f64::from(u8::from(model.top() == base.top())));
    })?;
    Ok(Comparison {
        model: Perplexity { nll: nll.estimate() },
        base: Perplexity { nll: base_nll.estimate() },
        log_ratio: log_ratio.estimate(),
        kl: kl.estimate(),
        kl_max,
        same_top: same_top.estimate(),
    })
}

/// Takes a model through a chunk; `score` gets the logits of each counted position. Ends where `score` fails.
struct Walk<'a> {
    scheduler: &'a mut Scheduler,
    /// Whether the chunk is done.
    done: bool,
}

impl<'a> Walk<'a> {
    fn begin(scheduler: &'a mut Scheduler, chunk: &[u32], first: usize) -> Result<Self, QualityError> {
        // The successor of a chunk's last token is not in the chunk.
        let last = chunk.len() - 1;
        let request = Request {
            prompt: chunk[..last].to_vec(),
            max_tokens: Some(0),
            logits: Some(first..last),
            fresh: true,
            ..Request::default()
        };
        let greedy = SamplerParams { temperature: 0.0, ..SamplerParams::default() };
        scheduler.submit(request, greedy).map_err(QualityError::of)?;
        Ok(Self { scheduler, done: false })
    }

    /// One step; `false` when the chunk is done.
    fn step(&mut self, watch: &mut dyn FnMut(Event) -> ControlFlow<()>) -> Result<bool, QualityError> {
        self.scheduler.step(&mut |_, event| watch(event));
        if let Some(finished) = self.scheduler.finished() {
            self.done = true;
            finished.result.map_err(QualityError::of)?;
        }
        Ok(!self.done)
    }
}

/// The logits of the base at positions that the model has not reached yet.
type Ahead = VecDeque<(usize, Vec<f32>)>;

/// Takes models through the text side by side, the base only where there is one; `score` gets each counted token and the
/// distributions before it.
fn walk(
    model: &mut Scheduler,
    mut base: Option<&mut Scheduler>,
    text: &Chunks,
    progress: &mut dyn FnMut(usize, usize),
    score: &mut dyn FnMut(usize, Row, Option<Row>),
) -> Result<(), QualityError> {
    check(model.forward(), base.as_deref().map(Scheduler::forward), text)?;
    let (first, total) = (text.first_scored(), text.tokens.len());
    for (c, chunk) in text.iter().enumerate() {
        let mut ahead = Ahead::new();
        let mut base = base.as_deref_mut().map(|base| Walk::begin(base, chunk, first)).transpose()?;
        let mut model = Walk::begin(model, chunk, first)?;
        let mut failed = None;
        let mut scored = |pos: usize, logits: &[f32]| {
            let row = |logits| {
                Row::new(logits).map_err(|(token, value)| QualityError::NotFinite { token, chunk: c, pos, value })
            };
            let truth = match &mut base {
                Some(base) => Some(base_logits(base, &mut ahead, pos)?),
                None => None,
            };
            let next = chunk[pos + 1] as usize;
            score(next, row(logits)?, truth.as_deref().map(row).transpose()?);
            Ok(())
        };
        let mut watch = |event: Event| match event {
            Event::Prompt { done, .. } if failed.is_none() => {
                progress(c * text.size + done, total);
                ControlFlow::Continue(())
            }
            Event::Logits { pos, logits } if failed.is_none() => match scored(pos, logits) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            },
            _ => ControlFlow::Continue(()),
        };
        while model.step(&mut watch)? {}
        if let Some(error) = failed {
            return Err(error);
        }
        // The base ends its chunk too.
        if let Some(base) = &mut base {
            while !base.done && base.step(&mut |_| ControlFlow::Continue(()))? {}
        }
    }
    progress(total, total);
    Ok(())
}

/// The base's logits at `pos`; it is stepped until it has them.
fn base_logits(base: &mut Walk, ahead: &mut Ahead, pos: usize) -> Result<Vec<f32>, QualityError> {
    loop {
        if let Some((at, logits)) = ahead.pop_front() {
            if at == pos {
                return Ok(logits);
            }
            continue;
        }
        let mut keep = |event: Event| {
            if let Event::Logits { pos, logits } = event {
                ahead.push_back((pos, logits.to_vec()));
            }
            ControlFlow::Continue(())
        };
        let goes_on = base.step(&mut keep)?;
        assert!(goes_on || !ahead.is_empty(), "the base has logits at the positions of the model");
    }
}

/// Whether all hold a chunk and have the same vocabulary.
fn check(model: &dyn Forward, base: Option<&dyn Forward>, text: &Chunks) -> Result<(), QualityError> {
    let n_vocab = model.n_vocab();
    for decoder in [Some(model), base].into_iter().flatten() {
        if decoder.n_ctx() < text.size {
            return Err(QualityError::Context { size: text.size, n_ctx: decoder.n_ctx() });
        }
        if decoder.n_vocab() != n_vocab {
            return Err(QualityError::Vocabulary { model: n_vocab, base: decoder.n_vocab() });
        }
    }
    Ok(())
}
