//! Layers with latent attention on the device: six launches for one row, five where queries are made of the stream; and one of a step,
//! which lists the rows of each head.
//!
//! Products by head are those of experts of which each row takes all: see `cpu/latent.rs` for what they are for.

use qrun_cuda::{
    Ptr, Result,
    ops::{
        attention::{self, Attention},
        experts::{self, AllHeads},
        matmul::{MatmulParams, Segment},
        norm::{NormKind, NormParams},
        product,
        rope_kv::{self, LatentKv, RopeKv},
    },
};

use super::{
    blocks,
    memory::{Layer, Weight},
    step::{Residual, Step, segment},
};
use crate::{
    LayerPlan, Model,
    layer::{KvSource, LatentPlan},
    tensors::Role::*,
};

/// Why the kernels do not take the latent attention of a model.
pub fn without_kernels(model: &Model) -> Option<&'static str> {
    blocks(model).find_map(|(plan, _)| match &plan.kv {
        KvSource::Latent(latent) => refused(plan, latent),
        KvSource::Projections | KvSource::Keys | KvSource::Layer(_) => None,
    })
}

fn refused(l: &LayerPlan, plan: &LatentPlan) -> Option<&'static str> {
    let sizes = plan.n_nope.is_multiple_of(32) && plan.n_value.is_multiple_of(16);
    let attends = attention::takes_latent(l.head_dim, plan.rank) && rope_kv::takes_latent(l.head_dim, l.rope.n_rot);
    (!sizes || !attends).then_some("latent attention of these sizes")
}

/// The matrices of all heads, `rows` rows each, and where their products go.
fn by_head(w: &Weight, n_head: usize, y: Ptr<f32>) -> Segment {
    let rows = (w.rows / n_head) as i32;
    Segment { rows, y_stride: rows, expert_rows: rows, ..segment(w, y) }
}

impl Step<'_> {
    /// From the stream to what joins it.
    pub(super) fn latent(&self, il: usize, layer: &Layer, plan: &LatentPlan, residual: Residual) -> Result<()> {
        let (l, a) = (&self.c.layers[il], &self.m.activations);
        let (b, heads) = (&a.latent, self.heads(il)?);
        self.latent_queries(il, layer, plan, residual)?;
        self.absorb(il, layer, plan, heads)?;
        let [values, output] = layer.matrices([AttnVB, AttnOutput]);
        let rope = RopeKv {
            q: b.queries.add(plan.n_nope),
            q_step: (plan.n_nope + l.rope.n_rot) as i32,
            k: a.k,
            k_norm: layer.vector(AttnKvANorm),
            ..self.turn(il, layer)
        };
        let alone = self.turns_in_attention();
        if !alone {
            // Nobody has values, so there is room for what is listened to.
            let k_out = if self.probe.is_some() { a.v } else { Ptr::NULL };
            // SAFETY: parts of the arena with room for the step's rows (see `decoder`).
            unsafe { rope_kv::latent_kv(self.stream, self.rows as u32, &LatentKv { rope, k_out })? };
            self.tap(Some(il), "Qcur", a.q, l.q_dim())?;
            self.tap(Some(il), "Kcur", k_out, l.kv_dim())?;
        }
        let (out, image) = self.wanted(&a.attended, &[values]);
        let rope = alone.then_some(rope);
        let attend = Attention { out, image, rope, latent: Some(plan.rank), ..self.attend(il, layer) };
        // SAFETY: parts of the arena with room for the step's rows (see `decoder`).
        unsafe { attention::attention(self.stream, &attend)? };
        let attended = MatmulParams { k: plan.rank as i32, image, x: out, ..MatmulParams::default() };
        self.matmul(heads.product(attended), &[by_head(&values, l.n_head, b.values.values)])?;

        let all = l.n_head * plan.n_value;
        self.tap(Some(il), "kqv_out", b.values.values, all)?;
        let (product, to) = (self.product(&b.values, all), segment(&output, a.out));
        self.quantize_and_multiply(output.ty, self.rows, &product.with(&[to]))
    }

    /// The front of queries: what the matrix of each head makes of the elements that do not turn.
    fn absorb(&self, il: usize, layer: &Layer, plan: &LatentPlan, heads: AllHeads) -> Result<()> {
        let (l, a) = (&self.c.layers[il], &self.m.activations);
        let (b, width) = (&a.latent, plan.n_nope + l.rope.n_rot);
        let [keys] = layer.matrices([AttnKB]);
        let to = Segment { y_stride: l.head_dim as i32, ..by_head(&keys, l.n_head, a.q) };
        let front = MatmulParams { image: b.front, x: b.queries, x_step: width as i32, ..MatmulParams::default() };
        let product = heads.product(MatmulParams { k: plan.n_nope as i32, ..front });
        self.quantize_and_multiply(keys.ty, self.rows * l.n_head, &product.with(&[to]))
    }

    /// From the stream to the queries as projected, and to the vector that is kept of each token.
    fn latent_queries(&self, il: usize, layer: &Layer, plan: &LatentPlan, residual: Residual) -> Result<()> {
        let (a, b) = (&self.m.activations, &self.m.activations.latent);
        let [kept] = layer.matrices([AttnKvAMqa]);
        let (first, to) = match plan.q_rank {
            None => (AttnQ, b.queries),
            Some(_) => (AttnQA, b.low.values),
        };
        let [first] = layer.matrices([first]);
        let products = [segment(&first, to), segment(&kept, a.k)];
        self.project(il, layer, &[first, kept], &products, residual)?;
        let Some(q_rank) = plan.q_rank else { return Ok(()) };
        let [second] = layer.matrices([AttnQB]);
        let norm = NormParams {
            x: b.low.values,
            weight: layer.vector(AttnQANorm),
            seq: self.at.seq,
            n: q_rank as i32,
            eps: self.c.norm_eps,
            ..NormParams::default()
        };
        let (product, to) = (self.product(&b.low, q_rank), segment(&second, b.queries));
        if self.norms_itself(&norm, &[second]) {
            // SAFETY: parts of the arena with room for the step's rows (see `decoder`).
            return unsafe { product::norm_product(self.stream, &product.with(&[to]), &norm) };
        }
        let (y, image) = self.wanted(&b.low, &[second]);
        self.launch_norm(self.rows, NormKind::Rms, &NormParams { y, image, ..norm })?;
        self.matmul(product, &[to])
    }

    /// Columns of the products by head, listed by the first layer that takes as many.
    fn heads(&self, il: usize) -> Result<AllHeads> {
        let is_latent = |l: &&LayerPlan| matches!(l.kv, KvSource::Latent(_));
        let n_head = |layers: &[LayerPlan]| layers.iter().rev().find(is_latent).map(|l| l.n_head);
        let (before, now) = (n_head(&self.c.layers[..il]), self.c.layers[il].n_head);
        let heads = self.m.activations.latent.heads.of(self.rows, now);
        if before != Some(now) {
            // SAFETY: parts of the arena with room for the step's rows (see `decoder`).
            unsafe { experts::all_heads(self.stream, &heads)? };
        }
        Ok(heads)
    }
}
