//! Q2_0: 64 weights `d·(q − 1)`, 2.25 bits per weight.
//!
//! One f16 scale, then 16 bytes of four 2-bit values each, the first weight lowest. The fourth value, 2, is there for
//! weights that are not ternary. (A fork of llama.cpp has blocks of 128 weights under the same number: its files are too
//! short for these, and refused for that.)

use super::{
    block::{Quantize, dequantize, quantize},
    codec::Codec,
    fit,
    scalar::Half,
    spread, ternary,
};

/// The block as it lies in the file.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Block {
    /// What every code of the block is multiplied by.
    pub(crate) d: Half,
    /// Values of two bits: weight `i` in byte `i / 4`.
    pub(crate) qs: [u8; 16],
}
const _: () = assert!(size_of::<Block>() == 18);

/// Row of the format table.
pub(crate) const FORMAT: Codec = Codec {
    block: 64,
    bytes: size_of::<Block>(),
    dequantize: dequantize::<Block, 64>,
    quantize: Some(quantize::<Block, 64>),
};

impl Block {
    /// The codes of half `j` of the block, four per word.
    #[inline(always)]
    pub(crate) fn codes(&self, j: usize) -> [u32; 8] {
        let mut quads = [0; 8];
        for (q, byte) in quads.iter_mut().zip(&self.qs[8 * j..8 * j + 8]) {
            *q = spread::pairs(*byte);
        }
        quads
    }
}

// SAFETY: `repr(C)` of byte arrays only.
unsafe impl super::block::Block<64> for Block {
    #[inline]
    fn dequantize(&self, out: &mut [f32; 64]) {
        let codes = self.qs.iter().flat_map(|byte| [0, 2, 4, 6].map(|shift| byte >> shift & 3));
        ternary::dequantize(self.d, codes, out);
    }
}

impl Quantize<64> for Block {
    /// The nearest of three blocks: two of ternary weights, and one that has all four values.
    #[inline(always)]
    fn quantize(x: &[f32; 64]) -> Self {
        let x = &fit::tame(x, 2.0 * 65504.0);
        let [mean, largest] = ternary::scales(x);
        // Of `q` in −2…1, which are the values here with another sign.
        let lopsided = -fit::symmetric(x, 2.0);
        let (d, q) = ternary::nearest(x, 2.0, [mean, largest, lopsided]);
        Self { d, qs: std::array::from_fn(|i| (0..4).fold(0, |byte, j| byte | q[4 * i + j] << (2 * j))) }
    }
}
