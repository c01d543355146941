//! Tiny models with awkward shapes, the same bits on every machine.
//!
//! Weights are drawn in integer arithmetic and, where quantized, drawn as blocks: no quantizer, no
//! `libm` and no other part of qrun has a say in them, so golden numbers outlive changes to those.

mod draw;
mod each;
mod rows;

use qrun_models::{
    CpuDecoder, Entry, Forward, Model, Options, Output, arch,
    spec::{AttentionGate, Mask, QkNorm, Residual},
};
use qrun_quant::{
    Bytes, GgmlType, Gguf,
    gguf::{Array, write::Header},
};

pub use draw::{Rng, fnv1a};
use draw::{Spread, draw};
pub use each::{EACH_ARCH, ENCODERS, UNEVEN};
pub use rows::DELTA;

/// Which formats the matrices get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(non_camel_case_types)]
pub enum Mix {
    F32,
    BF16,
    Q8_0,
    /// Q4_K and Q6_K; Q5_0 and Q8_0 where rows are not a multiple of 256; F16 where not of 32.
    Q4_K_M,
    /// The same with IQ2 and IQ3 in most matrices, as in files of two to three bits.
    IQ2_M,
    /// One format; F16 where rows are not whole blocks of it. Beside NVFP4 there are scales.
    Only(GgmlType),
}

/// A model. Zeros among the optional keys (`window` … `attention_softcap`): the key is absent.
#[derive(Debug, Clone, Copy)]
pub struct Tiny {
    pub arch: &'static str,
    pub mix: Mix,
    pub n_layer: usize,
    pub n_embd: usize,
    pub n_ff: usize,
    pub n_head: usize,
    pub n_head_kv: usize,
    pub head_dim: usize,
    /// `[n_head, n_head_kv, n_ff]` of each layer where they differ; else empty.
    pub uneven: &'static [[usize; 3]],
    /// Elements per head in sliding layers, half of which turn (of Gemma 4 all); 0: as in the others.
    pub head_dim_swa: usize,
    /// Layers that see everything have no `attn_v`.
    pub keys_as_values: bool,
    /// Layers at the end without keys and values.
    pub n_shared_kv: usize,
    /// Elements of embeddings for each layer.
    pub n_embd_per_layer: usize,
    pub n_vocab: usize,
    pub n_ctx: usize,
    /// No `output.weight`.
    pub tied: bool,
    /// Biases on q, k and v.
    pub biases: bool,
    /// A tensor `rope_freqs.weight`.
    pub rope_freqs: bool,
    /// q, k and v in one tensor.
    pub fused_qkv: bool,
    /// Gate and up in one tensor.
    pub fused_gate_up: bool,
    pub rope_base: f32,
    pub rope_scale: f32,
    pub window: usize,
    pub pattern: usize,
    pub attention_softcap: f32,
    /// Norms of q and k where an architecture may have them.
    pub qk_norm: bool,
    /// Elements of a head that turn; 0: all.
    pub n_rot: usize,
    /// Factor of YaRN, for an original context of 32 tokens.
    pub yarn: f32,
    /// Divisors for contexts up to `n_ctx / 2` and for longer ones.
    pub long_rope: bool,
    /// `[n_expert, n_used, n_ff, n_ff of the shared one]`, zeros: none.
    pub experts: [usize; 4],
    /// Layers in front that have none.
    pub leading_dense: usize,
    /// `[groups, groups used]` of experts.
    pub groups: [usize; 2],
    /// Of latent attention `[rank, rank of queries, elements of a key that do not turn, elements of a value]`; `head_dim` is
    /// the first and `n_rot`.
    pub latent: [usize; 4],
    /// Width of what experts take and give; 0: that of the residual stream.
    pub latent_experts: usize,
    /// How hidden states become an embedding, by `pooling_type`'s numbers.
    pub pooling: u32,
    /// A block behind the layers guesses further tokens.
    pub draft_head: bool,
    /// Widths of `dense_2` and `dense_3`.
    pub dense: [usize; 2],
}

pub const TINY: Tiny = Tiny {
    arch: "llama",
    mix: Mix::F32,
    n_layer: 2,
    n_embd: 128,
    n_ff: 288,
    n_head: 4,
    n_head_kv: 2,
    head_dim: 64,
    uneven: &[],
    head_dim_swa: 0,
    keys_as_values: false,
    n_shared_kv: 0,
    n_embd_per_layer: 0,
    n_vocab: 323,
    n_ctx: 512,
    tied: false,
    biases: false,
    rope_freqs: false,
    fused_qkv: false,
    fused_gate_up: false,
    rope_base: 10_000.0,
    rope_scale: 0.0,
    window: 0,
    pattern: 0,
    attention_softcap: 0.0,
    qk_norm: true,
    n_rot: 0,
    yarn: 0.0,
    long_rope: false,
    experts: [0; 4],
    leading_dense: 0,
    groups: [0; 2],
    latent: [0; 4],
    latent_experts: 0,
    pooling: 0,
    draft_head: false,
    dense: [0; 2],
};

#[test]
fn every_architecture_has_a_tiny_model() {
    for arch in qrun_models::arch::ARCHITECTURES {
        let tinies: &[Tiny] = if arch.mask == Mask::None { &ENCODERS } else { &EACH_ARCH };
        let found = tinies.iter().any(|tiny| tiny.arch == arch.name);
        assert!(found, "{} has no row in EACH_ARCH: the equivalence tests would leave it out", arch.name);
    }
}

/// Takes `(name, type, [cols, rows], spread)` of a tensor, 0 rows for vectors.
type Add<'a> = &'a mut dyn FnMut(&str, GgmlType, [usize; 2], Spread);

impl Tiny {
    /// The GGUF file.
    pub fn bytes(&self) -> Vec<u8> {
        let mut header = Header::new();
        self.keys(&mut header);
        tokenizer(&mut header, self.n_vocab);
        let mut data = Vec::new();
        self.tensors(&mut |name: &str, ty, shape: [usize; 2], spread| {
            let [cols, rows] = shape;
            header.tensor(name, ty, &self.dims(name, [cols, rows]));
            // The scales of NVFP4 are too coarse for small numbers.
            let scaled = ty == GgmlType::NVFP4 && name != "token_embd.weight";
            let block = if scaled { Spread { std: 4.0, ..spread } } else { spread };
            data.push(match (self.arch, name) {
                ("gemma4", "rope_freqs.weight") => rows::turning(cols),
                _ => draw(ty, cols * rows.max(1), block, &mut Rng::new(name)),
            });
            if scaled {
                let (name, mean) = (name.replace(".weight", ".scale"), spread.std / block.std);
                let n = if name.contains("_exps.") { self.experts[0] } else { 1 };
                header.tensor(&name, GgmlType::F32, &[n as u64]);
                data.push(draw(GgmlType::F32, n, Spread { mean, std: 0.2 * mean }, &mut Rng::new(&name)));
            }
        });
        self.fuse(&mut header, &mut data);
        if !self.tied {
            // The embedding, rows moved on by one.
            let (rows, mut head) = (self.n_vocab, data[0].clone());
            let row = head.len() / rows;
            head.rotate_right(row);
            let ty = header.tensors[0].ty;
            header.tensor("output.weight", ty, &[self.n_embd as u64, rows as u64]);
            data.push(head);
            if ty == GgmlType::NVFP4 {
                header.tensor("output.scale", GgmlType::F32, &[1]);
                data.push(1.25f32.to_le_bytes().into());
            }
        }
        let mut file = Vec::new();
        let mut writer = header.write_to("tiny".as_ref(), &mut file).unwrap();
        data.iter().for_each(|d| writer.write(d).unwrap());
        writer.finish().unwrap();
        file
    }

    pub fn model(&self) -> Model {
        Model::load(&Gguf::from_bytes("tiny", Bytes::new(self.bytes())).unwrap()).unwrap()
    }

    /// `[n_head, n_head_kv, n_ff]` of a layer.
    pub fn layer(&self, il: usize) -> [usize; 3] {
        self.uneven.get(il).copied().unwrap_or([self.n_head, self.n_head_kv, self.n_ff])
    }

    /// Elements per head of a layer, and how many of them turn.
    pub fn head(&self, il: usize) -> [usize; 2] {
        let own = self.head_dim_swa > 0 && self.slides(il);
        let n_rot = if self.n_rot > 0 { self.n_rot } else { self.head_dim };
        if own { [self.head_dim_swa, self.n_rot_swa()] } else { [self.head_dim, n_rot] }
    }

    fn n_rot_swa(&self) -> usize {
        if self.arch == "gemma4" { self.head_dim_swa } else { self.head_dim_swa / 2 }
    }

    fn keys(&self, h: &mut Header) {
        let key = |k: &str| format!("{}.{k}", self.arch);
        h.set("general.architecture", self.arch);
        h.set("general.name", "tiny");
        h.set("general.quantization_version", 2u32);
        let sizes = [
            ("context_length", self.n_ctx),
            ("embedding_length", self.n_embd),
            ("block_count", self.n_layer + usize::from(self.draft_head)),
            ("nextn_predict_layers", usize::from(self.draft_head)),
            ("feed_forward_length", self.n_ff),
            ("attention.head_count", self.n_head),
            ("attention.head_count_kv", self.n_head_kv),
            ("attention.key_length", self.head_dim),
            ("attention.value_length", self.head_dim),
            ("rope.dimension_count", if self.n_rot > 0 { self.n_rot } else { self.head_dim }),
            ("attention.sliding_window", self.window),
            ("attention.sliding_window_pattern", self.pattern),
            ("attention.key_length_swa", self.head_dim_swa),
            ("attention.value_length_swa", self.head_dim_swa),
            ("rope.dimension_count_swa", self.n_rot_swa()),
            ("attention.shared_kv_layers", self.n_shared_kv),
            ("embedding_length_per_layer_input", self.n_embd_per_layer),
        ];
        for (name, n) in sizes.into_iter().filter(|(_, n)| *n > 0) {
            h.set(key(name), n as u32);
        }
        if !self.uneven.is_empty() {
            let by_layer = ["attention.head_count", "attention.head_count_kv", "feed_forward_length"];
            for (i, name) in by_layer.into_iter().enumerate() {
                h.set(key(name), Array::of(&self.uneven.iter().map(|layer| layer[i] as u32).collect::<Vec<_>>()));
            }
        }
        rows::keys(self, h);
        h.set(key("rope.freq_base"), self.rope_base);
        if self.rope_scale > 0.0 {
            h.set(key("rope.scaling.type"), "linear");
            h.set(key("rope.scaling.factor"), self.rope_scale);
        }
        if self.attention_softcap > 0.0 {
            h.set(key("attn_logit_softcapping"), self.attention_softcap);
        }
    }

    /// Names all tensors but the head.
    fn tensors(&self, add: Add) {
        let spec = arch::find(self.arch).unwrap();
        let gemma = self.arch.starts_with("gemma");
        let unit = |cols: usize, gain: f32| Spread { mean: 0.0, std: gain / (cols as f32).sqrt() };
        let norm = |gain: f32| Spread { mean: gain, std: 0.2 * gain };
        let vector = GgmlType::F32;
        // As in trained models the best token stands out: here it is the current one (its neighbour, if
        // untied), by the share `direct` that the embedding keeps in the residual stream. The others'
        // logits spread by 2.
        let direct = 5.0 * (self.n_layer as f32 / self.n_embd as f32).sqrt();
        let embedding = Spread { mean: 0.0, std: if gemma { direct / (self.n_embd as f32).sqrt() } else { direct } };
        let last_gain = 2.0 / (embedding.std * (self.n_embd as f32).sqrt());
        let head = self.ty("output", 0, self.n_embd);
        add("token_embd.weight", head, [self.n_embd, self.n_vocab], embedding);
        rows::input(self, add);
        if self.rope_freqs {
            add("rope_freqs.weight", vector, [self.head_dim / 2, 0], Spread { mean: 4.0, std: 1.0 });
        }
        let n = self.n_embd_per_layer;
        if n > 0 {
            let width = n * self.n_layer;
            add("per_layer_token_embd.weight", self.ty("", 0, width), [width, self.n_vocab], unit(n, 1.0));
            add(
                "per_layer_model_proj.weight",
                self.ty("", 0, self.n_embd),
                [self.n_embd, width],
                unit(self.n_embd, 1.0),
            );
            add("per_layer_proj_norm.weight", vector, [n, 0], norm(1.0));
        }
        if self.long_rope {
            for (name, mean) in [("long", 4.0), ("short", 1.2)] {
                let spread = Spread { mean, std: 0.1 * mean };
                add(&format!("rope_factors_{name}.weight"), vector, [self.head(0)[1] / 2, 0], spread);
            }
        }
        for il in 0..self.n_layer + usize::from(self.draft_head) {
            let name = |part: &str| format!("blk.{il}.{part}");
            let ([n_head, n_head_kv, n_ff], [head_dim, _]) = (self.layer(il), self.head(il));
            let (q, kv) = (n_head * head_dim, n_head_kv * head_dim);
            let attends = self.attends(il);
            let q_and_gate = if spec.attention_gate == AttentionGate::InQuery { 2 * q } else { q };
            let matrices = [
                ("attn_q", self.n_embd, q_and_gate, 1.2),
                ("attn_k", self.n_embd, kv, 1.2),
                ("attn_v", self.n_embd, kv, 1.0),
                ("attn_output", q, self.n_embd, 1.0),
                ("ffn_gate", self.n_embd, n_ff, 1.0),
                ("ffn_up", self.n_embd, n_ff, 1.0),
                ("ffn_down", n_ff, self.n_embd, 1.0),
            ];
            let dense = n_ff > 0 && !self.has_experts(il) || self.arch == "gemma4";
            let gated = spec.feed_forward.is_gated();
            let (own_k, own_v) = (self.has_keys(il), self.has_values(il));
            let present = |part: &str| match part {
                _ if spec.latent && part.starts_with("attn") => false,
                "attn_k" => attends && own_k,
                "attn_v" => attends && own_v,
                "ffn_gate" => dense && gated,
                _ if part.starts_with("ffn") => dense,
                _ => attends,
            };
            for (part, cols, rows, gain) in matrices.into_iter().filter(|(part, ..)| present(part)) {
                add(&name(&format!("{part}.weight")), self.ty(part, il, cols), [cols, rows], unit(cols, gain));
            }
            if self.biases && attends {
                for (part, rows) in [("attn_q", q_and_gate), ("attn_k", kv), ("attn_v", kv)] {
                    add(&name(&format!("{part}.bias")), vector, [rows, 0], Spread { mean: 0.0, std: 0.5 });
                }
            }
            if spec.residual.pre_norm() {
                if !spec.is_normed(il) {
                    add(&name("attn_norm.weight"), vector, [self.n_embd, 0], norm(1.0));
                }
                if !matches!(spec.residual, Residual::Parallel | Residual::Single) {
                    add(&name(&format!("{}.weight", spec.ffn_norm)), vector, [self.n_embd, 0], norm(1.0));
                }
            }
            let qk_norm = match spec.qk_norm {
                _ if !attends => None,
                QkNorm::None => None,
                QkNorm::IfPresent if !self.qk_norm => None,
                QkNorm::Head | QkNorm::IfPresent => Some([head_dim, head_dim]),
                QkNorm::Whole => Some([q, kv]),
            };
            let parts = ["attn_q_norm", "attn_k_norm"].into_iter().filter(|&part| part == "attn_q_norm" || own_k);
            for (part, n) in parts.zip(qk_norm.into_iter().flatten()) {
                let spread = match self.arch {
                    // The same number for all elements.
                    "muse-glimmer" => Spread { mean: 1.2, std: 0.0 },
                    // Nothing else scales scores.
                    "gemma4" => norm(0.4),
                    _ => norm(1.2),
                };
                add(&name(&format!("{part}.weight")), vector, [n, 0], spread);
            }
            rows::tensors(self, il, add);
            if spec.residual.post_norm() {
                add(&name("post_attention_norm.weight"), vector, [self.n_embd, 0], norm(0.5));
                add(&name("post_ffw_norm.weight"), vector, [self.n_embd, 0], norm(0.5));
            }
        }
        if spec.residual.final_norm() {
            add(&format!("{}.weight", spec.output_norm), vector, [self.n_embd, 0], norm(last_gain));
        }
        let widths = [self.n_embd, self.dense[0], self.dense[1]];
        for (i, shape) in widths.windows(2).enumerate().filter(|(_, shape)| shape[1] > 0) {
            let ty = self.ty("", 0, shape[0]);
            add(&format!("dense_{}.weight", i + 2), ty, [shape[0], shape[1]], unit(shape[0], 1.0));
        }
    }

    /// The file's dimensions of a tensor; all experts stand in one.
    fn dims(&self, name: &str, [cols, rows]: [usize; 2]) -> Vec<u64> {
        let n_expert = self.experts[0];
        let by_head = ["attn_k_b.", "attn_v_b."].iter().any(|part| name.contains(part));
        let dims = match (name.contains("_exps."), rows) {
            (true, 0) if name.ends_with("scale") => vec![cols],
            (true, 0) => vec![cols / n_expert, n_expert],
            (true, _) => vec![cols, rows / n_expert, n_expert],
            (false, 0) => vec![cols],
            (false, _) if by_head => vec![cols, rows / self.n_head, self.n_head],
            (false, _) => vec![cols, rows],
        };
        dims.into_iter().map(|n| n as u64).collect()
    }

    /// The format of a matrix; parts that are fused share one.
    fn ty(&self, part: &str, il: usize, cols: usize) -> GgmlType {
        let k_quants = cols.is_multiple_of(256);
        let part = if self.fused_qkv && matches!(part, "attn_q" | "attn_k") { "attn_v" } else { part };
        match self.mix {
            Mix::F32 => GgmlType::F32,
            Mix::BF16 => GgmlType::BF16,
            Mix::Only(ty) if cols.is_multiple_of(ty.format().block) => ty,
            _ if !cols.is_multiple_of(32) => GgmlType::F16,
            Mix::Only(_) => GgmlType::F16,
            Mix::Q8_0 => GgmlType::Q8_0,
            Mix::Q4_K_M if self.arch == "gpt-oss" && part.ends_with("_exps") => GgmlType::MXFP4,
            Mix::IQ2_M if k_quants && part.starts_with("ffn_down") => [GgmlType::IQ3_S, GgmlType::IQ3_XXS][il % 2],
            Mix::IQ2_M if k_quants && part.starts_with("ffn") => [GgmlType::IQ2_XS, GgmlType::IQ2_S][il % 2],
            Mix::IQ2_M if k_quants && ["attn_q", "attn_k"].contains(&part) => GgmlType::IQ2_XXS,
            Mix::Q4_K_M | Mix::IQ2_M => match part {
                "output" if k_quants => GgmlType::Q6_K,
                "output" => GgmlType::Q8_0,
                "attn_v" | "ffn_down" if il.is_multiple_of(2) && k_quants => GgmlType::Q6_K,
                "attn_v" | "ffn_down" if il.is_multiple_of(2) => GgmlType::Q8_0,
                _ if k_quants => GgmlType::Q4_K,
                _ => GgmlType::Q5_0,
            },
        }
    }

    /// Joins the parts of fused tensors: they follow each other, rows of the first part first.
    fn fuse(&self, h: &mut Header, data: &mut Vec<Vec<u8>>) {
        let mut join = |parts: &[&str], name: &str, suffix: &str| {
            for il in 0..self.n_layer {
                let at = |part: &str, h: &Header| {
                    let name = format!("blk.{il}.{part}.{suffix}");
                    h.tensors.iter().position(|t| t.name == name)
                };
                // Biases that a model has not are not fused.
                let Some(first) = at(parts[0], h) else { break };
                for part in &parts[1..] {
                    let i = at(part, h).unwrap();
                    let (entry, bytes) = (h.tensors.remove(i), data.remove(i));
                    assert_eq!(entry.ty, h.tensors[first].ty, "parts of one format");
                    *h.tensors[first].shape.last_mut().unwrap() += entry.shape.last().unwrap();
                    data[first].extend(bytes);
                }
                h.tensors[first].name = format!("blk.{il}.{name}.{suffix}");
            }
        };
        if self.fused_qkv {
            join(&["attn_q", "attn_k", "attn_v"], "attn_qkv", "weight");
            join(&["attn_q", "attn_k", "attn_v"], "attn_qkv", "bias");
        }
        if self.fused_gate_up {
            join(&["ffn_gate", "ffn_up"], "ffn_up", "weight");
        }
    }
}

/// SPM: three control tokens, 256 bytes, then words.
fn tokenizer(h: &mut Header, n_vocab: usize) {
    let mut tokens: Vec<String> = ["<unk>", "<s>", "</s>"].map(String::from).into();
    tokens.extend((0..256).map(|b| format!("<0x{b:02X}>")));
    tokens.extend((259..n_vocab).map(|i| format!("▁w{i}")));
    let kind = |i| match i {
        0 => 2i32,
        1..3 => 3,
        3..259 => 6,
        _ => 1,
    };
    let types: Vec<i32> = (0..n_vocab).map(kind).collect();
    h.set("tokenizer.ggml.model", "llama");
    h.set("tokenizer.ggml.tokens", Array::of_strings(&tokens[..n_vocab]));
    h.set("tokenizer.ggml.scores", Array::of(&(0..n_vocab).map(|i| -(i as f32)).collect::<Vec<_>>()));
    h.set("tokenizer.ggml.token_type", Array::of(&types));
    for (name, id) in [("unknown", 0u32), ("bos", 1), ("eos", 2)] {
        h.set(format!("tokenizer.ggml.{name}_token_id"), id);
    }
}

/// `n` tokens, no control tokens among them.
pub fn prompt(name: &str, n: usize, n_vocab: usize) -> Vec<u32> {
    let mut rng = Rng::new(name);
    (0..n).map(|_| 3 + (rng.next() % (n_vocab as u64 - 3)) as u32).collect()
}

/// Consecutive tokens of a sequence from position `start`, logits of all of them wanted.
pub fn entries(tokens: &[u32], start: usize, seq: u32) -> Vec<Entry> {
    let entry = |(i, &token)| Entry { token, pos: (start + i) as u32, seq, output: Output::Logits, drafted: false };
    tokens.iter().enumerate().map(entry).collect()
}

pub fn decoder(model: &Model, options: Options) -> CpuDecoder {
    CpuDecoder::new(model.clone(), options).unwrap()
}

/// Logits of all tokens of a sequence in one batch, `[tokens][n_vocab]`.
pub fn logits(d: &mut CpuDecoder, tokens: &[u32], start: usize, seq: u32) -> Vec<f32> {
    d.forward(&entries(tokens, start, seq)).unwrap().to_vec()
}
