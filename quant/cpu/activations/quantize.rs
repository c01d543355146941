//! Floats to integers that share a scale.

use crate::cpu::layout::{BLOCK, ROUND};

/// The scale and the bits of floats whose low ones are the nearest integers, at most ± `levels` (below 2²²). A NaN
/// or infinity gives a NaN or infinite scale, so that it is seen in the result.
#[inline(always)]
pub(super) fn quantize(x: &[f32; BLOCK], levels: f32) -> (f32, [u32; BLOCK]) {
    // Magnitudes compare like their bits, NaN above all.
    let bits = x.iter().fold(0, |m, v| m.max(v.to_bits() as i32 & i32::MAX));
    let max = f32::from_bits(bits as u32);
    // Below this the scale's inverse would overflow; nothing this small changes a sum.
    if max < 1e-30 {
        return (0.0, [0; BLOCK]);
    }
    let inverse = levels / max;
    (max / levels, std::array::from_fn(|i| (x[i] * inverse + ROUND).to_bits()))
}
