//! What CI holds the counts to. Where the shipped code misses a goal it is held to what it counts now, so that it cannot
//! get worse, and the miss is printed.

use serde_json::Value;

/// A limit for the numbers at a path of the JSON object, keys with `/` between them, and below it. Of several limits for
/// a number the one with the longest path counts.
struct Limit {
    path: &'static str,
    /// What CI holds it to.
    held: f64,
    /// What it is to become.
    goal: f64,
}

/// A goal that is reached.
const fn reached(path: &'static str, goal: f64) -> Limit {
    Limit { path, held: goal, goal }
}

/// One that is not.
const fn missed(path: &'static str, held: f64, goal: f64) -> Limit {
    Limit { path, held, goal }
}

/// The keys that are to be large; all others are to be small.
const LARGE: &str = "sector_efficiency";

#[rustfmt::skip]
const LIMITS: &[Limit] = &[
    reached("launches_per_token/gemma-3-1b", 134.0),
    reached("launches_per_token/llama-3.2-1b", 84.0),
    reached("launches_per_token/qwen3-1.7b", 144.0),
    // 24 delta nets of 6 and 8 layers of attention of 5, and 4 besides.
    reached("launches_per_token/qwen3.5-9b", 188.0),
    // 48 layers: 3 of attention and 4 of experts.
    reached("launches_per_token/qwen3-30b-a3b", 340.0),
    // 36 layers of Mamba-2 of 6 and 4 of attention of 5.
    reached("launches_per_token/granite-4.0-h-micro", 240.0),
    // 23 layers of Mamba-2 of 4, 6 of attention of 3, and 23 of experts of 5, with a shared one of 3.
    reached("launches_per_token/nemotron-3-nano-30b-a3b", 298.0),
    // 47 layers: 6 of latent attention, 2 of a feed-forward in the first, 6 of experts with a shared one in the others; 5 besides.
    reached("launches_per_token/glm-4.7-flash", 565.0),
    reached("bytes_read_over_weights_and_kv/gemma-3-1b/weights_and_kv", 1.01),
    reached("bytes_read_over_weights_and_kv/llama-3.2-1b/weights_and_kv", 1.01),
    reached("bytes_read_over_weights_and_kv/qwen3-1.7b/weights_and_kv", 1.01),
    reached("host_syncs_per_token", 0.0),
    reached("allocations_after_load", 0.0),
    reached("spill_bytes", 0.0),
    reached("binary_bytes", 30e6),
    missed("sass_instructions_per_weight/sm_75/q8_0", 1.41, 1.3),
    missed("sass_instructions_per_weight/sm_75/q4_0", 1.79, 1.6),
    missed("sass_instructions_per_weight/sm_75/q5_0", 2.43, 2.2),
    missed("sass_instructions_per_weight/sm_75/q4_k", 2.3, 1.9),
    reached("sass_instructions_per_weight/sm_75/q6_k", 2.72),
    missed("sass_instructions_per_weight/sm_75/f16", 2.72, 1.0),
    missed("issued_per_weight/gemma-3-1b/head/Q8_0", 1.7, 1.6),
    missed("issued_per_weight/gemma-3-1b/gate_up/Q5_0", 3.33, 2.7),
    missed("issued_per_weight/gemma-3-1b/down/Q4_K", 2.73, 2.2),
    reached("issued_per_weight/gemma-3-1b/down/Q6_K", 3.2),
    // Without goals. In q, k, v and gate and up every block norms the column first.
    reached("issued_per_weight/gemma-3-1b/qkv", 9.6),
    reached("issued_per_weight/gemma-3-1b/o", 3.89),
    reached("issued_per_weight/llama-3.2-1b", 3.86),
    reached("issued_per_weight/qwen3-1.7b", 3.88),
    reached("sector_efficiency", 0.99),
    reached("lines_per_1024_weights/gemma-3-1b/Q8_0", 9.0),
    reached("lines_per_1024_weights/gemma-3-1b/Q5_0", 6.0),
    reached("lines_per_1024_weights/gemma-3-1b/Q4_K", 5.0),
    reached("lines_per_1024_weights/gemma-3-1b/Q6_K", 9.0),
    reached("bank_conflicts/gemma-3-1b", 1.05),
    missed("bank_conflicts/llama-3.2-1b", 1.34, 1.05),
    missed("bank_conflicts/qwen3-1.7b", 1.34, 1.05),
    reached("instructions_per_mma/sm_90/Q8_0", 17.0),
    reached("instructions_per_mma/sm_90/Q4_0", 20.0),
    reached("instructions_per_mma/sm_90/Q5_0", 20.0),
    reached("instructions_per_mma/sm_90/Q4_K", 20.0),
    reached("instructions_per_mma/sm_90/Q6_K", 30.0),
];

/// Counts of which a limit is passed, and of which a goal is, one line each.
pub struct Past {
    pub limits: Vec<String>,
    pub goals: Vec<String>,
}

/// Holds counts to all limits.
pub fn past(counts: &Value) -> Past {
    past_of(LIMITS, counts)
}

fn past_of(limits: &[Limit], counts: &Value) -> Past {
    let mut past = Past { limits: Vec::new(), goals: Vec::new() };
    for limit in limits {
        let value = limit.path.split('/').try_fold(counts, |value, key| value.get(key)).unwrap_or(&Value::Null);
        let mut found = Vec::new();
        leaves(limit.path, value, &mut found);
        let nearer = |path: &str| limits.iter().any(|l| l.path.len() > limit.path.len() && covers(l, path));
        for (path, value) in found.iter().filter(|(path, _)| !nearer(path)) {
            let large = path.starts_with(LARGE);
            // What is no number is past every limit.
            let passes = |limit: f64| value.as_f64().is_none_or(|v| if large { v < limit } else { v > limit });
            let told =
                |limit: f64| format!("{path}: at {} {limit}, found {value}", if large { "least" } else { "most" });
            if passes(limit.held) {
                past.limits.push(told(limit.held));
            }
            if passes(limit.goal) {
                past.goals.push(told(limit.goal));
            }
        }
    }
    past
}

/// Whether a limit is for the number at a path.
fn covers(limit: &Limit, path: &str) -> bool {
    path.strip_prefix(limit.path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The values at a path and below it that are no objects. An empty object is one that is missing.
fn leaves<'a>(path: &str, value: &'a Value, found: &mut Vec<(String, &'a Value)>) {
    match value.as_object().filter(|below| !below.is_empty()) {
        Some(below) => below.iter().for_each(|(key, value)| leaves(&format!("{path}/{key}"), value, found)),
        None => found.push((path.to_owned(), value)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_nearest_limit_counts_and_what_is_missing_is_past_it() {
        let limits =
            [reached("few", 2.0), missed("few/a/b", 9.0, 3.0), reached("sector_efficiency", 0.5), reached("gone", 7.0)];
        let counts = json!({ "few": { "a": { "b": 8, "c": 2 }, "d": 3 }, "sector_efficiency": { "x": 0.4, "y": 0.6 } });
        let Past { limits, goals } = past_of(&limits, &counts);
        let gone = "gone: at most 7, found null";
        assert_eq!(limits, ["few/d: at most 2, found 3", "sector_efficiency/x: at least 0.5, found 0.4", gone]);
        let goal = "few/a/b: at most 3, found 8";
        assert_eq!(goals, ["few/d: at most 2, found 3", goal, "sector_efficiency/x: at least 0.5, found 0.4", gone]);
    }
}
