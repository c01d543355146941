//! MXFP4: 32 weights `d·T[q]`, 4.25 bits per weight (OCP Microscaling 1.0).
//!
//! The scale is a power of two in one byte. `T` holds the sixteen values of a 4-bit float (E2M1) doubled, so that they
//! are integers; `d` is half the scale.

use super::{
    block::{Quantize, dequantize, quantize},
    codec::Codec,
    fit,
    q4_0::pack,
};

/// Twice the values of E2M1: sign, two bits of exponent, one of mantissa.
pub(crate) const TABLE: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// The block as it lies in the file.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Block {
    /// Exponent: the scale is `2^(e − 127)`.
    pub(crate) e: u8,
    /// Nibbles: low = weight `i`, high = weight `i + 16`.
    pub(crate) qs: [u8; 16],
}
const _: () = assert!(size_of::<Block>() == 17);

/// Row of the format table.
pub(crate) const FORMAT: Codec = Codec {
    block: 32,
    bytes: size_of::<Block>(),
    dequantize: dequantize::<Block, 32>,
    quantize: Some(quantize::<Block, 32>),
};

/// Largest exponent that is written: of the next one some weights would be infinite. The smallest is 1: the inverse of
/// what is below would be.
const LARGEST: u8 = 252;

/// `2^(e − 128)`, half the scale: subnormal below `e = 2`.
fn half_scale(e: u8) -> f32 {
    f32::from_bits(if e < 2 { 0x0020_0000 << e } else { (u32::from(e) - 1) << 23 })
}

// SAFETY: `repr(C)` of bytes only.
unsafe impl super::block::Block<32> for Block {
    #[inline]
    fn dequantize(&self, out: &mut [f32; 32]) {
        let d = half_scale(self.e);
        for (i, q) in self.qs.iter().enumerate() {
            out[i] = d * f32::from(TABLE[usize::from(q & 15)]);
            out[i + 16] = d * f32::from(TABLE[usize::from(q >> 4)]);
        }
    }
}

impl Quantize<32> for Block {
    /// The block of least squared error; of exponents as good, the one of which the largest weight is 8 to 16 steps.
    #[inline(always)]
    fn quantize(x: &[f32; 32]) -> Self {
        let x = &fit::tame(x, 12.0 * half_scale(LARGEST));
        let (low, high) = fit::range(x);
        let largest = if -low >= high { -low } else { high };
        // `d` is such that the largest weight is 8 to 16 steps. 2d has the value 16, which d lacks; d/2 is finer where
        // most weights are and reaches 6. No others are as good: 4d has no value up to 16 that 2d lacks, and d/4 gains
        // less by the small weights (a sixteenth each) than it loses by the largest.
        let e = ((largest.to_bits() >> 23) as u8).saturating_sub(2).clamp(1, LARGEST);
        // In steps of d, so that squares neither overflow nor vanish.
        let steps = x.map(|x| x.abs() * fit::inverse(half_scale(e)));
        let (mut least, mut best, mut values) = (f32::INFINITY, e, [0.0; 32]);
        for (candidate, d) in [(e, 1.0), (e + 1, 2.0), (e - 1, 0.5)] {
            let error = fit::error(&steps, |x| d * nearest(x * (1.0 / d)));
            if error < least && (1..=LARGEST).contains(&candidate) {
                (least, best, values) = (error, candidate, steps.map(|x| nearest(x * (1.0 / d))));
            }
        }
        let mut codes = values.map(|value| (1..8).map(|i| u8::from(value >= f32::from(TABLE[i]))).sum());
        for (code, x) in codes.iter_mut().zip(x) {
            // Zero has no sign.
            *code |= u8::from(*x < 0.0 && *code > 0) << 3;
        }
        Self { e: best, qs: pack(&codes) }
    }
}

/// The nearest magnitude of the table; of two as near the one with the even code.
#[inline(always)]
fn nearest(x: f32) -> f32 {
    let step = if x < 4.0 {
        1.0
    } else if x < 8.0 {
        2.0
    } else {
        4.0
    };
    let value = step * fit::round(x * (1.0 / step), 0.0, 4.0);
    if value < 12.0 { value } else { 12.0 }
}
