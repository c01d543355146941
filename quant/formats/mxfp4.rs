//! MXFP4: 32 weights `d·T[q]`, 4.25 bits per weight (OCP Microscaling 1.0).
//!
//! The scale is a power of two in one byte. `T` holds the sixteen values of a 4-bit float (E2M1) doubled, so that they
//! are integers; `d` is half the scale.

use super::{block::dequantize, codec::Codec};

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
pub(crate) const FORMAT: Codec =
    Codec { block: 32, bytes: size_of::<Block>(), dequantize: dequantize::<Block, 32>, quantize: None };

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
