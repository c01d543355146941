//! Mamba-2: a matrix for each head that fades as each token says, and to which each token adds.

use super::{LANES, convolve, each_head, softplus};
use crate::{
    cpu::{
        Scratch, ops, simd,
        step::{Step, project},
    },
    layer::MambaPlan,
    spec::Activation,
    tensors::Role::*,
    weights::Layer,
};

impl Step<'_> {
    pub(super) fn mamba(&mut self, il: usize, w: &Layer, p: &MambaPlan) {
        let (c, t, runs) = (&self.model.config, self.chunk.len(), self.runs());
        let Scratch { h, out, recurrent: r, prepared, .. } = &mut *self.s;
        let (channels, inner) = (p.channels(), p.inner());
        r.heads.resize(t * p.projected(), 0.0);
        project(prepared, h, [(&w.matrices[SsmIn], &mut r.heads)]);
        [&mut r.gate, &mut r.input, &mut r.beta].into_iter().for_each(Vec::clear);
        for row in r.heads.chunks_exact(p.projected()) {
            let (gate, rest) = row.split_at(inner);
            let (input, step) = rest.split_at(channels);
            r.gate.extend_from_slice(gate);
            r.input.extend_from_slice(input);
            r.beta.extend_from_slice(step);
        }
        // From the numbers of the file to time steps, and to what they leave of the state.
        let (bias, a) = (&w.vectors[SsmDt], &w.vectors[SsmA]);
        r.alpha.resize(t * p.n_head, 0.0);
        for (steps, decay) in r.beta.chunks_exact_mut(p.n_head).zip(r.alpha.chunks_exact_mut(p.n_head)) {
            for (((step, decay), bias), a) in steps.iter_mut().zip(decay).zip(bias).zip(a) {
                *step = softplus(*step + bias);
                *decay = (*step * a).exp();
            }
        }
        r.mixed.resize(t * channels, 0.0);
        r.heads.truncate(t * inner);
        for run in runs {
            let state = self.kv.state(run.seq, il, run.pos);
            let (past, matrices) = state.split_at_mut((p.taps - 1) * channels);
            let of = |width: usize| run.tokens.start * width..run.tokens.end * width;
            let mixed = &mut r.mixed[of(channels)];
            let bias = w.vectors.get(SsmConv1dBias).map(Vec::as_slice);
            convolve(&r.input[of(channels)], past, (&w.vectors[SsmConv1d], bias), mixed);
            ops::silu(mixed);
            let tokens = Tokens {
                plan: p,
                mixed,
                steps: &r.beta[of(p.n_head)],
                decay: &r.alpha[of(p.n_head)],
                share: &w.vectors[SsmD],
            };
            let size = p.n_state * p.head_dim;
            each_head((matrices, size), (&mut r.heads[of(inner)], p.head_dim), |head, m| tokens.head(head, m));
        }
        ops::gate(&mut r.gate, &r.heads, Activation::Silu);
        ops::rms_norm_groups(&mut r.gate, &w.vectors[SsmNorm], p.n_group, c.norm_eps);
        out.resize(t * c.n_embd, 0.0);
        project(prepared, &r.gate, [(&w.matrices[SsmOut], out)]);
    }
}

/// Some tokens of one sequence on their way through the heads.
struct Tokens<'a> {
    plan: &'a MambaPlan,
    /// `x`, then `B` and `C` of the groups, `[tokens][channels]`.
    mixed: &'a [f32],
    /// `dt`, `[tokens][n_head]`.
    steps: &'a [f32],
    /// Factor on the state, `[tokens][n_head]`.
    decay: &'a [f32],
    /// `D`, `[n_head]`.
    share: &'a [f32],
}

impl Tokens<'_> {
    /// All tokens of one head, `[tokens][head_dim]`; changes its matrix `[n_state][head_dim]`.
    fn head(&self, head: usize, matrix: &mut [f32]) -> Vec<f32> {
        let p = self.plan;
        let mut out = vec![0.0; self.mixed.len() / p.channels() * p.head_dim];
        simd::dispatch(Scan { tokens: self, head, matrix, out: &mut out });
        out
    }
}

/// The tokens of one head.
struct Scan<'a> {
    tokens: &'a Tokens<'a>,
    head: usize,
    /// `[n_state][head_dim]`.
    matrix: &'a mut [f32],
    /// `[tokens][head_dim]`.
    out: &'a mut [f32],
}

/// Columns of a state that are read together: as many sums stay in registers.
const WIDTH: usize = 2 * LANES;

impl simd::SimdKernel for Scan<'_> {
    #[inline(always)]
    fn run(mut self) {
        let n = self.tokens.plan.head_dim;
        let whole = n / WIDTH * WIDTH;
        (0..whole).step_by(WIDTH).for_each(|start| self.columns::<WIDTH>(start));
        (whole..n).for_each(|start| self.columns::<1>(start));
    }
}

impl Scan<'_> {
    /// `W` columns from `start` on through all tokens: they do not look at the others, and stay in the nearest cache. Each
    /// token reads and writes them once: `S = S · decay + B (dt·x)ᵀ; out = Sᵀ C + D·x`.
    #[inline(always)]
    fn columns<const W: usize>(&mut self, start: usize) {
        let Tokens { plan: p, mixed, steps, decay, share } = *self.tokens;
        let (n, head, group) = (p.head_dim, self.head, self.head / (p.n_head / p.n_group));
        let (b_at, c_at) = (p.inner() + group * p.n_state, p.inner() + (p.n_group + group) * p.n_state);
        let tokens = mixed.chunks_exact(p.channels()).zip(self.out.chunks_exact_mut(n));
        for (t, (token, out)) in tokens.enumerate() {
            let (step, decay) = (steps[t * p.n_head + head], decay[t * p.n_head + head]);
            let (b, c) = (&token[b_at..][..p.n_state], &token[c_at..][..p.n_state]);
            let x = &token[head * n + start..][..W];
            let mut added = [0.0; W];
            added.iter_mut().zip(x).for_each(|(added, x)| *added = step * x);
            let mut sums = [0.0; W];
            for ((row, b), c) in self.matrix.chunks_exact_mut(n).zip(b).zip(c) {
                for ((s, added), sum) in row[start..start + W].iter_mut().zip(&added).zip(&mut sums) {
                    *s = *s * decay + added * b;
                    *sum += *s * c;
                }
            }
            for ((out, sum), x) in out[start..start + W].iter_mut().zip(sums).zip(x) {
                *out = sum + share[head] * x;
            }
        }
    }
}
