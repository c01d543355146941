//! Means with their errors, and distributions from logits; everything is summed in f64.

/// A mean with its standard error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Arithmetic mean of the samples.
    pub mean: f64,
    /// Standard error of the mean, as for independent samples; 0 for a single one.
    pub error: f64,
}

/// A mean in the making: Welford's sums, which lose no digits where the spread is small.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mean {
    n: f64,
    mean: f64,
    squares: f64,
}

impl Mean {
    pub fn push(&mut self, x: f64) {
        self.n += 1.0;
        let before = x - self.mean;
        self.mean += before / self.n;
        self.squares += before * (x - self.mean);
    }

    pub fn estimate(&self) -> Estimate {
        let variance = if self.n > 1.0 { self.squares / self.n / (self.n - 1.0) } else { 0.0 };
        Estimate { mean: self.mean, error: variance.max(0.0).sqrt() }
    }
}

/// The distribution that logits stand for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Row<'a> {
    logits: &'a [f32],
    /// ln Σ exp(logit).
    log_sum: f64,
    max: f32,
}

impl<'a> Row<'a> {
    /// # Errors
    /// The first logit that is NaN or infinite, with its token.
    pub fn new(logits: &'a [f32]) -> Result<Self, (usize, f32)> {
        if let Some(token) = logits.iter().position(|x| !x.is_finite()) {
            return Err((token, logits[token]));
        }
        let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = logits.iter().map(|x| (f64::from(*x) - f64::from(max)).exp()).sum();
        Ok(Self { logits, log_sum: f64::from(max) + sum.ln(), max })
    }

    /// ln p(token).
    pub fn log_p(&self, token: usize) -> f64 {
        f64::from(self.logits[token]) - self.log_sum
    }

    /// The most probable token; of equals the first, as in greedy sampling.
    pub fn top(&self) -> Option<usize> {
        self.logits.iter().position(|x| *x == self.max)
    }

    /// KL(self‖other), in nats.
    pub fn divergence(&self, other: &Row) -> f64 {
        let term = |(p, q): (&f32, &f32)| {
            let log_p = f64::from(*p) - self.log_sum;
            log_p.exp() * (log_p - (f64::from(*q) - other.log_sum))
        };
        self.logits.iter().zip(other.logits).map(term).sum()
    }
}
