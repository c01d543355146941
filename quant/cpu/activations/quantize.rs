//! Floats to integers that share a scale.

use crate::{
    cpu::layout::{BLOCK, ROUND},
    simd::Lanes,
};

/// The scale of floats, and in `codes`, by register, integers in the low bits of which are the nearest ones, at most ± `levels`
/// (below 2¹⁵), beside those of [`ROUND`]. A NaN or infinity gives a NaN or infinite scale, so that it is seen in the result.
///
/// # Safety
/// The machine can run `L`.
#[inline(always)]
pub(super) unsafe fn quantize<L: Lanes>(x: &[f32; BLOCK], levels: f32, codes: &mut [L::V; BLOCK]) -> f32 {
    // SAFETY: the machine can run `L`; `i + L::ROWS ≤ 32` floats.
    unsafe {
        // Magnitudes compare like their bits, NaN above all.
        let mut largest = L::splat(0);
        for i in (0..BLOCK).step_by(L::ROWS) {
            let bits = L::f32_to_bits(L::load_f32(x.as_ptr().add(i)));
            largest = L::max(largest, L::and(bits, u32::MAX >> 1));
        }
        let max = f32::from_bits(L::largest(largest) as u32);
        // Below this the scale's inverse would overflow; nothing this small changes a sum.
        let (scale, inverse) = if max < 1e-30 { (0.0, 0.0) } else { (max / levels, levels / max) };
        let (inverse, one, round) = (L::splat_f32(inverse), L::splat_f32(1.0), L::splat_f32(ROUND));
        for i in (0..BLOCK).step_by(L::ROWS) {
            let x = L::mul(L::load_f32(x.as_ptr().add(i)), inverse);
            codes[i / L::ROWS] = L::f32_to_bits(L::fma(x, one, round));
        }
        scale
    }
}
