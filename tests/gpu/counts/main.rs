//! `cargo run --release --bin gpu-counts`: what qrun asks of a GPU, counted with none, as one JSON object; with
//! `-- --check` it fails where a count is past its limit, with `-- --code ptx` or `-- --code sass`
//! it counts what a step executes, of decoding or (`--prompt 512`) of a prompt, and says how long that takes on cards.
//!
//! The real decoder runs on the emulated driver. In the models' exact shapes nothing is computed, only counted; what a
//! step reads is measured by executing one of their layers under the emulator's checks.

mod code;
mod models;
mod times;

use std::{
    env, fs,
    io::{Write, stdout},
    path::Path,
    process::Command,
};

use anyhow::{Context, Result, ensure};
use qrun_cuda::image;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// The models that are counted.
const MODELS: [&str; 3] = ["gemma-3-1b", "llama-3.2-1b", "qwen3-1.7b"];

fn counts() -> Result<Value> {
    // `kernels check` holds it to the archive; here only that it is this archive's.
    let record: Value = serde_json::from_str(include_str!("../../../cuda/sass.json")).context("cuda/sass.json")?;
    let archive: String = Sha256::digest(image::ARCHIVE).iter().map(|b| format!("{b:02x}")).collect();
    ensure!(record["sha256"] == archive, "cuda/sass.json is of another archive: run `kernels build`");
    let of_each = |count: fn(&str) -> Result<Value>| -> Result<Map<String, Value>> {
        MODELS.iter().map(|name| Ok(((*name).to_owned(), count(name)?))).collect()
    };
    let (syncs, allocations) = models::waits_and_allocations()?;
    Ok(json!({
        "launches_per_token": of_each(models::launches_per_token)?,
        "bytes_read_over_weights_and_kv": of_each(models::bytes_read)?,
        "host_syncs_per_token": syncs,
        "allocations_after_load": allocations,
        "spill_bytes": record["spill_bytes"],
        "sass_instructions_per_weight": by_sm(&record["instructions_per_weight"]),
        "binary_bytes": binary_bytes()?,
    }))
}

/// `{format: {sm: count}}` as `{sm: {format: count}}`.
fn by_sm(by_format: &Value) -> Value {
    let mut by_sm = json!({});
    for (format, row) in by_format.as_object().into_iter().flatten() {
        for (sm, count) in row.as_object().into_iter().flatten() {
            by_sm[format!("sm_{sm}")][format] = count.clone();
        }
    }
    by_sm
}

/// Size of the release's qrun binary, made now where cargo started us; none where there is none.
fn binary_bytes() -> Result<Option<u64>> {
    let exe = env::current_exe()?;
    let target = exe.parent().and_then(Path::parent).context("a folder of cargo's")?;
    if let Some(cargo) = env::var_os("CARGO") {
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "--release", "--package", "qrun", "--bin", "qrun"]);
        let status = build.current_dir(env!("CARGO_MANIFEST_DIR")).status()?;
        ensure!(status.success(), "building qrun: {status}");
    }
    Ok(fs::metadata(target.join("release/qrun")).ok().map(|m| m.len()))
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

fn main() -> Result<()> {
    let mut args = env::args().skip(1);
    let mode = args.next();
    // For scripts that start a child process on the emulated driver.
    if mode.as_deref() == Some("--library") {
        return Ok(writeln!(stdout(), "{}", qrun_emulator::library().display())?);
    }
    if mode.as_deref() == Some("--code") {
        let counts = code::counts(&args.collect::<Vec<_>>())?;
        return Ok(writeln!(stdout(), "{counts:#}")?);
    }
    let counts = counts()?;
    writeln!(stdout(), "{counts:#}")?;
    let wrong = past_limits(&counts);
    ensure!(mode.is_none() || wrong.is_empty(), "past their limits:\n  {}", wrong.join("\n  "));
    Ok(())
}
