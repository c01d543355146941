//! A transformer's shape: what its file says about it, and which tensors it has.

mod draft_head;
mod input;
mod others;
mod plan;

use qrun_models::{
    ArchSpec, LayerPlan, arch,
    spec::{Mask, Norm, Pooling, Residual, RopeLayers},
    tensors::{self, Dims, Fused, Role},
};
use qrun_quant::gguf::{Array, write::Header};

use super::{
    SynthError, Vocab,
    divisors::{llama3_factors, turning},
    templates,
};
use crate::tools::quantize::mixture::{FileType, Mixture};

/// Everything that distinguishes one model from another. Made by struct update from a row of
/// [`super::MODELS`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    /// Name: of the table's row, and `general.name`.
    pub name: &'static str,
    /// `general.architecture`.
    pub arch: &'static str,
    /// Layers, as `{arch}.block_count`.
    pub n_layer: usize,
    /// Width of the residual stream.
    pub n_embd: usize,
    /// Width of the feed-forward.
    pub n_ff: usize,
    /// Query heads, as `{arch}.attention.head_count`.
    pub n_head: usize,
    /// Key/value heads.
    pub n_head_kv: usize,
    /// Elements per head.
    pub head_dim: usize,
    /// Longest context in tokens.
    pub n_ctx: usize,
    /// Sliding window in tokens.
    pub window: Option<usize>,
    /// What sliding and global layers do not share.
    pub kinds: Option<Kinds>,
    /// Base and scaling of the rotary embedding.
    pub rope: Rope,
    /// Epsilon of the norms.
    pub norm_eps: f32,
    /// Size and family of the vocabulary.
    pub vocab: Vocab,
    /// The head is the token embedding.
    pub tied: bool,
    /// Which matrices have a bias.
    pub biases: Biases,
    /// Experts in place of one feed-forward.
    pub experts: Option<Experts>,
    /// One head of keys in the cache for all heads, and no values.
    pub latent: Option<Latent>,
    /// What some layers have in place of attention.
    pub recurrent: Option<Recurrent>,
    /// A block behind the layers guesses further tokens.
    pub draft_head: bool,
    /// q, k and v in one tensor.
    pub fused_qkv: bool,
    /// Gate and up in one tensor, gate first.
    pub fused_gate_up: bool,
    /// Soft-cap of attention scores.
    pub attention_softcap: Option<f32>,
    /// Soft-cap of logits.
    pub logit_softcap: Option<f32>,
    /// How hidden states become the vector of a text.
    pub pooling: Option<Pooling>,
}

/// Layers of two kinds: sliding ones, as the rest of the shape says, and global ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kinds {
    /// Every so many layers one is global.
    pub period: usize,
    /// Elements per head of global layers.
    pub head_dim_global: usize,
    /// Of these, how many turn.
    pub n_rot_global: usize,
    /// Key/value heads of global layers.
    pub n_head_kv_global: usize,
    /// Whether values of global layers are their keys.
    pub keys_as_values: bool,
    /// Layers at the end that attend to the caches of earlier ones.
    pub n_shared_kv: usize,
    /// Width of their feed-forward.
    pub n_ff_shared_kv: usize,
    /// Elements of an embedding that a token has for each layer; 0: none.
    pub n_embd_per_layer: usize,
}

/// Matrices with a bias.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Biases {
    /// No matrix has one.
    None,
    /// Those of q, k and v.
    Qkv,
    /// All of the layers.
    All,
}

/// The feed-forward of layers with experts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Experts {
    /// How many there are.
    pub n_expert: usize,
    /// How many a token takes.
    pub n_used: usize,
    /// Rows of an expert's gate and up, columns of its down.
    pub n_ff: usize,
    /// Width of the one that every token takes; 0: none.
    pub n_ff_shared: usize,
    /// Whether a gate decides how much of that one passes.
    pub shared_gate: bool,
    /// Layers in front that have none.
    pub leading_dense: usize,
}

/// Latent attention of a shape; `head_dim` is what the cache has, `rope.n_rot` of it turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Latent {
    /// Elements that queries are made of; 0: of the residual stream.
    pub q_rank: usize,
    /// Elements of a head's key that do not turn.
    pub n_nope: usize,
    /// Elements of a head's value.
    pub n_value: usize,
}

/// Layers without attention of a shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recurrent {
    /// Gated delta nets, three to each layer of attention.
    DeltaNet {
        /// Heads of queries and keys.
        n_head_k: usize,
        /// Heads of values.
        n_head_v: usize,
        /// Elements of a key, and of a value.
        dim: usize,
    },
    /// Short convolutions in all layers but these.
    ShortConv {
        /// The layers with attention.
        attention: &'static [usize],
    },
    /// Mamba-2, feed-forwards alone and attention in a pattern.
    Mamba2 {
        /// A letter for each layer, over and over: `M` Mamba-2, `*` attention, `-` a feed-forward alone.
        pattern: &'static str,
        /// Groups of heads that share `B` and `C`.
        n_group: usize,
        /// Heads of a Mamba-2 layer.
        n_head: usize,
        /// Elements of what a head takes and gives.
        head_dim: usize,
        /// Rows of a head's state.
        n_state: usize,
    },
}

/// Tokens that the convolution of a delta net or of Mamba-2 sees, and a short one.
const TAPS: [usize; 2] = [4, 3];

/// Rotary embedding of a shape.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rope {
    /// Elements of a head that turn; `None`: all.
    pub n_rot: Option<usize>,
    /// `rope.freq_base`.
    pub base: f32,
    /// Base in sliding layers.
    pub base_swa: Option<f32>,
    /// Linear scaling factor.
    pub linear: Option<f32>,
    /// Factor of Llama 3's scaling, carried by `rope_freqs.weight`.
    pub llama3: Option<f32>,
    /// Factor of YaRN, and the original context.
    pub yarn: Option<(f32, usize)>,
}

/// A tensor that a shape has.
pub(super) struct Planned {
    pub name: String,
    /// Dimensions, fastest first, as GGUF stores them.
    pub dims: Vec<u64>,
    pub fill: Fill,
}

/// What a tensor is filled with.
pub(super) enum Fill {
    /// Approximately normal values.
    Normal { mean: f32, std: f32 },
    /// These values, one per element.
    Values(Vec<f32>),
}

impl Shape {
    /// Number of weights.
    pub fn parameters(&self) -> u64 {
        self.tensors().map(|t| t.dims.iter().product::<u64>()).sum()
    }

    /// Metadata and tensor directory of this shape as a file of type `file_type`.
    ///
    /// # Errors
    /// [`SynthError::Shape`]: the vocabulary is too small for its kind.
    pub fn header(&self, file_type: FileType) -> Result<Header, SynthError> {
        let mut h = Header::new();
        h.set("general.architecture", self.arch);
        h.set("general.type", "model");
        h.set("general.name", self.name);
        h.set("general.description", "random weights made by qrun synth");
        h.set("general.file_type", file_type.number());
        h.set("general.quantization_version", 2u32);
        self.set_hyperparameters(&mut h);
        self.vocab.set(&mut h).map_err(|(expected, found)| self.error(expected, found))?;
        if let Some(template) = templates::of(self.vocab.family) {
            h.set("tokenizer.chat_template", template);
        }
        let mixture = Mixture::new(file_type, self.n_layer, self.tied);
        for t in self.tensors() {
            let ty = mixture.choose(&t.name, &t.dims);
            h.tensor(t.name, ty, &t.dims);
        }
        Ok(h)
    }

    pub(super) fn error(&self, expected: String, found: String) -> SynthError {
        SynthError::Shape { name: self.name.into(), expected, found }
    }

    /// Elements per head of layers that see everything.
    fn head_dim_global(&self) -> usize {
        self.kinds.map_or(self.head_dim, |kinds| kinds.head_dim_global)
    }

    /// Of these, how many turn.
    fn n_rot(&self) -> usize {
        self.rope.n_rot.unwrap_or(self.head_dim_global())
    }

    fn set_hyperparameters(&self, h: &mut Header) {
        let key = |name: &str| format!("{}.{name}", self.arch);
        let head_dim_global = self.head_dim_global();
        let mut count = |name: &str, n: usize| h.set(key(name), n as u32);
        count("block_count", self.n_layer + usize::from(self.draft_head));
        count("context_length", self.n_ctx);
        count("embedding_length", self.n_embd);
        count("feed_forward_length", self.n_ff);
        count("attention.head_count", self.n_head);
        count("attention.head_count_kv", self.n_head_kv);
        count("attention.key_length", head_dim_global);
        count("attention.value_length", head_dim_global);
        count("rope.dimension_count", self.n_rot());
        count("vocab_size", self.vocab.size);
        if self.draft_head {
            count("nextn_predict_layers", 1);
        }
        if let Some(latent) = self.latent {
            let n_rot = self.n_rot();
            count("attention.kv_lora_rank", self.head_dim - n_rot);
            count("attention.value_length", self.head_dim - n_rot);
            count("attention.q_lora_rank", latent.q_rank);
            count("attention.key_length_mla", latent.n_nope + n_rot);
            count("attention.value_length_mla", latent.n_value);
        }
        if let Some(e) = self.experts {
            count("expert_count", e.n_expert);
            count("expert_used_count", e.n_used);
            count("expert_feed_forward_length", e.n_ff);
            count("expert_shared_feed_forward_length", e.n_ff_shared);
            count("leading_dense_block_count", e.leading_dense);
        }
        if let Some(kinds) = self.kinds {
            count("attention.key_length_swa", self.head_dim);
            count("attention.value_length_swa", self.head_dim);
            count("rope.dimension_count_swa", self.head_dim);
            count("attention.shared_kv_layers", kinds.n_shared_kv);
            count("embedding_length_per_layer_input", kinds.n_embd_per_layer);
            let mut by_layer = |name: &str, of: fn(&LayerPlan) -> usize| {
                let values: Vec<u32> = (0..self.n_layer).map(|il| of(&self.plan(il)) as u32).collect();
                h.set(key(name), Array::of(&values));
            };
            by_layer("attention.head_count_kv", |l| l.n_head_kv);
            by_layer("feed_forward_length", LayerPlan::n_ff);
            by_layer("attention.sliding_window_pattern", |l| usize::from(l.window.is_some()));
        }
        let mut count = |name: &str, n: usize| h.set(key(name), n as u32);
        match self.recurrent {
            None => {}
            Some(Recurrent::DeltaNet { n_head_k, n_head_v, dim }) => {
                count("ssm.group_count", n_head_k);
                count("ssm.time_step_rank", n_head_v);
                count("ssm.state_size", dim);
                count("ssm.inner_size", n_head_v * dim);
                count("ssm.conv_kernel", TAPS[0]);
                count("full_attention_interval", 4);
            }
            Some(Recurrent::ShortConv { attention }) => {
                count("shortconv.l_cache", TAPS[1]);
                let of_layer = |il| if attention.contains(&il) { self.n_head_kv as u32 } else { 0 };
                let n_head_kv: Vec<u32> = (0..self.n_layer).map(of_layer).collect();
                h.set(key("attention.head_count_kv"), Array::of(&n_head_kv));
            }
            Some(Recurrent::Mamba2 { n_group, n_head, head_dim, n_state, .. }) => {
                count("ssm.group_count", n_group);
                count("ssm.time_step_rank", n_head);
                count("ssm.state_size", n_state);
                count("ssm.inner_size", n_head * head_dim);
                count("ssm.conv_kernel", TAPS[0]);
                let mut by_layer = |name: &str, of: &dyn Fn(LayerPlan) -> usize| {
                    let values: Vec<u32> = (0..self.n_layer).map(|il| of(self.plan(il)) as u32).collect();
                    h.set(key(name), Array::of(&values));
                };
                by_layer("attention.head_count_kv", &|l| l.n_head_kv);
                if self.spec().residual == Residual::Single {
                    let n_ff = |l: LayerPlan| l.experts().map_or(l.n_ff(), |e| e.n_ff);
                    by_layer("feed_forward_length", &n_ff);
                }
            }
        }
        if let Some(pooling) = self.pooling {
            h.set(key("pooling_type"), pooling as u32);
        }
        if self.spec().mask == Mask::None {
            h.set(key("attention.causal"), false);
        }
        if self.spec().rope_layers == RopeLayers::Finetuned {
            h.set(key("rope.scaling.finetuned"), false);
        }
        let eps = match self.spec().norm {
            Norm::Rms => "attention.layer_norm_rms_epsilon",
            Norm::Layer | Norm::LayerBias => "attention.layer_norm_epsilon",
        };
        h.set(key(eps), self.norm_eps);
        h.set(key("rope.freq_base"), self.rope.base);
        let mut optional = |name: &str, value: Option<f32>| {
            if let Some(v) = value {
                h.set(key(name), v);
            }
        };
        optional("rope.freq_base_swa", self.rope.base_swa);
        optional("rope.scaling.factor", self.rope.linear);
        optional("attn_logit_softcapping", self.attention_softcap);
        optional("final_logit_softcapping", self.logit_softcap);
        if self.rope.linear.is_some() {
            h.set(key("rope.scaling.type"), "linear");
        }
        if let Some((factor, original)) = self.rope.yarn {
            h.set(key("rope.scaling.type"), "yarn");
            h.set(key("rope.scaling.factor"), factor);
            h.set(key("rope.scaling.original_context_length"), original as u32);
        }
        if let Some(n) = self.window {
            h.set(key("attention.sliding_window"), n as u32);
        }
        self.set_others(h);
    }

    /// The tensors in file order.
    pub(super) fn tensors(&self) -> impl Iterator<Item = Planned> {
        let first = self.matrix("token_embd", self.n_embd, self.vocab.size);
        let factors = match (self.rope.llama3, self.kinds) {
            (Some(factor), _) => Some(llama3_factors(self.head_dim, self.rope.base, factor)),
            (None, Some(kinds)) => Some(turning(kinds.n_rot_global, kinds.head_dim_global)),
            (None, None) => None,
        };
        let factors = factors.map(|factors| Planned {
            name: "rope_freqs.weight".into(),
            dims: vec![factors.len() as u64],
            fill: Fill::Values(factors),
        });
        let n = self.kinds.map_or(0, |kinds| kinds.n_embd_per_layer);
        let per_layer = (n > 0).then(|| {
            [
                self.matrix("per_layer_token_embd", n * self.n_layer, self.vocab.size),
                self.matrix("per_layer_model_proj", self.n_embd, n * self.n_layer),
                vector("per_layer_proj_norm.weight".into(), n),
            ]
        });
        let head = (!self.tied).then(|| self.matrix("output", self.n_embd, self.vocab.size));
        let layers = (0..self.n_layer).flat_map(|il| self.layer(il));
        let last = || vector(format!("{}.weight", self.spec().output_norm), self.n_embd);
        [first]
            .into_iter()
            .chain(self.input())
            .chain(per_layer.into_iter().flatten())
            .chain(factors)
            .chain(layers)
            .chain(self.draft_head())
            .chain(self.spec().residual.final_norm().then(last))
            .chain(head)
    }

    fn spec(&self) -> &'static ArchSpec {
        arch::find(self.arch).unwrap_or(&arch::ARCHITECTURES[0])
    }

    /// The tensors of layer `il`, in the order of their roles.
    fn layer(&self, il: usize) -> Vec<Planned> {
        let name = |part: &str| format!("blk.{il}.{part}");
        let list = tensors::of_layer(self.spec(), self.n_embd, &self.plan(il));
        let mut out = Vec::new();
        for &(role, dims) in &list {
            let file = role.of_file(self.spec(), dims);
            let (rows, cols, apart) = match dims {
                Dims::Vector(n) => {
                    out.push(Planned { name: name(&file), dims: vec![n as u64], fill: fill(role, 1) });
                    continue;
                }
                Dims::Biased(n) => {
                    out.push(vector(name(&file), n));
                    out.push(bias(name(&format!("{}.bias", role.name())), vec![n as u64]));
                    continue;
                }
                Dims::Matrix(rows, cols) => (rows, cols, None),
                Dims::Table(rows, cols) => {
                    let dims = vec![cols as u64, rows as u64];
                    out.push(Planned { name: name(&file), dims, fill: fill(role, cols) });
                    continue;
                }
                Dims::Experts(n, rows, cols) | Dims::Heads(n, rows, cols) => (rows, cols, Some(n as u64)),
            };
            let wanted = |fused: &&Fused| if fused.name == "attn_qkv" { self.fused_qkv } else { self.fused_gate_up };
            let (part, rows) = match Fused::of(role).filter(wanted) {
                // The whole stands where its first part would.
                Some(fused) if fused.parts[0] != role => continue,
                Some(fused) => (fused.name, fused.rows(role, &list).1),
                None => (&*file, rows),
            };
            let mut matrix = self.matrix(&name(part), cols, rows);
            matrix.dims.extend(apart);
            out.push(matrix);
            if let (Role::FfnDownExps, Some(n), Some(_)) = (role, apart, self.kinds) {
                out.push(vector(name(&format!("{part}.scale")), n as usize));
            }
            let biased = match self.biases {
                Biases::None => false,
                Biases::Qkv => matches!(role, Role::AttnQ | Role::AttnK | Role::AttnV),
                Biases::All => true,
            };
            if biased {
                let dims = [rows as u64].into_iter().chain(apart).collect();
                out.push(bias(name(&format!("{part}.bias")), dims));
            }
        }
        out
    }

    /// Outputs keep the size of the inputs: the spread of a weight is one over the root of the columns.
    fn matrix(&self, name: &str, cols: usize, rows: usize) -> Planned {
        let fill = Fill::Normal { mean: 0.0, std: 1.0 / (cols as f32).sqrt() };
        Planned { name: format!("{name}.weight"), dims: vec![cols as u64, rows as u64], fill }
    }
}

/// Norms, and what is like them.
fn vector(name: String, n: usize) -> Planned {
    Planned { name, dims: vec![n as u64], fill: Fill::Normal { mean: 1.0, std: 0.0625 } }
}

fn bias(name: String, dims: Vec<u64>) -> Planned {
    Planned { name, dims, fill: Fill::Normal { mean: 0.0, std: 0.125 } }
}

/// What vectors and tables of a role are filled with.
fn fill(role: Role, cols: usize) -> Fill {
    match role {
        // States fade: above 0 they would grow with every token.
        Role::SsmA => Fill::Normal { mean: -0.7, std: 0.125 },
        Role::SsmConv1dBias => Fill::Normal { mean: 0.0, std: 0.125 },
        Role::SsmConv1d | Role::ShortconvConv => Fill::Normal { mean: 0.0, std: 1.0 / (cols as f32).sqrt() },
        _ => Fill::Normal { mean: 1.0, std: 0.0625 },
    }
}
