//! The part of a layer after attention: one feed-forward for every token, or experts (see `experts.rs`).

use qrun_cuda::{
    Ptr, Result,
    ops::{
        activations::QuantizedActivations,
        gemm::{self, GluActParams},
        matmul::{self, GluParams, MatmulParams},
        norm::{NormKind, NormParams},
        params::{CLAMPED_SWIGLU, GELU, GELU_TANH, RELU_SQUARED, SILU},
        product,
    },
};

use super::{
    memory::{Layer, Weight},
    step::{Residual, Step, segment},
};
use crate::{layer::FeedForwardPlan, spec::Activation, tensors::Role::*};

impl Step<'_> {
    /// From the stream to what joins it.
    pub(super) fn feed_forward(&self, il: usize, layer: &Layer, residual: Residual) -> Result<()> {
        match &self.c.layers[il].feed_forward {
            FeedForwardPlan::None => Ok(()),
            FeedForwardPlan::Dense { n_ff } => {
                let (a, matrices) = (&self.m.activations, layer.feed_forward([FfnGate, FfnUp, FfnDown]));
                let norm = self.norm_of(residual, layer.norm(FfnNorm));
                if self.is_parallel() {
                    // What attention gave joins; its normed input is still there.
                    self.launch_norm(self.rows, NormKind::None, &norm)?;
                    self.tap(Some(il), "ffn_norm", a.normed.values, self.c.n_embd)?;
                }
                self.dense(il, matrices, *n_ff, Some(&norm).filter(|_| !self.is_parallel()), a.out)
            }
            FeedForwardPlan::Experts(plan) => self.experts(il, layer, plan, residual),
        }
    }

    /// Gate, up and down of all rows; of the stream after `norm`, or of what is normed already.
    pub(super) fn dense(
        &self,
        il: usize,
        (gate, [up, down]): (Option<Weight>, [Weight; 2]),
        n_ff: usize,
        norm: Option<&NormParams>,
        to: Ptr<f32>,
    ) -> Result<()> {
        let a = &self.m.activations;
        let given = self.wanted(&a.gated, &[down]);
        match gate {
            Some(gate) => self.gate_and_up(il, [gate, up], n_ff, norm, given)?,
            None => self.up_alone(il, up, n_ff, norm, given)?,
        }
        self.tap(Some(il), "ffn_act", a.gated.values, n_ff)?;
        self.matmul(self.product(&a.gated, n_ff), &[segment(&down, to)])
    }

    fn gate_and_up(
        &self,
        il: usize,
        [gate, up]: [Weight; 2],
        n_ff: usize,
        norm: Option<&NormParams>,
        (y, out): (Ptr<f32>, QuantizedActivations),
    ) -> Result<()> {
        let (c, a, activation) = (self.c, &self.m.activations, self.activation());
        let product = self.product(&a.normed, c.n_embd);
        // Kernels of quantized weights make whole blocks of gated outputs; those of dense ones and many columns leave gate and up.
        let at_once =
            (self.narrow || gate.ty.format().block > 1) && activation != GELU && matmul::glu_takes(gate.ty, up.ty);
        let own_norm = norm.filter(|norm| at_once && self.norms_itself(norm, &[gate, up]));
        if let Some(norm) = norm.filter(|_| own_norm.is_none()) {
            self.norm(norm, &[gate, up])?;
            self.tap(Some(il), "ffn_norm", a.normed.values, c.n_embd)?;
        }
        if let Some(norm) = own_norm {
            let gated = MatmulParams { gated: 1, activation, out, ..product };
            let segments = [segment(&gate, y), segment(&up, Ptr::NULL)];
            // SAFETY: parts of the arena with room for the step's rows (see `decoder`).
            unsafe { product::norm_product(self.stream, &gated.with(&segments), norm) }
        } else if at_once {
            let gated = GluParams {
                gate: segment(&gate, Ptr::NULL),
                up: segment(&up, Ptr::NULL),
                k: product.k,
                columns: product.columns,
                activation,
                y_stride: n_ff as i32,
                image: product.image,
                x: product.x,
                seq: product.seq,
                y,
                out,
            };
            // SAFETY: parts of the arena with room for the step's rows (see `decoder`).
            unsafe { matmul::glu(self.stream, &gated) }
        } else {
            self.matmul(product, &[segment(&gate, a.gate), segment(&up, a.up)])?;
            self.gate([n_ff, self.rows], (a.up, n_ff), product.seq, (y, out))
        }
    }

    /// Of a feed-forward without a gate: what the activation makes of up.
    fn up_alone(
        &self,
        il: usize,
        up: Weight,
        n_ff: usize,
        norm: Option<&NormParams>,
        given: (Ptr<f32>, QuantizedActivations),
    ) -> Result<()> {
        let (a, products) = (&self.m.activations, [segment(&up, self.m.activations.gate)]);
        let product = self.product(&a.normed, self.c.n_embd);
        match norm {
            Some(norm) if self.norms_itself(norm, &[up]) => {
                // SAFETY: parts of the arena with room for the step's rows (see `decoder`).
                unsafe { product::norm_product(self.stream, &product.with(&products), norm)? };
            }
            _ => {
                if let Some(norm) = norm {
                    self.norm(norm, &[up])?;
                    self.tap(Some(il), "ffn_norm", a.normed.values, self.c.n_embd)?;
                }
                self.matmul(product, &products)?;
            }
        }
        self.gate([n_ff, self.rows], (Ptr::NULL, n_ff), product.seq, given)
    }

    /// The gate that a product of many columns has left, of values so far apart from column to column, or the activation where none
    /// are gated; columns with a `seq` below 0 are skipped.
    pub(super) fn gate(
        &self,
        [n_ff, columns]: [usize; 2],
        (up, up_stride): (Ptr<f32>, usize),
        seq: Ptr<i32>,
        (y, out): (Ptr<f32>, QuantizedActivations),
    ) -> Result<()> {
        let (a, width) = (&self.m.activations, n_ff as i32);
        let act = GluActParams {
            gate: a.gate,
            up,
            stride: width,
            rows: width,
            columns: columns as i32,
            activation: self.activation(),
            y,
            y_stride: width,
            up_stride: up_stride as i32,
            out,
            seq,
        };
        // SAFETY: parts of the arena with room for so many columns (see `decoder`).
        unsafe { gemm::glu_act(self.stream, &act) }
    }

    /// The number that kernels have for the activation.
    pub(super) fn activation(&self) -> i32 {
        match self.c.arch.feed_forward.activation() {
            Activation::Silu => SILU,
            Activation::GeluTanh => GELU_TANH,
            Activation::ClampedSwiglu => CLAMPED_SWIGLU,
            Activation::ReluSquared => RELU_SQUARED,
            Activation::Gelu => GELU,
        }
    }
}
