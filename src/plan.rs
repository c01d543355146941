//! What a run takes in memory, against what there is: asked before anything is loaded.

use qrun_models::{Config, Model, Options, memory};

/// A run that fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Context size, in tokens.
    pub n_ctx: usize,
    /// Bytes by purpose.
    pub bytes: memory::Plan,
    /// Bytes that this process can still get; `None` where the system does not say.
    pub available: Option<u64>,
}

/// A run that does not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "not enough memory: weights {} + {} for {n_ctx} tokens + activations {} = {} bytes, available {available}; {}",
    .bytes.weights, .bytes.describe_kv(), .bytes.activations, .bytes.total(), advice(*.fits)
)]
pub struct TooLarge {
    /// Context size that was asked for, in tokens.
    pub n_ctx: usize,
    /// Its need.
    pub bytes: memory::Plan,
    /// Bytes that this process can still get.
    pub available: u64,
    /// The largest context that fits; 0 when the weights alone do not.
    pub fits: usize,
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
            let n_ctx = wanted(model, options.n_ctx);
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
    let wanted = wanted(model, n_ctx);
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
fn wanted(model: &Model, n_ctx: usize) -> usize {
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

/// Bytes that this process can still get: what the system counts as available, and what its control
/// group leaves.
pub fn available_memory() -> Option<u64> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").ok();
    let system = meminfo.as_deref().and_then(mem_available);
    [system, group_room()].into_iter().flatten().min()
}

fn mem_available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

/// Limit minus use of the control group (v2, then v1). Page cache counts as use there and can be
/// given back, so files in the cache are added again.
fn group_room() -> Option<u64> {
    let number = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let cached = |path: &str, key: &str| -> Option<u64> {
        let stat = std::fs::read_to_string(path).ok()?;
        stat.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix(' ')?.parse().ok())
    };
    let v2 = "/sys/fs/cgroup";
    let v1 = "/sys/fs/cgroup/memory";
    let (limit, used, files) = match number(&format!("{v2}/memory.max")) {
        Some(limit) => (limit, number(&format!("{v2}/memory.current"))?, cached(&format!("{v2}/memory.stat"), "file")),
        None => (
            number(&format!("{v1}/memory.limit_in_bytes"))?,
            number(&format!("{v1}/memory.usage_in_bytes"))?,
            cached(&format!("{v1}/memory.stat"), "total_cache"),
        ),
    };
    Some(limit.saturating_sub(used.saturating_sub(files.unwrap_or(0))))
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

    #[test]
    fn meminfo_is_read_in_bytes() {
        let text = "MemTotal:       24678 kB\nMemAvailable:   12345 kB\n";
        assert_eq!(mem_available(text), Some(12345 << 10));
        assert_eq!(mem_available("MemTotal: 1 kB\n"), None);
    }
}
