//! The numbers of a model, read from the file and checked, and what each layer does with them.

use qrun_quant::{Gguf, Result, gguf::Value};

use crate::{
    arch,
    spec::{Activation, ArchSpec, AttentionScale, EmbeddingScale, FeedForward, Window},
};

/// Sizes that no real model exceeds; they keep products of sizes far from overflow.
const LIMIT: u64 = 1 << 24;

/// The numbers of a model.
#[derive(Debug, Clone)]
pub struct Config {
    /// The architecture.
    pub arch: &'static ArchSpec,
    /// `general.name`, or the architecture's name.
    pub name: String,
    /// Longest context the model was trained for, in tokens.
    pub n_ctx_train: usize,
    /// Width of the residual stream.
    pub n_embd: usize,
    /// Number of layers.
    pub n_layer: usize,
    /// Width of the feed-forward.
    pub n_ff: usize,
    /// Number of query heads.
    pub n_head: usize,
    /// Number of key/value heads; divides `n_head`.
    pub n_head_kv: usize,
    /// Elements per head of q, k and v.
    pub head_dim: usize,
    /// Elements of a head that RoPE turns, from the front.
    pub n_rot: usize,
    /// Vocabulary size: rows of `token_embd.weight`.
    pub n_vocab: usize,
    /// Epsilon of every RMSNorm.
    pub norm_eps: f32,
    /// Factor on `q·k`.
    pub attention_scale: f32,
    /// Soft-cap of attention scores.
    pub attention_softcap: Option<f32>,
    /// Soft-cap of logits.
    pub logit_softcap: Option<f32>,
    /// Factor on token embeddings.
    pub embedding_scale: f32,
    /// One entry per layer.
    pub layers: Vec<LayerPlan>,
}

/// What one layer does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LayerPlan {
    /// Sliding window in tokens, the current one included; `None`: sees everything.
    pub window: Option<usize>,
    /// RoPE of this layer.
    pub rope: Rope,
}

/// Base and scaling of a rotary embedding: angle `= pos / scale · base^(-2i/n_rot) / factor_i`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rope {
    /// `rope.freq_base`.
    pub base: f32,
    /// How positions beyond those of the training are brought near.
    pub scaling: RopeScaling,
}

/// `rope.scaling.type`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RopeScaling {
    /// Not at all.
    None,
    /// Positions are divided by this factor.
    Linear(f32),
}

impl Rope {
    /// Angle per position of each pair, `[n_rot / 2]`, divided by the model's `factors` where it has them. In f64:
    /// theirs is the only error that grows with the position.
    pub fn frequencies(&self, n_rot: usize, factors: Option<&[f32]>) -> Vec<f64> {
        let frequency = |i: usize| {
            let scale = match self.scaling {
                RopeScaling::None => 1.0,
                RopeScaling::Linear(factor) => f64::from(factor),
            };
            let power = -2.0 * i as f64 / n_rot as f64;
            let factor = factors.map_or(1.0, |f| f64::from(f[i]));
            f64::from(self.base).powf(power) / scale / factor
        };
        (0..n_rot / 2).map(frequency).collect()
    }
}

impl Config {
    /// Elements of all query heads.
    pub fn q_dim(&self) -> usize {
        self.n_head * self.head_dim
    }
    /// Elements of all key (or value) heads.
    pub fn kv_dim(&self) -> usize {
        self.n_head_kv * self.head_dim
    }

    /// Reads and checks everything the forward pass needs to know.
    pub fn read(g: &Gguf) -> Result<Self> {
        let name = g.str("general.architecture")?;
        let known = || arch::ARCHITECTURES.iter().map(|a| a.name).collect::<Vec<_>>().join(", ");
        let missing = || g.error("key general.architecture", format!("one of {}", known()), "nothing");
        let name = name.ok_or_else(missing)?;
        let spec = arch::find(name).ok_or_else(|| {
            g.error("key general.architecture", format!("an architecture qrun runs ({})", known()), format!("{name:?}"))
        })?;
        let keys = Keys { g, arch: spec.name };
        keys.refuse_unimplemented(spec)?;
        let n_embd = keys.size("embedding_length")?;
        let n_layer = keys.size("block_count")?;
        let n_head = keys.size("attention.head_count")?;
        let n_head_kv = keys.optional_size("attention.head_count_kv")?.unwrap_or(n_head);
        if n_layer > 4096 {
            return Err(keys.error("block_count", "at most 4096 layers", n_layer));
        }
        if !n_head.is_multiple_of(n_head_kv) {
            return Err(keys.error("attention.head_count_kv", &format!("a divisor of {n_head} heads"), n_head_kv));
        }
        let head_dim = match keys.optional_size("attention.key_length")? {
            Some(n) => n,
            None if n_embd.is_multiple_of(n_head) => n_embd / n_head,
            None => return Err(keys.error("embedding_length", &format!("a multiple of {n_head} heads"), n_embd)),
        };
        let value_length = keys.optional_size("attention.value_length")?.unwrap_or(head_dim);
        if value_length != head_dim {
            return Err(keys.error("attention.value_length", &format!("the key length {head_dim}"), value_length));
        }
        if head_dim > 1024 || !head_dim.is_multiple_of(16) {
            return Err(keys.error("attention.key_length", "a multiple of 16 up to 1024", head_dim));
        }
        let n_rot = keys.optional_size("rope.dimension_count")?.unwrap_or(head_dim);
        if n_rot > head_dim || !n_rot.is_multiple_of(2) {
            return Err(keys.error("rope.dimension_count", &format!("an even number up to {head_dim}"), n_rot));
        }
        let embd = g.tensor("token_embd.weight");
        let embd = embd.ok_or_else(|| g.error("tensor token_embd.weight", "the token embedding", "no such tensor"))?;
        let n_vocab = embd.rows();
        if n_vocab as u64 > LIMIT {
            return Err(g.error("tensor token_embd.weight", format!("at most {LIMIT} rows"), n_vocab.to_string()));
        }
        let scale_dim = match spec.attention_scale {
            AttentionScale::EmbdPerHead { n_layer: wide } if wide == n_layer => n_embd / n_head,
            AttentionScale::EmbdPerHead { .. } | AttentionScale::HeadDim => head_dim,
        };
        let attention_scale = keys.f32("attention.scale")?.filter(|&s| s != 0.0);
        let eps_key = "attention.layer_norm_rms_epsilon";
        let norm_eps = keys.f32(eps_key)?.ok_or_else(|| keys.absent(eps_key))?;
        if norm_eps < 0.0 {
            return Err(keys.error(eps_key, "a number that is not negative", norm_eps));
        }
        let cap = |value: Option<f32>, default: Option<f32>| value.or(default).filter(|&c| c != 0.0);
        Ok(Self {
            arch: spec,
            name: g.str("general.name")?.unwrap_or(spec.name).to_owned(),
            n_ctx_train: keys.size("context_length")?,
            n_embd,
            n_layer,
            n_ff: keys.size("feed_forward_length")?,
            n_head,
            n_head_kv,
            head_dim,
            n_rot,
            n_vocab,
            norm_eps,
            attention_scale: attention_scale.unwrap_or(1.0 / (scale_dim as f32).sqrt()),
            attention_softcap: cap(keys.f32("attn_logit_softcapping")?, spec.softcap.attention),
            logit_softcap: cap(keys.f32("final_logit_softcapping")?, spec.softcap.logits),
            embedding_scale: match spec.embedding_scale {
                EmbeddingScale::One => 1.0,
                EmbeddingScale::SqrtEmbd => (n_embd as f32).sqrt(),
            },
            layers: keys.layers(spec, n_layer)?,
        })
    }
}

/// Keys of one architecture in one file.
struct Keys<'a> {
    g: &'a Gguf,
    arch: &'static str,
}

impl Keys<'_> {
    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.arch)
    }
    fn error(&self, name: &str, expected: &str, found: impl ToString) -> qrun_quant::Error {
        self.g.error(format!("key {}", self.key(name)), expected, found.to_string())
    }
    fn absent(&self, name: &str) -> qrun_quant::Error {
        self.error(name, "a value (the model cannot run without it)", "no such key")
    }

    fn size(&self, name: &str) -> Result<usize> {
        self.optional_size(name)?.ok_or_else(|| self.absent(name))
    }

    /// A size; where the file has one value per layer, they must all be the same.
    fn optional_size(&self, name: &str) -> Result<Option<usize>> {
        let key = self.key(name);
        let value = match self.g.get(&key) {
            Some(Value::Array(a)) => {
                let mut values = a.numbers();
                let first = values.next().unwrap_or(0.0);
                if values.any(|v| v != first) {
                    return Err(self.error(name, "the same value for all layers", "values that differ by layer"));
                }
                Some(first as u64)
            }
            _ => self.g.u64(&key)?,
        };
        match value {
            Some(n) if n == 0 || n > LIMIT => Err(self.error(name, &format!("a number from 1 to {LIMIT}"), n)),
            other => Ok(other.map(|n| n as usize)),
        }
    }

    fn f32(&self, name: &str) -> Result<Option<f32>> {
        match self.g.f32(&self.key(name))? {
            Some(v) if !v.is_finite() => Err(self.error(name, "a finite number", v)),
            other => Ok(other),
        }
    }

    fn positive(&self, name: &str) -> Result<Option<f32>> {
        match self.f32(name)? {
            Some(v) if v < 0.0 => Err(self.error(name, "a positive number", v)),
            other => Ok(other.filter(|&v| v != 0.0)),
        }
    }

    /// What would change the result and is not implemented is an error, never an approximation.
    fn refuse_unimplemented(&self, spec: &ArchSpec) -> Result<()> {
        if let Some(kind) = self.g.str(&self.key("rope.scaling.type"))?
            && !matches!(kind, "none" | "linear")
        {
            return Err(self.error("rope.scaling.type", "none or linear", format!("{kind:?}")));
        }
        if let Some(n) = self.g.u64(&self.key("expert_count"))?.filter(|&n| n > 0) {
            return Err(self.error("expert_count", "a dense model (no experts)", n));
        }
        let activation = match spec.feed_forward {
            FeedForward::Gated(Activation::Silu) => ["silu", "swish"].as_slice(),
            FeedForward::Gated(Activation::GeluTanh) => &["gelu_pytorch_tanh", "gelu_tanh"],
        };
        for name in ["hidden_act", "hidden_activation"] {
            if let Some(found) = self.g.str(&self.key(name))?
                && !activation.contains(&found)
            {
                return Err(self.error(name, activation[0], format!("{found:?}")));
            }
        }
        if self.g.bool(&self.key("attention.causal"))? == Some(false) {
            return Err(self.error("attention.causal", "true", "false"));
        }
        Ok(())
    }

    fn layers(&self, spec: &ArchSpec, n_layer: usize) -> Result<Vec<LayerPlan>> {
        let base = self.positive("rope.freq_base")?.unwrap_or(10_000.0);
        let factor = match self.positive("rope.scaling.factor")? {
            Some(f) => f,
            None => self.positive("rope.scale_linear")?.unwrap_or(1.0),
        };
        let scaling = match self.g.str(&self.key("rope.scaling.type"))? {
            Some("none") => RopeScaling::None,
            _ => RopeScaling::Linear(factor),
        };
        let global = LayerPlan { window: None, rope: Rope { base, scaling } };
        let Window::Periodic { mut period, default_size } = spec.window else {
            return Ok(vec![global; n_layer]);
        };
        let size = self.optional_window()?.unwrap_or(default_size);
        let base_local = match spec.rope_base_local {
            Some(default) => self.positive("rope.freq_base_swa")?.unwrap_or(default),
            None => base,
        };
        // A local base goes with local frequencies that are not stretched (Gemma 3 4B and larger).
        let rope = match spec.rope_base_local {
            Some(_) => Rope { base: base_local, scaling: RopeScaling::None },
            None => global.rope,
        };
        let local = LayerPlan { window: Some(size), rope };
        let key = "attention.sliding_window_pattern";
        let slides: Vec<bool> = match self.g.get(&self.key(key)) {
            Some(Value::Array(a)) if a.len == n_layer => a.numbers().map(|v| v != 0.0).collect(),
            Some(Value::Array(a)) => return Err(self.error(key, &format!("{n_layer} values"), a.len)),
            _ => {
                if let Some(n) = self.optional_size(key)? {
                    period = n;
                }
                (0..n_layer).map(|il| il % period < period - 1).collect()
            }
        };
        Ok(slides.into_iter().map(|s| if s { local } else { global }).collect())
    }

    /// Zero means "no window" in files that carry the key without using it: refused, as the
    /// architecture is defined by its window.
    fn optional_window(&self) -> Result<Option<usize>> {
        self.optional_size("attention.sliding_window")
    }
}
