//! llama-bench's tests, `pp512` and `tg128`, so that eyes and scripts can compare.
//!
//! Two things are counted more strictly than there. The choice of each token and its text are inside the clock (greedy;
//! llama-bench feeds random tokens and chooses none), and the tokens that are fed are those that the model chose.

mod fields;
mod model;
pub mod output;

use std::{fmt, ops::Range};

use qrun_models::{KvType, Options};

use super::{
    info::RunInfo,
    limits::{CostModel, Limits},
    machine::Machine,
    run::PROMPT_PER_STEP,
    statistics::{deviation, mean},
    trial::{Job, Trial},
};
use crate::{
    engine::{DevicePreference, Engine},
    generate::{GenerateError, Session},
    sampler::{SamplerParams, philox4x32},
};

/// The seed of the random prompts.
const SEED: u64 = 42;
/// Steps of a warm-up at most: what is to be warm is warm then.
const WARMUP_STEPS: usize = 2;

/// What is timed: a prompt, steps of decoding, or one after the other, behind a prefix that is in the cache already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Test {
    /// Tokens of the prompt; 0: the steps alone.
    pub n_prompt: usize,
    /// Steps of decoding; 0: the prompt alone.
    pub n_gen: usize,
    /// Tokens in the cache before the clock starts.
    pub n_depth: usize,
}

/// `pp512`, `tg128`, `pp512+tg128`, `tg128 @ d4096`.
impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.n_prompt, self.n_gen) {
            (p, 0) => write!(f, "pp{p}")?,
            (0, g) => write!(f, "tg{g}")?,
            (p, g) => write!(f, "pp{p}+tg{g}")?,
        }
        if self.n_depth > 0 { write!(f, " @ d{}", self.n_depth) } else { Ok(()) }
    }
}

impl Test {
    /// Every combination in llama-bench's order: at each depth prompts, then steps, then pairs. Nothing (0) is left out.
    pub fn all(prompts: &[usize], gens: &[usize], pairs: &[(usize, usize)], depths: &[usize]) -> Vec<Self> {
        let at = |n_depth| {
            let prompts = prompts.iter().map(|&n| (n, 0));
            let each = prompts.chain(gens.iter().map(|&n| (0, n))).chain(pairs.iter().copied());
            each.map(move |(n_prompt, n_gen)| Self { n_prompt, n_gen, n_depth })
        };
        depths.iter().flat_map(|&depth| at(depth)).filter(|t| t.n_tokens() > 0).collect()
    }

    /// Tokens of a run, the number that its speed counts.
    pub fn n_tokens(&self) -> usize {
        self.n_prompt + self.n_gen
    }

    /// Tokens of the prompt that is fed: steps alone need one to begin from.
    fn n_fed(&self) -> usize {
        self.n_prompt.max(1)
    }

    /// Tokens of context that it fills.
    pub fn n_ctx(&self) -> usize {
        self.n_depth + self.n_fed() + self.n_gen.max(1)
    }

    /// The whole work in steps that take about equally long, for an estimate of the time left.
    pub fn steps(&self, repeat: Repeat) -> usize {
        let run = |n_gen: usize| self.n_prompt / PROMPT_PER_STEP + n_gen + 1;
        let warmups = repeat.warmups * run(self.n_gen.min(WARMUP_STEPS));
        repeat.times.saturating_mul(run(self.n_gen)).saturating_add(warmups)
    }

    /// Positions of the prompt, and of the tokens that the steps feed.
    fn positions(&self) -> [Range<usize>; 2] {
        let first = self.n_depth + self.n_fed();
        [self.n_depth..self.n_depth + self.n_prompt, first..first + self.n_gen]
    }

    /// What is generated, of at most `steps` steps: the first token comes out of the prompt, each step gives another.
    fn job(&self, engine: &Engine, steps: usize) -> Job {
        let params = SamplerParams { temperature: 0.0, ..SamplerParams::default() };
        let prompt = random_tokens(engine, self.n_depth + self.n_fed());
        Job { prompt, depth: self.n_depth, n_gen: self.n_gen.min(steps) + 1, params }
    }
}

/// Tokens of ordinary text, always the same ones.
fn random_tokens(engine: &Engine, n: usize) -> Vec<u32> {
    let tokenizer = engine.tokenizer();
    let all = 0..tokenizer.n_vocab() as u32;
    let text: Vec<u32> = all.clone().filter(|&id| tokenizer.kind(id).is_text()).collect();
    let from = if text.is_empty() { all.collect() } else { text };
    let pick = |i| from[philox4x32(SEED, [i as u32, 0, 0, 0])[0] as usize % from.len()];
    (0..n).map(pick).collect()
}

/// How a model runs, as llama-bench names it.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// Where.
    pub device: DevicePreference,
    /// 0: the CPU; what else is asked for, a device runs the whole model.
    pub n_gpu_layers: i64,
    /// Tokens that are handed over together; more than `n_ubatch` have no effect.
    pub n_batch: usize,
    /// Tokens that go through the layers together in a prompt.
    pub n_ubatch: usize,
    /// CPU threads.
    pub threads: usize,
    /// Type of cached keys.
    pub type_k: KvType,
    /// Type of cached values.
    pub type_v: KvType,
    /// Repack weights at load.
    pub repack: bool,
}

impl Setting {
    /// The same for the decoder.
    pub fn options(&self, n_ctx: usize, n_seq: usize) -> Options {
        Options {
            n_ctx,
            n_seq,
            n_ubatch: self.n_ubatch.min(self.n_batch),
            threads: self.threads,
            type_k: self.type_k,
            type_v: self.type_v,
            repack: self.repack,
            ..Options::default()
        }
    }

    /// Where it runs, layers considered.
    pub fn device(&self) -> DevicePreference {
        if self.n_gpu_layers == 0 { DevicePreference::Cpu } else { self.device }
    }
}

/// How often each test is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeat {
    /// Timed runs.
    pub times: usize,
    /// Untimed ones before them: the whole prompt, and at most two steps.
    pub warmups: usize,
}

/// Runs a test; nanoseconds of each timed run. `tick` hears how many more of [`Test::steps`] are done.
///
/// # Errors
/// As [`Trial::run`].
pub fn samples(
    session: &mut Session,
    test: &Test,
    repeat: Repeat,
    tick: &mut dyn FnMut(usize),
) -> Result<Vec<u64>, GenerateError> {
    let engine = session.engine().clone();
    let (job, warmup) = (test.job(&engine, test.n_gen), test.job(&engine, WARMUP_STEPS));
    let mut run = |job: &Job| {
        let trial = Trial::run(session, job, &mut || tick(1));
        tick(test.n_prompt / PROMPT_PER_STEP);
        trial
    };
    for _ in 0..repeat.warmups {
        run(&warmup)?;
    }
    let mut timed = || {
        let trial = run(&job)?;
        let prompt = if test.n_prompt > 0 { trial.ttft_ms } else { 0.0 };
        Ok(((prompt + trial.step_ms.iter().sum::<f64>()) * 1e6) as u64)
    };
    (0..repeat.times).map(|_| timed()).collect()
}

/// A model, as every row of it says it.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelInfo {
    /// The file, as it was named.
    pub filename: String,
    /// llama-bench's name of it: architecture, size, file type.
    pub ty: String,
    /// Bytes of its tensors.
    pub size: u64,
    /// Parameters.
    pub n_params: u64,
    /// File type, arithmetic and cache types: what a speed depends on.
    pub precision: String,
}

impl ModelInfo {
    /// The model of an engine, of which `info` says the rest.
    pub fn new(filename: String, engine: &Engine, info: &RunInfo) -> Self {
        Self {
            filename,
            ty: model::name(engine.gguf(), &engine.model().config),
            size: info.model_size,
            n_params: info.n_params,
            precision: format!("{}; {}; KV {}", info.dtype, info.arithmetic, info.kv_types.join("/")),
        }
    }
}

/// A measured test.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// What was measured.
    pub test: Test,
    /// How it ran.
    pub setting: Setting,
    /// The model.
    pub model: ModelInfo,
    /// Where.
    pub machine: Machine,
    /// When it began, UTC.
    pub time: String,
    /// Nanoseconds of each run.
    pub samples_ns: Vec<u64>,
    /// Bytes that a run reads: weights once per chunk of the prompt and once per step, and what the steps see of the
    /// cache.
    pub bytes: f64,
    /// Tokens per second if nothing but reading and arithmetic took time; `None` where the arithmetic is not known.
    pub limit_ts: Option<f64>,
}

impl Row {
    /// Tokens per second of each run.
    pub fn samples_ts(&self) -> Vec<f64> {
        let speed = |&ns: &u64| self.test.n_tokens() as f64 * 1e9 / ns.max(1) as f64;
        self.samples_ns.iter().map(speed).collect()
    }
    /// Their mean.
    pub fn avg_ts(&self) -> f64 {
        mean(&self.samples_ts())
    }
    /// Their standard deviation (n − 1).
    pub fn stddev_ts(&self) -> f64 {
        deviation(&self.samples_ts())
    }
    /// Nanoseconds of a run, on average.
    pub fn avg_ns(&self) -> u64 {
        mean(&self.nanoseconds()) as u64
    }
    /// Their standard deviation (n − 1).
    pub fn stddev_ns(&self) -> u64 {
        deviation(&self.nanoseconds()) as u64
    }
    /// 10⁹ bytes read per second.
    pub fn gb_per_s(&self) -> f64 {
        self.bytes / mean(&self.nanoseconds()).max(1.0)
    }
    /// Share of the limit that was reached, 1 for all of it.
    pub fn limit_share(&self) -> Option<f64> {
        Some(self.avg_ts() / self.limit_ts?)
    }

    fn nanoseconds(&self) -> Vec<f64> {
        self.samples_ns.iter().map(|&ns| ns as f64).collect()
    }
}

impl Test {
    /// Bytes that a run reads.
    pub fn bytes(&self, engine: &Engine) -> f64 {
        let demand = CostModel::new(engine);
        let [_, steps] = self.positions();
        let chunks = self.n_prompt.div_ceil(engine.options().n_ubatch.max(1));
        let read = if steps.is_empty() { 0.0 } else { demand.step_bytes(steps) };
        (chunks as u64 * demand.weight_bytes()) as f64 + self.n_gen as f64 * read
    }

    /// Tokens per second if nothing but reading and arithmetic took time.
    pub fn limit(&self, engine: &Engine, limits: &Limits) -> Option<f64> {
        let demand = CostModel::new(engine);
        let [prompt, steps] = self.positions();
        let seconds = |n: usize, speed: Option<f64>| if n == 0 { Some(0.0) } else { Some(n as f64 / speed?) };
        let prompt = seconds(self.n_prompt, demand.prompt_limit(prompt, limits))?;
        let steps = seconds(self.n_gen, Some(demand.decode_limit(steps, limits)))?;
        let limit = self.n_tokens() as f64 / (prompt + steps);
        (limit.is_finite() && limit > 0.0).then_some(limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_in_llama_benchs_order() {
        let names = |tests: Vec<Test>| tests.iter().map(Test::to_string).collect::<Vec<_>>().join(", ");
        assert_eq!(names(Test::all(&[512], &[128], &[], &[0])), "pp512, tg128");
        assert_eq!(
            names(Test::all(&[8, 16], &[4], &[(8, 2)], &[0, 32])),
            "pp8, pp16, tg4, pp8+tg2, pp8 @ d32, pp16 @ d32, tg4 @ d32, pp8+tg2 @ d32"
        );
        assert_eq!(names(Test::all(&[0], &[128], &[(0, 0), (0, 3)], &[0])), "tg128, tg3");
    }

    #[test]
    fn positions_are_those_that_are_fed() {
        let test = |n_prompt, n_gen, n_depth| Test { n_prompt, n_gen, n_depth };
        assert_eq!(test(512, 0, 0).positions(), [0..512, 512..512]);
        // One token to begin from stands before the steps.
        assert_eq!(test(0, 128, 0).positions(), [0..0, 1..129]);
        assert_eq!(test(8, 4, 100).positions(), [100..108, 108..112]);
        assert_eq!([test(512, 0, 0), test(0, 128, 0), test(8, 4, 100)].map(|t| t.n_ctx()), [513, 129, 112]);
    }
}
