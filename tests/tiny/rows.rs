//! What tiny models of single architectures have besides the keys and tensors of all.

use qrun_models::{
    arch,
    spec::{AttentionGate, DeltaHeads, Norm, Recurrent, Residual},
};
use qrun_quant::{
    GgmlType,
    gguf::{Array, write::Header},
};

use super::{Add, Mix, Spread, Tiny};

/// Context of the training before YaRN.
const ORIGINAL: u32 = 32;

impl Tiny {
    /// Whether a layer sees a window only.
    pub fn slides(&self, il: usize) -> bool {
        let period = match (self.pattern, self.arch) {
            (0, "gemma2" | "gpt-oss") => 2,
            (0, "gemma3" | "gemma-embedding") => 6,
            (0, "modern-bert") => 3,
            (0, _) => 4,
            (period, _) => period,
        };
        let global = if self.arch == "modern-bert" { 0 } else { period - 1 };
        self.window > 0 && il % period != global
    }
    /// Whether a layer has experts.
    pub fn has_experts(&self, il: usize) -> bool {
        self.experts[0] > 0 && il >= self.leading_dense && self.layer(il)[2] > 0
    }
}

impl Tiny {
    /// Whether a layer has keys of its own.
    pub fn has_keys(&self, il: usize) -> bool {
        il + self.n_shared_kv < self.n_layer || il >= self.n_layer
    }
    /// Whether a layer has values of its own.
    pub fn has_values(&self, il: usize) -> bool {
        self.has_keys(il) && (self.slides(il) || !self.keys_as_values)
    }
}

/// Heads of keys and of values, elements of a key and of a value, and taps of a delta net.
pub const DELTA: [usize; 5] = [2, 4, 32, 48, 4];
/// Groups of heads, heads, elements of a head, rows of its state, and taps of Mamba-2. Granite has one group.
const MAMBA: [usize; 5] = [2, 4, 48, 24, 4];
/// Taps of a short convolution.
const TAPS: usize = 3;

impl Tiny {
    /// Whether a layer has attention.
    pub fn attends(&self, il: usize) -> bool {
        match arch::find(self.arch).unwrap().recurrent {
            Recurrent::None => true,
            Recurrent::DeltaNet { .. } => (il + 1).is_multiple_of(4) || il >= self.n_layer,
            Recurrent::ShortConv | Recurrent::Mamba2 => self.layer(il)[1] > 0,
        }
    }
    /// Whether a layer is a feed-forward alone.
    fn is_alone(&self, il: usize) -> bool {
        self.has_single_parts() && !self.attends(il) && self.layer(il)[2] > 0
    }
    /// Whether a layer has attention or a feed-forward, not both.
    fn has_single_parts(&self) -> bool {
        arch::find(self.arch).unwrap().residual == Residual::Single
    }
    /// Whether a layer looks back, with attention or a state.
    pub fn looks_back(&self, il: usize) -> bool {
        !self.is_alone(il)
    }
    /// Whether a layer has a feed-forward.
    pub fn feeds_forward(&self, il: usize) -> bool {
        !self.has_single_parts() || self.is_alone(il)
    }
    /// Groups of heads of Mamba-2.
    fn mamba_groups(&self) -> usize {
        if self.arch == "granitehybrid" { 1 } else { MAMBA[0] }
    }
}

pub fn keys(t: &Tiny, h: &mut Header) {
    let key = |k: &str| format!("{}.{k}", t.arch);
    // Where there are two of them, or one by another name, large enough to be seen in logits.
    let (name, eps) = match t.arch {
        "cohere2" => ("layer_norm_epsilon", 1e-3f32),
        "bert" | "nomic-bert" | "modern-bert" => ("layer_norm_epsilon", 1e-3),
        "muse-glimmer" => ("layer_norm_rms_epsilon", 1e-3),
        // Not a LayerNorm's.
        "nemotron_h" => ("layer_norm_epsilon", 1e-3),
        // Of the norms of keys and queries too, which transformers does not read from there.
        "qwen35" | "qwen35moe" | "qwen3next" => ("layer_norm_rms_epsilon", 1e-6),
        _ => ("layer_norm_rms_epsilon", 1e-5),
    };
    h.set(key(&format!("attention.{name}")), eps);
    if t.pooling > 0 {
        h.set(key("pooling_type"), t.pooling);
    }
    if t.yarn > 0.0 {
        h.set(key("rope.scaling.type"), "yarn");
        h.set(key("rope.scaling.factor"), t.yarn);
        h.set(key("rope.scaling.original_context_length"), ORIGINAL);
    }
    if t.long_rope {
        h.set(key("rope.scaling.type"), "longrope");
        h.set(key("rope.scaling.original_context_length"), t.n_ctx as u32 / 2);
        h.set(key("rope.scaling.attn_factor"), 1.25f32);
    }
    let [n_expert, n_used, n_ff, n_ff_shared] = t.experts.map(|n| n as u32);
    if n_expert > 0 {
        h.set(key("expert_count"), n_expert);
        h.set(key("expert_used_count"), n_used);
        h.set(key("expert_feed_forward_length"), n_ff);
        if n_ff_shared > 0 {
            h.set(key("expert_shared_feed_forward_length"), n_ff_shared);
        }
    }
    latent_keys(t, h);
    if t.arch == "gemma4" {
        let slides: Vec<bool> = (0..t.n_layer).map(|il| t.slides(il)).collect();
        h.set(key("attention.sliding_window_pattern"), Array::of(&slides));
    }
    let recurrent: Vec<(&str, usize)> = match arch::find(t.arch).unwrap().recurrent {
        Recurrent::None => Vec::new(),
        Recurrent::DeltaNet { .. } => {
            let [n_head_k, n_head_v, dim_k, dim_v, taps] = DELTA;
            vec![
                ("ssm.group_count", n_head_k),
                ("ssm.time_step_rank", n_head_v),
                ("ssm.state_size", dim_k),
                ("ssm.inner_size", n_head_v * dim_v),
                ("ssm.conv_kernel", taps),
                ("full_attention_interval", 4),
            ]
        }
        Recurrent::ShortConv => vec![("shortconv.l_cache", TAPS)],
        Recurrent::Mamba2 => {
            let [_, n_head, head_dim, n_state, taps] = MAMBA;
            vec![
                ("ssm.group_count", t.mamba_groups()),
                ("ssm.time_step_rank", n_head),
                ("ssm.state_size", n_state),
                ("ssm.inner_size", n_head * head_dim),
                ("ssm.conv_kernel", taps),
            ]
        }
    };
    recurrent.into_iter().for_each(|(name, n)| h.set(key(name), n as u32));
    if t.groups[0] > 0 {
        h.set(key("expert_group_count"), t.groups[0] as u32);
        h.set(key("expert_group_used_count"), t.groups[1] as u32);
    }
    if t.leading_dense > 0 {
        h.set(key("leading_dense_block_count"), t.leading_dense as u32);
    }
    if t.arch.starts_with("qwen3vl") || t.arch.starts_with("qwen35") {
        // A third of the pairs for each coordinate of a position.
        let pairs = t.head(0)[1] as u32 / 2;
        h.set(key("rope.dimension_sections"), Array::of(&[pairs - 2 * (pairs / 3), pairs / 3, pairs / 3, 0]));
    }
    let numbers: &[(&str, f32)] = match t.arch {
        "mistral3" => &[("rope.scaling.yarn_log_multiplier", 1.0), ("attention.temperature_scale", 0.1)],
        "granite" | "granitemoe" | "granitehybrid" => {
            &[("embedding_scale", 0.75), ("residual_scale", 0.5), ("logit_scale", 1.25), ("attention.scale", 0.1)]
        }
        "gemma4" => &[("rope.freq_base_swa", 20_000.0), ("final_logit_softcapping", 20.0)],
        "cohere2" => &[("logit_scale", 0.75)],
        "muse-glimmer" => &[("logit_scale", 1.5), ("final_logit_softcapping", 20.0)],
        "glm4moe" => &[("expert_weights_scale", 1.5)],
        "nemotron_h_moe" => &[("expert_weights_scale", 2.5)],
        _ => &[],
    };
    numbers.iter().for_each(|(name, value)| h.set(key(name), *value));
    if t.arch == "glm4moe" {
        h.set(key("expert_gating_func"), 2u32);
    }
    if matches!(t.arch, "glm4moe" | "nemotron_h_moe") {
        h.set(key("expert_weights_norm"), true);
    }
    if t.arch == "granitehybrid" {
        h.set(key("rope.scaling.finetuned"), false);
    }
}

/// Of models with latent attention. Those whose queries are made of fewer elements are DeepSeek V3, others V2.
fn latent_keys(t: &Tiny, h: &mut Header) {
    let key = |k: &str| format!("{}.{k}", t.arch);
    let [rank, q_rank, n_nope, n_value] = t.latent;
    if rank == 0 {
        return;
    }
    let sizes = [
        ("kv_lora_rank", rank),
        ("q_lora_rank", q_rank),
        ("value_length", rank),
        ("key_length_mla", n_nope + t.n_rot),
        ("value_length_mla", n_value),
    ];
    sizes.into_iter().filter(|(_, n)| *n > 0).for_each(|(name, n)| h.set(key(&format!("attention.{name}")), n as u32));
    let v3 = t.arch == "deepseek2" && q_rank > 0;
    if t.experts[0] > 0 {
        h.set(key("expert_weights_scale"), 1.5f32);
        if v3 {
            h.set(key("expert_gating_func"), 2u32);
        }
        if q_rank > 0 {
            h.set(key("expert_weights_norm"), true);
        }
    }
    if t.yarn > 0.0 && q_rank > 0 {
        h.set(key("rope.scaling.yarn_log_multiplier"), if v3 { 0.0707f32 } else { 0.1 });
    }
    if t.arch == "mistral4" {
        h.set(key("attention.temperature_scale"), 0.1f32);
    }
}

/// Takes `(name, type, [cols, rows], mean, standard deviation)` of a layer's tensor.
type AddToLayer<'a> = &'a mut dyn FnMut(&str, GgmlType, [usize; 2], f32, f32);

/// Tensors of latent attention.
fn latent(t: &Tiny, tensor: AddToLayer) {
    let (d, h, [rank, q_rank, n_nope, n_value]) = (t.n_embd, t.n_head, t.latent);
    let queries = h * (n_nope + t.n_rot);
    let q: &[(&str, usize, usize, f32)] = match q_rank {
        0 => &[("attn_q", d, queries, 1.2)],
        _ => &[("attn_q_a", d, q_rank, 1.0), ("attn_q_b", q_rank, queries, 1.2)],
    };
    let others = [
        ("attn_kv_a_mqa", d, rank + t.n_rot, 1.2),
        // What it is given are keys: as many as there are elements of a vector.
        ("attn_k_b", n_nope, h * rank, 1.2 * (n_nope as f32 / rank as f32).sqrt()),
        ("attn_v_b", rank, h * n_value, 1.0),
        ("attn_output", h * n_value, d, 1.0),
    ];
    for &(part, cols, rows, gain) in q.iter().chain(&others) {
        tensor(&format!("{part}.weight"), t.ty(part, 0, cols), [cols, rows], 0.0, gain / (cols as f32).sqrt());
    }
    if q_rank > 0 {
        tensor("attn_q_a_norm.weight", GgmlType::F32, [q_rank, 0], 1.0, 0.2);
    }
    tensor("attn_kv_a_norm.weight", GgmlType::F32, [rank, 0], 1.0, 0.2);
}

/// Divisors of `pairs` frequencies, of which a quarter turns.
pub fn turning(pairs: usize) -> Vec<u8> {
    (0..pairs).flat_map(|i| if i < pairs / 4 { 1.0f32 } else { 1e30 }.to_le_bytes()).collect()
}

/// What joins the embeddings of tokens.
pub fn input(t: &Tiny, add: Add) {
    let input = arch::find(t.arch).unwrap().input;
    let std = 0.5;
    if input.is_typed() {
        add("token_types.weight", GgmlType::F32, [t.n_embd, 2], Spread { mean: 0.0, std });
    }
    if input.is_normed() {
        add("token_embd_norm.weight", GgmlType::F32, [t.n_embd, 0], Spread { mean: 1.0, std: 0.2 });
        if arch::find(t.arch).unwrap().norm.has_bias() {
            add("token_embd_norm.bias", GgmlType::F32, [t.n_embd, 0], Spread { mean: 0.0, std: 0.2 });
        }
    }
    if input.is_placed() {
        add("position_embd.weight", t.ty("", 0, t.n_embd), [t.n_embd, t.n_ctx], Spread { mean: 0.0, std });
    }
}

pub fn tensors(t: &Tiny, il: usize, add: Add) {
    let spec = arch::find(t.arch).unwrap();
    let d = t.n_embd;
    let mut tensor = |part: &str, ty: GgmlType, shape: [usize; 2], mean: f32, std: f32| {
        add(&format!("blk.{il}.{part}"), ty, shape, Spread { mean, std });
    };
    let unit = |cols: usize| 1.0 / (cols as f32).sqrt();
    let [n_head, ..] = t.layer(il);
    match spec.recurrent {
        _ if t.attends(il) || t.is_alone(il) => {}
        Recurrent::None => {}
        Recurrent::Mamba2 => {
            let ([_, n_head, head_dim, n_state, taps], n_group) = (MAMBA, t.mamba_groups());
            let inner = n_head * head_dim;
            let channels = inner + 2 * n_group * n_state;
            for (part, cols, rows) in [("ssm_in", d, inner + channels + n_head), ("ssm_out", inner, d)] {
                tensor(&format!("{part}.weight"), t.ty(part, il, cols), [cols, rows], 0.0, unit(cols));
            }
            tensor("ssm_dt.bias", GgmlType::F32, [n_head, 0], -1.0, 1.0);
            tensor("ssm_a", GgmlType::F32, [1, n_head], -0.7, 0.2);
            tensor("ssm_d", GgmlType::F32, [1, n_head], 0.5, 0.5);
            tensor("ssm_conv1d.weight", GgmlType::F32, [taps, channels], 0.0, 0.5);
            tensor("ssm_conv1d.bias", GgmlType::F32, [channels, 0], 0.0, 0.3);
            tensor("ssm_norm.weight", GgmlType::F32, [inner / n_group, n_group], 1.0, 0.2);
        }
        Recurrent::DeltaNet { heads } => {
            let [n_head_k, n_head_v, dim_k, dim_v, taps] = DELTA;
            let inner = n_head_v * dim_v;
            let channels = 2 * n_head_k * dim_k + inner;
            let mut matrix = |part: &str, cols: usize, rows: usize| {
                tensor(&format!("{part}.weight"), t.ty(part, il, cols), [cols, rows], 0.0, unit(cols));
            };
            matrix("attn_qkv", d, channels);
            matrix("attn_gate", d, inner);
            match heads {
                DeltaHeads::Tiled => {
                    ["ssm_alpha", "ssm_beta"].map(|part| matrix(part, d, n_head_v)).into_iter().collect()
                }
                DeltaHeads::Grouped => matrix("ssm_ba", d, 2 * n_head_v),
            }
            matrix("ssm_out", inner, d);
            tensor("ssm_dt.bias", GgmlType::F32, [n_head_v, 0], 0.0, 0.5);
            tensor("ssm_a", GgmlType::F32, [n_head_v, 0], -0.7, 0.2);
            tensor("ssm_conv1d.weight", GgmlType::F32, [taps, channels], 0.0, 0.5);
            tensor("ssm_norm.weight", GgmlType::F32, [dim_v, 0], 1.0, 0.2);
        }
        Recurrent::ShortConv => {
            for (part, rows) in [("shortconv.in_proj", 3 * d), ("shortconv.out_proj", d)] {
                tensor(&format!("{part}.weight"), t.ty(part, il, d), [d, rows], 0.0, unit(d));
            }
            tensor("shortconv.conv.weight", GgmlType::F32, [TAPS, d], 0.0, 0.5);
        }
    }
    if spec.residual == Residual::NormedSum {
        for part in ["attn_output_norm", "layer_output_norm"] {
            tensor(&format!("{part}.weight"), GgmlType::F32, [d, 0], 1.0, 0.2);
            if spec.norm == Norm::LayerBias {
                tensor(&format!("{part}.bias"), GgmlType::F32, [d, 0], 0.0, 0.2);
            }
        }
    }
    if t.arch == "bert" {
        for (part, n) in [("attn_output", d), ("ffn_up", t.n_ff), ("ffn_down", d)] {
            tensor(&format!("{part}.bias"), GgmlType::F32, [n, 0], 0.0, 0.3);
        }
    }
    if spec.latent {
        latent(t, &mut tensor);
    }
    if spec.sinks {
        tensor("attn_sinks.weight", GgmlType::F32, [n_head, 0], 1.0, 1.0);
        tensor("attn_output.bias", GgmlType::F32, [d, 0], 0.0, 0.1);
    }
    if spec.attention_gate == AttentionGate::Own {
        tensor("attn_gate.weight", t.ty("attn_gate", il, d), [d, n_head * t.head(il)[0]], 0.0, unit(d));
    }
    if t.arch == "gemma4" {
        tensor("layer_output_scale.weight", GgmlType::F32, [1, 0], 0.8, 0.1);
    }
    if t.n_embd_per_layer > 0 {
        let n = t.n_embd_per_layer;
        for (part, cols, rows) in [("inp_gate", d, n), ("proj", n, d)] {
            tensor(&format!("{part}.weight"), t.ty(part, il, cols), [cols, rows], 0.0, unit(cols));
        }
        tensor("post_norm.weight", GgmlType::F32, [d, 0], 0.5, 0.1);
    }
    if il >= t.n_layer {
        tensor("nextn.eh_proj.weight", t.ty("nextn.eh_proj", il, 2 * d), [2 * d, d], 0.0, unit(2 * d));
        for part in ["enorm", "hnorm", "shared_head_norm"] {
            tensor(&format!("nextn.{part}.weight"), GgmlType::F32, [d, 0], 1.0, 0.2);
        }
    }
    if !t.has_experts(il) {
        return;
    }
    let [e, _, f, shared] = t.experts;
    tensor("ffn_gate_inp.weight", GgmlType::F32, [d, e], 0.0, 2.0 * unit(d));
    if t.arch == "gemma4" {
        for (part, cols, rows) in [("ffn_gate_up_exps", d, 2 * f), ("ffn_down_exps", f, d)] {
            tensor(&format!("{part}.weight"), t.ty(part, il, cols), [cols, rows * e], 0.0, unit(cols));
        }
        tensor("ffn_gate_inp.scale", GgmlType::F32, [d, 0], (d as f32).sqrt(), 1.0);
        if t.mix != Mix::Only(GgmlType::NVFP4) {
            tensor("ffn_down_exps.scale", GgmlType::F32, [e, 0], 1.0, 0.3);
        }
        tensor("pre_ffw_norm_2.weight", GgmlType::F32, [d, 0], 1.0, 0.2);
        for part in ["post_ffw_norm_1", "post_ffw_norm_2"] {
            tensor(&format!("{part}.weight"), GgmlType::F32, [d, 0], 0.7, 0.2);
        }
        return;
    }
    // Gates and ups of gpt-oss reach 7, where they are clamped.
    let [gain_in, gain_out] = if t.arch == "gpt-oss" { [3.0, 0.2] } else { [1.0; 2] };
    let gated = spec.feed_forward.is_gated();
    let present = |part: &str| gated || !part.starts_with("ffn_gate");
    let x = if t.latent_experts > 0 { t.latent_experts } else { d };
    let of_experts =
        [("ffn_gate_exps", x, f, gain_in), ("ffn_up_exps", x, f, gain_in), ("ffn_down_exps", f, x, gain_out)];
    for (part, cols, rows, gain) in of_experts.into_iter().filter(|(part, ..)| present(part)) {
        tensor(&format!("{part}.weight"), t.ty(part, il, cols), [cols, rows * e], 0.0, gain * unit(cols));
        if t.arch == "gpt-oss" {
            tensor(&format!("{part}.bias"), GgmlType::F32, [rows * e, 0], 0.0, 0.3);
        }
    }
    if t.arch == "gpt-oss" {
        tensor("ffn_gate_inp.bias", GgmlType::F32, [e, 0], 0.0, 0.5);
    }
    if matches!(t.arch, "glm4moe" | "lfm2moe" | "nemotron_h_moe") || t.arch == "deepseek2" && t.latent[1] > 0 {
        tensor("exp_probs_b.bias", GgmlType::F32, [e, 0], 0.0, 0.2);
    }
    if t.latent_experts > 0 {
        for (part, cols, rows) in [("ffn_latent_down", d, x), ("ffn_latent_up", x, d)] {
            tensor(&format!("{part}.weight"), t.ty(part, il, cols), [cols, rows], 0.0, unit(cols));
        }
    }
    if shared > 0 {
        let of_all = [("ffn_gate_shexp", d, shared), ("ffn_up_shexp", d, shared), ("ffn_down_shexp", shared, d)];
        for (part, cols, rows) in of_all.into_iter().filter(|(part, ..)| present(part)) {
            tensor(&format!("{part}.weight"), t.ty(part, il, cols), [cols, rows], 0.0, unit(cols));
        }
        if matches!(t.arch, "qwen2moe" | "qwen35moe" | "qwen3next") {
            tensor("ffn_gate_inp_shexp.weight", GgmlType::F32, [d, 0], 0.0, unit(d));
        }
    }
}
