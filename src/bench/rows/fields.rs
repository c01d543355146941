//! The columns of a row: llama-bench's, in its order and under its names, and behind them ours.

use serde_json::{Value, json};

use super::Row;
use crate::{bench::machine, engine::DevicePreference};

/// A column: its name, and its value in a row.
pub type Field = (&'static str, fn(&Row) -> Value);

/// The columns of llama-bench; null where qrun has nothing of the kind to set or to measure.
#[rustfmt::skip]
const THEIRS: &[Field] = &[
    ("build_commit", |r| json!(r.machine.commit)),
    ("build_number", |_| json!(machine::build_number())),
    ("cpu_info", |r| json!(r.machine.cpu)),
    ("gpu_info", |r| json!(r.machine.gpu.as_ref().map_or("", |gpu| &gpu.name))),
    ("backends", |r| json!(r.backend())),
    ("model_filename", |r| json!(r.model.filename)),
    ("model_type", |r| json!(r.model.ty)),
    ("model_size", |r| json!(r.model.size)),
    ("model_n_params", |r| json!(r.model.n_params)),
    ("n_batch", |r| json!(r.setting.n_batch)),
    ("n_ubatch", |r| json!(r.setting.n_ubatch)),
    ("n_threads", |r| json!(r.setting.threads)),
    ("cpu_mask", absent), ("cpu_strict", absent), ("poll", absent),
    ("type_k", |r| json!(r.setting.type_k.name())),
    ("type_v", |r| json!(r.setting.type_v.name())),
    ("n_gpu_layers", |r| json!(r.setting.n_gpu_layers)),
    ("n_cpu_moe", absent), ("split_mode", absent), ("main_gpu", absent), ("no_kv_offload", absent), ("flash_attn", absent),
    ("devices", |r| json!(devices(r.setting.device))),
    ("tensor_split", absent), ("tensor_buft_overrides", absent), ("load_mode", absent), ("lazy_mode", absent),
    ("embeddings", absent), ("no_op_offload", absent), ("no_host", absent),
    ("repack", |r| json!(r.setting.repack)),
    ("fit_target", absent), ("fit_min_ctx", absent),
    ("n_prompt", |r| json!(r.test.n_prompt)),
    ("n_gen", |r| json!(r.test.n_gen)),
    ("n_depth", |r| json!(r.test.n_depth)),
    ("test_time", |r| json!(r.time)),
    ("avg_ns", |r| json!(r.avg_ns())),
    ("stddev_ns", |r| json!(r.stddev_ns())),
    ("avg_ts", |r| json!(r.avg_ts())),
    ("stddev_ts", |r| json!(r.stddev_ts())),
];

/// llama-bench has these in JSON only.
const SAMPLES: &[Field] = &[("samples_ns", |r| json!(r.samples_ns)), ("samples_ts", |r| json!(r.samples_ts()))];

/// What it lacks: the speed beside its limit, and the precision that both depend on.
const OURS: &[Field] = &[
    ("gb_per_s", |r| json!(r.gb_per_s())),
    ("limit_ts", |r| json!(r.limit_ts)),
    ("limit_share", |r| json!(r.limit_share())),
    ("precision", |r| json!(r.model.precision)),
];

/// The columns of formats without nested values.
pub fn flat() -> impl Iterator<Item = &'static Field> {
    THEIRS.iter().chain(OURS)
}

/// The columns of JSON.
pub fn nested() -> impl Iterator<Item = &'static Field> {
    THEIRS.iter().chain(SAMPLES).chain(OURS)
}

/// A value as a text: a switch is 0 or 1, a real number has six decimals, null is empty.
pub fn written(value: Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text,
        Value::Bool(on) => u8::from(on).to_string(),
        Value::Number(x) if x.is_f64() => format!("{:.6}", x.as_f64().unwrap_or(f64::NAN)),
        other => other.to_string(),
    }
}

impl Row {
    /// `CPU` or `CUDA`.
    pub fn backend(&self) -> &'static str {
        if self.machine.gpu.is_some() { "CUDA" } else { "CPU" }
    }
}

fn absent(_: &Row) -> Value {
    Value::Null
}

fn devices(preference: DevicePreference) -> String {
    match preference {
        DevicePreference::Auto => "auto".into(),
        DevicePreference::Cpu => "none".into(),
        DevicePreference::Cuda(ordinal) => ordinal.map_or("CUDA".into(), |n| format!("CUDA{n}")),
    }
}
