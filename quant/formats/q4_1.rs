//! Q4_1: 32 weights `d·q + m`, 5 bits per weight.
//!
//! Scale and minimum as f16, then nibbles in the order of Q4_0. The values run from `m` up to `m + 15·d`.

use super::{
    block::{Quantize, dequantize, quantize},
    codec::Codec,
    fit,
    q4_0::pack,
    scalar::Half,
};

/// The block as it lies in the file.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Block {
    /// Scale.
    pub(crate) d: Half,
    /// Minimum.
    pub(crate) m: Half,
    /// Nibbles: low = weight `i`, high = weight `i + 16`.
    pub(crate) qs: [u8; 16],
}
const _: () = assert!(size_of::<Block>() == 20);

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
        let (d, m) = (self.d.to_f32(), self.m.to_f32());
        for (i, q) in self.qs.iter().enumerate() {
            out[i] = d * f32::from(q & 15) + m;
            out[i + 16] = d * f32::from(q >> 4) + m;
        }
    }
}

impl Quantize<32> for Block {
    #[inline(always)]
    fn quantize(x: &[f32; 32]) -> Self {
        let (d, m, q) = fit::affine_block(x, 15.0);
        Self { d, m, qs: pack(&q) }
    }
}
