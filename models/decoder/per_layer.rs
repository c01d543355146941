//! Embeddings of a token for each layer (Gemma 4): half from a table that stays on the host, of which a token reads one row, half
//! from the token's embedding. Three launches for a step, and three for a layer, of several rows four.

use std::f32::consts::FRAC_1_SQRT_2;

use qrun_cuda::{
    Ptr, Result, Stream,
    ops::{
        norm::{NormKind, NormParams},
        product,
    },
};
use qrun_quant::cpu::Matrix;

use super::{
    GpuDecoder,
    memory::{self, Layer, Memory, NormWeight},
    step::{Residual, Step, segment},
};
use crate::{Model, Options, tensors::Role::*, weights::Weights};

/// Why the kernels do not take what joins the stream at the end of a layer.
pub fn without_kernels(w: &Weights) -> Option<&'static str> {
    let scales = w.layers.iter().filter_map(|layer| layer.vectors.get(LayerOutputScale));
    scales
        .flatten()
        .any(|scale| !(scale.is_normal() && *scale > 0.0))
        .then_some("layers with a factor that is not above 0")
}

/// The table on the host.
pub struct LookUp {
    table: Matrix,
    /// On what it has.
    scale: f32,
}

impl LookUp {
    /// `None` where the model has no such embeddings. What rows that are idle would read becomes zeros.
    ///
    /// # Errors
    /// The driver refuses to queue the zeros, or an earlier launch has failed.
    pub fn new(stream: &Stream, model: &Model, memory: &Memory, o: &Options) -> Result<Option<Self>> {
        let Some(per_layer) = &model.weights.per_layer else { return Ok(None) };
        let table = per_layer.token_embd.clone();
        // SAFETY: the part of the arena has so many rows of this width (see `decoder`).
        unsafe { stream.zero(memory.activations.per_layer_projected, memory::rows(o) * table.cols())? };
        Ok(Some(Self { table, scale: (model.config.n_embd_per_layer as f32).sqrt() * FRAC_1_SQRT_2 }))
    }
}

impl GpuDecoder {
    /// Brings the embeddings of some tokens for each layer to the device; of the rows behind them zeros.
    pub(super) fn look_up_per_layer(&mut self, tokens: impl Iterator<Item = u32>, rows: usize) -> Result<()> {
        let Some(LookUp { table, scale }) = &self.per_layer else { return Ok(()) };
        let tokens = tokens.map(Some).chain(std::iter::repeat(None));
        for (row, token) in self.staging.per_layer.as_mut_slice().chunks_exact_mut(table.cols()).take(rows).zip(tokens)
        {
            match token {
                Some(token) => {
                    table.row(token as usize, row);
                    row.iter_mut().for_each(|x| *x *= scale);
                }
                None => row.fill(0.0),
            }
        }
        // SAFETY: the part of the arena has room for the rows of any launch (see `decoder`).
        unsafe { self.stream.copy_in(self.memory.activations.per_layer, &self.staging.per_layer, rows * table.cols()) }
    }
}

impl Step<'_> {
    /// The embeddings of tokens for each layer: what the host has looked up joins what their embeddings give.
    pub(super) fn embed_per_layer(&self, x: Ptr<f32>) -> Result<()> {
        let Some((proj, proj_norm)) = &self.m.per_layer else { return Ok(()) };
        let (c, a) = (self.c, &self.m.activations);
        self.norm(&self.norm_of(Residual::stream(x), NormWeight::NONE), &[*proj])?;
        self.matmul(self.product(&a.normed, c.n_embd), &[segment(proj, a.per_layer_projected)])?;
        let sum = NormParams {
            x: a.per_layer,
            add: a.per_layer_projected,
            post: *proj_norm,
            x_out: a.per_layer,
            n: c.n_embd_per_layer as i32,
            // The projection is divided by the root of its width before its norm.
            post_eps: c.norm_eps * c.n_embd as f32,
            ..NormParams::default()
        };
        self.launch_norm(self.rows * c.layers.len(), NormKind::None, &sum)?;
        self.tap(None, "inp_per_layer", a.per_layer, proj.rows)
    }

    /// From the stream, which what the feed-forward gave joins, to what joins it then: the token's embedding for the layer, as
    /// far as the stream lets it pass.
    pub(super) fn per_layer(&self, il: usize, layer: &Layer, given: Residual) -> Result<()> {
        let (c, a, n) = (self.c, &self.m.activations, self.c.n_embd_per_layer);
        let [gate, proj] = layer.matrices([InpGate, Proj]);
        let sum = self.norm_of(given, NormWeight::NONE);
        let (product, to) = (self.product(&a.normed, c.n_embd), segment(&gate, a.gate));
        if self.norms_itself(&sum, &[gate]) {
            // SAFETY: parts of the arena with room for a row (see `decoder`).
            unsafe { product::norm_product(self.stream, &product.with(&[to]), &sum)? };
        } else {
            self.norm(&sum, &[gate])?;
            self.matmul(product, &[to])?;
        }
        let up = (a.per_layer.add(il * n), n * c.layers.len());
        self.gate([n, self.rows], up, self.at.seq, self.wanted(&a.gated, &[proj]))?;
        self.matmul(self.product(&a.gated, n), &[segment(&proj, a.out)])?;
        self.tap_out(il, "per_layer_embd_out", layer.vector(PostNorm))
    }
}
