//! Norms of the residual stream, and what joins it: the sum of both happens as a part of the next norm.

use qrun_cuda::{
    Ptr, Result,
    ops::{
        activations,
        matmul::MatmulParams,
        norm::{self, NormKind, NormParams},
        product,
    },
};
use qrun_quant::GgmlType;

use super::{
    memory::{NormWeight, Weight},
    step::{Residual, Step},
};
use crate::spec::Norm;

impl Step<'_> {
    /// The norm of a sum where the stream is such, else `of_sum` of the stream with what joins it; nothing is written but the stream.
    pub(super) fn norm_of(&self, residual: Residual, of_sum: NormWeight) -> NormParams {
        // Where the sum is normed already, that is the stream.
        let norms_sum = !residual.norm.weight.is_null();
        let (norm, x_out, y) = match norms_sum {
            true => (residual.norm, Ptr::NULL, residual.x),
            false => (of_sum, residual.x_out, Ptr::NULL),
        };
        NormParams {
            x: residual.x,
            add: residual.add,
            post: residual.post,
            weight: norm.weight,
            bias: norm.bias,
            x_out,
            y,
            seq: self.at.seq,
            n: self.c.n_embd as i32,
            eps: self.c.norm_eps / (residual.x_scale * residual.x_scale),
            post_eps: self.c.post_norm_eps,
            scale: self.c.residual_scale,
            x_scale: residual.x_scale,
            ..NormParams::default()
        }
    }

    /// What [`Step::norm_of`] does to the stream: nothing where the architecture has no norm there.
    pub(super) fn norm_kind(&self, norm: &NormParams) -> NormKind {
        match self.c.arch.norm {
            _ if norm.weight.is_null() => NormKind::None,
            Norm::Rms => NormKind::Rms,
            Norm::Layer | Norm::LayerBias => NormKind::Layer,
        }
    }

    /// Norms for what `consumers` multiply, in a launch of its own.
    pub(super) fn norm(&self, norm: &NormParams, consumers: &[Weight]) -> Result<()> {
        let (y, image) = self.wanted(&self.m.activations.normed, consumers);
        let y = if norm.y.is_null() { y } else { norm.y };
        self.launch_norm(self.rows, self.norm_kind(norm), &NormParams { y, image, ..*norm })
    }

    /// The launch itself, of so many rows.
    pub(super) fn launch_norm(&self, rows: usize, kind: NormKind, norm: &NormParams) -> Result<()> {
        // SAFETY: parts of the arena with room for so many rows (see `decoder`).
        unsafe { norm::norm(self.stream, rows as u32, kind, norm) }
    }

    /// Whether the product with `consumers` norms its column itself, or joins the sum that it is: one, that nobody else wants to see.
    pub(super) fn norms_itself(&self, norm: &NormParams, consumers: &[Weight]) -> bool {
        let formats: Vec<GgmlType> = consumers.iter().map(|w| w.ty).collect();
        let takes = match self.norm_kind(norm) {
            NormKind::Rms => product::norm_product_takes(norm.n as usize, &formats),
            NormKind::None => norm.x_scale == 1.0 && product::sum_product_takes(norm.n as usize, &formats),
            NormKind::Layer => false,
        };
        // Other blocks still read the stream.
        let apart = norm.y.is_null() && (norm.x_out.is_null() || norm.x_out.address() != norm.x.address());
        self.rows == 1 && takes && apart && self.probe.is_none() && !self.is_parallel()
    }

    /// The product of `columns` columns of `x`, which nobody has quantized yet, with one matrix in this format: where it is quantized
    /// and there is one row, in one launch if there is a kernel.
    pub(super) fn quantize_and_multiply(&self, format: GgmlType, columns: usize, product: &MatmulParams) -> Result<()> {
        if self.rows == 1 && product::sum_product_takes(product.k as usize, &[format]) {
            // SAFETY: parts of the arena with room for a row (see `decoder`).
            return unsafe { product::quantized_product(self.stream, product) };
        }
        self.quantize(format, columns, product)?;
        self.matmul(*product, &product.segment[..1])
    }

    /// The image of `columns` columns of `x`, where matrices in this format multiply one.
    pub(super) fn quantize(&self, format: GgmlType, columns: usize, p: &MatmulParams) -> Result<()> {
        if format.format().block == 1 {
            return Ok(());
        }
        let step = if p.x_step == 0 { p.k } else { p.x_step };
        let shape = [columns, p.k as usize, step as usize];
        // SAFETY: parts of the arena with room for the step's rows (see `decoder`).
        unsafe { activations::quantize_front(self.stream, p.x, p.image, shape) }
    }

    /// Whether the feed-forward takes the normed input of attention.
    pub(super) fn is_parallel(&self) -> bool {
        self.c.arch.residual.is_parallel()
    }

    /// RMSNorm of rows of `n` elements.
    pub(super) fn norm_in_place(&self, x: Ptr<f32>, weight: Ptr<f32>, n: usize) -> Result<()> {
        let norm = NormParams {
            x,
            weight,
            seq: self.at.seq,
            y: x,
            n: n as i32,
            eps: self.c.norm_eps,
            ..NormParams::default()
        };
        self.launch_norm(self.rows, NormKind::Rms, &norm)
    }

    /// What joins the stream, `post` included, where somebody listens.
    pub(super) fn joining(&self, post: Ptr<f32>) -> Result<Ptr<f32>> {
        let a = &self.m.activations;
        if post.is_null() {
            return Ok(a.out);
        }
        // The next norm has yet to write there.
        let y = a.normed.values;
        let (n, eps) = (self.c.n_embd as i32, self.c.post_norm_eps);
        let norm = NormParams { x: a.out, weight: post, seq: self.at.seq, y, n, eps, ..NormParams::default() };
        self.launch_norm(self.rows, NormKind::Rms, &norm)?;
        Ok(y)
    }
}
