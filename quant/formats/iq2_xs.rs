//! IQ2_XS: 256 weights in 16 sub-blocks of 16, each `d·(2n + 1)/8·T[q]`, 2.3125 bits per weight.
//!
//! The table T is that of IQ2_XXS. Eight weights are a 16-bit word: in its lower nine bits one of 512 grid entries, above
//! them seven stored signs.

use super::{
    block::dequantize,
    codec::Codec,
    grid, grids,
    iq2_xxs::{TABLE, UNIT},
    scalar::Half,
};

/// The block as it lies in the file.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Block {
    /// Scale of the scales.
    pub(crate) d: Half,
    /// Grid entry and signs of eight weights each, little-endian words.
    pub(crate) qs: [[u8; 2]; 32],
    /// `n` of each sub-block, a nibble.
    pub(crate) scales: [u8; 8],
}
const _: () = assert!(size_of::<Block>() == 74);

/// Row of the format table.
pub(crate) const FORMAT: Codec =
    Codec { block: 256, bytes: size_of::<Block>(), dequantize: dequantize::<Block, 256>, quantize: None };

impl Block {
    /// Scale of sub-block `i` (0…15) in units of an eighth of `d`: odd, 1…31.
    #[inline(always)]
    pub(crate) fn scale(&self, i: usize) -> u8 {
        grid::odd(&self.scales, i)
    }

    /// The codes of sub-blocks `2·j` and `2·j + 1`, four per word.
    #[inline(always)]
    pub(crate) fn codes(&self, j: usize) -> [u32; 8] {
        grid::codes_of_3_bits(|l| {
            let word = u16::from_le_bytes(self.qs[4 * j + l]);
            (grids::IQ2_XS[usize::from(word & 511)], grid::even(u32::from(word >> 9)))
        })
    }
}

// SAFETY: `repr(C)` of byte arrays only.
unsafe impl super::block::Block<256> for Block {
    #[inline]
    fn dequantize(&self, out: &mut [f32; 256]) {
        let d = self.d.to_f32() * UNIT;
        grid::dequantize(out, &TABLE, |j| (self.codes(j), [0, 1].map(|half| d * f32::from(self.scale(2 * j + half)))));
    }
}
