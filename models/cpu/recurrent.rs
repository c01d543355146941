//! Layers that keep a state in place of keys and values: gated delta nets, short convolutions and Mamba-2.
//!
//! A token changes the state in place, one after the other, so that any chunking gives the same bits; heads run in
//! parallel. The state of a head (64 KB) stays in the cache of its thread for all tokens of a block.

mod mamba;
mod strip;

use std::ops::Range;

use rayon::prelude::*;

use qrun_quant::simd::{FloatKernel, FloatLanes, VectorWidth};

use self::strip::{REGISTERS, Strips};
use super::{
    Scratch, ops, simd,
    step::{Step, project},
};
use crate::{
    kv::PAGE,
    layer::{DeltaPlan, Mixer},
    spec::{Activation, DeltaHeads},
    tensors::Role::*,
    weights::Layer,
};

/// Buffers of recurrent layers, `[tokens][width]` each.
#[derive(Default)]
pub struct Recurrent {
    /// What goes into the convolution.
    input: Vec<f32>,
    /// What comes out of it.
    mixed: Vec<f32>,
    /// What the heads give.
    heads: Vec<f32>,
    gate: Vec<f32>,
    alpha: Vec<f32>,
    beta: Vec<f32>,
}

/// Tokens of one sequence that lie in one block of the cache, or one guess: between them the state has to be nowhere.
pub(super) struct Run {
    pub tokens: Range<usize>,
    pub seq: usize,
    pub pos: usize,
}

impl Step<'_> {
    /// From `h` to `out`, in place of attention.
    pub(super) fn recurrent(&mut self, il: usize, w: &Layer, mixer: Mixer) {
        match mixer {
            Mixer::Attention | Mixer::None => {}
            Mixer::DeltaNet(plan) => self.delta_net(il, w, &plan),
            Mixer::ShortConv { taps, channels } => self.short_conv(il, w, [taps, channels]),
            Mixer::Mamba2(plan) => self.mamba(il, w, &plan),
        }
    }

    pub(super) fn runs(&self) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for (i, e) in self.chunk.iter().enumerate() {
            let (seq, pos) = (e.seq as usize, e.pos as usize);
            match runs.last_mut() {
                Some(run) if run.seq == seq && !pos.is_multiple_of(PAGE) && !e.drafted => run.tokens.end = i + 1,
                _ => runs.push(Run { tokens: i..i + 1, seq, pos }),
            }
        }
        runs
    }

    fn delta_net(&mut self, il: usize, w: &Layer, p: &DeltaPlan) {
        let (c, t, runs) = (&self.model.config, self.chunk.len(), self.runs());
        let Scratch { h, out, recurrent: r, prepared, .. } = &mut *self.s;
        let (channels, inner) = (p.channels(), p.inner());
        let matrices = &w.matrices;
        r.input.resize(t * channels, 0.0);
        r.gate.resize(t * inner, 0.0);
        project(prepared, h, [(&matrices[AttnQkv], &mut r.input), (&matrices[AttnGate], &mut r.gate)]);
        r.alpha.resize(t * p.n_head_v, 0.0);
        r.beta.resize(t * p.n_head_v, 0.0);
        match p.heads {
            DeltaHeads::Tiled => {
                project(prepared, h, [(&matrices[SsmAlpha], &mut r.alpha), (&matrices[SsmBeta], &mut r.beta)]);
            }
            DeltaHeads::Grouped => {
                let mut both = vec![0.0; 2 * t * p.n_head_v];
                project(prepared, h, [(&matrices[SsmBa], &mut both)]);
                let group = p.n_head_v / p.n_head_k;
                let (beta, alpha) = (r.beta.chunks_exact_mut(group), r.alpha.chunks_exact_mut(group));
                for (of, (beta, alpha)) in both.chunks_exact(2 * group).zip(beta.zip(alpha)) {
                    beta.copy_from_slice(&of[..group]);
                    alpha.copy_from_slice(&of[group..]);
                }
            }
        }
        // From the numbers of the file to the factor on the state, and to the share of a new value.
        let (dt, a) = (&w.vectors[SsmDt], &w.vectors[SsmA]);
        for row in r.alpha.chunks_exact_mut(p.n_head_v) {
            for ((x, dt), a) in row.iter_mut().zip(dt).zip(a) {
                *x = (softplus(*x + dt) * a).exp();
            }
        }
        r.beta.iter_mut().for_each(|x| *x = 1.0 / (1.0 + (-*x).exp()));
        r.mixed.resize(t * channels, 0.0);
        r.heads.resize(t * inner, 0.0);
        for run in runs {
            let state = self.kv.state(run.seq, il, run.pos);
            let (past, matrices) = state.split_at_mut((p.taps - 1) * channels);
            let of = |width: usize| run.tokens.start * width..run.tokens.end * width;
            let mixed = &mut r.mixed[of(channels)];
            convolve(&r.input[of(channels)], past, (&w.vectors[SsmConv1d], None), mixed);
            ops::silu(mixed);
            // Queries and keys have length 1; queries are divided by the root of their elements.
            for token in mixed.chunks_exact_mut(channels) {
                let (q, k) = token[..2 * p.n_head_k * p.dim_k].split_at_mut(p.n_head_k * p.dim_k);
                q.chunks_exact_mut(p.dim_k).for_each(|q| normalise(q, c.norm_eps, 1.0 / (p.dim_k as f32).sqrt()));
                k.chunks_exact_mut(p.dim_k).for_each(|k| normalise(k, c.norm_eps, 1.0));
            }
            let tokens = Tokens { plan: p, mixed, decay: &r.alpha[of(p.n_head_v)], beta: &r.beta[of(p.n_head_v)] };
            let size = p.dim_k * p.dim_v;
            each_head((matrices, size), (&mut r.heads[of(inner)], p.dim_v), |head, m| tokens.head(head, m));
        }
        ops::rms_norm_in_place(&mut r.heads, &w.vectors[SsmNorm], c.norm_eps);
        ops::gate(&mut r.gate, &r.heads, Activation::Silu);
        out.resize(t * c.n_embd, 0.0);
        project(prepared, &r.gate, [(&matrices[SsmOut], out)]);
    }

    fn short_conv(&mut self, il: usize, w: &Layer, [taps, channels]: [usize; 2]) {
        let (t, runs) = (self.chunk.len(), self.runs());
        let Scratch { h, out, recurrent: r, prepared, .. } = &mut *self.s;
        r.heads.resize(3 * t * channels, 0.0);
        project(prepared, h, [(&w.matrices[ShortconvInProj], &mut r.heads)]);
        r.input.resize(t * channels, 0.0);
        r.mixed.resize(t * channels, 0.0);
        for (row, input) in r.heads.chunks_exact(3 * channels).zip(r.input.chunks_exact_mut(channels)) {
            let (b, x) = (&row[..channels], &row[2 * channels..]);
            input.iter_mut().zip(b.iter().zip(x)).for_each(|(input, (b, x))| *input = b * x);
        }
        for run in runs {
            let past = self.kv.state(run.seq, il, run.pos);
            let of = run.tokens.start * channels..run.tokens.end * channels;
            debug_assert_eq!(past.len(), (taps - 1) * channels);
            convolve(&r.input[of.clone()], past, (&w.vectors[ShortconvConv], None), &mut r.mixed[of]);
        }
        for (row, mixed) in r.heads.chunks_exact(3 * channels).zip(r.mixed.chunks_exact_mut(channels)) {
            mixed.iter_mut().zip(&row[channels..]).for_each(|(mixed, c)| *mixed *= c);
        }
        out.resize(t * channels, 0.0);
        project(prepared, &r.mixed, [(&w.matrices[ShortconvOutProj], out)]);
    }
}

/// Each channel over its last inputs: `out[t] = bias + Σ_j taps[j] · x[t − n + 1 + j]`. `x` and `out` are
/// `[tokens][channels]`, `taps` is `[channels][n]`, and `past`, the inputs before these, `[n − 1][channels]`: it moves on.
fn convolve(x: &[f32], past: &mut [f32], (taps, bias): (&[f32], Option<&[f32]>), out: &mut [f32]) {
    let channels = taps.len() - past.len();
    let (n, tokens) = (taps.len() / channels, x.len() / channels);
    let input = |at: usize| match at.checked_sub(n - 1) {
        Some(token) => &x[token * channels..][..channels],
        None => &past[at * channels..][..channels],
    };
    // `[n][channels]`: those of one tap side by side, as the inputs are.
    let mut by_tap = vec![0.0; taps.len()];
    for (channel, taps) in taps.chunks_exact(n).enumerate() {
        taps.iter().enumerate().for_each(|(j, tap)| by_tap[j * channels + channel] = *tap);
    }
    ops::for_rows(out, channels, |t, out| {
        match bias {
            None => out.fill(0.0),
            Some(bias) => out.copy_from_slice(bias),
        }
        for (j, taps) in by_tap.chunks_exact(channels).enumerate() {
            for ((out, x), tap) in out.iter_mut().zip(input(t + j)).zip(taps) {
                *out += tap * x;
            }
        }
    });
    let last: Vec<f32> = (tokens..tokens + n - 1).flat_map(|at| input(at).iter().copied()).collect();
    past.copy_from_slice(&last);
}

/// `x` to the length `scale`.
fn normalise(x: &mut [f32], eps: f32, scale: f32) {
    let factor = f64::from(scale) / (simd::sum_of_squares(x) + f64::from(eps)).sqrt();
    x.iter_mut().for_each(|x| *x *= factor as f32);
}

fn softplus(x: f32) -> f32 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// All heads in parallel, each with its matrix of `size` elements: what `f` gives for one, `[tokens][dim]`, goes to its
/// place in `out`, `[tokens][heads][dim]`.
fn each_head(
    (matrices, size): (&mut [f32], usize),
    (out, dim): (&mut [f32], usize),
    f: impl Fn(usize, &mut [f32]) -> Vec<f32> + Sync,
) {
    let width = matrices.len() / size * dim;
    let heads = matrices.par_chunks_exact_mut(size).enumerate();
    let given: Vec<Vec<f32>> = heads.map(|(head, matrix)| f(head, matrix)).collect();
    for (head, given) in given.iter().enumerate() {
        for (out, given) in out.chunks_exact_mut(width).zip(given.chunks_exact(dim)) {
            out[head * dim..][..dim].copy_from_slice(given);
        }
    }
}

/// Some tokens of one sequence on their way through the heads of a delta net.
struct Tokens<'a> {
    plan: &'a DeltaPlan,
    /// Queries, keys and values, `[tokens][channels]`.
    mixed: &'a [f32],
    /// Factor on the state, `[tokens][n_head_v]`.
    decay: &'a [f32],
    /// Share of a new value, `[tokens][n_head_v]`.
    beta: &'a [f32],
}

impl Tokens<'_> {
    /// Query, key and value of a token.
    #[inline(always)]
    fn vectors(&self, head: usize, t: usize) -> [&[f32]; 3] {
        let p = self.plan;
        let (keys, key_head) = (p.n_head_k * p.dim_k, p.key_head(head));
        let token = &self.mixed[t * p.channels()..][..p.channels()];
        let (q, k) = (&token[key_head * p.dim_k..][..p.dim_k], &token[keys + key_head * p.dim_k..][..p.dim_k]);
        [q, k, &token[2 * keys + head * p.dim_v..][..p.dim_v]]
    }

    /// Decay and β of a token.
    #[inline(always)]
    fn factors(&self, head: usize, t: usize) -> [f32; 2] {
        let at = t * self.plan.n_head_v + head;
        [self.decay[at], self.beta[at]]
    }

    /// All tokens of one head, `[tokens][dim_v]`; changes its matrix `[dim_k][dim_v]`.
    fn head(&self, head: usize, matrix: &mut [f32]) -> Vec<f32> {
        let p = self.plan;
        let mut out = vec![0.0; self.mixed.len() / p.channels() * p.dim_v];
        let kernel = Delta { tokens: self, head, matrix, out: &mut out };
        match VectorWidth::best() {
            VectorWidth::Scalar => kernel.scalar(),
            // SAFETY: the kernel asks for nothing.
            width => unsafe { width.run(kernel) },
        }
        out
    }
}

/// The tokens of one head, each of which does `S = S · decay; δ = (v − Sᵀk) · β; S += k δᵀ; out = Sᵀq`.
struct Delta<'a> {
    tokens: &'a Tokens<'a>,
    head: usize,
    /// The head's state, `[dim_k][dim_v]`.
    matrix: &'a mut [f32],
    /// Zeros that become what the head gives, `[tokens][dim_v]`.
    out: &'a mut [f32],
}

impl Delta<'_> {
    /// Without FMA instructions: a fused multiply-add would be a call for each element.
    fn scalar(self) {
        let n = self.tokens.plan.dim_v;
        for t in 0..self.out.len() / n {
            let ([q, k, v], [decay, beta]) = (self.tokens.vectors(self.head, t), self.tokens.factors(self.head, t));
            let out = &mut self.out[t * n..][..n];
            let mut found = vec![0.0; n];
            for (row, k) in self.matrix.chunks_exact(n).zip(k) {
                found.iter_mut().zip(row).for_each(|(found, s)| *found += s * k);
            }
            let delta: Vec<f32> = v.iter().zip(found).map(|(v, found)| (v - decay * found) * beta).collect();
            for ((row, k), q) in self.matrix.chunks_exact_mut(n).zip(k).zip(q) {
                for ((s, delta), out) in row.iter_mut().zip(&delta).zip(&mut *out) {
                    *s = k * delta + *s * decay;
                    *out += *s * q;
                }
            }
        }
    }
}

impl FloatKernel for Delta<'_> {
    #[inline(always)]
    unsafe fn run<L: FloatLanes>(self) {
        let (n, rows, width) = (self.tokens.plan.dim_v, self.tokens.plan.dim_k, REGISTERS * L::ROWS);
        let tokens = self.out.len() / n;
        let mut strips = Strips::new([rows, n], width, tokens);
        for columns in strips.columns() {
            let (strip, stride) = strips.take(self.matrix, &columns);
            // SAFETY: the machine can run `L`.
            unsafe {
                let mut found = strip::product::<L>((&*strip, stride), self.tokens.vectors(self.head, 0)[1]);
                for t in 0..tokens {
                    let ([q, k, v], [decay, beta]) =
                        (self.tokens.vectors(self.head, t), self.tokens.factors(self.head, t));
                    let (mut delta, v) = (strip::zeros::<L>(), strip::load::<L>(&v[columns.clone()]));
                    for c in 0..REGISTERS {
                        let left = L::fma(found[c], L::splat_f32(-decay), v[c]);
                        delta[c] = L::mul(left, L::splat_f32(beta));
                    }
                    let read;
                    [read, found] = if t + 1 < tokens {
                        strip::update::<L, true>(
                            (&mut *strip, stride),
                            decay,
                            (k, &delta),
                            q,
                            self.tokens.vectors(self.head, t + 1)[1],
                        )
                    } else {
                        strip::update::<L, false>((&mut *strip, stride), decay, (k, &delta), q, &[])
                    };
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
    fn a_delta_net_is_its_equations() {
        // Columns that are not whole registers, and several strips of them.
        for (dim_k, dim_v, tokens) in [(24, 40, 5), (128, 128, 3), (16, 70, 1), (3, 1, 2)] {
            let plan = DeltaPlan { n_head_k: 2, n_head_v: 4, dim_k, dim_v, taps: 4, heads: DeltaHeads::Tiled };
            let mut state = 1u64;
            let mut random = |n: usize| -> Vec<f32> {
                let next = |_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (state >> 40) as f32 / (1 << 24) as f32 - 0.5
                };
                (0..n).map(next).collect()
            };
            let (mixed, decay, beta) = (random(tokens * plan.channels()), random(tokens * 4), random(tokens * 4));
            let first = random(dim_k * dim_v);
            let all = Tokens { plan: &plan, mixed: &mixed, decay: &decay, beta: &beta };
            for head in 0..4 {
                let (mut matrix, mut expected) = (first.clone(), vec![0.0; tokens * dim_v]);
                let out = all.head(head, &mut matrix);
                let mut plain = first.clone();
                Delta { tokens: &all, head, matrix: &mut plain, out: &mut expected }.scalar();
                let of = format!("head {head} of {dim_k}x{dim_v}");
                strip::assert_close(&of, &out, &expected);
                strip::assert_close(&of, &matrix, &plain);
                // Token after token gives the same bits.
                let (mut matrix, mut one_by_one) = (first.clone(), Vec::new());
                for t in 0..tokens {
                    let of = |x: &'_ [f32], width: usize| x[t * width..][..width].to_vec();
                    let (mixed, decay, beta) = (of(&mixed, plan.channels()), of(&decay, 4), of(&beta, 4));
                    let one = Tokens { plan: &plan, mixed: &mixed, decay: &decay, beta: &beta };
                    one_by_one.extend(one.head(head, &mut matrix));
                }
                assert_eq!(one_by_one, out, "head {head} of {dim_k}x{dim_v}, token after token");
            }
        }
    }
}
