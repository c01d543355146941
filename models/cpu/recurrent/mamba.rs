//! Mamba-2: a matrix for each head that fades as each token says, and to which each token adds.

use qrun_quant::simd::{FloatKernel, FloatLanes, VectorWidth};

use super::{
    convolve, each_head, softplus,
    strip::{self, REGISTERS, Strips},
};
use crate::{
    cpu::{
        Scratch, ops,
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
    /// `x`, `B` and `C` of a token.
    #[inline(always)]
    fn vectors(&self, head: usize, t: usize) -> [&[f32]; 3] {
        let (p, group) = (self.plan, head / (self.plan.n_head / self.plan.n_group));
        let token = &self.mixed[t * p.channels()..][..p.channels()];
        let (b, c) = (p.inner() + group * p.n_state, p.inner() + (p.n_group + group) * p.n_state);
        [&token[head * p.head_dim..][..p.head_dim], &token[b..][..p.n_state], &token[c..][..p.n_state]]
    }

    /// `dt` and decay of a token.
    #[inline(always)]
    fn factors(&self, head: usize, t: usize) -> [f32; 2] {
        let at = t * self.plan.n_head + head;
        [self.steps[at], self.decay[at]]
    }

    /// All tokens of one head, `[tokens][head_dim]`; changes its matrix `[n_state][head_dim]`.
    fn head(&self, head: usize, matrix: &mut [f32]) -> Vec<f32> {
        let p = self.plan;
        let mut out = vec![0.0; self.mixed.len() / p.channels() * p.head_dim];
        let kernel = Scan { tokens: self, head, matrix, out: &mut out };
        match VectorWidth::best() {
            VectorWidth::Scalar => kernel.scalar(),
            // SAFETY: the kernel asks for nothing.
            width => unsafe { width.run(kernel) },
        }
        out
    }
}

/// The tokens of one head, each of which does `S = S · decay + B (dt·x)ᵀ; out = Sᵀ C + D·x`.
struct Scan<'a> {
    tokens: &'a Tokens<'a>,
    head: usize,
    /// The head's state, `[n_state][head_dim]`.
    matrix: &'a mut [f32],
    /// Zeros that become what the head gives, `[tokens][head_dim]`.
    out: &'a mut [f32],
}

impl Scan<'_> {
    /// Without FMA instructions: a fused multiply-add would be a call for each element.
    fn scalar(self) {
        let (n, share) = (self.tokens.plan.head_dim, self.tokens.share[self.head]);
        for t in 0..self.out.len() / n {
            let ([x, b, c], [step, decay]) = (self.tokens.vectors(self.head, t), self.tokens.factors(self.head, t));
            let out = &mut self.out[t * n..][..n];
            for ((row, b), c) in self.matrix.chunks_exact_mut(n).zip(b).zip(c) {
                for ((s, x), out) in row.iter_mut().zip(x).zip(&mut *out) {
                    *s = b * (step * x) + *s * decay;
                    *out += *s * c;
                }
            }
            out.iter_mut().zip(x).for_each(|(out, x)| *out += share * x);
        }
    }
}

impl FloatKernel for Scan<'_> {
    #[inline(always)]
    unsafe fn run<L: FloatLanes>(self) {
        let (n, rows, width) = (self.tokens.plan.head_dim, self.tokens.plan.n_state, REGISTERS * L::ROWS);
        let tokens = self.out.len() / n;
        let mut strips = Strips::new([rows, n], width, tokens);
        for columns in strips.columns() {
            let (strip, stride) = strips.take(self.matrix, &columns);
            for t in 0..tokens {
                let ([x, b, c], [step, decay]) = (self.tokens.vectors(self.head, t), self.tokens.factors(self.head, t));
                // SAFETY: the machine can run `L`.
                unsafe {
                    let (x, mut added) = (strip::load::<L>(&x[columns.clone()]), strip::zeros::<L>());
                    for i in 0..REGISTERS {
                        added[i] = L::mul(x[i], L::splat_f32(step));
                    }
                    let [mut read, _] = strip::update::<L, false>((&mut *strip, stride), decay, (b, &added), c, &[]);
                    for i in 0..REGISTERS {
                        read[i] = L::fma(x[i], L::splat_f32(self.tokens.share[self.head]), read[i]);
                    }
                    strip::store::<L>(&read, &mut self.out[t * n..][columns.clone()]);
                }
            }
            strips.put(self.matrix, &columns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_is_its_equations() {
        for (n_state, head_dim, tokens) in [(128, 64, 3), (20, 70, 4), (16, 1, 2)] {
            let plan = MambaPlan { n_head: 4, head_dim, n_state, n_group: 2, taps: 4, bias: false };
            let random = |n: usize, seed: usize| -> Vec<f32> {
                (0..n).map(|i| ((i * 7919 + seed * 104_729) % 1009) as f32 / 1009.0 - 0.5).collect()
            };
            let (mixed, steps) = (random(tokens * plan.channels(), 1), random(tokens * 4, 2));
            let (decay, share, first) = (random(tokens * 4, 3), random(4, 4), random(n_state * head_dim, 5));
            let all = Tokens { plan: &plan, mixed: &mixed, steps: &steps, decay: &decay, share: &share };
            for head in 0..4 {
                let (mut matrix, mut plain, mut expected) =
                    (first.clone(), first.clone(), vec![0.0; tokens * head_dim]);
                let out = all.head(head, &mut matrix);
                Scan { tokens: &all, head, matrix: &mut plain, out: &mut expected }.scalar();
                let of = format!("head {head} of {n_state}x{head_dim}");
                strip::assert_close(&of, &out, &expected);
                strip::assert_close(&of, &matrix, &plain);
            }
        }
    }
}
