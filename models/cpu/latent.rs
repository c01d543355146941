//! Latent attention: what is cached of a token is one vector and the part of its key that turns, for all heads.
//!
//! A head's query goes through the matrix that would make its keys of those vectors, once, so that it can be multiplied with
//! the vectors themselves; their weighted sum goes through the matrix that would make values of them.

use qrun_quant::cpu::{Activations, Arithmetic, Job, matmul};
use rayon::prelude::*;

use super::{
    ops, rope,
    step::{Step, project, tap},
};
use crate::{
    layer::LatentPlan,
    tensors::Role::*,
    weights::{Layer, Linear},
};

/// Buffers of layers with latent attention.
pub struct ByHead {
    /// Input of each head, `[heads][tokens][width]`.
    x: Vec<f32>,
    /// Output of each head, `[heads][tokens][width]`.
    y: Vec<f32>,
    /// One for each head.
    prepared: Vec<Activations>,
    arithmetic: Arithmetic,
}

impl ByHead {
    pub fn new(arithmetic: Arithmetic) -> Self {
        Self { x: Vec::new(), y: Vec::new(), prepared: Vec::new(), arithmetic }
    }

    /// From `x` to `y` through each head's matrix, heads in parallel: their matrices are small.
    fn multiply(&mut self, heads: usize, w: &Linear) {
        self.prepared.resize_with(heads.max(self.prepared.len()), || Activations::new(self.arithmetic));
        let x_width = self.x.len() / heads;
        let y_width = x_width / w.w.cols() * (w.w.rows() / heads);
        self.y.resize(heads * y_width, 0.0);
        let each = self.x.par_chunks_exact(x_width).zip(self.y.par_chunks_exact_mut(y_width));
        each.zip(&mut self.prepared).enumerate().for_each(|(head, ((x, y), prepared))| {
            let (w, _) = w.expert(head);
            matmul(prepared, x, &mut [Job { w: &w, y }]);
        });
    }

    /// Takes the first `width` elements of each head of `x[tokens][heads][..]`.
    fn set(&mut self, x: &[f32], [tokens, heads, width]: [usize; 3]) {
        let stride = x.len() / (tokens * heads);
        self.x.clear();
        for head in 0..heads {
            let of_head = x.chunks_exact(stride).skip(head).step_by(heads);
            of_head.for_each(|x| self.x.extend_from_slice(&x[..width]));
        }
    }

    /// Puts the outputs to the front of each head of `out[tokens][heads][..]`.
    fn give(&self, out: &mut [f32], [tokens, heads]: [usize; 2]) {
        let (stride, width) = (out.len() / (tokens * heads), self.y.len() / (tokens * heads));
        for (i, out) in out.chunks_exact_mut(stride).enumerate() {
            let at = (i % heads * tokens + i / heads) * width;
            out[..width].copy_from_slice(&self.y[at..at + width]);
        }
    }
}

impl Step<'_> {
    /// From `h` to the queries, `[tokens][heads][rank + n_rot]`; what is kept of each token goes into the cache.
    pub(super) fn latent(&mut self, il: usize, w: &Layer, plan: &LatentPlan) {
        let (c, t) = (&self.model.config, self.chunk.len());
        let (l, matrices, rank) = (&c.layers[il], &w.matrices, plan.rank);
        let query = plan.n_nope + l.rope.n_rot;
        let s = &mut *self.s;
        s.k.resize(t * l.head_dim, 0.0);
        s.up.resize(t * l.n_head * query, 0.0);
        let cached = (&matrices[AttnKvAMqa], &mut s.k);
        match plan.q_rank {
            None => project(&mut s.prepared, &s.h, [(&matrices[AttnQ], &mut s.up), cached]),
            Some(q_rank) => {
                s.gate.resize(t * q_rank, 0.0);
                project(&mut s.prepared, &s.h, [(&matrices[AttnQA], &mut s.gate), cached]);
                ops::rms_norm_in_place(&mut s.gate, &w.vectors[AttnQANorm], c.norm_eps);
                project(&mut s.prepared, &s.gate, [(&matrices[AttnQB], &mut s.up)]);
            }
        }
        s.by_head.set(&s.up, [t, l.n_head, plan.n_nope]);
        s.by_head.multiply(l.n_head, &matrices[AttnKB]);
        s.q.resize(t * l.q_dim(), 0.0);
        s.by_head.give(&mut s.q, [t, l.n_head]);
        for (q, up) in s.q.chunks_exact_mut(l.head_dim).zip(s.up.chunks_exact(query)) {
            q[rank..].copy_from_slice(&up[plan.n_nope..]);
        }
        self.turn_queries(il, rank);
        let s = &mut *self.s;
        for k in s.k.chunks_exact_mut(l.head_dim) {
            ops::rms_norm_in_place(&mut k[..rank], &w.vectors[AttnKvANorm], c.norm_eps);
        }
        rope::apply(&mut s.k, [l.head_dim, rank], c.arch.rope, self.rope.of(il));
        tap(self.tap, Some(il), "Kcur", &s.k);
        for (e, k) in self.chunk.iter().zip(s.k.chunks_exact(l.head_dim)) {
            self.kv.store(e.seq as usize, il, e.pos as usize, (k, &[]));
        }
    }

    /// From sums of cached vectors to those of values, `[tokens][heads][n_value]`.
    pub(super) fn latent_values(&mut self, n_head: usize, w: &Layer, plan: &LatentPlan) {
        let (s, t) = (&mut *self.s, self.chunk.len());
        s.by_head.set(&s.attention, [t, n_head, plan.rank]);
        s.by_head.multiply(n_head, &w.matrices[AttnVB]);
        s.attention.resize(t * n_head * plan.n_value, 0.0);
        s.by_head.give(&mut s.attention, [t, n_head]);
    }
}
