//! Q4_0: 32 weights `d·(q − 8)`, 4.5 bits per weight.
//!
//! One f16 scale, then 16 bytes of two 4-bit values each: byte `i` holds weight `i` in its low nibble
//! and weight `i + 16` in its high one. Zero is representable (q = 8); the range is lopsided, −8…7.

use super::{
    block::{Quantize, dequantize, quantize},
    codec::Codec,
    fit,
    scalar::Half,
};

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
pub(crate) const FORMAT: Codec = Codec {
    block: 32,
    bytes: size_of::<Block>(),
    dequantize: dequantize::<Block, 32>,
    quantize: Some(quantize::<Block, 32>),
};

// SAFETY: `repr(C)` of byte arrays only.
unsafe impl super::block::Block<32> for Block {
    #[inline]
    fn dequantize(&self, out: &mut [f32; 32]) {
        let d = self.d.to_f32();
        for (i, q) in self.qs.iter().enumerate() {
            out[i] = d * f32::from((q & 15) as i8 - 8);
            out[i + 16] = d * f32::from((q >> 4) as i8 - 8);
        }
    }
}

impl Quantize<32> for Block {
    #[inline(always)]
    fn quantize(x: &[f32; 32]) -> Self {
        let (d, q) = fit::symmetric_block(x, 8.0);
        Self { d, qs: pack(&q) }
    }
}

/// 32 four-bit values as nibbles: value `i` low, value `i + 16` high. Upper bits are dropped.
#[inline(always)]
pub(crate) fn pack(q: &[u8; 32]) -> [u8; 16] {
    std::array::from_fn(|i| q[i] & 15 | q[i + 16] << 4)
}
