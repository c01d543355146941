//! IQ2_XXS: 256 weights in 8 sub-blocks of 32, each `d·(2n + 1)/8·T[q]`, 2.0625 bits per weight.
//!
//! Eight weights are one of 256 grid entries and share seven stored signs. A sub-block is four bytes of entries and a word
//! that has the signs in its lower 28 bits and `n` in the upper four.

use super::{block::dequantize, codec::Codec, grid, grids, scalar::Half};

/// The three magnitudes of IQ2, then their negatives; codes have three bits.
pub(crate) const TABLE: [i8; 16] = [8, 25, 43, 0, -8, -25, -43, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// What a magnitude is worth beside an odd scale.
pub(crate) const UNIT: f32 = 1.0 / 8.0;

/// The block as it lies in the file.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Block {
    /// Scale of the scales.
    pub(crate) d: Half,
    /// Grid entries of eight weights each, then signs and scale as a little-endian word, per sub-block.
    pub(crate) qs: [[u8; 8]; 8],
}
const _: () = assert!(size_of::<Block>() == 66);

/// Row of the format table.
pub(crate) const FORMAT: Codec =
    Codec { block: 256, bytes: size_of::<Block>(), dequantize: dequantize::<Block, 256>, quantize: None };

impl Block {
    /// Scale of sub-block `j` (0…7) in units of an eighth of `d`: odd, 1…31.
    #[inline(always)]
    pub(crate) fn scale(&self, j: usize) -> u8 {
        (self.qs[j][7] >> 4) * 2 + 1
    }

    /// The codes of sub-block `j`, four per word.
    #[inline(always)]
    pub(crate) fn codes(&self, j: usize) -> [u32; 8] {
        let [a, b, c, d, word @ ..] = self.qs[j];
        let (entries, word) = ([a, b, c, d], u32::from_le_bytes(word));
        grid::codes_of_3_bits(|l| (grids::IQ2_XXS[usize::from(entries[l])], grid::even(word >> (7 * l))))
    }
}

// SAFETY: `repr(C)` of byte arrays only.
unsafe impl super::block::Block<256> for Block {
    #[inline]
    fn dequantize(&self, out: &mut [f32; 256]) {
        let d = self.d.to_f32() * UNIT;
        grid::dequantize(out, &TABLE, |j| (self.codes(j), [d * f32::from(self.scale(j)); 2]));
    }
}
