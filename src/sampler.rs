//! From logits to one token, in llama.cpp's order with its defaults.
//!
//! # The specification
//!
//! A second implementation (a GPU kernel) must draw the same token from the same logits. So every step is
//! either a comparison or exact integer arithmetic; sums are sums of integers and do not depend on their order.
//! `f32`/`f64` operations are single IEEE operations, rounded to nearest, never contracted into an FMA.
//!
//! *Input.* `l[i]`, one `f32` per token id. A NaN or `+inf` anywhere is an error; `-inf` excludes a token.
//!
//! 0. **Mask** (where there is one): `l[i] = -inf` for each token that may not come next.
//! 1. **Bias**: `l[i] = l[i] + bias` for each pair, in the order given.
//! 2. **Penalties** over the last `repeat_last_n` tokens (-1: all): for each distinct token there, `c` times
//!    present, `l = l > 0 ? l / repeat : l * repeat`, then
//!    `l = l - (c * frequency + presence)` (`c` as `f32`; product, sum, difference each rounded).
//!    Skipped when repeat = 1 and frequency = presence = 0.
//! 3. **Rank**: tokens are ordered by `l` descending, among equals by id ascending. The set `S` starts as all
//!    tokens with `l > -inf`; it must not be empty.
//! 4. **Top-n-sigma** (off at n ≤ 0): with `a = floor(f64(max(S) - l) * 2^16)`, `max(S) - l` in `f32` and at most 2^20,
//!    and the sums over the `N` tokens of `S`, `σ = sqrt(f64(N * Σ a² - (Σ a)²)) / f64(N) / 2^16`: keep
//!    `l ≥ max(S) - f32(f64(n) * σ)`. Then **top-k** (off at k ≤ 0): the first k by rank.
//! 5. **Typical** (off at p ≥ 1): with the weights `w` below at temperature 1 and `d = max(S) - l` in `f32`,
//!    `E = f64(Σ floor(f64(w) * f64(d) * 2^6)) / 2^6 / f64(Σ w)` (over w > 0), `t = |f64(d) - E|`: the distance of a
//!    token's surprise from the entropy. By `t` ascending, among equals by rank, keep the shortest prefix with
//!    `f64(Σ w) > f64(p) * f64(total)`.
//! 6. **Top-p** (off at p ≥ 1): by rank, keep the shortest prefix with `f64(Σ w) ≥ f64(p) * f64(total)`.
//! 7. **Min-p** (off at p ≤ 0): keep `l ≥ max(S) + ln p`; `ln` in `f32`, computed once by the host.
//! 8. **Temperature** ≤ 0: the first of `S` by rank is the answer. Otherwise
//! 9. **Draw**: weights at the temperature, `W` their total over `S`, `r` the 64-bit random number
//!    of this position, `x = (r * W) >> 64` (128-bit product): the answer is the first token of `S` **by id**
//!    whose running total of weights is greater than `x`.
//!
//! *Weights.* `w = floor(2^40 * exp((l - max(S)) / temperature))` as an integer: `d = l - max` and
//! `x = d / temperature` in `f32`, then [`weight`] in `f64`. 2^18 tokens of weight 2^40 sum up below 2^64.
//! Tokens less probable than the best by more than 2^40 weigh nothing.
//!
//! *Random numbers.* Philox4x32-10 with key `seed` and counter `(position, stream 0)`; words 0 (low) and 1
//! (high) make `r`. `position` is the number of tokens accepted so far, prompt included: the draw depends on
//! nothing else, so a continued session draws what an unbroken one would.
//!
//! Steps 4, 6 and 7 keep prefixes of the rank, so an implementation may apply min-p before it looks for the
//! end of top-p (the total of step 6 must still be that of the whole set).

mod device;
mod mask;
mod params;
mod penalties;
mod philox;
mod processor;
mod select;
mod weight;

pub use mask::{Mask, TokenMask};
pub use params::{Change, SamplerParams, parse_logit_bias, parse_samplers, sampler_names};
pub use philox::philox4x32;
pub use processor::LogitsProcessor;
pub use weight::weight;

use penalties::Penalties;
use select::Candidate;

/// Why no token could be chosen, or no sampler built.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SamplerError {
    /// A parameter outside of its range.
    #[error("{name} is {value}; expected {expected}")]
    Parameter {
        /// The parameter, as its flag is called.
        name: &'static str,
        /// The value as it was given.
        value: String,
        /// The range that is accepted, in words.
        expected: &'static str,
    },
    /// The logits do not belong to this vocabulary.
    #[error("{found} logits for a vocabulary of {expected} tokens")]
    Length {
        /// The size of the vocabulary.
        expected: usize,
        /// The number of logits.
        found: usize,
    },
    /// The model computed garbage.
    #[error("the logit of token {token} is {value}: the model's arithmetic has failed")]
    NotFinite {
        /// The first such token.
        token: u32,
        /// The logit: NaN or +infinity.
        value: f32,
    },
    /// Every token is excluded.
    #[error("every token is excluded (all logits are -inf)")]
    NoToken,
}

/// Chooses tokens. Holds the tokens accepted so far, as far as the penalties look back.
#[derive(Clone, Debug)]
pub struct Sampler {
    params: SamplerParams,
    n_vocab: usize,
    position: u64,
    penalties: Penalties,
    /// Bits of the tokens that may come next; `None`: all of them.
    allowed: Option<Vec<u32>>,
    /// The logits after mask, bias and penalties; empty where none is on.
    adjusted: Vec<f32>,
    /// The set S, ordered by id.
    set: Vec<Candidate>,
    scratch: Vec<Candidate>,
}

impl Sampler {
    /// A sampler for a vocabulary of `n_vocab` tokens, with nothing accepted yet.
    ///
    /// # Errors
    /// A parameter outside of its range, a biased token outside of the vocabulary.
    pub fn new(params: SamplerParams, n_vocab: usize) -> Result<Self, SamplerError> {
        params.check(n_vocab)?;
        let penalties = Penalties::new(&params);
        Ok(Self {
            params,
            n_vocab,
            position: 0,
            penalties,
            allowed: None,
            adjusted: Vec::new(),
            set: Vec::new(),
            scratch: Vec::new(),
        })
    }

    /// The parameters, after a model file's own were applied.
    pub fn params(&self) -> &SamplerParams {
        &self.params
    }

    /// The number of tokens accepted so far.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Adds a token, of the prompt or chosen, to what the penalties see and moves on to the next position.
    pub fn accept(&mut self, token: u32) {
        self.position += 1;
        self.penalties.accept(token);
    }

    /// Starts over as if exactly the tokens of `history` had been accepted.
    pub fn reset(&mut self, history: &[u32]) {
        self.position = history.len() as u64;
        self.penalties.reset(history);
    }

    /// Step 0 from here on: what [`Mask::allowed`] gave for the next token, or `None` for all tokens.
    pub fn restrict(&mut self, allowed: Option<&[u32]>) {
        match (&mut self.allowed, allowed) {
            (Some(held), Some(words)) => {
                held.clear();
                held.extend_from_slice(words);
            }
            (held, words) => *held = words.map(<[u32]>::to_vec),
        }
    }

    /// Chooses the token for the current position. Does not accept it.
    ///
    /// # Errors
    /// A wrong number of logits, a logit that is NaN or infinite, no token left.
    pub fn sample(&mut self, logits: &[f32]) -> Result<u32, SamplerError> {
        if self.params.temperature <= 0.0 && self.params.typical_p >= 1.0 {
            let best = select::argmax(self.adjust(logits)?)?;
            return Ok(best.token);
        }
        self.filter(logits)?;
        if self.params.temperature <= 0.0 {
            return Ok(select::best(&self.set).token);
        }
        let total = select::weigh(&mut self.set, self.params.temperature);
        let [low, high, ..] = philox4x32(self.params.seed, [self.position as u32, (self.position >> 32) as u32, 0, 0]);
        let random = u64::from(low) | u64::from(high) << 32;
        Ok(select::draw(&self.set, total, random))
    }

    /// The tokens that may be drawn from these logits and their probabilities, the most probable first.
    ///
    /// # Errors
    /// As [`Sampler::sample`].
    pub fn distribution(&mut self, logits: &[f32]) -> Result<Vec<(u32, f64)>, SamplerError> {
        self.filter(logits)?;
        if self.params.temperature <= 0.0 {
            return Ok(vec![(select::best(&self.set).token, 1.0)]);
        }
        let total = select::weigh(&mut self.set, self.params.temperature) as f64;
        let mut ranked = self.set.clone();
        ranked.sort_unstable_by(Candidate::rank);
        Ok(ranked.iter().map(|candidate| (candidate.token, candidate.weight as f64 / total)).collect())
    }

    /// Steps 0 to 2.
    fn adjust<'a>(&'a mut self, logits: &'a [f32]) -> Result<&'a [f32], SamplerError> {
        if logits.len() != self.n_vocab {
            return Err(SamplerError::Length { expected: self.n_vocab, found: logits.len() });
        }
        if self.allowed.is_none() && self.params.logit_bias.is_empty() && self.penalties.are_off() {
            return Ok(logits);
        }
        self.adjusted.clear();
        self.adjusted.extend_from_slice(logits);
        if let Some(words) = &self.allowed {
            let bit = |id: usize| words.get(id / 32).is_some_and(|word| word >> (id % 32) & 1 == 1);
            // NaN and +inf stay: they say that the model's arithmetic has failed, whatever may come next.
            let finite = |logit: f32| logit < f32::INFINITY;
            let forbidden = self.adjusted.iter_mut().enumerate().filter(|(id, logit)| !bit(*id) && finite(**logit));
            forbidden.for_each(|(_, logit)| *logit = f32::NEG_INFINITY);
        }
        for &(token, bias) in &self.params.logit_bias {
            self.adjusted[token as usize] += bias;
        }
        self.penalties.apply(&mut self.adjusted);
        Ok(&self.adjusted)
    }

    /// Steps 0 to 7: fills the set S.
    fn filter(&mut self, logits: &[f32]) -> Result<(), SamplerError> {
        let mut set = std::mem::take(&mut self.set);
        let top_k = usize::try_from(self.params.top_k).unwrap_or(0);
        let top_n_sigma = self.params.top_n_sigma;
        let filled = self.adjust(logits).and_then(|adjusted| {
            select::fill(&mut set, adjusted, top_k)?;
            if top_n_sigma > 0.0 {
                select::within_sigma(&mut set, adjusted, top_n_sigma);
            }
            Ok(())
        });
        self.set = set;
        filled?;
        if self.params.typical_p < 1.0 {
            select::typical(&mut self.set, &mut self.scratch, self.params.typical_p);
        }
        select::nucleus(&mut self.set, &mut self.scratch, self.params.top_p, self.params.min_p);
        Ok(())
    }
}
