//! Elementwise operations and norms over `[tokens][width]`, parallel over tokens.

use rayon::prelude::*;

use super::simd;
use crate::spec::{Activation, Norm};

/// Elements below which a parallel region costs more than it saves.
const PARALLEL: usize = 1 << 15;

/// Runs `f(row index, row)` on rows of `width`, in parallel where that pays.
pub fn for_rows(x: &mut [f32], width: usize, f: impl Fn(usize, &mut [f32]) + Sync + Send) {
    if x.len() < PARALLEL {
        x.chunks_exact_mut(width).enumerate().for_each(|(i, row)| f(i, row));
    } else {
        x.par_chunks_exact_mut(width).enumerate().for_each(|(i, row)| f(i, row));
    }
}

/// The norm of an architecture for each row of `weight.len()` elements, and a bias where it has one.
pub fn norm(kind: Norm, x: &[f32], (weight, bias): (&[f32], Option<&[f32]>), eps: f32, out: &mut Vec<f32>) {
    out.clear();
    out.extend_from_slice(x);
    match kind {
        Norm::Rms => rms_norm_in_place(out, weight, eps),
        Norm::Layer | Norm::LayerBias => layer_norm_in_place(out, weight, eps),
    }
    if let Some(bias) = bias {
        add_rows(out, bias);
    }
}

/// `x = (x − mean) / sqrt(variance + eps) · weight` for each row of `weight.len()` elements.
fn layer_norm_in_place(x: &mut [f32], weight: &[f32], eps: f32) {
    for_rows(x, weight.len(), |_, row| {
        let mean = row.iter().map(|&x| f64::from(x)).sum::<f64>() / row.len() as f64;
        row.iter_mut().for_each(|x| *x = (f64::from(*x) - mean) as f32);
        let factor = 1.0 / (simd::sum_of_squares(row) / row.len() as f64 + f64::from(eps)).sqrt();
        for (x, w) in row.iter_mut().zip(weight) {
            *x = *x * factor as f32 * w;
        }
    });
}

/// `x = x / sqrt(mean(x²) + eps) · weight` for each row of `weight.len()` elements.
pub fn rms_norm_in_place(x: &mut [f32], weight: &[f32], eps: f32) {
    rms_norm_groups(x, weight, 1, eps);
}

/// The same where each of `n_group` equal parts of a row has a mean of its own.
pub fn rms_norm_groups(x: &mut [f32], weight: &[f32], n_group: usize, eps: f32) {
    let width = weight.len() / n_group;
    for_rows(x, weight.len(), |_, row| {
        for (part, weight) in row.chunks_exact_mut(width).zip(weight.chunks_exact(width)) {
            let factor = 1.0 / (simd::sum_of_squares(part) / part.len() as f64 + f64::from(eps)).sqrt();
            for (x, w) in part.iter_mut().zip(weight) {
                *x = *x * factor as f32 * w;
            }
        }
    });
}

/// `x *= factor`; nothing where that is 1.
pub fn scale(x: &mut [f32], factor: f32) {
    if factor != 1.0 {
        x.iter_mut().for_each(|x| *x *= factor);
    }
}

/// `x *= sigmoid(gate)`, or of one number of `gate` for each row of `x`.
pub fn sigmoid_gate(x: &mut [f32], gate: &[f32]) {
    let width = x.len() / gate.len();
    for (row, gate) in x.chunks_exact_mut(width).zip(gate) {
        let factor = 1.0 / (1.0 + (-gate).exp());
        row.iter_mut().for_each(|x| *x *= factor);
    }
}

/// `x += y`.
pub fn add(x: &mut [f32], y: &[f32]) {
    for (x, y) in x.iter_mut().zip(y) {
        *x += y;
    }
}

/// Adds `y` to each row of `x` of as many elements.
pub fn add_rows(x: &mut [f32], y: &[f32]) {
    x.chunks_exact_mut(y.len()).for_each(|row| add(row, y));
}

/// `x = activation(x)`.
pub fn activate(x: &mut [f32], activation: Activation) {
    const ROW: usize = 4096;
    let ones = [1.0; ROW];
    let row = |x: &mut [f32]| simd::dispatch(Gate { up: &ones[..x.len()], gate: x, activation });
    if x.len() < PARALLEL { x.chunks_mut(ROW).for_each(row) } else { x.par_chunks_mut(ROW).for_each(row) }
}

/// `gate = activation(gate) · up`.
pub fn gate(gate: &mut [f32], up: &[f32], activation: Activation) {
    const ROW: usize = 4096;
    let row = |(gate, up)| simd::dispatch(Gate { gate, up, activation });
    if gate.len() < PARALLEL {
        row((gate, up));
    } else {
        gate.par_chunks_mut(ROW).zip(up.par_chunks(ROW)).for_each(row);
    }
}

struct Gate<'a> {
    gate: &'a mut [f32],
    up: &'a [f32],
    activation: Activation,
}

impl simd::SimdKernel for Gate<'_> {
    #[inline(always)]
    fn run(self) {
        match self.activation {
            Activation::Silu => self.with(silu_line),
            Activation::GeluTanh => self.with(gelu_tanh),
            Activation::Gelu => self.with(gelu),
            Activation::ReluSquared => self.with(relu_squared),
            Activation::ClampedSwiglu => {
                self.gate.iter_mut().for_each(|g| *g = g.min(LIMIT));
                self.up_with(clamped_silu, |u| u.clamp(-LIMIT, LIMIT) + 1.0);
            }
        }
    }
}

/// `max(x, 0)²`; what is not a number stays what it is.
#[inline(always)]
fn relu_squared(x: &mut [f32; simd::LANES]) {
    x.iter_mut().for_each(|x| *x = if *x < 0.0 { 0.0 } else { *x * *x });
}

/// `x = x · sigmoid(x)`.
pub fn silu(x: &mut [f32]) {
    simd::dispatch(Silu(x));
}

struct Silu<'a>(&'a mut [f32]);

impl simd::SimdKernel for Silu<'_> {
    #[inline(always)]
    fn run(self) {
        let (lines, rest) = self.0.as_chunks_mut();
        lines.iter_mut().for_each(silu_line);
        let mut lanes = [0.0; simd::LANES];
        lanes[..rest.len()].copy_from_slice(rest);
        silu_line(&mut lanes);
        rest.copy_from_slice(&lanes[..rest.len()]);
    }
}

/// What gate and up of [`Activation::ClampedSwiglu`] stay below.
const LIMIT: f32 = 7.0;

impl Gate<'_> {
    #[inline(always)]
    fn with(self, activation: impl Fn(&mut [f32; simd::LANES])) {
        self.up_with(activation, |u| u);
    }

    #[inline(always)]
    fn up_with(self, activation: impl Fn(&mut [f32; simd::LANES]), up_of: impl Fn(f32) -> f32) {
        let (gate, rest) = self.gate.as_chunks_mut();
        let (up, up_rest) = self.up.as_chunks::<{ simd::LANES }>();
        for (g, u) in gate.iter_mut().zip(up) {
            activation(g);
            for i in 0..simd::LANES {
                g[i] *= up_of(u[i]);
            }
        }
        let mut lanes = [0.0; simd::LANES];
        lanes[..rest.len()].copy_from_slice(rest);
        activation(&mut lanes);
        for ((g, l), u) in rest.iter_mut().zip(lanes).zip(up_rest) {
            *g = l * up_of(*u);
        }
    }
}

/// `x · sigmoid(x)`.
#[inline(always)]
fn silu_line(x: &mut [f32; simd::LANES]) {
    let mut e = *x;
    for e in &mut e {
        *e = -*e;
    }
    simd::exp(&mut e);
    for (x, e) in x.iter_mut().zip(e) {
        *x /= 1.0 + e;
    }
}

/// `x · sigmoid(1.702 x)`.
#[inline(always)]
fn clamped_silu(x: &mut [f32; simd::LANES]) {
    let mut e = *x;
    for e in &mut e {
        *e *= -1.702;
    }
    simd::exp(&mut e);
    for (x, e) in x.iter_mut().zip(e) {
        *x /= 1.0 + e;
    }
}

/// `x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³)))`, which is `x · sigmoid(2·…)`.
#[inline(always)]
fn gelu_tanh(x: &mut [f32; simd::LANES]) {
    const SQRT_2_OVER_PI: f32 = 0.797_884_6;
    let mut e = *x;
    for e in &mut e {
        *e = -2.0 * SQRT_2_OVER_PI * *e * (1.0 + 0.044_715 * *e * *e);
    }
    simd::exp(&mut e);
    for (x, e) in x.iter_mut().zip(e) {
        *x /= 1.0 + e;
    }
}

/// `x · Φ(x)`, Φ from the complementary error function: `t · e^p(t) · e^-z²` of `t = 1 / (1 + z/2)`, relative error below
/// 1.2e-7 (Press et al., Numerical Recipes, erfcc).
#[inline(always)]
fn gelu(x: &mut [f32; simd::LANES]) {
    const P: [f32; 10] = [
        0.170_872_77,
        -0.822_152_23,
        1.488_515_9,
        -1.135_204,
        0.278_868_07,
        -0.186_288_06,
        0.096_784_18,
        0.374_091_96,
        1.000_023_7,
        -1.265_512_2,
    ];
    let (mut t, mut e) = (*x, *x);
    for (t, e) in t.iter_mut().zip(&mut e) {
        let z = t.abs() * std::f32::consts::FRAC_1_SQRT_2;
        *t = 1.0 / (1.0 + 0.5 * z);
        *e = P.iter().fold(0.0, |sum, p| sum * *t + p) - z * z;
    }
    simd::exp(&mut e);
    for (x, (t, e)) in x.iter_mut().zip(t.iter().zip(e)) {
        let below = 0.5 * t * e;
        *x *= if *x < 0.0 { below } else { 1.0 - below };
    }
}

/// `cap · tanh(x / cap)`.
pub fn softcap(x: &mut [f32], cap: f32) {
    x.par_chunks_mut(4096).for_each(|x| x.iter_mut().for_each(|x| *x = cap * (*x / cap).tanh()));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `erf(x)` by its series, in f64.
    fn erf(x: f64) -> f64 {
        let (mut term, mut sum) = (x, x);
        for n in 1..200 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * 2.0 / std::f64::consts::PI.sqrt()
    }

    #[test]
    fn gelu_is_that_of_the_error_function() {
        let inputs: Vec<f32> = (-500..=500).map(|i| i as f32 * 0.01).collect();
        let mut x = inputs.clone();
        activate(&mut x, Activation::Gelu);
        for (input, x) in inputs.into_iter().zip(x) {
            let exact = f64::from(input) / 2.0 * (1.0 + erf(f64::from(input) / 2f64.sqrt()));
            let error = (f64::from(x) - exact).abs();
            assert!(error <= 3e-7 * f64::from(input).abs().max(1.0), "gelu({input}) = {x}, not {exact}");
        }
    }
}
