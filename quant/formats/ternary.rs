//! What TQ1_0, TQ2_0 and Q2_0 share: weights `d·(q − 1)`, made for models whose weights are −d, 0 and d.

use super::{fit, scalar::Half};

/// The weights of codes 0…3, in units of the scale.
pub(crate) const TABLE: [i8; 16] = [-1, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// The weights of codes.
#[inline(always)]
pub(crate) fn dequantize(d: Half, codes: impl IntoIterator<Item = u8>, out: &mut [f32]) {
    let d = d.to_f32();
    for (o, q) in out.iter_mut().zip(codes) {
        *o = d * f32::from(q as i8 - 1);
    }
}

/// The scale for which weights −d, 0 and d are nearest to `x`, and the largest magnitude: where all that are not zero are of
/// one magnitude, both are it.
#[inline(always)]
pub(crate) fn scales<const N: usize>(x: &[f32; N]) -> [f32; 2] {
    let mut magnitudes = x.map(f32::abs);
    magnitudes.sort_unstable_by(|a, b| b.total_cmp(a));
    // With d on the n largest alone the best d is their mean, which takes n·d² off Σx².
    let (mut sum, mut best, mut d) = (0.0, 0.0, 0.0);
    for (i, magnitude) in magnitudes.iter().enumerate() {
        sum += magnitude;
        let mean = sum / (i + 1) as f32;
        if mean * sum > best {
            (best, d) = (mean * sum, mean);
        }
    }
    [d, magnitudes[0]]
}

/// Scale and codes of the nearest block among those with one of these scales; codes reach from 0 to `top + 1`.
#[inline(always)]
pub(crate) fn nearest<const N: usize>(
    x: &[f32; N],
    top: f32,
    scales: impl IntoIterator<Item = f32>,
) -> (Half, [u8; N]) {
    let (mut least, mut best) = (f32::INFINITY, Half::default());
    for d in scales {
        let stored = fit::half(d);
        let (d, inverse) = (stored.to_f32(), fit::inverse(stored.to_f32()));
        let error = fit::error(x, |x| d * fit::round(x * inverse, -1.0, top));
        if error < least {
            (least, best) = (error, stored);
        }
    }
    let inverse = fit::inverse(best.to_f32());
    (best, x.map(|x| fit::round_to_byte(x * inverse + 1.0, 0.0, top + 1.0)))
}
