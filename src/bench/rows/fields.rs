//! The columns of a row: llama-bench's, in its order and under its names, and behind them ours.

use serde_json::{Value, json};

use super::Row;
use crate::{bench::machine, session::DevicePreference};

/// What a column holds, and so how it is written where there are no types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A text.
    Text,
    /// A whole number.
    Whole,
    /// A number.
    Real,
    /// Yes or no.
    Switch,
}

/// A column.
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Its value; null where nothing is known.
    pub value: fn(&Row) -> Value,
}

const fn text(name: &'static str, value: fn(&Row) -> Value) -> Field {
    Field { name, kind: Kind::Text, value }
}
const fn whole(name: &'static str, value: fn(&Row) -> Value) -> Field {
    Field { name, kind: Kind::Whole, value }
}
const fn real(name: &'static str, value: fn(&Row) -> Value) -> Field {
    Field { name, kind: Kind::Real, value }
}
const fn switch(name: &'static str, value: fn(&Row) -> Value) -> Field {
    Field { name, kind: Kind::Switch, value }
}

/// llama-bench's columns. What has no meaning here has its default there.
#[rustfmt::skip]
pub const THEIRS: &[Field] = &[
    text("build_commit", |r| json!(r.machine.commit)),
    whole("build_number", |_| json!(machine::build_number())),
    text("cpu_info", |r| json!(r.machine.cpu)),
    text("gpu_info", |r| json!(r.machine.gpu.as_ref().map_or("", |gpu| &gpu.name))),
    text("backends", |r| json!(r.backend())),
    text("model_filename", |r| json!(r.subject.filename)),
    text("model_type", |r| json!(r.subject.ty)),
    whole("model_size", |r| json!(r.subject.size)),
    whole("model_n_params", |r| json!(r.subject.n_params)),
    whole("n_batch", |r| json!(r.setting.n_batch)),
    whole("n_ubatch", |r| json!(r.setting.n_ubatch)),
    whole("n_threads", |r| json!(r.setting.threads)),
    text("cpu_mask", |_| json!("0x0")),
    switch("cpu_strict", |_| json!(false)),
    whole("poll", |_| json!(50)),
    text("type_k", |r| json!(r.setting.type_k.name())),
    text("type_v", |r| json!(r.setting.type_v.name())),
    whole("n_gpu_layers", |r| json!(r.setting.n_gpu_layers)),
    whole("n_cpu_moe", |_| json!(0)),
    text("split_mode", |_| json!("layer")),
    whole("main_gpu", |_| json!(0)),
    switch("no_kv_offload", |_| json!(false)),
    whole("flash_attn", |_| json!(-1)),
    text("devices", |r| json!(devices(r.setting.device))),
    text("tensor_split", |_| json!("0.00")),
    text("tensor_buft_overrides", |_| json!("none")),
    text("load_mode", |_| json!("mmap")),
    text("lazy_mode", |_| json!("auto")),
    switch("embeddings", |_| json!(false)),
    whole("no_op_offload", |_| json!(0)),
    switch("no_host", |_| json!(false)),
    switch("repack", |r| json!(r.setting.repack)),
    whole("fit_target", |_| json!(0)),
    whole("fit_min_ctx", |_| json!(0)),
    whole("n_prompt", |r| json!(r.test.n_prompt)),
    whole("n_gen", |r| json!(r.test.n_gen)),
    whole("n_depth", |r| json!(r.test.n_depth)),
    text("test_time", |r| json!(r.time)),
    whole("avg_ns", |r| json!(r.avg_ns())),
    whole("stddev_ns", |r| json!(r.stddev_ns())),
    real("avg_ts", |r| json!(r.avg_ts())),
    real("stddev_ts", |r| json!(r.stddev_ts())),
];

/// llama-bench has these in JSON only.
pub const SAMPLES: &[Field] =
    &[text("samples_ns", |r| json!(r.samples_ns)), text("samples_ts", |r| json!(r.samples_ts()))];

/// What it has not: the speed beside its limit, and the precision that both depend on.
pub const OURS: &[Field] = &[
    real("gb_per_s", |r| json!(r.gb_per_s())),
    real("limit_ts", |r| json!(r.limit_ts)),
    real("limit_share", |r| json!(r.limit_share())),
    text("precision", |r| json!(r.subject.precision)),
];

/// The columns of formats without nested values.
pub fn flat() -> impl Iterator<Item = &'static Field> {
    THEIRS.iter().chain(OURS)
}

/// The columns of JSON.
pub fn nested() -> impl Iterator<Item = &'static Field> {
    THEIRS.iter().chain(SAMPLES).chain(OURS)
}

impl Field {
    /// The value as a text: a switch is 0 or 1, a number has six decimals, nothing is empty.
    pub fn written(&self, row: &Row) -> String {
        match ((self.value)(row), self.kind) {
            (Value::Null, _) => String::new(),
            (Value::String(text), _) => text,
            (Value::Bool(on), _) => u8::from(on).to_string(),
            (value, Kind::Real) => value.as_f64().map_or(String::new(), |x| format!("{x:.6}")),
            (value, _) => value.to_string(),
        }
    }
}

impl Row {
    /// `CPU` or `CUDA`.
    pub fn backend(&self) -> &'static str {
        if self.machine.gpu.is_some() { "CUDA" } else { "CPU" }
    }
}

fn devices(wish: DevicePreference) -> String {
    match wish {
        DevicePreference::Auto => "auto".into(),
        DevicePreference::Cpu => "none".into(),
        DevicePreference::Cuda(ordinal) => format!("CUDA{ordinal}"),
    }
}
