//! IQ3_XXS: 256 weights in 8 sub-blocks of 32, each `d·(2n + 1)/4·T[q]`, 3.0625 bits per weight.
//!
//! Four weights are one of 256 grid entries; eight share seven stored signs. The word of a sub-block has the signs in its
//! lower 28 bits and `n` in the upper four.

use super::{block::dequantize, codec::Codec, grid, grids, scalar::Half};

/// The eight magnitudes, then their negatives.
pub(crate) const TABLE: [i8; 16] = [4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62];
/// What a magnitude is worth beside an odd scale.
pub(crate) const UNIT: f32 = 1.0 / 4.0;

/// The block as it lies in the file.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Block {
    /// Scale of the scales.
    pub(crate) d: Half,
    /// Grid entries, of four weights each.
    pub(crate) qs: [u8; 64],
    /// Signs and scale of each sub-block, a little-endian word.
    pub(crate) words: [[u8; 4]; 8],
}
const _: () = assert!(size_of::<Block>() == 98);

/// Row of the format table.
pub(crate) const FORMAT: Codec =
    Codec { block: 256, bytes: size_of::<Block>(), dequantize: dequantize::<Block, 256>, quantize: None };

impl Block {
    /// Scale of sub-block `j` (0…7) in units of a quarter of `d`: odd, 1…31.
    #[inline(always)]
    pub(crate) fn scale(&self, j: usize) -> u8 {
        (self.words[j][3] >> 4) * 2 + 1
    }

    /// The codes of sub-block `j`, four per word.
    #[inline(always)]
    pub(crate) fn codes(&self, j: usize) -> [u32; 8] {
        let (qs, word) = (&self.qs[8 * j..8 * j + 8], u32::from_le_bytes(self.words[j]));
        let entry = |i: usize| grids::IQ3_XXS[usize::from(qs[i])];
        grid::codes_of_4_bits(|l| ([entry(2 * l), entry(2 * l + 1)], grid::even(word >> (7 * l))))
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
