//! Whole models, made on the spot, in configurations of the generation log.

use std::{
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use qrun::{
    bench::{list, number, quotient, suite, text},
    engine::{DevicePreference, Engine, EngineOptions},
    generate::Session,
    sampler::SamplerParams,
    tools::{quantize::FileType, synth},
};
use qrun_models::Options;
use qrun_quant::Gguf;
use serde_json::{Value, json};

use crate::{Setup, machine::rounded};

/// A model in some mixes of formats.
type Models = (&'static str, &'static [&'static str]);
/// The smaller ones first: who runs out of time has them.
const MODELS: &[Models] = &[
    ("gemma-3-1b", &["Q4_K_M", "Q8_0", "BF16"]),
    ("llama-3.2-1b", &["Q4_K_M", "BF16"]),
    ("qwen3-1.7b", &["Q4_K_M", "BF16"]),
    ("llama-3.1-8b", &["Q4_K_M"]),
];
/// No model is begun after this.
const ENOUGH: Duration = Duration::from_secs(80);

/// Where the files lie while they are needed.
pub const FOLDER: &str = "models";

/// Rows of each model and configuration; the whole reports become `models.json`. A model that fails says so and leaves the
/// others alone.
pub fn speed(setup: &Setup) -> Result<Value> {
    let began = Instant::now();
    let dry: &[Models] = &[("tiny-gemma3", &["Q4_K_M"]), ("tiny-qwen3", &["BF16"])];
    let (models, configs) = match setup.dry {
        true => (dry, vec![suite::Config::greedy("dry", 16, 5)]),
        false => (MODELS, suite::configs("standard", 512)),
    };
    let folder = setup.out.join(FOLDER);
    fs::create_dir_all(&folder)?;
    let (mut rows, mut reports) = (Vec::new(), Vec::<Value>::new());
    for (name, mix) in models.iter().flat_map(|(name, mixes)| mixes.iter().map(move |mix| (*name, *mix))) {
        match measure(&folder.join("model.gguf"), (name, mix), &configs, began.elapsed()) {
            Ok(report) => {
                reports.push(report.clone());
                fs::write(setup.out.join("models.json"), Value::from(reports.clone()).to_string())?;
                rows.extend(list(&report["configs"]).iter().map(|m| row((name, mix), &report, m)));
            }
            Err(error) => rows.push(json!({ "model": name, "mix": mix, "failed": format!("{error:#}") })),
        }
    }
    fs::remove_dir_all(folder)?;
    if rows.iter().all(|row| row.get("failed").is_some()) {
        bail!("every model failed: {}", Value::Array(rows));
    }
    Ok(Value::Array(rows))
}

fn measure(path: &Path, (name, mix): (&str, &str), configs: &[suite::Config], passed: Duration) -> Result<Value> {
    ensure!(passed <= ENOUGH, "not begun after {} s", passed.as_secs());
    let file_type = FileType::from_name(mix).context("a mix of the table")?;
    synth::synth(name, file_type, 0, path, &mut |_, _| {})?;
    let began = Instant::now();
    let n_ctx = configs.iter().map(suite::Config::n_ctx).max().context("a configuration")?;
    let (options, device) = (Options { n_ctx, ..Options::default() }, DevicePreference::Cuda(Some(0)));
    let engine = Arc::new(Engine::open(Gguf::open(path)?, EngineOptions { options, template: None, device })?);
    let mut session = Session::open(engine.clone(), SamplerParams::default(), Box::new(|_| {}))?;
    let mut plan = suite::Plan::new(&engine, "gpu", configs.to_vec(), suite::TEXT)?;
    (plan.repeat.warmups, plan.repeat.times, plan.load_ms) = (1, 2, began.elapsed().as_secs_f64() * 1e3);
    Ok(plan.run(&mut session, &mut |_, _| {})?)
}

fn row((name, mix): (&str, &str), report: &Value, m: &Value) -> Value {
    let of = |field: &str| number(m, field).map(rounded);
    json!({
        "model": name, "mix": mix,
        "config": format!("{} {}/{}", text(m, "config_name"), m["prompt_tokens"], m["generated_tokens"]),
        "TTFT ms": of("ttft_median_ms"), "prompt tok/s": of(suite::PROMPT[0]),
        "decode tok/s": of(suite::DECODE[0]), "end to end tok/s": of("e2e_throughput_tps"),
        "step P50 ms": of("per_step_latency_p50_ms"),
        "P95": of("per_step_latency_p95_ms"), "P99": of("per_step_latency_p99_ms"),
        "GB/s": of("decode_gb_per_s"),
        "of memory limit %": quotient(m, suite::DECODE).map(|share| rounded(100.0 * share)),
        "load s": number(report, "load_ms").map(|ms| rounded(ms / 1e3)),
    })
}
