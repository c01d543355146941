//! The single door between a file's tensors and the decoders: names, shapes, fused and tied tensors.

use std::{cell::RefCell, collections::HashSet, ops::Range};

use qrun_quant::{GgmlType, Gguf, Result, cpu::Matrix, gguf::Tensor};

use crate::{config::Config, spec::Residual};

/// All weights of a model. A clone shares the mapped bytes.
#[derive(Clone)]
pub struct Weights {
    /// Token embedding `[n_vocab][n_embd]`; also the head where the file has no `output.weight`.
    pub token_embd: Matrix,
    /// The layers.
    pub layers: Vec<Layer>,
    /// Final RMSNorm `[n_embd]`.
    pub output_norm: Vec<f32>,
    /// Head `[n_vocab][n_embd]`; `None` where it is tied to the embedding.
    pub output: Option<Linear>,
    /// Divisors of RoPE frequencies `[n_rot / 2]` (Llama 3.1 and later), global layers only.
    pub rope_freqs: Option<Vec<f32>>,
}

/// A matrix with an optional bias.
#[derive(Clone)]
pub struct Linear {
    /// `[out][in]`.
    pub w: Matrix,
    /// `[out]`.
    pub bias: Option<Vec<f32>>,
}

/// Weights of one layer. Norms are `[n_embd]` unless said otherwise.
#[derive(Clone)]
pub struct Layer {
    /// RMSNorm before attention.
    pub attn_norm: Vec<f32>,
    /// `[n_head·head_dim][n_embd]`.
    pub attn_q: Linear,
    /// `[n_head_kv·head_dim][n_embd]`.
    pub attn_k: Linear,
    /// `[n_head_kv·head_dim][n_embd]`.
    pub attn_v: Linear,
    /// RMSNorm of each query head `[head_dim]`.
    pub attn_q_norm: Option<Vec<f32>>,
    /// RMSNorm of each key head `[head_dim]`.
    pub attn_k_norm: Option<Vec<f32>>,
    /// `[n_embd][n_head·head_dim]`.
    pub attn_output: Linear,
    /// RMSNorm of the attention output.
    pub post_attention_norm: Option<Vec<f32>>,
    /// RMSNorm before the feed-forward.
    pub ffn_norm: Vec<f32>,
    /// `[n_ff][n_embd]`.
    pub ffn_gate: Linear,
    /// `[n_ff][n_embd]`.
    pub ffn_up: Linear,
    /// `[n_embd][n_ff]`.
    pub ffn_down: Linear,
    /// RMSNorm of the feed-forward output.
    pub post_ffw_norm: Option<Vec<f32>>,
}

/// Tensors that files carry and no forward pass needs.
const IGNORED: &[&str] =
    &["rotary_emb.inv_freq", "attn_rot_embd.weight", "rope_factors_long.weight", "rope_factors_short.weight"];

impl Weights {
    /// Maps the weights; every tensor of the file must have a place in the model.
    pub fn load(g: &Gguf, c: &Config) -> Result<Self> {
        let door = TensorLoader { g, used: RefCell::default() };
        let layers = (0..c.n_layer).map(|il| layer(&door, c, il)).collect::<Result<_>>()?;
        let token_embd = door.matrix("token_embd.weight", c.n_vocab, c.n_embd)?;
        let output = match g.tensor("output.weight") {
            Some(_) => Some(door.linear("output", c.n_vocab, c.n_embd)?),
            None => None,
        };
        let rope_freqs = door.optional_vector("rope_freqs.weight", c.n_rot / 2)?;
        if let Some(bad) = rope_freqs.as_deref().unwrap_or_default().iter().find(|f| !(f.is_finite() && **f > 0.0)) {
            return Err(g.error("tensor rope_freqs.weight", "positive divisors", bad.to_string()));
        }
        let output_norm = door.vector("output_norm.weight", c.n_embd)?;
        door.refuse_leftovers(c)?;
        Ok(Self { token_embd, layers, output_norm, output, rope_freqs })
    }

    /// The head: its own matrix, or the embedding.
    pub fn head(&self) -> &Matrix {
        self.output.as_ref().map_or(&self.token_embd, |o| &o.w)
    }

    /// All matrices of the model, the embedding first, each one once.
    pub fn matrices_mut(&mut self) -> impl Iterator<Item = &mut Matrix> {
        let layers = self.layers.iter_mut().flat_map(|l| {
            let attention = [&mut l.attn_q, &mut l.attn_k, &mut l.attn_v, &mut l.attn_output];
            attention.into_iter().chain([&mut l.ffn_gate, &mut l.ffn_up, &mut l.ffn_down])
        });
        let head = self.output.as_mut();
        [&mut self.token_embd].into_iter().chain(layers.chain(head).map(|l| &mut l.w))
    }

    /// Bytes of weights that one token reads: every matrix but the embedding table, of which only one
    /// row is read unless it is the head too.
    pub fn bytes_per_token(&self) -> u64 {
        let linear = |l: &Linear| l.w.bytes() as u64;
        let layer = |l: &Layer| {
            let attention = linear(&l.attn_q) + linear(&l.attn_k) + linear(&l.attn_v) + linear(&l.attn_output);
            attention + linear(&l.ffn_gate) + linear(&l.ffn_up) + linear(&l.ffn_down)
        };
        self.layers.iter().map(layer).sum::<u64>() + self.head().bytes() as u64
    }
}

fn layer(door: &TensorLoader, c: &Config, il: usize) -> Result<Layer> {
    let name = |part: &str| format!("blk.{il}.{part}");
    let norm = |part: &str, n| door.vector(&name(&format!("{part}.weight")), n);
    let norm_if = |want: bool, part: &str, n| want.then(|| norm(part, n)).transpose();
    let linear = |part: &str, rows, cols| door.linear(&name(part), rows, cols);
    let (q, kv) = (c.q_dim(), c.kv_dim());
    let post_norm = match c.arch.residual {
        Residual::PreNorm => false,
        Residual::PrePostNorm => true,
    };
    let [attn_q, attn_k, attn_v] = if door.has(&name("attn_qkv.weight")) {
        let fused = linear("attn_qkv", q + 2 * kv, c.n_embd)?;
        [fused.rows(0..q), fused.rows(q..q + kv), fused.rows(q + kv..q + 2 * kv)]
    } else {
        [linear("attn_q", q, c.n_embd)?, linear("attn_k", kv, c.n_embd)?, linear("attn_v", kv, c.n_embd)?]
    };
    let [ffn_gate, ffn_up] = if door.has(&name("ffn_gate.weight")) {
        [linear("ffn_gate", c.n_ff, c.n_embd)?, linear("ffn_up", c.n_ff, c.n_embd)?]
    } else {
        // Gate and up in one tensor, gate first.
        let fused = linear("ffn_up", 2 * c.n_ff, c.n_embd)?;
        [fused.rows(0..c.n_ff), fused.rows(c.n_ff..2 * c.n_ff)]
    };
    Ok(Layer {
        attn_norm: norm("attn_norm", c.n_embd)?,
        attn_q,
        attn_k,
        attn_v,
        attn_q_norm: norm_if(c.arch.qk_norm, "attn_q_norm", c.head_dim)?,
        attn_k_norm: norm_if(c.arch.qk_norm, "attn_k_norm", c.head_dim)?,
        attn_output: linear("attn_output", c.n_embd, q)?,
        post_attention_norm: norm_if(post_norm, "post_attention_norm", c.n_embd)?,
        ffn_norm: norm("ffn_norm", c.n_embd)?,
        ffn_gate,
        ffn_up,
        ffn_down: linear("ffn_down", c.n_embd, c.n_ff)?,
        post_ffw_norm: norm_if(post_norm, "post_ffw_norm", c.n_embd)?,
    })
}

impl Linear {
    fn rows(&self, rows: Range<usize>) -> Self {
        let bias = self.bias.as_ref().map(|b| b[rows.clone()].to_vec());
        Self { w: self.w.slice_rows(rows), bias }
    }
}

/// Looks tensors up, checks their shapes and remembers which ones found a place.
struct TensorLoader<'a> {
    g: &'a Gguf,
    used: RefCell<HashSet<String>>,
}

impl TensorLoader<'_> {
    fn has(&self, name: &str) -> bool {
        self.g.tensor(name).is_some()
    }

    fn tensor(&self, name: &str, shape: &[usize]) -> Result<&Tensor> {
        let place = || format!("tensor {name}");
        let t = self.g.tensor(name);
        let t = t.ok_or_else(|| self.g.error(place(), format!("shape {shape:?}"), "no such tensor"))?;
        // Trailing dimensions of 1 mean nothing.
        let mut found = t.shape.clone();
        while found.len() > shape.len() && found.last() == Some(&1) {
            found.pop();
        }
        if found.len() != shape.len() || found.iter().zip(shape).any(|(&a, &b)| a != b as u64) {
            return Err(self.g.error(place(), format!("shape {shape:?}"), format!("{:?}", t.shape)));
        }
        self.used.borrow_mut().insert(name.to_owned());
        Ok(t)
    }

    fn matrix(&self, name: &str, rows: usize, cols: usize) -> Result<Matrix> {
        Ok(Matrix::from_tensor(self.tensor(name, &[cols, rows])?))
    }

    fn linear(&self, name: &str, rows: usize, cols: usize) -> Result<Linear> {
        let w = self.matrix(&format!("{name}.weight"), rows, cols)?;
        Ok(Linear { w, bias: self.optional_vector(&format!("{name}.bias"), rows)? })
    }

    fn vector(&self, name: &str, n: usize) -> Result<Vec<f32>> {
        let t = self.tensor(name, &[n])?;
        if !matches!(t.ty, GgmlType::F32 | GgmlType::F16 | GgmlType::BF16) {
            return Err(self.g.error(format!("tensor {name}"), "F32, F16 or BF16", t.ty.name()));
        }
        let mut out = vec![0.0; n];
        (t.ty.format().dequantize)(&t.data, &mut out);
        Ok(out)
    }

    fn optional_vector(&self, name: &str, n: usize) -> Result<Option<Vec<f32>>> {
        self.has(name).then(|| self.vector(name, n)).transpose()
    }

    /// A tensor without a place would change the result if it were heard: refuse the file.
    fn refuse_leftovers(&self, c: &Config) -> Result<()> {
        let used = self.used.borrow();
        let leftover =
            self.g.tensors().iter().find(|t| !used.contains(&t.name) && !IGNORED.iter().any(|i| t.name.ends_with(i)));
        match leftover {
            None => Ok(()),
            Some(t) => {
                let expected = format!("only tensors that qrun's {} knows", c.arch.name);
                Err(self.g.error(format!("tensor {}", t.name), expected, "a tensor without a place in the model"))
            }
        }
    }
}
