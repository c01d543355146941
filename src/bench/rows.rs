//! llama-bench's tests, `pp512` and `tg128`, so that eyes and scripts can compare.
//!
//! Two things are counted more strictly than there. The choice of each token and its text are inside the clock (greedy;
//! llama-bench feeds random tokens and chooses none), and the tokens that are fed are those that the model chose.

mod model;

use std::{
    fmt,
    ops::Range,
    time::{Duration, Instant},
};

use qrun_models::Options;
use serde_json::{Value, json};

use super::{
    Column, CostModel, Job, Limits, Repeat, Tick, Trial, deviation, extended, fixed, machine, mean, number, percent,
    plain, record, text,
};
use crate::{
    engine::{DevicePreference, Engine, EngineOptions},
    generate::{GenerateError, Session},
    sampler::{SamplerParams, philox4x32},
};

/// The seed of the random prompts.
const SEED: u64 = 42;
/// After so long the machine's limits are measured again.
const STALE: Duration = Duration::from_secs(10);

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
        depths.iter().flat_map(|&depth| at(depth)).filter(|t| t.n_prompt + t.n_gen > 0).collect()
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
        repeat.steps(self.n_fed(), self.n_gen + 1)
    }

    /// Positions of the prompt, and of the tokens that the steps feed.
    fn positions(&self) -> [Range<usize>; 2] {
        let first = self.n_depth + self.n_fed();
        [self.n_depth..self.n_depth + self.n_prompt, first..first + self.n_gen]
    }

    /// Greedy, on tokens of ordinary text that are always the same. The first token comes out of the prompt, each step
    /// gives another.
    fn job(&self, engine: &Engine) -> Job {
        let tokenizer = engine.tokenizer();
        let all = 0..tokenizer.n_vocab() as u32;
        let words: Vec<u32> = all.clone().filter(|&id| tokenizer.kind(id).is_text()).collect();
        let from = if words.is_empty() { all.collect() } else { words };
        let pick = |i| from[philox4x32(SEED, [i as u32, 0, 0, 0])[0] as usize % from.len()];
        let prompt = (0..self.n_depth + self.n_fed()).map(pick).collect();
        let params = SamplerParams { temperature: 0.0, ..SamplerParams::default() };
        Job { prompt, depth: self.n_depth, n_gen: self.n_gen + 1, params }
    }

    /// Nanoseconds of a run.
    fn nanoseconds(&self, trial: &Trial) -> f64 {
        let prompt = if self.n_prompt > 0 { trial.ttft_ms } else { 0.0 };
        ((prompt + trial.step_ms.iter().sum::<f64>()) * 1e6).trunc()
    }

    /// Bytes that a run reads: weights once per chunk of the prompt and once per step, and what the steps see of the cache.
    fn bytes(&self, engine: &Engine) -> f64 {
        let (cost, [_, steps]) = (CostModel(engine), self.positions());
        let chunks = self.n_prompt.div_ceil(engine.options().n_ubatch.max(1));
        let read = if steps.is_empty() { 0.0 } else { cost.step_bytes(steps) };
        (chunks as u64 * cost.weight_bytes()) as f64 + self.n_gen as f64 * read
    }

    /// Tokens per second if nothing but reading and arithmetic took time; `None` where the arithmetic is not known.
    fn limit(&self, engine: &Engine, limits: &Limits) -> Option<f64> {
        let (cost, [prompt, steps]) = (CostModel(engine), self.positions());
        let seconds = |n: usize, speed: Option<f64>| if n == 0 { Some(0.0) } else { Some(n as f64 / speed?) };
        let prompt = seconds(self.n_prompt, cost.prompt_limit(prompt, limits))?;
        let steps = seconds(self.n_gen, Some(cost.decode_limit(steps, limits)))?;
        let limit = (self.n_prompt + self.n_gen) as f64 / (prompt + steps);
        (limit.is_finite() && limit > 0.0).then_some(limit)
    }
}

/// How a model runs, as llama-bench names it.
#[derive(Debug, Clone)]
pub struct Setting {
    /// What the engine is to do; how long the context is the tests say.
    pub engine_options: EngineOptions,
    /// 0: the CPU; what else is asked for, a device runs the whole model.
    pub n_gpu_layers: i64,
    /// Tokens that are handed over together; more than `n_ubatch` have no effect.
    pub n_batch: usize,
}

impl Default for Setting {
    fn default() -> Self {
        Self { engine_options: EngineOptions::default(), n_gpu_layers: -1, n_batch: 2048 }
    }
}

impl Setting {
    /// The same for the engine, with `n_seq` sequences of `n_ctx` tokens.
    pub fn engine(&self, n_ctx: usize, n_seq: usize) -> EngineOptions {
        let EngineOptions { options, template, device } = self.engine_options.clone();
        let options = Options { n_ctx, n_seq, n_ubatch: options.n_ubatch.min(self.n_batch), ..options };
        EngineOptions { options, template, device: if self.n_gpu_layers == 0 { DevicePreference::Cpu } else { device } }
    }

    /// The device as llama-bench writes it.
    pub fn devices(&self) -> String {
        match self.engine_options.device {
            DevicePreference::Auto => "auto".into(),
            DevicePreference::Cpu => "none".into(),
            DevicePreference::Cuda(ordinal) => ordinal.map_or("CUDA".into(), |n| format!("CUDA{n}")),
        }
    }
}

/// A model with one of the settings, ready to be measured.
pub struct Subject<'a> {
    filename: String,
    setting: &'a Setting,
    repeat: Repeat,
    session: Session,
    head: Value,
    limits: Limits,
    known: Instant,
}

impl<'a> Subject<'a> {
    /// Measures the machine's limits.
    pub fn new(filename: String, setting: &'a Setting, repeat: Repeat, session: Session) -> Self {
        let limits = Limits::measure(session.engine());
        let head = record::head("rows", session.engine(), &limits);
        Self { filename, setting, repeat, session, head, limits, known: Instant::now() }
    }

    /// Runs a test and makes its row: llama-bench's columns in its order and under its names (null where qrun has nothing
    /// of the kind to set or to measure), and behind them ours. The limits are measured again after the last test.
    ///
    /// # Errors
    /// As [`Trial::run`].
    pub fn measure(&mut self, test: &Test, is_last: bool, tick: Tick) -> Result<Value, GenerateError> {
        let engine = self.session.engine().clone();
        let time = machine::now("%Y-%m-%dT%H:%M:%SZ");
        let trials = self.repeat.run(&mut self.session, &test.job(&engine), tick)?;
        if is_last || self.known.elapsed() > STALE {
            (self.limits, self.known) = (self.limits.best(Limits::measure(&engine)), Instant::now());
        }
        let (head, machine) = (&self.head, &self.head["machine"]);
        let (setting, options) = (self.setting, &self.setting.engine_options.options);
        let ns: Vec<f64> = trials.iter().map(|trial| test.nanoseconds(trial)).collect();
        let ts: Vec<f64> = ns.iter().map(|ns| (test.n_prompt + test.n_gen) as f64 * 1e9 / ns.max(1.0)).collect();
        let limit = test.limit(&engine, &self.limits);
        let (dtype, arithmetic, kv) = (text(head, "dtype"), text(head, "arithmetic"), record::kv_types(head));
        // In two parts: the macro takes no longer ones.
        let how = json!({
            "build_commit": machine["commit"], "build_number": machine::build_number(),
            "cpu_info": machine["cpu"], "gpu_info": text(&machine["gpu"], "name"),
            "backends": if machine["gpu"].is_null() { "CPU" } else { "CUDA" },
            "model_filename": self.filename, "model_type": model::name(engine.gguf(), &engine.model().config),
            "model_size": head["model_size"], "model_n_params": head["n_params"],
            "n_batch": setting.n_batch, "n_ubatch": options.n_ubatch, "n_threads": options.threads,
            "cpu_mask": null, "cpu_strict": null, "poll": null,
            "type_k": options.type_k.name(), "type_v": options.type_v.name(), "n_gpu_layers": setting.n_gpu_layers,
            "n_cpu_moe": null, "split_mode": null, "main_gpu": null, "no_kv_offload": null, "flash_attn": null,
            "devices": setting.devices(),
            "tensor_split": null, "tensor_buft_overrides": null, "load_mode": null, "lazy_mode": null,
            "embeddings": null, "no_op_offload": null, "no_host": null,
            "repack": options.repack,
            "fit_target": null, "fit_min_ctx": null,
        });
        let what = json!({
            "n_prompt": test.n_prompt, "n_gen": test.n_gen, "n_depth": test.n_depth,
            "test_time": time,
            "avg_ns": mean(&ns) as u64, "stddev_ns": deviation(&ns) as u64,
            "avg_ts": mean(&ts), "stddev_ts": deviation(&ts),
            "samples_ns": ns.iter().map(|ns| *ns as u64).collect::<Vec<_>>(), "samples_ts": ts,
            "gb_per_s": test.bytes(&engine) / mean(&ns).max(1.0),
            "limit_ts": limit, "limit_share": limit.map(|limit| mean(&ts) / limit),
            "precision": format!("{dtype}; {arithmetic}; KV {kv}"),
        });
        Ok(extended(how, what))
    }

    /// One line that can be pasted into an issue.
    pub fn line(&self, rows: &[Value]) -> String {
        let each = rows.iter().map(|row| {
            let share = number(row, "limit_share").map(|share| format!(" ({})", percent(Some(share))));
            format!("{} {}{}", test(row), fixed(number(row, "avg_ts"), 1), share.unwrap_or_default())
        });
        let (each, reads) = (each.collect::<Vec<_>>().join(", "), self.limits.read_gb_per_s);
        let (line, arithmetic) = (record::line(&self.head), text(&self.head, "arithmetic"));
        format!("{line}, which reads {reads:.1} GB/s: tok/s (of the limit) {each}; {arithmetic}")
    }
}

/// The test of a row.
fn test(row: &Value) -> Test {
    let n = |field: &str| row[field].as_u64().unwrap_or(0) as usize;
    Test { n_prompt: n("n_prompt"), n_gen: n("n_gen"), n_depth: n("n_depth") }
}

/// Columns that Markdown shows where their flags were given, with title and width as in llama-bench; layers or threads are
/// always there, as the first row's device says.
#[rustfmt::skip]
const ASKED: [(&str, &str, usize); 8] = [
    ("n_gpu_layers", "ngl", 3), ("n_threads", "threads", 7), ("n_batch", "n_batch", 7), ("n_ubatch", "n_ubatch", 8),
    ("type_k", "type_k", 6), ("type_v", "type_v", 6), ("devices", "dev", 12), ("repack", "rpk", 3),
];

/// llama-bench's columns in Markdown in their order and width, then ours. `asked` names fields whose flags were given.
pub fn columns(asked: &[&str], first: &Value) -> Vec<Column<'static, Value>> {
    let bytes = |n: f64| if n < 1024.0 { format!("{n:.2} MiB") } else { format!("{:.2} GiB", n / 1024.0) };
    let count = |n: f64| if n < 1000.0 { format!("{n:.2} M") } else { format!("{:.2} B", n / 1000.0) };
    let value = |row: &Value, field: &str| number(row, field).unwrap_or(0.0);
    let mut columns = vec![
        Column::left("model", 30, |r: &Value| text(r, "model_type").into()),
        Column::right("size", 10, move |r| bytes(value(r, "model_size") / f64::from(1 << 20))),
        Column::right("params", 10, move |r| count(value(r, "model_n_params") / 1e6)),
        Column::left("backend", 10, |r| text(r, "backends").into()),
    ];
    let usual = if text(first, "backends") == "CUDA" { "n_gpu_layers" } else { "n_threads" };
    for (field, title, width) in ASKED.into_iter().filter(|(field, ..)| *field == usual || asked.contains(field)) {
        let cell = move |row: &Value| plain(row, field);
        columns.push(if title == "dev" { Column::left(title, width, cell) } else { Column::right(title, width, cell) });
    }
    columns.extend([
        Column::right("test", 15, |r| test(r).to_string()),
        Column::right("t/s", 20, move |r| format!("{:.2} ± {:.2}", value(r, "avg_ts"), value(r, "stddev_ts"))),
        Column::right("GB/s", 6, |r| fixed(number(r, "gb_per_s"), 1)),
        Column::right("limit t/s", 9, |r| fixed(number(r, "limit_ts"), 2)),
        Column::right("share", 5, |r| percent(number(r, "limit_share"))),
    ]);
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

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
