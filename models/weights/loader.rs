//! Looking tensors up in a file: names, shapes and formats.

use std::{cell::RefCell, collections::HashSet};

use qrun_quant::{GgmlType, Gguf, Result, cpu::Matrix, gguf::Tensor};

use super::{Linear, NormWeights};
use crate::{config::Config, spec::Norm, tensors::Role};

/// Tensors that files carry and no forward pass needs; `input_scale` is for activations in four bits.
const IGNORED: &[&str] = &["rotary_emb.inv_freq", "attn_rot_embd.weight", ".input_scale"];

/// What makes keys and values.
const OF_KEYS: [&str; 5] = ["attn_k.weight", "attn_k.scale", "attn_k_norm.weight", "attn_v.weight", "attn_v.scale"];

/// Whether a tensor is left where it is: that of a block behind the layers which predicts further tokens and does not run, and
/// keys and values of a layer that attends to the cache of another one.
fn is_spare(c: &Config, name: &str) -> bool {
    let block = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
    let Some((Ok(block), part)) = block.map(|(block, part)| (block.parse::<usize>(), part)) else { return false };
    match c.layers.get(block) {
        None => c.draft_head.is_none() && block < c.layers.len() + c.n_nextn,
        Some(layer) => !layer.kv.is_own() && OF_KEYS.contains(&part),
    }
}

/// Looks tensors up, checks their shapes and remembers which ones found a place.
pub struct TensorLoader<'a> {
    pub g: &'a Gguf,
    used: RefCell<HashSet<String>>,
}

impl<'a> TensorLoader<'a> {
    pub fn new(g: &'a Gguf) -> Self {
        Self { g, used: RefCell::default() }
    }

    pub fn has(&self, name: &str) -> bool {
        self.g.tensor(name).is_some()
    }

    pub fn tensor(&self, name: &str, shape: &[usize]) -> Result<&Tensor> {
        let place = || format!("tensor {name}");
        let t = self.g.tensor(name);
        let t = t.ok_or_else(|| self.g.error(place(), format!("shape {shape:?}"), "no such tensor"))?;
        // Trailing dimensions of 1 mean nothing: some writers leave them out.
        let size = |dims: &[u64], i: usize| dims.get(i).copied().unwrap_or(1);
        let wanted: Vec<u64> = shape.iter().map(|&n| n as u64).collect();
        if (0..t.shape.len().max(wanted.len())).any(|i| size(&t.shape, i) != size(&wanted, i)) {
            return Err(self.g.error(place(), format!("shape {shape:?}"), format!("{:?}", t.shape)));
        }
        self.used.borrow_mut().insert(name.to_owned());
        Ok(t)
    }

    pub fn matrix(&self, name: &str, rows: usize, cols: usize) -> Result<Matrix> {
        Ok(Matrix::from_tensor(self.tensor(name, &[cols, rows])?))
    }

    pub fn linear(&self, name: &str, rows: usize, cols: usize) -> Result<Linear> {
        let w = self.matrix(&format!("{name}.weight"), rows, cols)?;
        let scale = self.scale(name, 1)?;
        Ok(Linear { w, scale, bias: self.optional_vector(&format!("{name}.bias"), &[rows])?, experts: None })
    }

    /// The matrices of `n` experts, of which a token takes `used`.
    pub fn experts(&self, name: &str, [n, used]: [usize; 2], [rows, cols]: [usize; 2]) -> Result<Linear> {
        let w = Matrix::from_tensor(self.tensor(&format!("{name}.weight"), &[cols, rows, n])?);
        let bias = self.optional_vector(&format!("{name}.bias"), &[rows, n])?;
        Ok(Linear { w, scale: self.scale(name, n)?, bias, experts: Some([n, used]) })
    }

    /// What the products of a matrix are multiplied by, or those of each of `n` experts.
    fn scale(&self, name: &str, n: usize) -> Result<Option<Vec<f32>>> {
        // What is beside a router multiplies its input, and has a role of its own.
        match name.ends_with(Role::FfnGateInp.name()) {
            true => Ok(None),
            false => self.optional_vector(&format!("{name}.scale"), &[n]),
        }
    }

    /// A norm outside of the layers.
    pub fn norm(&self, c: &Config, name: &str) -> Result<NormWeights> {
        let part = |part: &str| self.vector(&format!("{name}.{part}"), c.n_embd);
        let bias = match c.arch.norm {
            Norm::Rms | Norm::Layer => None,
            Norm::LayerBias => Some(part("bias")?),
        };
        Ok(NormWeights { weight: part("weight")?, bias })
    }

    pub fn vector(&self, name: &str, n: usize) -> Result<Vec<f32>> {
        self.values(name, &[n])
    }

    pub fn values(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let t = self.tensor(name, shape)?;
        if !matches!(t.ty, GgmlType::F32 | GgmlType::F16 | GgmlType::BF16) {
            return Err(self.g.error(format!("tensor {name}"), "F32, F16 or BF16", t.ty.name()));
        }
        let mut out = vec![0.0; shape.iter().product()];
        (t.ty.format().dequantize)(&t.data, &mut out);
        Ok(out)
    }

    pub fn optional_vector(&self, name: &str, shape: &[usize]) -> Result<Option<Vec<f32>>> {
        self.has(name).then(|| self.values(name, shape)).transpose()
    }

    /// A tensor without a place would change the result if it were heard: refuse the file.
    pub fn refuse_leftovers(&self, c: &Config) -> Result<()> {
        let used = self.used.borrow();
        let known = |t: &&Tensor| used.contains(&t.name) || IGNORED.iter().any(|i| t.name.ends_with(i));
        let leftover = self.g.tensors().iter().find(|t| !known(t) && !is_spare(c, &t.name));
        match leftover {
            None => Ok(()),
            Some(t) => {
                let expected = format!("only tensors that qrun's {} knows", c.arch.name);
                Err(self.g.error(format!("tensor {}", t.name), expected, "a tensor without a place in the model"))
            }
        }
    }
}
