//! Whole models, made on the spot, in configurations of the generation log.

use std::{
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use qrun::{
    bench::{
        report::{Measured, Report},
        run::Plan,
        suite::{Config, Suite, TEXT},
    },
    engine::{DevicePreference, Engine, EngineOptions},
    generate::Session,
    sampler::SamplerParams,
    tools::quantize::FileType,
    tools::synth,
};
use qrun_models::Options;
use qrun_quant::Gguf;
use serde_json::{Value, json};

use crate::Setup;

/// The smaller ones first: who runs out of time has them.
const MODELS: [(&str, &str); 8] = [
    ("gemma-3-1b", "Q4_K_M"),
    ("gemma-3-1b", "Q8_0"),
    ("gemma-3-1b", "BF16"),
    ("llama-3.2-1b", "Q4_K_M"),
    ("llama-3.2-1b", "BF16"),
    ("qwen3-1.7b", "Q4_K_M"),
    ("qwen3-1.7b", "BF16"),
    ("llama-3.1-8b", "Q4_K_M"),
];
/// No model is begun after this.
const ENOUGH: Duration = Duration::from_secs(130);

/// Where the files lie while they are needed.
pub const FOLDER: &str = "models";

/// Rows of each model and configuration; the whole reports become `models.json`. A model that fails says so and leaves the
/// others alone.
pub fn speed(setup: &Setup) -> Result<Value> {
    let began = Instant::now();
    let (models, configs): (&[_], Vec<Config>) = match setup.dry {
        true => (&[("tiny-gemma3", "Q4_K_M"), ("tiny-qwen3", "BF16")], vec![Config::greedy("dry", 16, 5)]),
        false => (&MODELS, Suite::Standard.configs(512)),
    };
    let folder = setup.out.join(FOLDER);
    fs::create_dir_all(&folder)?;
    let (mut rows, mut reports) = (Vec::new(), Vec::<Value>::new());
    for (name, mix) in models {
        let report = match began.elapsed() {
            passed if passed > ENOUGH => Err(anyhow::anyhow!("not begun after {} s", passed.as_secs())),
            _ => measure(&folder.join("model.gguf"), (name, mix), &configs),
        };
        match report {
            Ok(report) => {
                reports.push(serde_json::from_str(&report.json())?);
                fs::write(setup.out.join("models.json"), Value::from(reports.clone()).to_string())?;
                rows.extend(report.configs.iter().map(|m| row((name, mix), &report, m)));
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

fn measure(path: &Path, (name, mix): (&str, &str), configs: &[Config]) -> Result<Report> {
    let file_type = FileType::from_name(mix).context("a mix of the table")?;
    synth::synth(name, file_type, 0, path, &mut |_, _| {})?;
    let began = Instant::now();
    let n_ctx = configs.iter().map(Config::n_ctx).max().context("a configuration")?;
    let options = Options { n_ctx, ..Options::default() };
    let engine = Engine::open(
        Gguf::open(path)?,
        EngineOptions { options, template: None, device: DevicePreference::Cuda(Some(0)) },
    )?;
    let engine = Arc::new(engine);
    let decoder = engine.decoder(Box::new(|_| {}))?;
    let mut plan = Plan::new(&engine, "gpu", configs.to_vec(), TEXT)?;
    (plan.warmup_runs, plan.trials, plan.load_ms) = (1, 2, began.elapsed().as_secs_f64() * 1e3);
    Ok(plan.run(&mut Session::new(engine, decoder, SamplerParams::default()), &mut |_| {})?)
}

fn row((name, mix): (&str, &str), report: &Report, m: &Measured) -> Value {
    let rounded = |x: f64| (x * 100.0).round() / 100.0;
    json!({
        "model": name,
        "mix": mix,
        "config": format!("{} {}/{}", m.config.name, m.config.n_prompt, m.generated_tokens),
        "TTFT ms": rounded(m.ttft_median_ms),
        "prompt tok/s": rounded(m.prompt_throughput_median_tps),
        "decode tok/s": rounded(m.decode_throughput_median_tps),
        "end to end tok/s": rounded(m.e2e_throughput_tps),
        "step P50 ms": rounded(m.per_step_latency_p50_ms),
        "P95": rounded(m.per_step_latency_p95_ms),
        "P99": rounded(m.per_step_latency_p99_ms),
        "GB/s": rounded(m.decode_gb_per_s),
        "of memory limit %": rounded(100.0 * m.decode_share()),
        "load s": rounded(report.load_ms / 1e3),
    })
}
