//! Keys that files of these architectures have and llama.cpp asks for, though they say nothing that is not known here.

use qrun_models::spec::{Gating, LogitScale};
use qrun_quant::gguf::{Array, write::Header};

use super::Shape;

/// Of a text alone, and of the second of two.
pub(super) const TOKEN_TYPES: usize = 2;

impl Shape {
    /// Sets them.
    pub(super) fn set_others(&self, h: &mut Header) {
        let key = |name: &str| format!("{}.{name}", self.arch);
        if self.arch.starts_with("qwen3vl") || self.arch.starts_with("qwen35") {
            // Pairs that turn by time, height and width: of a text the same position.
            let pairs = self.n_rot() as u32 / 2;
            h.set(key("rope.dimension_sections"), Array::of(&[pairs.div_ceil(3), (pairs + 1) / 3, pairs / 3, 0]));
        }
        if self.spec().logit_scale != LogitScale::None {
            h.set(key("logit_scale"), 1.0f32);
        }
        if self.spec().input.is_typed() {
            h.set("tokenizer.ggml.token_type_count", TOKEN_TYPES as u32);
        }
        if self.latent.is_some() && self.rope.yarn.is_some() {
            h.set(key("rope.scaling.yarn_log_multiplier"), 0.1f32);
        }
        if self.arch.starts_with("nemotron_h") {
            h.set(key("attention.layer_norm_epsilon"), self.norm_eps);
        }
        if let Some(e) = self.experts {
            if e.n_ff_shared > 0 {
                h.set(key("expert_shared_count"), (e.n_ff_shared / e.n_ff) as u32);
            }
            let routing = self.spec().routing;
            h.set(key("expert_weights_norm"), routing.norm);
            if routing.gating == Gating::Sigmoid {
                h.set(key("expert_gating_func"), routing.gating as u32);
            }
        }
    }
}
