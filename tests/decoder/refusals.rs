//! Files that a model cannot be made of: the error names the file, the key or tensor, what was
//! expected and what was found. What loads runs.

use qrun_models::{Forward, Model};
use qrun_quant::{
    Bytes, GgmlType, Gguf, Result,
    gguf::{
        Array, Value,
        write::{Entry, Header},
    },
};

use crate::tiny::{EACH_ARCH, ENCODERS, TINY, Tiny, decoder, entries};

/// A file taken apart, so that it can be changed.
pub(super) struct Parts {
    header: Header,
    data: Vec<Vec<u8>>,
}

impl Parts {
    pub(super) fn of(tiny: Tiny) -> Self {
        let file = Gguf::from_bytes("tiny", Bytes::new(tiny.bytes())).unwrap();
        let mut header = Header { metadata: file.metadata().to_vec(), ..Header::new() };
        header.tensors = file.tensors().iter().map(Entry::from).collect();
        Self { header, data: file.tensors().iter().map(|t| t.data.to_vec()).collect() }
    }

    pub(super) fn load(&self) -> Result<Model> {
        Model::load(&self.file()?)
    }

    pub(super) fn file(&self) -> Result<Gguf> {
        let mut file = Vec::new();
        let mut writer = self.header.write_to("model.gguf".as_ref(), &mut file)?;
        self.data.iter().try_for_each(|d| writer.write(d))?;
        writer.finish()?;
        Gguf::from_bytes("model.gguf", Bytes::new(file))
    }

    pub(super) fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.header.set(key, value);
    }

    pub(super) fn drop_key(&mut self, key: &str) {
        self.header.metadata.retain(|(k, _)| k != key);
    }

    pub(super) fn drop_tensor(&mut self, name: &str) {
        let at = self.header.tensors.iter().position(|t| t.name == name).unwrap();
        self.header.tensors.remove(at);
        self.data.remove(at);
    }

    /// Puts a tensor of zeros in place of the one of this name, or behind all.
    pub(super) fn put_tensor(&mut self, name: &str, ty: GgmlType, shape: &[u64]) {
        let zeros = vec![0; ty.bytes_of(shape.iter().product::<u64>() as usize)];
        self.put(Entry { name: name.into(), ty, shape: shape.into() }, zeros);
    }

    /// The same with these bytes.
    pub(super) fn put(&mut self, entry: Entry, data: Vec<u8>) {
        let at = self.header.tensors.iter().position(|t| t.name == entry.name).unwrap_or(self.data.len());
        self.header.tensors.splice(at..self.data.len().min(at + 1), [entry]);
        self.data.splice(at..self.data.len().min(at + 1), [data]);
    }
}

type Change = fn(&mut Parts);
/// A change to a file, and the place, what was expected and what was found in the error that it gives.
type Refused = (Change, &'static str, &'static str, &'static str);

/// The one with embeddings for each layer and shared caches.
fn gemma4() -> Tiny {
    EACH_ARCH.into_iter().find(|tiny| tiny.n_embd_per_layer > 0).unwrap()
}

/// The one with experts and a rank of queries.
fn deepseek2() -> Tiny {
    EACH_ARCH.into_iter().find(|tiny| tiny.arch == "deepseek2").unwrap()
}

/// Eight experts, two of them for a token, and one key more.
fn experts(p: &mut Parts, name: &str, value: u32) {
    p.set("llama.expert_count", 8u32);
    p.set("llama.expert_used_count", 2u32);
    p.set(&format!("llama.{name}"), value);
}

/// `(change to TINY, place, expected, found)`.
#[rustfmt::skip]
const LLAMA: &[Refused] = &[
    (|p| p.set("general.architecture", "mamba"), "key general.architecture",
        "an architecture qrun runs (llama, smollm3, qwen2, qwen3, gemma2, gemma3, gemma4, qwen2moe, ", "\"mamba\""),
    (|p| p.drop_key("general.architecture"), "key general.architecture", "one of llama, smollm3, qwen2, qwen3, gemma2, gemma3, gemma4, qwen2moe, ", "nothing"),
    (|p| p.set("general.architecture", 7u32), "key general.architecture", "a UTF-8 string", "7"),
    (|p| p.set("llama.rope.scaling.type", "ntk"), "key llama.rope.scaling.type", "none, linear, yarn or longrope", "\"ntk\""),
    (|p| p.set("llama.rope.scaling.type", "yarn"), "key llama.rope.scaling.original_context_length", "a value", "no such key"),
    (|p| p.put_tensor("rope_factors_long.weight", GgmlType::F32, &[32]), "key llama.rope.scaling.original_context_length", "a value", "no such key"),
    (|p| p.set("llama.expert_count", 8u32), "key llama.expert_used_count", "a value", "no such key"),
    (|p| p.set("llama.expert_count", 5000u32), "key llama.expert_count", "at most 4096 experts", "5000"),
    (|p| experts(p, "expert_used_count", 9), "key llama.expert_used_count", "at most the 8 experts", "9"),
    (|p| experts(p, "expert_gating_func", 4), "key llama.expert_gating_func", "1 (softmax), 2 (sigmoid) or 3", "4"),
    (|p| experts(p, "expert_group_count", 3), "key llama.expert_group_count", "a divisor of the 8 experts", "3"),
    (|p| experts(p, "expert_group_count", 4), "key llama.expert_group_used_count", "a value", "no such key"),
    (|p| { experts(p, "expert_group_count", 4); p.set("llama.expert_group_used_count", 5u32) }, "key llama.expert_group_used_count",
        "enough of the 4 groups for 2 experts", "5"),
    // A router and no experts; an indexer, a picture's projector.
    (|p| { experts(p, "expert_used_count", 2); p.put_tensor("blk.1.ffn_gate_inp.weight", GgmlType::F32, &[128, 8]) },
        "tensor blk.1.ffn_gate_exps.weight", "shape [128, 288, 8]", "no such tensor"),
    (|p| p.put_tensor("blk.0.indexer.proj.weight", GgmlType::F32, &[128]), "tensor blk.0.indexer.proj.weight",
        "only tensors that qrun's llama knows", "a tensor without a place in the model"),
    (|p| p.put_tensor("mm.0.weight", GgmlType::F32, &[128]), "tensor mm.0.weight",
        "only tensors that qrun's llama knows", "a tensor without a place in the model"),
    (|p| p.set("llama.hidden_act", "relu"), "key llama.hidden_act", "silu", "\"relu\""),
    (|p| p.set("llama.pooling_type", 9u32), "key llama.pooling_type", "0 (none), 1 (mean), 2 (first token), 3 (last token) or 4 (rank)", "9"),
    (|p| p.set("llama.attention.head_count", 0u32), "key llama.attention.head_count", "a number from 1 to 16777216", "0"),
    (|p| p.set("llama.attention.head_count_kv", 0u32), "key llama.attention.head_count_kv", "a number from 1 to 16777216", "0"),
    (|p| p.set("llama.attention.head_count_kv", 3u32), "key llama.attention.head_count_kv", "a divisor of 4 heads", "3"),
    // One value for each layer: another number of them, or one that is wrong.
    (|p| p.set("llama.attention.head_count_kv", Array::of(&[2u32, 3])), "key llama.attention.head_count_kv", "a divisor of 4 heads in layer 1", "3"),
    (|p| p.set("llama.attention.head_count", Array::of(&[4u32, 5])), "key llama.attention.head_count_kv", "a divisor of 5 heads in layer 1", "2"),
    (|p| p.set("llama.attention.head_count_kv", Array::of(&[2u32])), "key llama.attention.head_count_kv", "2 values, one for each block", "array of 1"),
    (|p| p.set("llama.feed_forward_length", Array::of(&[288u32; 3])), "key llama.feed_forward_length", "2 values, one for each block", "array of 3"),
    (|p| p.set("llama.feed_forward_length", Array::of_strings(["288", "288"])), "key llama.feed_forward_length", "2 values, one for each block", "array of 2 Str"),
    (|p| p.set("llama.feed_forward_length", Array::of(&[288u32, 0])), "key llama.feed_forward_length", "a number from 1 to 16777216 for layer 1", "0"),
    (|p| p.set("llama.attention.head_count", Array::of(&[-4i32, 4])), "key llama.attention.head_count", "a number from 1 to 16777216 for layer 0", "-4"),
    (|p| p.set("llama.attention.head_count", Array::of(&[4f32, 4.5])), "key llama.attention.head_count", "a number from 1 to 16777216 for layer 1", "4.5"),
    (|p| p.set("llama.attention.head_count", Array::of(&[4u32, 8])), "tensor blk.1.attn_q.weight", "shape [128, 512]", "[128, 256]"),
    (|p| p.set("llama.feed_forward_length", Array::of(&[288u32, 96])), "tensor blk.1.ffn_gate.weight", "shape [128, 96]", "[128, 288]"),
    (|p| { p.set("llama.attention.head_count", Array::of(&[4u32, 8])); p.drop_key("llama.attention.key_length") },
        "key llama.attention.key_length", "a value, as layers differ in heads", "no such key"),
    (|p| p.set("llama.attention.key_length", Array::of(&[64u32, 64])), "key llama.attention.key_length", "an unsigned integer", "array of 2"),
    (|p| p.set("llama.nextn_predict_layers", 2u32), "key llama.nextn_predict_layers", "fewer than the 2 blocks", "2"),
    (|p| p.set("llama.block_count", u64::MAX), "key llama.block_count", "a number from 1 to 16777216", "18446744073709551615"),
    (|p| p.set("llama.block_count", 5000u32), "key llama.block_count", "at most 4096 layers", "5000"),
    (|p| p.set("llama.block_count", 3u32), "tensor blk.2.attn_norm.weight", "shape [128]", "no such tensor"),
    (|p| p.set("llama.block_count", 1u32), "tensor blk.1.", "only tensors that qrun's llama knows", "a tensor without a place in the model"),
    (|p| p.set("llama.block_count", "two"), "key llama.block_count", "an unsigned integer", "two"),
    (|p| p.set("llama.embedding_length", 1u64 << 40), "key llama.embedding_length", "a number from 1 to 16777216", "1099511627776"),
    (|p| p.set("llama.embedding_length", 64u32), "tensor blk.0.attn_norm.weight", "shape [64]", "[128]"),
    (|p| p.set("llama.feed_forward_length", 1u32), "tensor blk.0.ffn_gate.weight", "shape [128, 1]", "[128, 288]"),
    (|p| p.set("llama.attention.key_length", 2048u32), "key llama.attention.value_length", "the key length 2048", "64"),
    (|p| p.set("llama.attention.value_length", 32u32), "key llama.attention.value_length", "the key length 64", "32"),
    (|p| p.set("llama.rope.dimension_count", 65u32), "key llama.rope.dimension_count", "an even number up to 64", "65"),
    (|p| p.set("llama.rope.dimension_count", 66u32), "key llama.rope.dimension_count", "an even number up to 64", "66"),
    (|p| p.set("llama.rope.freq_base", f32::NAN), "key llama.rope.freq_base", "a finite number", "NaN"),
    (|p| p.set("llama.rope.freq_base", -1f32), "key llama.rope.freq_base", "a positive number", "-1"),
    (|p| p.set("llama.attention.layer_norm_rms_epsilon", f32::INFINITY), "key llama.attention.layer_norm_rms_epsilon", "a finite number", "inf"),
    (|p| p.drop_key("llama.attention.layer_norm_rms_epsilon"), "key llama.attention.layer_norm_rms_epsilon", "a value", "no such key"),
    (|p| p.drop_key("llama.embedding_length"), "key llama.embedding_length", "a value", "no such key"),
    (|p| p.drop_key("llama.block_count"), "key llama.block_count", "a value", "no such key"),
    (|p| p.drop_key("llama.context_length"), "key llama.context_length", "a value", "no such key"),
    (|p| p.drop_key("llama.feed_forward_length"), "key llama.feed_forward_length", "a value", "no such key"),
    (|p| p.drop_key("llama.attention.head_count"), "key llama.attention.head_count", "a value", "no such key"),
    (|p| p.drop_tensor("token_embd.weight"), "tensor token_embd.weight", "the token embedding", "no such tensor"),
    (|p| p.drop_tensor("output_norm.weight"), "tensor output_norm.weight", "shape [128]", "no such tensor"),
    (|p| p.drop_tensor("blk.1.ffn_down.weight"), "tensor blk.1.ffn_down.weight", "shape [288, 128]", "no such tensor"),
    (|p| p.drop_tensor("blk.0.attn_k.weight"), "tensor blk.0.attn_k.weight", "shape [128, 128]", "no such tensor"),
    (|p| p.put_tensor("blk.0.attn_k.weight", GgmlType::F32, &[128, 64]), "tensor blk.0.attn_k.weight", "shape [128, 128]", "[128, 64]"),
    (|p| p.put_tensor("output.weight", GgmlType::F32, &[128, 322]), "tensor output.weight", "shape [128, 323]", "[128, 322]"),
    (|p| p.put_tensor("blk.0.attn_q.bias", GgmlType::F32, &[255]), "tensor blk.0.attn_q.bias", "shape [256]", "[255]"),
    (|p| p.put_tensor("blk.0.attn_q.scale", GgmlType::F32, &[2]), "tensor blk.0.attn_q.scale", "shape [1]", "[2]"),
    (|p| p.put_tensor("blk.1.ffn_down.scale", GgmlType::Q8_0, &[32]), "tensor blk.1.ffn_down.scale", "shape [1]", "[32]"),
    (|p| p.put_tensor("output.scale", GgmlType::F32, &[323]), "tensor output.scale", "shape [1]", "[323]"),
    (|p| p.put_tensor("token_embd.scale", GgmlType::F32, &[1]), "tensor token_embd.scale",
        "only tensors that qrun's llama knows", "a tensor without a place in the model"),
    (|p| p.put_tensor("blk.0.attn_norm.weight", GgmlType::Q8_0, &[128]), "tensor blk.0.attn_norm.weight", "F32, F16 or BF16", "Q8_0"),
    (|p| p.put_tensor("rope_freqs.weight", GgmlType::F32, &[32]), "tensor rope_freqs.weight", "positive divisors", "0"),
    (|p| p.put_tensor("rope_freqs.weight", GgmlType::F32, &[16]), "tensor rope_freqs.weight", "shape [32]", "[16]"),
    (|p| p.put_tensor("blk.0.attn_sinks.weight", GgmlType::F32, &[4]), "tensor blk.0.attn_sinks.weight",
        "only tensors that qrun's llama knows", "a tensor without a place in the model"),
    // Norms that only other architectures have: not used means not the model of the file.
    (|p| p.put_tensor("blk.0.attn_q_norm.weight", GgmlType::F32, &[64]), "tensor blk.0.attn_q_norm.weight",
        "only tensors that qrun's llama knows", "a tensor without a place in the model"),
];

/// The same for a Gemma 3.
#[rustfmt::skip]
const GEMMA3: &[Refused] = &[
    (|p| p.set("gemma3.attention.sliding_window", 0u32), "key gemma3.attention.sliding_window", "a number from 1 to 16777216", "0"),
    (|p| p.set("gemma3.attention.sliding_window_pattern", 0u32), "key gemma3.attention.sliding_window_pattern", "a number from 1 to 16777216", "0"),
    (|p| p.set("gemma3.attention.sliding_window_pattern", Array::of(&[true; 3])), "key gemma3.attention.sliding_window_pattern", "4 values", "3"),
    (|p| p.set("gemma3.attention.key_length_swa", 48u32), "key gemma3.rope.dimension_count_swa", "an even number up to 48", "64"),
    (|p| p.set("gemma3.attention.key_length_swa", 72u32), "key gemma3.attention.key_length_swa", "a multiple of 16 up to 1024", "72"),
    (|p| p.set("gemma3.attention.key_length_swa", 128u32), "tensor blk.0.attn_q.weight", "shape [128, 512]", "[128, 256]"),
    (|p| p.set("gemma3.attention.value_length_swa", 32u32), "key gemma3.attention.value_length_swa", "the key length 64", "32"),
    (|p| p.set("gemma3.hidden_activation", "silu"), "key gemma3.hidden_activation", "gelu_pytorch_tanh", "\"silu\""),
    (|p| p.set("gemma3.rope.scaling.factor", f32::NEG_INFINITY), "key gemma3.rope.scaling.factor", "a finite number", "-inf"),
    (|p| p.set("gemma3.rope.freq_base_swa", -5f32), "key gemma3.rope.freq_base_swa", "a positive number", "-5"),
    (|p| p.drop_tensor("blk.3.post_ffw_norm.weight"), "tensor blk.3.post_ffw_norm.weight", "shape [128]", "no such tensor"),
    (|p| p.drop_tensor("blk.2.attn_k_norm.weight"), "tensor blk.2.attn_k_norm.weight", "shape [64]", "no such tensor"),
];

/// The same for a Gemma 4.
#[rustfmt::skip]
const GEMMA4: &[Refused] = &[
    (|p| p.set("gemma4.attention.shared_kv_layers", 6u32), "key gemma4.attention.shared_kv_layers", "fewer than the 6 layers", "6"),
    (|p| p.set("gemma4.attention.shared_kv_layers", 5u32), "key gemma4.attention.shared_kv_layers",
        "a layer of the kind of layer 1 before those that share", "5"),
    (|p| p.set("gemma4.attention.head_count_kv", Array::of(&[2u32, 1, 2, 1, 1, 1])), "key gemma4.attention.head_count_kv",
        "the 2 heads of layer 2 in layer 4", "1"),
    (|p| p.set("gemma4.embedding_length_per_layer_input", 32u32), "tensor blk.0.inp_gate.weight", "shape [128, 32]", "[128, 64]"),
    (|p| p.set("gemma4.embedding_length_per_layer_input", 0u32), "tensor per_layer_token_embd.weight",
        "only tensors that qrun's gemma4 knows", "a tensor without a place in the model"),
    (|p| p.drop_tensor("per_layer_token_embd.weight"), "tensor per_layer_token_embd.weight", "shape [384, 323]", "no such tensor"),
    (|p| p.drop_tensor("blk.3.attn_k.weight"), "tensor blk.3.attn_k.weight", "shape [128, 96]", "no such tensor"),
    (|p| p.put_tensor("blk.3.layer_output_scale.weight", GgmlType::F32, &[2]), "tensor blk.3.layer_output_scale.weight", "shape [1]", "[2]"),
];

/// The same for a DeepSeek: a rank of 64, 16 elements that turn, keys of 32 more, values of 40.
#[rustfmt::skip]
const DEEPSEEK2: &[Refused] = &[
    (|p| p.drop_key("deepseek2.attention.kv_lora_rank"), "key deepseek2.attention.kv_lora_rank", "a value", "no such key"),
    (|p| p.set("deepseek2.attention.kv_lora_rank", 72u32), "key deepseek2.attention.kv_lora_rank",
        "a multiple of 16, up to 1024 with the 16 elements that turn", "72"),
    (|p| p.set("deepseek2.attention.kv_lora_rank", 1024u32), "key deepseek2.attention.kv_lora_rank",
        "a multiple of 16, up to 1024 with the 16 elements that turn", "1024"),
    (|p| p.drop_key("deepseek2.rope.dimension_count"), "key deepseek2.rope.dimension_count", "a value", "no such key"),
    (|p| p.set("deepseek2.rope.dimension_count", 15u32), "key deepseek2.rope.dimension_count", "an even number up to 15", "15"),
    (|p| p.set("deepseek2.attention.key_length_mla", 16u32), "key deepseek2.attention.key_length_mla",
        "more than the 16 elements that turn", "16"),
    (|p| p.set("deepseek2.attention.key_length", 96u32), "key deepseek2.attention.key_length", "the 80 elements of the cache", "96"),
    (|p| p.set("deepseek2.attention.value_length", 32u32), "key deepseek2.attention.value_length", "the 64 elements of the cache", "32"),
    (|p| { p.drop_key("deepseek2.attention.key_length"); p.drop_key("deepseek2.attention.key_length_mla") },
        "key deepseek2.attention.key_length", "a value", "no such key"),
    (|p| p.set("deepseek2.attention.value_length_mla", 40u32), "tensor blk.0.attn_v_b.weight", "shape [64, 40, 4]", "[64, 48, 4]"),
    (|p| p.set("deepseek2.attention.q_lora_rank", 0u32), "tensor blk.0.attn_q.weight", "shape [128, 192]", "no such tensor"),
    (|p| p.set("deepseek2.attention.q_lora_rank", 64u32), "tensor blk.0.attn_q_a.weight", "shape [128, 64]", "[128, 96]"),
    (|p| p.drop_tensor("blk.1.attn_k_b.weight"), "tensor blk.1.attn_k_b.weight", "shape [32, 64, 4]", "no such tensor"),
    (|p| p.drop_tensor("blk.1.attn_kv_a_norm.weight"), "tensor blk.1.attn_kv_a_norm.weight", "shape [64]", "no such tensor"),
    (|p| { p.drop_tensor("blk.1.attn_k_b.weight"); p.put_tensor("blk.1.attn_kv_b.weight", GgmlType::F32, &[64, 256]) },
        "tensor blk.1.attn_kv_b.weight", "shape [64, 320]", "[64, 256]"),
    (|p| p.put_tensor("blk.1.attn_kv_b.weight", GgmlType::F32, &[64, 288]), "tensor blk.1.attn_kv_b.weight",
        "only tensors that qrun's deepseek2 knows", "a tensor without a place in the model"),
    (|p| p.set("deepseek2.rope.scaling.yarn_log_multiplier", -1f32), "key deepseek2.rope.scaling.yarn_log_multiplier",
        "a positive number", "-1"),
];

/// The same for a Granite 4 H.
#[rustfmt::skip]
const GRANITEHYBRID: &[Refused] = &[
    (|p| p.drop_key("granitehybrid.ssm.group_count"), "key granitehybrid.ssm.group_count", "a value", "no such key"),
    (|p| p.drop_key("granitehybrid.ssm.inner_size"), "key granitehybrid.ssm.inner_size", "a value", "no such key"),
    (|p| p.set("granitehybrid.ssm.group_count", 3u32), "key granitehybrid.ssm.time_step_rank", "a multiple of 3 groups", "4"),
    (|p| p.set("granitehybrid.ssm.inner_size", 190u32), "key granitehybrid.ssm.inner_size", "a multiple of 4 heads", "190"),
    (|p| p.set("granitehybrid.ssm.state_size", 2048u32), "key granitehybrid.ssm.state_size", "at most 1024", "2048"),
    (|p| p.set("granitehybrid.ssm.conv_kernel", 1u32), "key granitehybrid.ssm.conv_kernel", "a number from 2 to 16", "1"),
    (|p| p.set("granitehybrid.rope.scaling.finetuned", "no"), "key granitehybrid.rope.scaling.finetuned", "a bool", "no"),
    (|p| p.set("granitehybrid.ssm.state_size", 48u32), "tensor blk.0.ssm_in.weight", "shape [128, 484]", "[128, 436]"),
    (|p| p.set("granitehybrid.attention.head_count_kv", Array::of(&[0u32, 2, 2])), "tensor blk.2.attn_q.weight", "shape [128, 256]", "no such tensor"),
    (|p| p.drop_tensor("blk.0.ssm_in.weight"), "tensor blk.0.ssm_in.weight", "shape [128, 436]", "no such tensor"),
    (|p| p.drop_tensor("blk.0.ssm_d"), "tensor blk.0.ssm_d", "shape [1, 4]", "no such tensor"),
    (|p| p.put_tensor("blk.0.ssm_a", GgmlType::F32, &[4]), "tensor blk.0.ssm_a", "shape [1, 4]", "[4]"),
    (|p| p.put_tensor("blk.0.ssm_norm.weight", GgmlType::F32, &[96, 2]), "tensor blk.0.ssm_norm.weight", "shape [192, 1]", "[96, 2]"),
    (|p| p.put_tensor("blk.0.ssm_conv1d.bias", GgmlType::F32, &[192]), "tensor blk.0.ssm_conv1d.bias", "shape [240]", "[192]"),
    (|p| p.put_tensor("blk.1.ssm_d", GgmlType::F32, &[1, 4]), "tensor blk.1.ssm_d", "only tensors that qrun's granitehybrid knows",
        "a tensor without a place in the model"),
];

/// The same for a Nemotron 3.
#[rustfmt::skip]
const NEMOTRON: &[Refused] = &[
    (|p| p.drop_key("nemotron_h_moe.feed_forward_length"), "key nemotron_h_moe.feed_forward_length", "a value", "no such key"),
    (|p| p.drop_key("nemotron_h_moe.attention.layer_norm_rms_epsilon"), "key nemotron_h_moe.attention.layer_norm_rms_epsilon", "a value", "no such key"),
    (|p| p.set("nemotron_h_moe.hidden_act", "silu"), "key nemotron_h_moe.hidden_act", "relu2", "\"silu\""),
    (|p| p.set("nemotron_h_moe.feed_forward_length", Array::of(&[64u32, 64, 0, 64, 0])), "tensor blk.0.ffn_up.weight", "shape [128, 64]", "no such tensor"),
    (|p| p.drop_tensor("blk.1.attn_norm.weight"), "tensor blk.1.attn_norm.weight", "shape [128]", "no such tensor"),
    (|p| p.drop_tensor("blk.1.ffn_gate_inp.weight"), "tensor blk.1.ffn_up.weight", "shape [128, 64]", "no such tensor"),
    (|p| p.drop_tensor("blk.1.ffn_latent_up.weight"), "tensor blk.1.ffn_latent_up.weight", "shape [96, 128]", "no such tensor"),
    (|p| p.put_tensor("blk.1.ffn_latent_down.weight", GgmlType::F32, &[128, 64]), "tensor blk.1.ffn_up_exps.weight", "shape [64, 64, 12]", "[96, 64, 12]"),
    (|p| p.put_tensor("blk.1.ffn_gate_exps.weight", GgmlType::F32, &[96, 64, 12]), "tensor blk.1.ffn_gate_exps.weight",
        "only tensors that qrun's nemotron_h_moe knows", "a tensor without a place in the model"),
    (|p| p.put_tensor("blk.2.ffn_up.weight", GgmlType::F32, &[128, 64]), "tensor blk.2.ffn_up.weight",
        "only tensors that qrun's nemotron_h_moe knows", "a tensor without a place in the model"),
];

/// Files that were made of models saved before transformers 5.5 have them.
#[test]
fn keys_of_a_layer_that_attends_to_the_cache_of_another_are_left_where_they_are() {
    let mut parts = Parts::of(gemma4());
    for (part, shape) in [("attn_k", [128, 128].as_slice()), ("attn_v", &[128, 128]), ("attn_k_norm", &[64])] {
        parts.put_tensor(&format!("blk.4.{part}.weight"), GgmlType::F32, shape);
    }
    assert!(parts.load().is_ok());
}

/// Some writers leave them out.
#[test]
fn dimensions_of_one_at_the_end_mean_nothing() {
    let mut parts = Parts::of(EACH_ARCH.into_iter().find(|tiny| tiny.arch == "granitehybrid").unwrap());
    parts.put_tensor("blk.0.ssm_norm.weight", GgmlType::F32, &[192]);
    parts.put_tensor("blk.0.attn_norm.weight", GgmlType::F32, &[128, 1]);
    assert!(parts.load().is_ok());
}

#[test]
fn what_is_wrong_is_named() {
    let of = |tiny, cases: &'static [Refused]| cases.iter().map(move |case| (tiny, case));
    let cases =
        of(TINY, LLAMA).chain(of(EACH_ARCH[4], GEMMA3)).chain(of(gemma4(), GEMMA4)).chain(of(deepseek2(), DEEPSEEK2));
    let first = |arch| EACH_ARCH.into_iter().find(|tiny| tiny.arch == arch).unwrap();
    let cases = cases.chain(of(first("granitehybrid"), GRANITEHYBRID)).chain(of(first("nemotron_h_moe"), NEMOTRON));
    for (tiny, (change, place, expected, found)) in cases {
        let mut parts = Parts::of(tiny);
        change(&mut parts);
        let Err(e) = parts.load() else { panic!("{place} loads: expected {expected}, found {found}") };
        let text = e.to_string();
        assert!(e.file.as_os_str() == "model.gguf" && e.place.starts_with(place), "{text}");
        assert!(
            text.contains(expected) && e.found.contains(found),
            "{text}\nis not: expected {expected}, found {found}"
        );
    }
}

#[test]
fn odd_values_of_any_key_are_refused_or_run() {
    let values: [Value; 14] = [
        0u32.into(),
        1u32.into(),
        3u32.into(),
        (1u32 << 24).into(),
        u32::MAX.into(),
        (1u64 << 63).into(),
        (-1i32).into(),
        f32::NAN.into(),
        f32::MIN_POSITIVE.into(),
        f32::MAX.into(),
        (-1f32).into(),
        "text".into(),
        Array::of(&[1u32, 2]).into(),
        Array::of::<u32>(&[]).into(),
    ];
    for tiny in EACH_ARCH.into_iter().chain(ENCODERS) {
        let whole = Parts::of(Tiny { n_layer: 1, n_embd: 32, n_ff: 32, ..tiny });
        let prefix = format!("{}.", tiny.arch);
        let keys = whole.header.metadata.iter().map(|(k, _)| k.clone()).filter(|k| k.starts_with(&prefix));
        let more = ["attention.scale", "final_logit_softcapping", "rope.scale_linear", "rope.freq_base_swa"];
        for key in keys.chain(more.map(|k| prefix.clone() + k)) {
            for value in &values {
                let mut changed = Parts { header: whole.header.clone(), data: whole.data.clone() };
                changed.set(&key, value.clone());
                match changed.load() {
                    Err(e) => assert!(e.file.as_os_str() == "model.gguf" && !e.found.is_empty(), "{e}"),
                    Ok(model) => {
                        let mut d = decoder(&model, super::options()[0].clone());
                        let out = d.forward(&entries(&[5, 6, 7], 0, 0)).unwrap();
                        assert_eq!(out.len(), 3 * tiny.n_vocab);
                    }
                }
            }
        }
    }
}
