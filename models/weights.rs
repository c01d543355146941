//! The single door between a file's tensors and the decoders: names, shapes, fused and tied tensors.

use std::{cell::RefCell, collections::HashSet, ops::Range};

use qrun_quant::{GgmlType, Gguf, Result, cpu::Matrix, gguf::Tensor};

use crate::{
    config::Config,
    tensors::{self, ByRole, Dims, Fused},
};

/// All weights of a model. A clone shares the mapped bytes.
#[derive(Clone)]
pub struct Weights {
    /// Token embedding `[n_vocab][n_embd]`; also the head where the file has no `output.weight`.
    pub token_embd: Matrix,
    /// The layers, first to last.
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

/// Weights of one layer, in the shapes of [`tensors::of_layer`].
#[derive(Clone)]
pub struct Layer {
    /// Norm weights and biases, as f32.
    pub vectors: ByRole<Vec<f32>>,
    /// Projections. What one tensor of the file holds together is apart.
    pub matrices: ByRole<Linear>,
}

/// Tensors that files carry and no forward pass needs.
const IGNORED: &[&str] =
    &["rotary_emb.inv_freq", "attn_rot_embd.weight", "rope_factors_long.weight", "rope_factors_short.weight"];

impl Weights {
    /// Maps the weights; every tensor of the file must have a place in the model.
    pub fn load(g: &Gguf, c: &Config) -> Result<Self> {
        let door = TensorLoader { g, used: RefCell::default() };
        let layers = (0..c.layers.len()).map(|il| layer(&door, c, il)).collect::<Result<_>>()?;
        let token_embd = door.matrix("token_embd.weight", c.n_vocab, c.n_embd)?;
        let output = match g.tensor("output.weight") {
            Some(_) => Some(door.linear("output", c.n_vocab, c.n_embd)?),
            None => None,
        };
        let n_rot = c.layers.iter().map(|l| l.rope).find(|rope| rope.factors).map(|rope| rope.n_rot);
        let rope_freqs = n_rot.map(|n| door.vector("rope_freqs.weight", n / 2)).transpose()?;
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
        let layers = self.layers.iter_mut().flat_map(|l| l.matrices.iter_mut());
        let head = self.output.as_mut();
        [&mut self.token_embd].into_iter().chain(layers.chain(head).map(|l| &mut l.w))
    }

    /// Bytes of weights that one token reads: every matrix but the embedding table, of which only one
    /// row is read unless it is the head too.
    pub fn bytes_per_token(&self) -> u64 {
        let layers = self.layers.iter().flat_map(|l| l.matrices.iter());
        layers.map(|linear| linear.w.bytes() as u64).sum::<u64>() + self.head().bytes() as u64
    }
}

fn layer(door: &TensorLoader, c: &Config, il: usize) -> Result<Layer> {
    let list = tensors::of_layer(c.arch, c.n_embd, &c.layers[il]);
    let name = |part: &str| format!("blk.{il}.{part}");
    let (mut vectors, mut matrices) = (ByRole::default(), ByRole::default());
    for &(role, dims) in &list {
        match dims {
            Dims::Vector(n) => vectors.set(role, door.vector(&name(&format!("{}.weight", role.name())), n)?),
            Dims::Matrix(rows, cols) => {
                let has = |part: &str| door.has(&name(&format!("{part}.weight")));
                let fused = Fused::of(role).filter(|fused| has(fused.name) && !has(fused.parts[0].name()));
                let linear = match fused {
                    None => door.linear(&name(role.name()), rows, cols)?,
                    Some(fused) => {
                        let (own, all) = fused.rows(role, &list);
                        door.linear(&name(fused.name), all, cols)?.rows(own)
                    }
                };
                matrices.set(role, linear);
            }
        }
    }
    Ok(Layer { vectors, matrices })
}

/// Whether a tensor belongs to a block behind the layers, which predicts further tokens: it is left where it is.
fn is_nextn(c: &Config, name: &str) -> bool {
    let block = name.strip_prefix("blk.").and_then(|rest| rest.split('.').next()?.parse().ok());
    block.is_some_and(|block: usize| (c.layers.len()..c.layers.len() + c.n_nextn).contains(&block))
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
        let known = |t: &&Tensor| used.contains(&t.name) || IGNORED.iter().any(|i| t.name.ends_with(i));
        let leftover = self.g.tensors().iter().find(|t| !known(t) && !is_nextn(c, &t.name));
        match leftover {
            None => Ok(()),
            Some(t) => {
                let expected = format!("only tensors that qrun's {} knows", c.arch.name);
                Err(self.g.error(format!("tensor {}", t.name), expected, "a tensor without a place in the model"))
            }
        }
    }
}
