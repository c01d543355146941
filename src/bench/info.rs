//! What every measurement says of itself: the model, the precision, the machine and its limits.

use serde::{Deserialize, Serialize};

use super::{
    limits::{CostModel, Limits},
    machine::Machine,
};
use crate::{engine::Engine, tools::quantize::FileType};

/// What was measured, and where. Reports have these fields among their own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunInfo {
    /// What was run: `quick`, `standard`, `full`, `custom`, `prompts` ….
    pub suite: String,
    /// `general.name` of the file.
    pub model: String,
    /// Mix of formats: `Q4_K_M`, `BF16` ….
    pub dtype: String,
    /// What the products are computed with: `int8 activations`, `f32`, or the GPU's own.
    pub arithmetic: String,
    /// Types of cached keys and values.
    pub kv_types: [String; 2],
    /// Where and when.
    pub machine: Machine,
    /// What the machine can do at most, measured before and after.
    pub limits: Limits,
    /// Parameters of the model.
    pub n_params: u64,
    /// Bytes of its tensors.
    pub model_size: u64,
    /// Bytes of weights that a token reads.
    pub weight_bytes_per_token: u64,
}

impl RunInfo {
    /// A run on this model. Its limits are not measured yet.
    pub fn new(suite: &str, engine: &Engine) -> Self {
        let (gguf, options) = (engine.gguf(), engine.options());
        let number = gguf.get("general.file_type").and_then(|v| v.as_u64()).and_then(|n| u32::try_from(n).ok());
        let dtype = number.and_then(FileType::from_number).map_or("unknown", FileType::name);
        let machine = Machine::of(engine);
        Self {
            suite: suite.into(),
            model: engine.model().config.name.clone(),
            dtype: dtype.into(),
            arithmetic: arithmetic(engine, &machine).into(),
            kv_types: [options.type_k, options.type_v].map(|ty| format!("{ty:?}").to_lowercase()),
            limits: Limits::default(),
            n_params: gguf.tensors().iter().map(|t| t.shape.iter().product::<u64>()).sum(),
            model_size: gguf.tensors().iter().map(|t| t.data.len() as u64).sum(),
            weight_bytes_per_token: CostModel::new(engine).weight_bytes(),
            machine,
        }
    }

    /// The model and its mix of formats.
    pub fn name(&self) -> String {
        format!("{} {}", self.model, self.dtype)
    }

    /// Who measured what and where: how each line begins that can be pasted into an issue.
    pub fn line(&self) -> String {
        let m = &self.machine;
        format!("qrun {} ({}): {} on {}", m.qrun, m.commit, self.name(), m.name())
    }

    /// The head of a report in Markdown: model, precision, what was run (`how`), machine: what every number depends on.
    pub fn describe(&self, how: &str) -> String {
        let m = &self.machine;
        format!(
            "- **{}** {} ({}; KV {}), {how}, on {}; reads {:.1} GB/s; qrun {} ({}), {}\n",
            self.model,
            self.dtype,
            self.arithmetic,
            self.kv_types.join("/"),
            m.name(),
            self.limits.read_gb_per_s,
            m.qrun,
            m.commit,
            m.timestamp,
        )
    }

    /// The name of a report's file: `{model}_{dtype}_{suite}_{device}_{time}.json`, without what file systems dislike.
    pub fn file_name(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-._".contains(c) { c } else { '-' };
        let Self { model, dtype, suite, machine, .. } = self;
        let name = format!("{model}_{dtype}_{suite}_{}_{}", machine.device, machine.timestamp);
        name.chars().map(plain).collect::<String>() + ".json"
    }
}

/// What a product is computed with: the precision beside every number.
fn arithmetic(engine: &Engine, machine: &Machine) -> &'static str {
    use qrun_quant::cpu::Arithmetic::{Exact, Fast};
    match (machine.device.as_str(), engine.options().arithmetic) {
        ("cuda", _) => "int8 activations for quantized weights, else bf16 or f16 with f32 sums",
        (_, Exact) => "f32",
        (_, Fast) => "int8 activations for quantized weights, else f32 (prompts in F16 and BF16: 16-bit fixed point)",
    }
}
