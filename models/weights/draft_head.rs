//! The block behind the layers that guesses further tokens (MTP, `nextn`).

use qrun_quant::{Result, cpu::Matrix};

use super::{Layer, Linear, layer, loader::TensorLoader};
use crate::{Config, LayerPlan};

/// Weights of a draft head, `blk.N.nextn.…` of the block behind the layers.
#[derive(Clone)]
pub struct DraftHead {
    /// RMSNorm of the token's embedding, `[n_embd]`.
    pub e_norm: Vec<f32>,
    /// RMSNorm of the hidden state before the token, `[n_embd]`.
    pub h_norm: Vec<f32>,
    /// From both, the embedding first, to what the block takes, `[n_embd][2 · n_embd]`.
    pub eh_proj: Linear,
    /// The block itself.
    pub block: Layer,
    /// RMSNorm of what it gives, `[n_embd]`; `None`: that before the model's head.
    pub norm: Option<Vec<f32>>,
    /// Token embedding of its own, `[n_vocab][n_embd]`; `None`: the model's.
    pub token_embd: Option<Matrix>,
    /// Head of its own, `[n_vocab][n_embd]`; `None`: the model's.
    pub output: Option<Linear>,
}

impl DraftHead {
    /// Maps them.
    ///
    /// # Errors
    /// A tensor is missing or has another shape; the error names it.
    pub fn load(loader: &TensorLoader, c: &Config, plan: &LayerPlan) -> Result<Self> {
        let (il, n) = (c.layers.len(), c.n_embd);
        let name = |part: &str| format!("blk.{il}.nextn.{part}");
        let has = |part: &str| loader.has(&name(&format!("{part}.weight")));
        let vector = |part: &str| loader.vector(&name(&format!("{part}.weight")), n);
        Ok(Self {
            e_norm: vector("enorm")?,
            h_norm: vector("hnorm")?,
            eh_proj: loader.linear(&name("eh_proj"), n, 2 * n)?,
            block: layer(loader, c, il, plan)?,
            norm: has("shared_head_norm").then(|| vector("shared_head_norm")).transpose()?,
            token_embd: has("embed_tokens")
                .then(|| loader.matrix(&name("embed_tokens.weight"), c.n_vocab, n))
                .transpose()?,
            output: has("shared_head_head")
                .then(|| loader.linear(&name("shared_head_head"), c.n_vocab, n))
                .transpose()?,
        })
    }

    /// All matrices but the table of embeddings.
    pub fn linears(&self) -> impl Iterator<Item = &Linear> {
        [&self.eh_proj].into_iter().chain(self.block.matrices.iter()).chain(&self.output)
    }

    /// The same, to be changed.
    pub fn linears_mut(&mut self) -> impl Iterator<Item = &mut Linear> {
        [&mut self.eh_proj].into_iter().chain(self.block.matrices.iter_mut()).chain(&mut self.output)
    }
}
