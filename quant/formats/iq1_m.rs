//! IQ1_M: 256 weights in 16 sub-blocks of 16, each `d·(2n + 1)·(g ± ⅛)`, 1.75 bits per weight.
//!
//! Values and grid are those of IQ1_S; here each entry says which way its eight weights are moved. The scales are four
//! words: `n` of four sub-blocks, three bits each, and in the uppermost four bits a quarter of the f16 `d`.

use super::{
    block::dequantize,
    codec::Codec,
    grid, grids,
    iq1_s::{TABLE, UNIT},
    scalar::Half,
};

/// The block as it lies in the file.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Block {
    /// Grid entries of eight weights each: the lower eight bits.
    pub(crate) qs: [u8; 32],
    /// A nibble of each entry: the upper three bits of its index, and whether it is moved down.
    pub(crate) qh: [u8; 16],
    /// Little-endian words with the scales.
    pub(crate) scales: [[u8; 2]; 4],
}
const _: () = assert!(size_of::<Block>() == 56);

/// Row of the format table.
pub(crate) const FORMAT: Codec =
    Codec { block: 256, bytes: size_of::<Block>(), dequantize: dequantize::<Block, 256>, quantize: None };

impl Block {
    /// Scale of the scales.
    #[inline(always)]
    pub(crate) fn d(&self) -> Half {
        let [a, b, c, d] = self.scales.map(|[_, high]| high >> 4);
        Half([a | b << 4, c | d << 4])
    }

    /// Scale of sub-block `i` (0…15) in units of `d`: odd, 1…15.
    #[inline(always)]
    pub(crate) fn scale(&self, i: usize) -> u8 {
        (u16::from_le_bytes(self.scales[i / 4]) >> (i % 4 * 3) & 7) as u8 * 2 + 1
    }

    /// The codes of 32 weights, sub-blocks `2·j` and `2·j + 1`, four per word.
    #[inline(always)]
    pub(crate) fn codes(&self, j: usize) -> [u32; 8] {
        grid::codes_of_3_bits(|l| {
            let nibble = usize::from(self.qh[2 * j + l / 2] >> (l % 2 * 4));
            let down = if nibble & 8 > 0 { 0xff } else { 0 };
            (grids::IQ1_S[usize::from(self.qs[4 * j + l]) | (nibble & 7) << 8], down)
        })
    }
}

// SAFETY: `repr(C)` of byte arrays only.
unsafe impl super::block::Block<256> for Block {
    #[inline]
    fn dequantize(&self, out: &mut [f32; 256]) {
        let d = self.d().to_f32() * UNIT;
        grid::dequantize(out, &TABLE, |j| (self.codes(j), [0, 1].map(|half| d * f32::from(self.scale(2 * j + half)))));
    }
}
