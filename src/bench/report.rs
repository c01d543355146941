//! A measured run as data: the field names of the public generation log, and beside each speed its limit.

use std::path::Path;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    info::RunInfo,
    limits::{CostModel, Limits},
    statistics::{extremes, mean, median, percentile},
    suite::Config,
    trial::Trial,
};
use crate::engine::Engine;

/// Parts of an answer whose latency is kept.
const PARTS: usize = 16;

/// A run of some configurations on one model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// What was measured, and where.
    #[serde(flatten)]
    pub info: RunInfo,
    /// Always true: there is no other way here.
    pub use_kv_cache: bool,
    /// Timed runs of each configuration.
    pub trials: usize,
    /// Untimed ones before them: the whole prompt, and at most 16 tokens.
    pub warmup_runs: usize,
    /// Milliseconds from the start of loading to a decoder that is ready.
    pub load_ms: f64,
    /// One entry per configuration.
    pub configs: Vec<Measured>,
}

/// What one configuration gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// What was run.
    #[serde(flatten)]
    pub config: Config,
    /// Generated tokens of a trial.
    pub generated_tokens: usize,
    /// How many of them would have ended the answer.
    pub eos_count: usize,
    /// Start to first token's text, median of the trials.
    pub ttft_median_ms: f64,
    /// Prompt tokens per second until then.
    pub prompt_throughput_median_tps: f64,
    /// Steps per second after it (`n − 1` of them): the steady state.
    pub decode_throughput_median_tps: f64,
    /// All generated tokens over the wall clock of the trial.
    pub e2e_throughput_tps: f64,
    /// Step latency over all trials.
    pub per_step_latency_mean_ms: f64,
    /// Half of the steps are faster.
    pub per_step_latency_p50_ms: f64,
    /// 90 % are.
    pub per_step_latency_p90_ms: f64,
    /// 95 % are.
    pub per_step_latency_p95_ms: f64,
    /// 99 % are.
    pub per_step_latency_p99_ms: f64,
    /// The fastest step.
    pub per_step_latency_min_ms: f64,
    /// The slowest step.
    pub per_step_latency_max_ms: f64,
    /// How many steps that were.
    pub per_step_latency_n: usize,
    /// Wall clock of a trial, median.
    pub wall_time_median_s: f64,
    /// KV cache in use at the end, 10⁶ bytes.
    pub cache_memory_mb: f64,
    /// Most memory held: of the process on a CPU, of the plan on a GPU; 2³⁰ bytes.
    pub peak_memory_gb: Option<f64>,
    /// Bytes that a step reads on average: weights and cache.
    pub step_bytes: f64,
    /// Those bytes per second, 10⁹.
    pub decode_gb_per_s: f64,
    /// Steps per second if nothing but reading took time.
    pub decode_limit_tps: f64,
    /// Prompt tokens per second if nothing but arithmetic took time; `None` where that limit is not known.
    pub prompt_limit_tps: Option<f64>,
    /// Medians of the steps in equal parts of the answer, the first part first: how latency grows with the context.
    pub step_ms_by_position: Vec<f64>,
    /// Wall clock of each trial, in seconds.
    pub wall_s: Vec<f64>,
}

impl Report {
    /// A report without configurations yet.
    pub fn new(suite: &str, engine: &Engine, (trials, warmup_runs): (usize, usize), load_ms: f64) -> Self {
        let info = RunInfo::new(suite, engine);
        Self { info, use_kv_cache: true, trials, warmup_runs, load_ms, configs: Vec::new() }
    }

    /// Reads a report that was kept.
    ///
    /// # Errors
    /// What is wrong with the file: it is missing, no JSON, or lacks a field.
    pub fn read(file: &Path) -> Result<Self, String> {
        Self::decode(&std::fs::read(file).map_err(|e| e.to_string())?)
    }

    /// The same of a file's bytes.
    ///
    /// # Errors
    /// What is missing or of another kind, and where.
    pub fn decode(json: &[u8]) -> Result<Self, String> {
        let what = "a report of `qrun bench`";
        // Among the fields of another an error loses its place: these are read by themselves first.
        decoded::<RunInfo>(json, what)?;
        decoded(json, what)
    }

    /// The report as it is kept: JSON, one field per line.
    pub fn json(&self) -> String {
        // Nothing in it can fail to be written: every key is a string.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// One line that can be pasted into an issue.
    pub fn line(&self) -> String {
        let each = self.configs.iter().map(|m| {
            let share = 100.0 * m.decode_share();
            format!("{} {:.1} ({share:.0} %)", m.config.name, m.decode_throughput_median_tps)
        });
        let each = each.collect::<Vec<_>>().join(", ");
        format!("{}: decode tok/s (of the memory limit) {each}", self.info.line())
    }
}

impl Measured {
    /// Sums up some trials of a configuration. Limits come later, see [`Measured::set_roofline`].
    pub fn new(config: &Config, trials: &[Trial], peak_memory: Option<u64>) -> Self {
        let over = |f: &dyn Fn(&Trial) -> f64| median(&trials.iter().map(f).collect::<Vec<_>>());
        let steps: Vec<f64> = trials.iter().flat_map(|t| t.step_ms.iter().copied()).collect();
        let (min, max) = extremes(&steps);
        Self {
            config: config.clone(),
            generated_tokens: trials.first().map_or(0, |t| t.tokens.len()),
            eos_count: trials.first().map_or(0, |t| t.n_eos),
            ttft_median_ms: over(&|t| t.ttft_ms),
            prompt_throughput_median_tps: over(&|t| t.prompt_per_second(config.n_prompt)),
            decode_throughput_median_tps: over(&Trial::decode_per_second),
            e2e_throughput_tps: over(&Trial::end_to_end_per_second),
            per_step_latency_mean_ms: mean(&steps),
            per_step_latency_p50_ms: percentile(&steps, 50.0),
            per_step_latency_p90_ms: percentile(&steps, 90.0),
            per_step_latency_p95_ms: percentile(&steps, 95.0),
            per_step_latency_p99_ms: percentile(&steps, 99.0),
            per_step_latency_min_ms: min,
            per_step_latency_max_ms: max,
            per_step_latency_n: steps.len(),
            wall_time_median_s: over(&|t| t.wall_ms / 1e3),
            cache_memory_mb: over(&|t| t.kv_bytes as f64 / 1e6),
            peak_memory_gb: peak_memory.map(|bytes| bytes as f64 / f64::from(1 << 30)),
            step_bytes: 0.0,
            decode_gb_per_s: 0.0,
            decode_limit_tps: 0.0,
            prompt_limit_tps: None,
            step_ms_by_position: by_position(trials),
            wall_s: trials.iter().map(|t| t.wall_ms / 1e3).collect(),
        }
    }

    /// Puts the limits beside the speeds.
    pub fn set_roofline(&mut self, demand: &CostModel, limits: &Limits) {
        let prompt = self.config.n_prompt;
        // The first token comes out of the prompt; step i feeds the token at position prompt + i.
        let positions = prompt..prompt + self.generated_tokens.saturating_sub(1);
        self.step_bytes = demand.step_bytes(positions.clone());
        self.decode_gb_per_s = self.decode_throughput_median_tps * self.step_bytes / 1e9;
        self.decode_limit_tps = demand.decode_limit(positions, limits);
        self.prompt_limit_tps = demand.prompt_limit(0..prompt, limits);
    }

    /// Share of the decode limit that was reached, 1 for all of it.
    pub fn decode_share(&self) -> f64 {
        self.decode_throughput_median_tps / self.decode_limit_tps
    }
    /// Share of the prompt limit that was reached.
    pub fn prompt_share(&self) -> Option<f64> {
        Some(self.prompt_throughput_median_tps / self.prompt_limit_tps?)
    }
}

/// Medians of the steps of all trials in at most [`PARTS`] equal parts of the answer, to the microsecond.
fn by_position(trials: &[Trial]) -> Vec<f64> {
    let n = trials.iter().map(|t| t.step_ms.len()).max().unwrap_or(0);
    let parts = n.min(PARTS);
    let part = |i: usize| {
        let steps = trials.iter().flat_map(|t| t.step_ms.get(i * n / parts..(i + 1) * n / parts).unwrap_or_default());
        (median(&steps.copied().collect::<Vec<_>>()) * 1e3).round() / 1e3
    };
    (0..parts).map(part).collect()
}

/// Reads JSON.
///
/// # Errors
/// What was expected, and the field that is wrong.
pub fn decoded<T: DeserializeOwned>(json: &[u8], what: &str) -> Result<T, String> {
    let mut json = serde_json::Deserializer::from_slice(json);
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let place = if path == "." { String::new() } else { format!("field {path}: ") };
        format!("expected {what}; {place}{}", error.into_inner())
    })
}
