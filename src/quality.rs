//! How well a model predicts a text, and how far two decoders are apart.
//!
//! Perplexity is measured as llama.cpp measures it, so that its numbers can be compared: the text is
//! cut into chunks of the context size, each begins with BOS where the model adds one, and only the
//! second half of a chunk counts, so that every counted token has seen at least half a context.

mod statistics;

use qrun_models::{Entry, Forward, ForwardError, Output};

pub use statistics::Estimate;
use statistics::{Mean, Row};

/// Most logits that are asked for at once: 64 MB as f32.
const LOGITS: usize = 1 << 24;
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
    /// Of the decoder.
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
        /// Of the decoder.
        model: usize,
        /// Of the base.
        base: usize,
    },
    /// A logit is no number.
    #[error("logit of token {token} at position {pos} of chunk {chunk}: expected a finite number, found {value}")]
    NotFinite {
        /// The token.
        token: usize,
        /// Its chunk, from 0.
        chunk: usize,
        /// The position in the chunk.
        pos: usize,
        /// What was found.
        value: f32,
    },
    /// The decoder refused.
    #[error(transparent)]
    Forward(#[from] ForwardError),
}

/// Measures the perplexity of a text. `progress(done, total)` counts tokens.
///
/// Sequence 0 of the decoder is overwritten.
///
/// # Errors
/// A decoder whose context is smaller than a chunk, logits that are no numbers.
pub fn perplexity(
    model: &mut dyn Forward,
    text: &Chunks,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Perplexity, QualityError> {
    let mut nll = Mean::default();
    walk([model], text, progress, &mut |next, [row]| nll.push(-row.log_p(next)))?;
    Ok(Perplexity { nll: nll.estimate() })
}

/// Compares two decoders on a text; the base counts as the truth. `progress(done, total)` counts tokens.
///
/// Sequence 0 of both is overwritten.
///
/// # Errors
/// As [`perplexity`], and decoders of other vocabulary sizes.
pub fn compare(
    model: &mut dyn Forward,
    base: &mut dyn Forward,
    text: &Chunks,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Comparison, QualityError> {
    let (mut nll, mut base_nll, mut log_ratio) = (Mean::default(), Mean::default(), Mean::default());
    let (mut kl, mut kl_max, mut same_top) = (Mean::default(), 0.0, Mean::default());
    walk([model, base], text, progress, &mut |next, [model, base]| {
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

/// Takes the decoders through the text side by side; `score` gets each counted token and their
/// distributions before it.
fn walk<const N: usize>(
    mut decoders: [&mut dyn Forward; N],
    text: &Chunks,
    progress: &mut dyn FnMut(usize, usize),
    score: &mut dyn FnMut(usize, [Row; N]),
) -> Result<(), QualityError> {
    let n_vocab = check(&decoders, text)?;
    let rows = (LOGITS / n_vocab).max(1);
    // The successor of a chunk's last token is not in the chunk.
    let (first, last, total) = (text.first_scored(), text.size - 1, text.tokens.len());
    for (c, chunk) in text.tokens.chunks_exact(text.size).enumerate() {
        for decoder in &mut decoders {
            decoder.rewind(0, 0);
        }
        let mut start = 0;
        while start < last {
            progress(c * text.size + start, total);
            let end = if start < first { first } else { last.min(start + rows) };
            let entry =
                |pos| Entry { token: chunk[pos], pos: pos as u32, seq: 0, output: Output::logits_if(pos >= first) };
            let batch: Vec<Entry> = (start..end).map(entry).collect();
            let mut logits: [&[f32]; N] = [&[]; N];
            for (logits, decoder) in logits.iter_mut().zip(&mut decoders) {
                *logits = decoder.forward(&batch)?;
            }
            for pos in start.max(first)..end {
                let mut distributions = [Row::default(); N];
                for (row, logits) in distributions.iter_mut().zip(logits) {
                    let range = (pos - start) * n_vocab..(pos - start + 1) * n_vocab;
                    *row = Row::new(&logits[range]).map_err(|(token, value)| QualityError::NotFinite {
                        token,
                        chunk: c,
                        pos,
                        value,
                    })?;
                }
                score(chunk[pos + 1] as usize, distributions);
            }
            start = end;
        }
    }
    progress(total, total);
    Ok(())
}

/// The vocabulary size that all have in common.
fn check(decoders: &[&mut dyn Forward], text: &Chunks) -> Result<usize, QualityError> {
    let n_vocab = decoders.first().map_or(0, |d| d.n_vocab());
    for decoder in decoders {
        if decoder.n_ctx() < text.size {
            return Err(QualityError::Context { size: text.size, n_ctx: decoder.n_ctx() });
        }
        if decoder.n_vocab() != n_vocab {
            return Err(QualityError::Vocabulary { model: n_vocab, base: decoder.n_vocab() });
        }
    }
    let outside = text.tokens.iter().find(|&&token| token as usize >= n_vocab);
    outside.map_or(Ok(n_vocab), |&token| Err(ForwardError::Token { token, n_vocab }.into()))
}
