//! Divisors of RoPE frequencies, as files carry them in `rope_freqs.weight`.

use std::f64::consts::PI;

/// Divisors of RoPE frequencies with which the first `n_rot` elements of a head turn.
pub fn turning(n_rot: usize, head_dim: usize) -> Vec<f32> {
    (0..head_dim / 2).map(|i| if i < n_rot / 2 { 1.0 } else { 1e30 }).collect()
}

/// Llama 3's divisors of RoPE frequencies: wavelengths beyond the original context are stretched by
/// `factor`, short ones are left alone, and those between are blended.
pub fn llama3_factors(head_dim: usize, base: f32, factor: f32) -> Vec<f32> {
    const ORIGINAL_CONTEXT: f64 = 8192.0;
    const LOW: f64 = 1.0;
    const HIGH: f64 = 4.0;
    let factor = f64::from(factor);
    let divisor = |i: usize| {
        let wavelength = 2.0 * PI * f64::from(base).powf(2.0 * i as f64 / head_dim as f64);
        if wavelength < ORIGINAL_CONTEXT / HIGH {
            1.0
        } else if wavelength > ORIGINAL_CONTEXT / LOW {
            factor
        } else {
            let smooth = (ORIGINAL_CONTEXT / wavelength - LOW) / (HIGH - LOW);
            1.0 / ((1.0 - smooth) / factor + smooth)
        }
    };
    (0..head_dim / 2).map(|i| divisor(i) as f32).collect()
}
