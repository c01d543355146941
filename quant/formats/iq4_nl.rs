//! IQ4_NL: 32 weights `d·T[q]`, 4.5 bits per weight.
//!
//! Q4_0 with a table of 16 unevenly spaced values in place of `q − 8`: denser near zero, where the
//! weights are.

use super::{block::dequantize, codec::Codec, scalar::Half};

/// The 16 values that a nibble selects, also used by IQ4_XS.
pub(crate) const TABLE: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// The block as it lies in the file.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Block {
    /// Scale.
    pub(crate) d: Half,
    /// Nibbles: low = weight `i`, high = weight `i + 16`.
    pub(crate) qs: [u8; 16],
}
const _: () = assert!(size_of::<Block>() == 18);

/// Row of the format table.
pub(crate) const FORMAT: Codec =
    Codec { block: 32, bytes: size_of::<Block>(), dequantize: dequantize::<Block, 32>, quantize: None };

// SAFETY: `repr(C)` of byte arrays only.
unsafe impl super::block::Block<32> for Block {
    #[inline]
    fn dequantize(&self, out: &mut [f32; 32]) {
        let d = self.d.to_f32();
        for (i, q) in self.qs.iter().enumerate() {
            out[i] = d * f32::from(TABLE[usize::from(q & 15)]);
            out[i + 16] = d * f32::from(TABLE[usize::from(q >> 4)]);
        }
    }
}
