//! Q5_0: 32 weights `d·(q − 16)`, 5.5 bits per weight.
//!
//! Q4_0 with a fifth bit per weight: bit `i` of the little-endian word `qh` is the top bit of weight `i`.

use super::{
    block::{Quantize, dequantize, quantize},
    codec::Codec,
    fit, q4_0,
    scalar::Half,
};

/// The block as it lies in the file.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Block {
    /// Scale.
    pub(crate) d: Half,
    /// Fifth bits as a little-endian u32: bit `i` belongs to weight `i`.
    pub(crate) qh: [u8; 4],
    /// Nibbles: low = weight `i`, high = weight `i + 16`.
    pub(crate) qs: [u8; 16],
}
const _: () = assert!(size_of::<Block>() == 22);

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
        for (o, q) in out.iter_mut().zip(unpack(&self.qs, &self.qh)) {
            *o = d * f32::from(q as i8 - 16);
        }
    }
}

/// The 32 five-bit values of a Q5_0 or Q5_1 block.
#[inline(always)]
pub(crate) fn unpack(qs: &[u8; 16], qh: &[u8; 4]) -> [u8; 32] {
    let high = u32::from_le_bytes(*qh);
    let mut q = [0; 32];
    for i in 0..16 {
        q[i] = qs[i] & 15 | ((high >> i & 1) as u8) << 4;
        q[i + 16] = qs[i] >> 4 | ((high >> (i + 16) & 1) as u8) << 4;
    }
    q
}

/// The other way: nibbles and fifth bits of 32 five-bit values.
#[inline(always)]
pub(crate) fn pack(q: &[u8; 32]) -> ([u8; 16], [u8; 4]) {
    let high = q.iter().enumerate().fold(0u32, |bits, (i, q)| bits | u32::from(q >> 4 & 1) << i);
    (q4_0::pack(q), high.to_le_bytes())
}

impl Quantize<32> for Block {
    #[inline(always)]
    fn quantize(x: &[f32; 32]) -> Self {
        let (d, q) = fit::symmetric_block(x, 16.0);
        let (qs, qh) = pack(&q);
        Self { d, qh, qs }
    }
}
