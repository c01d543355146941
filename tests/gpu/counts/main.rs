//! `cargo run --release --bin gpu-counts`: what qrun asks of a GPU, counted with none, as one JSON object; with
//! `-- --check` it fails where a count is past its limit, with `-- --code ptx` it counts what a step of decoding executes.
//!
//! The real decoder runs on the emulated driver. In the models' exact shapes nothing is computed, only counted; what a
//! step reads is measured by executing one of their layers under the emulator's checks.

mod code;
mod models;
mod shipped;

use std::{
    io::{Write, stderr, stdout},
    process::ExitCode,
};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

/// The models that are counted.
const MODELS: [&str; 3] = ["gemma-3-1b", "llama-3.2-1b", "qwen3-1.7b"];

fn counts() -> Result<Value> {
    let record = shipped::record()?;
    let (mut launches, mut read) = (serde_json::Map::new(), serde_json::Map::new());
    for name in MODELS {
        launches.insert(name.into(), models::launches_per_token(name)?);
        read.insert(name.into(), models::bytes_read(name)?);
    }
    let steps = models::steps()?;
    Ok(json!({
        "launches_per_token": launches,
        "bytes_read_over_weights_and_kv": read,
        "host_syncs_per_token": steps.syncs_per_token,
        "allocations_after_load": steps.allocations,
        "spill_bytes": record["spill_bytes"],
        "sass_instructions_per_weight": shipped::by_sm(&record["instructions_per_weight"]),
        "binary_bytes": shipped::binary_bytes()?,
    }))
}

/// Which counts are past what they may be.
fn past_limits(counts: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut at_most = |name: String, value: &Value, limit: f64| {
        // What is no number is past every limit.
        if value.as_f64().is_none_or(|v| v > limit) {
            wrong.push(format!("{name}: at most {limit}, found {value}"));
        }
    };
    for name in MODELS {
        let layers = qrun::tools::synth::find(name).map_or(0, |s| s.n_layer);
        // Ten per layer; embedding, last norm, head; sampling.
        at_most(format!("launches_per_token of {name}"), &counts["launches_per_token"][name], (10 * layers + 8) as f64);
        let read = &counts["bytes_read_over_weights_and_kv"][name];
        at_most(format!("bytes_read_over_weights_and_kv of {name}"), &read["weights_and_kv"], 1.01);
    }
    for (name, limit) in [("host_syncs_per_token", 0.0), ("allocations_after_load", 0.0), ("spill_bytes", 0.0)] {
        at_most(name.into(), &counts[name], limit);
    }
    at_most("binary_bytes".into(), &counts["binary_bytes"], 30e6);
    wrong
}

fn run() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let mode = args.next();
    // For scripts that start a child process on the emulated driver.
    if mode.as_deref() == Some("--library") {
        return Ok(writeln!(stdout(), "{}", qrun_emulator::library().display())?);
    }
    if mode.as_deref() == Some("--code") {
        return Ok(writeln!(stdout(), "{:#}", code::counts(&args.next().unwrap_or_default())?)?);
    }
    let counts = counts()?;
    writeln!(stdout(), "{counts:#}")?;
    let wrong = past_limits(&counts);
    ensure!(mode.is_none() || wrong.is_empty(), "past their limits:\n  {}", wrong.join("\n  "));
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(stderr(), "{error:#}");
            ExitCode::FAILURE
        }
    }
}
