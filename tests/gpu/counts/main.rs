//! `cargo run --release --bin gpu-counts`: what qrun asks of a GPU, counted with none, as one JSON object.
//!
//! The real decoder runs on the emulated driver. In the models' exact shapes nothing is computed, only counted; what a
//! step reads is measured by executing one of their layers under the emulator's checks.

mod models;
mod shipped;

use std::{
    io::{Write, stderr, stdout},
    process::ExitCode,
};

use anyhow::Result;
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

fn main() -> ExitCode {
    // For scripts that start a child process on the emulated driver.
    if std::env::args().nth(1).is_some_and(|a| a == "--library") {
        let _ = writeln!(stdout(), "{}", qrun_emulator::library().display());
        return ExitCode::SUCCESS;
    }
    match counts() {
        Ok(counts) => {
            let _ = writeln!(stdout(), "{counts:#}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(stderr(), "{error:#}");
            ExitCode::FAILURE
        }
    }
}
