//! Q5_1: 32 weights `d·q + m`, 6 bits per weight.
//!
//! Q4_1 with a fifth bit per weight, kept as in Q5_0.

use super::{
    block::{Quantize, dequantize, quantize},
    codec::Codec,
    fit,
    q5_0::{pack, unpack},
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
    /// Fifth bits as a little-endian u32: bit `i` belongs to weight `i`.
    pub(crate) qh: [u8; 4],
    /// Nibbles: low = weight `i`, high = weight `i + 16`.
    pub(crate) qs: [u8; 16],
}
const _: () = assert!(size_of::<Block>() == 24);

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
        for (o, q) in out.iter_mut().zip(unpack(&self.qs, &self.qh)) {
            *o = d * f32::from(q) + m;
        }
    }
}

impl Quantize<32> for Block {
    #[inline(always)]
    fn quantize(x: &[f32; 32]) -> Self {
        let (d, m, q) = fit::affine_block(x, 31.0);
        let (qs, qh) = pack(&q);
        Self { d, m, qh, qs }
    }
}
