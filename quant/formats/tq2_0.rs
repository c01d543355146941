//! TQ2_0: 256 ternary weights `d·(q − 1)`, 2.0625 bits per weight.
//!
//! The 2-bit values lie as in Q2_K: those of one half of the block share 32 bytes, of which byte `l` holds weights `l`,
//! `l + 32`, `l + 64` and `l + 96` of that half at shifts 0, 2, 4, 6. The f16 scale is behind them.

use super::{
    block::{Quantize, dequantize, quantize},
    codec::Codec,
    fit,
    scalar::Half,
    ternary,
};

/// The block as it lies in the file.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Block {
    /// 2-bit values, 32 bytes per half.
    pub(crate) qs: [u8; 64],
    /// What every code of the block is multiplied by.
    pub(crate) d: Half,
}
const _: () = assert!(size_of::<Block>() == 66);

/// Row of the format table.
pub(crate) const FORMAT: Codec = Codec {
    block: 256,
    bytes: size_of::<Block>(),
    dequantize: dequantize::<Block, 256>,
    quantize: Some(quantize::<Block, 256>),
};

// SAFETY: `repr(C)` of byte arrays only.
unsafe impl super::block::Block<256> for Block {
    #[inline]
    fn dequantize(&self, out: &mut [f32; 256]) {
        for (j, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let codes = self.qs[j / 4 * 32..].iter().map(|byte| byte >> (j % 4 * 2) & 3);
            ternary::dequantize(self.d, codes, out);
        }
    }
}

impl Quantize<256> for Block {
    #[inline(always)]
    fn quantize(x: &[f32; 256]) -> Self {
        let x = &fit::tame(x, 65504.0);
        let (d, q) = ternary::nearest(x, 1.0, ternary::scales(x));
        let byte = |i: usize| (0..4).fold(0, |byte, j| byte | q[i / 32 * 128 + j * 32 + i % 32] << (2 * j));
        Self { qs: std::array::from_fn(byte), d }
    }
}
