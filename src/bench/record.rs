//! A measured run as data: one JSON object with a head (what was measured, where, with which precision) and a list of rows.
//!
//! Who shows it names the fields; `benches/README.md` says what each of them is. A recorded file is checked when it is
//! read, so that a missing field is an error with its place and not an empty cell.

use qrun_quant::cpu::Arithmetic::{Exact, Fast};
use serde_json::{Value, json};

use super::{CostModel, Limits, check, list, machine, number, text};
use crate::{
    engine::{Backend, Engine},
    tools::quantize::FileType,
};

/// The head of a run on this model, whose rows are still to come. `suite` says what is run.
pub fn head(suite: &str, engine: &Engine, limits: &Limits) -> Value {
    let (tensors, options) = (engine.gguf().tensors(), engine.options());
    let number = engine.gguf().get("general.file_type").and_then(|v| v.as_u64()?.try_into().ok());
    json!({
        "suite": suite, "model": engine.model().config.name,
        "dtype": number.and_then(FileType::from_number).map_or("unknown", FileType::name),
        "arithmetic": arithmetic(engine), "kv_types": [options.type_k.name(), options.type_v.name()],
        "machine": machine::of(engine), "limits": limits,
        "n_params": tensors.iter().map(|t| t.shape.iter().product::<u64>()).sum::<u64>(),
        "model_size": tensors.iter().map(|t| t.data.len() as u64).sum::<u64>(),
        "weight_bytes_per_token": CostModel(engine).weight_bytes(),
    })
}

/// What a product is computed with: the precision beside every number.
fn arithmetic(engine: &Engine) -> &'static str {
    match (engine.backend(), engine.options().arithmetic) {
        (Backend::Gpu { .. }, _) => "int8 activations for quantized weights, else bf16 or f16 with f32 sums",
        (_, Exact) => "f32",
        (_, Fast) => "int8 activations for quantized weights, else f32 (prompts in F16 and BF16: 16-bit fixed point)",
    }
}

/// The model and its mix of formats.
pub fn name(record: &Value) -> String {
    format!("{} {}", text(record, "model"), text(record, "dtype"))
}

/// Who measured what and where: how each line begins that can be pasted into an issue.
pub fn line(record: &Value) -> String {
    let m = &record["machine"];
    format!("qrun {} ({}): {} on {}", text(m, "qrun"), text(m, "commit"), name(record), machine::name(m))
}

/// Types of cached keys and values.
pub fn kv_types(record: &Value) -> String {
    list(&record["kv_types"]).iter().filter_map(Value::as_str).collect::<Vec<_>>().join("/")
}

/// Which qrun made it, and when.
pub fn made(machine: &Value) -> String {
    let [qrun, commit, time] = ["qrun", "commit", "timestamp"].map(|field| text(machine, field));
    format!("qrun {qrun} ({commit}), {time}")
}

/// The head in Markdown: model, precision, what was run (`how`), machine: what every number depends on.
pub fn describe(record: &Value, how: &str) -> String {
    let [model, dtype, arithmetic] = ["model", "dtype", "arithmetic"].map(|field| text(record, field));
    let (kv, machine) = (kv_types(record), machine::name(&record["machine"]));
    let (reads, made) = (number(&record["limits"], "read_gb_per_s").unwrap_or(0.0), made(&record["machine"]));
    format!("- **{model}** {dtype} ({arithmetic}; KV {kv}), {how}, on {machine}; reads {reads:.1} GB/s; {made}\n")
}

/// The name of a record's file: `{model}_{dtype}_{suite}_{device}_{time}.json`, without what file systems dislike.
pub fn file_name(record: &Value) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-._".contains(c) { c } else { '-' };
    let words = ["model", "dtype", "suite"].map(|field| text(record, field));
    let [device, time] = ["device", "timestamp"].map(|field| text(&record["machine"], field));
    format!("{}_{device}_{time}", words.join("_")).chars().map(plain).collect::<String>() + ".json"
}

/// The record as it is kept: JSON, one field per line.
pub fn json(record: &Value) -> String {
    format!("{record:#}\n")
}

/// Reads a record of [`super::suite`], or of `cargo bench --bench peers` (it has `rows`, where the other has `configs`).
///
/// # Errors
/// What is missing or of another kind, and where.
pub fn read(json: &[u8]) -> Result<Value, String> {
    let record: Value = serde_json::from_slice(json).map_err(|e| format!("expected a report in JSON: {e}"))?;
    if record.get("rows").is_some() && record.get("configs").is_none() {
        let texts = "machine.cpu machine.date machine.commit rows[].model rows[].type";
        check(&record, "a run of `cargo bench --bench peers`", texts, "machine.threads prefill decode")?;
    } else {
        let texts = "suite model dtype arithmetic kv_types[] machine.device machine.cpu machine.os machine.qrun \
             machine.commit machine.timestamp configs[].config_name";
        let numbers = "machine.threads limits.read_gb_per_s weight_bytes_per_token trials warmup_runs \
             configs[].prompt_tokens configs[].max_new_tokens configs[].generated_tokens configs[].eos_count \
             configs[].ttft_median_ms configs[].prompt_throughput_median_tps configs[].decode_throughput_median_tps \
             configs[].e2e_throughput_tps configs[].per_step_latency_p50_ms configs[].per_step_latency_p95_ms \
             configs[].per_step_latency_p99_ms configs[].per_step_latency_n configs[].cache_memory_mb \
             configs[].decode_gb_per_s configs[].decode_limit_tps configs[].step_ms_by_position[]";
        check(&record, "a report of `qrun bench`", texts, numbers)?;
    }
    Ok(record)
}
