//! What a run takes in memory, against what there is: asked before anything is loaded.

mod available;

use qrun_models::{Config, Model, Options, memory};

pub use available::available_memory;

/// A run that fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Context size, in tokens.
    pub n_ctx: usize,
    /// What it takes: weights, KV cache, activations.
    pub bytes: memory::Plan,
    /// Bytes that this process can still get; `None` where the system does not say.
    pub available: Option<u64>,
}

/// A run that does not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "not enough memory: weights {} + KV cache {} for {n_ctx} tokens + activations {} = {}, available {}; {}",
    human_bytes(.bytes.weights), human_bytes(.bytes.kv), human_bytes(.bytes.activations), human_bytes(.bytes.total()),
    human_bytes(*.available), advice(*.fits)
)]
pub struct TooLarge {
    /// Context size that was asked for, in tokens.
    pub n_ctx: usize,
    /// What that context would take.
    pub bytes: memory::Plan,
    /// Bytes that this process can still get.
    pub available: u64,
    /// The largest context that fits; 0 when the weights alone do not.
    pub fits: usize,
}

/// Bytes as people read them, in powers of 1000.
pub fn human_bytes(n: u64) -> String {
    match n {
        0..1_000 => format!("{n} B"),
        1_000..1_000_000 => format!("{:.1} kB", n as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", n as f64 / 1e6),
        _ => format!("{:.1} GB", n as f64 / 1e9),
    }
}

fn advice(fits: usize) -> String {
    match fits {
        0 => "no context fits; a smaller model or a smaller quantization would".into(),
        n => format!("the largest context that fits is -c {n}"),
    }
}

/// The smallest context that is chosen without being asked for.
const SMALLEST: usize = 64;

/// Decides the context size: the one asked for, or (at 0) as much as the model was trained for and
/// memory holds.
///
/// # Errors
/// [`TooLarge`] with the numbers and what would fit.
pub fn fit(model: &Model, options: &Options, available: Option<u64>) -> Result<Plan, TooLarge> {
    let need = |n_ctx| memory::Plan::new(model, &Options { n_ctx, ..options.clone() });
    match available {
        Some(room) => fit_need(model, options.n_ctx, room, need),
        None => {
            let n_ctx = context_size(model, options.n_ctx);
            Ok(Plan { n_ctx, bytes: need(n_ctx), available })
        }
    }
}

/// The same where a context of `n_ctx` tokens takes `need(n_ctx)`.
///
/// # Errors
/// As [`fit`].
pub fn fit_need(
    model: &Model,
    n_ctx: usize,
    room: u64,
    need: impl Fn(usize) -> memory::Plan,
) -> Result<Plan, TooLarge> {
    let wanted = context_size(model, n_ctx);
    let plan = |n_ctx| Plan { n_ctx, bytes: need(n_ctx), available: Some(room) };
    if need(wanted).total() <= room {
        return Ok(plan(wanted));
    }
    let fits = largest(wanted, |n_ctx| need(n_ctx).total() <= room);
    if n_ctx == 0 && fits >= SMALLEST {
        return Ok(plan(fits));
    }
    Err(TooLarge { n_ctx: wanted, bytes: need(wanted), available: room, fits })
}

/// The context that is asked for: at 0 what the model was trained for.
fn context_size(model: &Model, n_ctx: usize) -> usize {
    if n_ctx == 0 { model.config.n_ctx_train.max(1) } else { n_ctx }
}

/// The largest `n` up to `limit` that fits (a whole number of 64-token pages), 0 if none does.
fn largest(limit: usize, fits: impl Fn(usize) -> bool) -> usize {
    let (mut good, mut bad) = (0, limit.div_ceil(SMALLEST));
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if fits(middle * SMALLEST) { good = middle } else { bad = middle }
    }
    good * SMALLEST
}

/// Context sizes that a listing shows: powers of two from 512, and the longest.
pub fn context_sizes(config: &Config) -> Vec<usize> {
    let longest = config.n_ctx_train.max(1);
    let powers = (9..63).map(|i| 1usize << i).take_while(|&n| n < longest);
    powers.chain([longest]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_is_found() {
        for (limit, room, expected) in [(4096, 1000, 960), (4096, 63, 0), (4096, 64, 64), (100, 99, 64)] {
            assert_eq!(largest(limit, |n| n <= room), expected, "{limit} {room}");
        }
    }
}
