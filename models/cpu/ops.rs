//! Elementwise operations and norms over `[tokens][width]`, parallel over tokens.

use rayon::prelude::*;

use super::simd;
use crate::spec::{Activation, Norm};

/// Elements below which a parallel region costs more than it saves.
const PARALLEL: usize = 1 << 15;
/// Elements that a thread takes at a time.
const PART: usize = 4096;

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
    for_rows(x, weight.len(), |_, x| {
        simd::dispatch(Centre(x));
        simd::dispatch(RmsNorm { x, weight, eps });
    });
}

/// Takes the mean off each element.
struct Centre<'a>(&'a mut [f32]);

impl simd::SimdKernel for Centre<'_> {
    #[inline(always)]
    fn run(self) {
        let mean = simd::sum(self.0) / self.0.len() as f64;
        for x in self.0 {
            *x = (f64::from(*x) - mean) as f32;
        }
    }
}

/// `x = x / sqrt(mean(x²) + eps) · weight` for each row of `weight.len()` elements.
pub fn rms_norm_in_place(x: &mut [f32], weight: &[f32], eps: f32) {
    rms_norm_groups(x, weight, 1, eps);
}

/// The same where each of `n_group` equal parts of a row has a mean of its own.
pub fn rms_norm_groups(x: &mut [f32], weight: &[f32], n_group: usize, eps: f32) {
    let width = weight.len() / n_group;
    for_rows(x, weight.len(), |_, row| {
        for (x, weight) in row.chunks_exact_mut(width).zip(weight.chunks_exact(width)) {
            simd::dispatch(RmsNorm { x, weight, eps });
        }
    });
}

struct RmsNorm<'a> {
    x: &'a mut [f32],
    weight: &'a [f32],
    eps: f32,
}

impl simd::SimdKernel for RmsNorm<'_> {
    #[inline(always)]
    fn run(self) {
        let factor = 1.0 / (simd::sum_of_squares(self.x) / self.x.len() as f64 + f64::from(self.eps)).sqrt();
        for (x, w) in self.x.iter_mut().zip(self.weight) {
            *x = *x * factor as f32 * w;
        }
    }
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
    let part = |x: &mut [f32], y: &[f32]| x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
    match x.len() {
        ..PARALLEL => part(x, y),
        _ => x.par_chunks_mut(PART).zip(y.par_chunks(PART)).for_each(|(x, y)| part(x, y)),
    }
}

/// Adds `y` to each row of `x` of as many elements.
pub fn add_rows(x: &mut [f32], y: &[f32]) {
    x.chunks_exact_mut(y.len()).for_each(|row| add(row, y));
}

/// `x = activation(x)`.
pub fn activate(x: &mut [f32], activation: Activation) {
    let ones = [1.0; PART];
    let row = |x: &mut [f32]| simd::dispatch(Gate { up: &ones[..x.len()], gate: x, activation });
    if x.len() < PARALLEL { x.chunks_mut(PART).for_each(row) } else { x.par_chunks_mut(PART).for_each(row) }
}

/// `gate = activation(gate) · up`.
pub fn gate(gate: &mut [f32], up: &[f32], activation: Activation) {
    if gate.len() < PARALLEL {
        gate_part(gate, up, activation);
    } else {
        let parts = gate.par_chunks_mut(PART).zip(up.par_chunks(PART));
        parts.for_each(|(gate, up)| gate_part(gate, up, activation));
    }
}

/// The same on one thread.
pub fn gate_part(gate: &mut [f32], up: &[f32], activation: Activation) {
    simd::dispatch(Gate { gate, up, activation });
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
            Activation::Silu => self.with::<Silu>(),
            Activation::GeluTanh => self.with::<GeluTanh>(),
            Activation::Gelu => self.with::<Gelu>(),
            Activation::ReluSquared => self.with::<ReluSquared>(),
            Activation::ClampedSwiglu => self.with::<ClampedSwiglu>(),
        }
    }
}

impl Gate<'_> {
    #[inline(always)]
    fn with<A: Elementwise>(self) {
        let (gate, rest) = self.gate.as_chunks_mut();
        let (up, up_rest) = self.up.as_chunks::<{ simd::LANES }>();
        for (g, u) in gate.iter_mut().zip(up) {
            // In registers: behind a pointer the compiler multiplies one after the other.
            let (mut line, mut factors) = (*g, *u);
            A::line(&mut line);
            for i in 0..simd::LANES {
                factors[i] = A::up(factors[i]);
                line[i] *= factors[i];
            }
            *g = line;
        }
        activate_rest::<A>(rest);
        for (g, u) in rest.iter_mut().zip(up_rest) {
            *g *= A::up(*u);
        }
    }
}

/// `x = x · sigmoid(x)`.
pub fn silu(x: &mut [f32]) {
    match x.len() {
        ..PARALLEL => simd::dispatch(SiluKernel(x)),
        _ => x.par_chunks_mut(PART).for_each(|x| simd::dispatch(SiluKernel(x))),
    }
}

struct SiluKernel<'a>(&'a mut [f32]);

impl simd::SimdKernel for SiluKernel<'_> {
    #[inline(always)]
    fn run(self) {
        let (lines, rest) = self.0.as_chunks_mut();
        for line in lines {
            Silu::line(line);
        }
        activate_rest::<Silu>(rest);
    }
}

/// An activation function. A type, not a function: what is handed over as a function is called, and then it lacks the
/// instructions of the loop around it.
trait Elementwise {
    /// `x = activation(x)`; implementations are `#[inline(always)]`.
    fn line(x: &mut [f32; simd::LANES]);
    /// What the activation is multiplied with, of an element of `up`.
    #[inline(always)]
    fn up(u: f32) -> f32 {
        u
    }
}

/// The activations of less than a line.
#[inline(always)]
fn activate_rest<A: Elementwise>(rest: &mut [f32]) {
    let mut line = [0.0; simd::LANES];
    line[..rest.len()].copy_from_slice(rest);
    A::line(&mut line);
    rest.copy_from_slice(&line[..rest.len()]);
}

/// `max(x, 0)²`; what is not a number stays what it is.
struct ReluSquared;

impl Elementwise for ReluSquared {
    #[inline(always)]
    fn line(x: &mut [f32; simd::LANES]) {
        for x in x {
            *x = if *x < 0.0 { 0.0 } else { *x * *x };
        }
    }
}

/// `x · sigmoid(x)`.
struct Silu;

impl Elementwise for Silu {
    #[inline(always)]
    fn line(x: &mut [f32; simd::LANES]) {
        let mut e = *x;
        for e in &mut e {
            *e = -*e;
        }
        over_one_plus_exp(x, e);
    }
}

/// `x · sigmoid(1.702 x)` of `min(x, 7)`, times one more than `up` between −7 and 7.
struct ClampedSwiglu;

/// What gate and up of [`ClampedSwiglu`] stay below.
const LIMIT: f32 = 7.0;

impl Elementwise for ClampedSwiglu {
    #[inline(always)]
    fn line(x: &mut [f32; simd::LANES]) {
        for x in x.iter_mut() {
            *x = x.min(LIMIT);
        }
        let mut e = *x;
        for e in &mut e {
            *e *= -1.702;
        }
        over_one_plus_exp(x, e);
    }

    #[inline(always)]
    fn up(u: f32) -> f32 {
        u.clamp(-LIMIT, LIMIT) + 1.0
    }
}

/// `x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³)))`, which is `x · sigmoid(2·…)`.
struct GeluTanh;

impl Elementwise for GeluTanh {
    #[inline(always)]
    fn line(x: &mut [f32; simd::LANES]) {
        const SQRT_2_OVER_PI: f32 = 0.797_884_6;
        let mut e = *x;
        for e in &mut e {
            *e = -2.0 * SQRT_2_OVER_PI * *e * (1.0 + 0.044_715 * *e * *e);
        }
        over_one_plus_exp(x, e);
    }
}

/// `x / (1 + exp(e))`.
#[inline(always)]
fn over_one_plus_exp(x: &mut [f32; simd::LANES], mut e: [f32; simd::LANES]) {
    simd::exp(&mut e);
    for i in 0..simd::LANES {
        x[i] /= 1.0 + e[i];
    }
}

/// `x · Φ(x)`, Φ from the complementary error function: `t · e^p(t) · e^-z²` of `t = 1 / (1 + z/2)`, relative error below
/// 1.2e-7 (Press et al., Numerical Recipes, erfcc).
struct Gelu;

impl Elementwise for Gelu {
    #[inline(always)]
    fn line(x: &mut [f32; simd::LANES]) {
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
        for i in 0..simd::LANES {
            let z = x[i].abs() * std::f32::consts::FRAC_1_SQRT_2;
            t[i] = 1.0 / (1.0 + 0.5 * z);
            let mut sum = 0.0;
            for p in P {
                sum = sum * t[i] + p;
            }
            e[i] = sum - z * z;
        }
        simd::exp(&mut e);
        for i in 0..simd::LANES {
            let below = 0.5 * t[i] * e[i];
            x[i] *= if x[i] < 0.0 { below } else { 1.0 - below };
        }
    }
}

/// `cap · tanh(x / cap)`.
pub fn softcap(x: &mut [f32], cap: f32) {
    x.par_chunks_mut(PART).for_each(|x| x.iter_mut().for_each(|x| *x = cap * (*x / cap).tanh()));
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
