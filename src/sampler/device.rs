//! The same sampler on a GPU: what its kernels are told, and what they answer.

use qrun_cuda::ops::sample::{SampledToken, Sampling, Status};

use super::{Sampler, SamplerError, SamplerParams};

impl SamplerParams {
    /// What the kernels need to draw exactly what [`Sampler`] draws after `position` accepted tokens. `None` where only
    /// the CPU can: with top-n-sigma or typical sampling.
    pub fn on_device(&self, position: u64) -> Option<Sampling> {
        (self.typical_p >= 1.0 && self.top_n_sigma <= 0.0).then(|| Sampling {
            seed: self.seed,
            position,
            temperature: self.temperature,
            top_k: self.top_k.max(0),
            top_p: self.top_p,
            ln_min_p: if self.min_p > 0.0 { self.min_p.ln() } else { f32::NEG_INFINITY },
            repeat: self.repeat_penalty,
            frequency: self.frequency_penalty,
            presence: self.presence_penalty,
            window: if self.penalises() { self.repeat_last_n.max(-1) } else { 0 },
        })
    }
}

impl Sampler {
    /// The answer of the kernels, as [`Sampler::sample`] gives it.
    ///
    /// # Errors
    /// A logit that is NaN or infinite, no token left.
    pub fn outcome(drawn: &SampledToken) -> Result<u32, SamplerError> {
        match drawn.status() {
            Status::Sampled => Ok(drawn.token()),
            Status::NotFinite => Err(SamplerError::NotFinite { token: drawn.token(), value: drawn.logit() }),
            // Who looks at a row that was not reached finds no token there either.
            Status::NoToken | Status::NotReached => Err(SamplerError::NoToken),
        }
    }
}
