//! IQ1_S: 256 weights in 8 sub-blocks of 32, each `d·(2n + 1)·(g ± ⅛)`, 1.5625 bits per weight.
//!
//! Eight weights are one of 2048 grid entries, whose `g` are −1, 0 and 1; all of a sub-block are moved by an eighth, up or
//! down. A word of a sub-block has the upper three bits of its four entries, then `n` in three bits, then which way.

use super::{block::dequantize, codec::Codec, grid, grids, scalar::Half};

/// In eighths: the three values moved up, then moved down. Codes have three bits.
pub(crate) const TABLE: [i8; 16] = [-7, 1, 9, 0, -9, -1, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// What a value of the table is worth beside an odd scale.
pub(crate) const UNIT: f32 = 1.0 / 8.0;

/// The block as it lies in the file.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Block {
    /// Scale of the scales.
    pub(crate) d: Half,
    /// Grid entries of eight weights each: the lower eight bits.
    pub(crate) qs: [u8; 32],
    /// The little-endian word of each sub-block.
    pub(crate) qh: [[u8; 2]; 8],
}
const _: () = assert!(size_of::<Block>() == 50);

/// Row of the format table.
pub(crate) const FORMAT: Codec =
    Codec { block: 256, bytes: size_of::<Block>(), dequantize: dequantize::<Block, 256>, quantize: None };

impl Block {
    /// Scale of sub-block `j` (0…7) in units of `d`: odd, 1…15.
    #[inline(always)]
    pub(crate) fn scale(&self, j: usize) -> u8 {
        (self.qh[j][1] >> 4 & 7) * 2 + 1
    }

    /// The codes of sub-block `j`, four per word.
    #[inline(always)]
    pub(crate) fn codes(&self, j: usize) -> [u32; 8] {
        let word = usize::from(u16::from_le_bytes(self.qh[j]));
        let down = if word >> 15 == 1 { 0xff } else { 0 };
        grid::codes_of_3_bits(|l| (grids::IQ1_S[usize::from(self.qs[4 * j + l]) | (word >> (3 * l) & 7) << 8], down))
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
