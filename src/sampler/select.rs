//! The set of tokens that may be drawn, and how it shrinks. None of these steps sorts a vocabulary.

use std::cmp::Ordering;

use super::{SamplerError, weight};

/// A token that may be drawn.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    pub token: u32,
    pub logit: f32,
    pub weight: u64,
}

impl Candidate {
    /// Logit descending, id ascending. Logits here are never NaN.
    pub fn rank(&self, other: &Self) -> Ordering {
        other.logit.partial_cmp(&self.logit).unwrap_or(Ordering::Equal).then(self.token.cmp(&other.token))
    }
}

fn not_finite(logits: &[f32]) -> Option<SamplerError> {
    let bad = |value: &f32| value.is_nan() || *value == f32::INFINITY;
    let token = logits.iter().position(bad)?;
    Some(SamplerError::NotFinite { token: token as u32, value: logits[token] })
}

/// Maxima of eight interleaved lanes, and whether all is well: the two in one pass that vectorises.
fn scan(logits: &[f32]) -> (f32, bool) {
    const LANES: usize = 8;
    let mut best = [f32::NEG_INFINITY; LANES];
    let mut nan = [false; LANES];
    let (chunks, rest) = logits.as_chunks::<LANES>();
    for chunk in chunks {
        for lane in 0..LANES {
            best[lane] = if chunk[lane] > best[lane] { chunk[lane] } else { best[lane] };
            nan[lane] |= chunk[lane].is_nan();
        }
    }
    let max = best.iter().chain(rest).fold(f32::NEG_INFINITY, |max, &x| if x > max { x } else { max });
    let well = !nan.contains(&true) && !rest.iter().any(|x| x.is_nan()) && max != f32::INFINITY;
    (max, well)
}

/// The first of all tokens by rank.
///
/// # Errors
/// [`SamplerError::NotFinite`]: a logit is NaN or +infinity. [`SamplerError::NoToken`]: all are -infinity.
pub fn argmax(logits: &[f32]) -> Result<Candidate, SamplerError> {
    let (max, well) = scan(logits);
    if !well && let Some(error) = not_finite(logits) {
        return Err(error);
    }
    let token = logits.iter().position(|&logit| logit == max).filter(|_| max > f32::NEG_INFINITY);
    token.map(|token| Candidate { token: token as u32, logit: max, weight: 0 }).ok_or(SamplerError::NoToken)
}

/// The first of the set by rank.
pub fn best(set: &[Candidate]) -> Candidate {
    *set.iter().min_by(|a, b| a.rank(b)).expect("the set is never empty")
}

/// Steps 3 and 4: the first `top_k` tokens by rank, all if 0. From here on the set is ordered by id.
///
/// # Errors
/// [`SamplerError::NotFinite`]: a logit is NaN or +infinity. [`SamplerError::NoToken`]: all are -infinity.
pub fn fill(set: &mut Vec<Candidate>, logits: &[f32], top_k: usize) -> Result<(), SamplerError> {
    set.clear();
    let all = top_k == 0 || top_k >= logits.len();
    // Collects up to four times k before it cuts back to k: few cuts, and the threshold rises soon.
    let room = if all { usize::MAX } else { top_k.saturating_mul(4).max(64) };
    let mut threshold = f32::NEG_INFINITY;
    for (token, &logit) in logits.iter().enumerate() {
        // Ids ascend, so an equal of the k-th comes too late. A NaN is not `<=` anything.
        if logit <= threshold {
            continue;
        }
        if logit.is_nan() || logit == f32::INFINITY {
            return Err(SamplerError::NotFinite { token: token as u32, value: logit });
        }
        set.push(Candidate { token: token as u32, logit, weight: 0 });
        if set.len() >= room {
            threshold = cut(set, top_k);
        }
    }
    if !all {
        if set.len() > top_k {
            cut(set, top_k);
        }
        set.sort_unstable_by_key(|candidate| candidate.token);
    }
    if set.is_empty() { Err(SamplerError::NoToken) } else { Ok(()) }
}

/// Keeps the first `k` by rank; returns the logit of the last of them.
fn cut(set: &mut Vec<Candidate>, k: usize) -> f32 {
    let (_, last, _) = set.select_nth_unstable_by(k - 1, Candidate::rank);
    let threshold = last.logit;
    set.truncate(k);
    threshold
}

/// Step 4, after top-k: both keep a prefix of the rank, so their order does not matter.
pub fn within_sigma(set: &mut Vec<Candidate>, logits: &[f32], n: f32) {
    // Squares of at most 2^72, and 2^22 tokens at most: products with the number of tokens stay below 2^117.
    const FARTHEST: f32 = (1 << 20) as f32;
    const POINT: f64 = 65536.0;
    let max = max_logit(set);
    let (mut tokens, mut sum, mut squares) = (0u128, 0u128, 0u128);
    for &logit in logits.iter().filter(|&&logit| logit > f32::NEG_INFINITY) {
        let below = (f64::from((max - logit).min(FARTHEST)) * POINT) as u64;
        tokens += 1;
        sum += u128::from(below);
        squares += u128::from(below) * u128::from(below);
    }
    let sigma = ((tokens * squares - sum * sum) as f64).sqrt() / tokens as f64 / POINT;
    let least = max - (f64::from(n) * sigma) as f32;
    set.retain(|candidate| candidate.logit >= least);
}

/// Sets the weights at a temperature; returns their total.
pub fn weigh(set: &mut [Candidate], temperature: f32) -> u64 {
    let max = max_logit(set);
    let mut total = 0;
    for candidate in set {
        candidate.weight = weight((candidate.logit - max) / temperature);
        total += candidate.weight;
    }
    total
}

fn max_logit(set: &[Candidate]) -> f32 {
    set.iter().fold(f32::NEG_INFINITY, |max, c| if c.logit > max { c.logit } else { max })
}

/// Step 5.
pub fn typical(set: &mut Vec<Candidate>, scratch: &mut Vec<Candidate>, p: f32) {
    // w * d is at most 2^40 / e, so that 2^18 tokens stay below 2^63.
    const POINT: f64 = 64.0;
    let total = weigh(set, 1.0);
    let max = max_logit(set);
    let surprise = |c: &Candidate| f64::from(max - c.logit);
    let weighty = set.iter().filter(|c| c.weight > 0);
    let sum: u64 = weighty.map(|c| (c.weight as f64 * surprise(c) * POINT) as u64).sum();
    let mean = sum as f64 / POINT / total as f64;
    let distance = |c: &Candidate| (surprise(c) - mean).abs();
    let order = |a: &Candidate, b: &Candidate| distance(a).total_cmp(&distance(b)).then_with(|| a.rank(b));
    let share = f64::from(p) * total as f64;
    scratch.clone_from(set);
    if let Some(last) = last_kept(scratch, order, |sum| sum as f64 > share) {
        set.retain(|candidate| order(candidate, &last).is_le());
    }
}

/// Steps 6 and 7.
pub fn nucleus(set: &mut Vec<Candidate>, scratch: &mut Vec<Candidate>, top_p: f32, min_p: f32) {
    // Tokens that weigh at least 2^30 are mostly few, and mostly hold the share.
    const HEAVY: u64 = 1 << 30;
    let share = (top_p < 1.0).then(|| f64::from(top_p) * weigh(set, 1.0) as f64);
    if min_p > 0.0 {
        let least = max_logit(set) + min_p.ln();
        set.retain(|candidate| candidate.logit >= least);
    }
    let Some(share) = share else { return };
    let enough = |sum: u64| sum as f64 >= share;
    scratch.clear();
    scratch.extend(set.iter().filter(|candidate| candidate.weight >= HEAVY));
    if !enough(scratch.iter().map(|candidate| candidate.weight).sum()) {
        scratch.clone_from(set);
    }
    if let Some(last) = last_kept(scratch, Candidate::rank, enough) {
        set.retain(|candidate| candidate.rank(&last).is_le());
    }
}

/// The last of the shortest prefix, in the given order, whose total weight is `enough`; `None` if none is.
///
/// Halves the candidates instead of sorting them: whether the upper half is enough says which half to look at.
fn last_kept(
    candidates: &mut [Candidate],
    order: impl Fn(&Candidate, &Candidate) -> Ordering,
    enough: impl Fn(u64) -> bool,
) -> Option<Candidate> {
    const FEW: usize = 32;
    let mut total = 0;
    let mut rest = candidates;
    while rest.len() > FEW {
        let half = rest.len() / 2;
        rest.select_nth_unstable_by(half - 1, &order);
        let (upper, lower) = rest.split_at_mut(half);
        let sum: u64 = upper.iter().map(|candidate| candidate.weight).sum();
        rest = if enough(total + sum) {
            upper
        } else {
            total += sum;
            lower
        };
    }
    rest.sort_unstable_by(&order);
    rest.iter().copied().find(|candidate| {
        total += candidate.weight;
        enough(total)
    })
}

/// Step 9.
pub fn draw(set: &[Candidate], total: u64, random: u64) -> u32 {
    let target = ((u128::from(random) * u128::from(total)) >> 64) as u64;
    let mut running = 0;
    for candidate in set {
        running += candidate.weight;
        if running > target {
            return candidate.token;
        }
    }
    unreachable!("the target lies below the total, and the best token weighs 2^40")
}
