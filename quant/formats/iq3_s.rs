//! IQ3_S: 256 weights in 8 sub-blocks of 32, each `d·(2n + 1)·T[q]`, 3.4375 bits per weight.
//!
//! Four weights are one of 512 grid entries, of whose index the ninth bit is in `qh`; each weight has a sign bit.

use super::{block::dequantize, codec::Codec, grid, grids, scalar::Half};

/// The eight magnitudes, then their negatives.
pub(crate) const TABLE: [i8; 16] = [1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15];

/// The block as it lies in the file.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Block {
    /// Scale of the scales.
    pub(crate) d: Half,
    /// Grid entries, of four weights each: the lower eight bits.
    pub(crate) qs: [u8; 64],
    /// Their ninth bits: bit `i` of byte `j` belongs to entry `8·j + i`.
    pub(crate) qh: [u8; 8],
    /// Signs, one bit per weight.
    pub(crate) signs: [u8; 32],
    /// `n` of each sub-block, a nibble.
    pub(crate) scales: [u8; 4],
}
const _: () = assert!(size_of::<Block>() == 110);

/// Row of the format table.
pub(crate) const FORMAT: Codec =
    Codec { block: 256, bytes: size_of::<Block>(), dequantize: dequantize::<Block, 256>, quantize: None };

impl Block {
    /// Scale of sub-block `j` (0…7) in units of `d`: odd, 1…31.
    #[inline(always)]
    pub(crate) fn scale(&self, j: usize) -> u8 {
        grid::odd(&self.scales, j)
    }

    /// The codes of sub-block `j`, four per word.
    #[inline(always)]
    pub(crate) fn codes(&self, j: usize) -> [u32; 8] {
        let (qs, high) = (&self.qs[8 * j..8 * j + 8], usize::from(self.qh[j]));
        let entry = |i: usize| grids::IQ3_S[usize::from(qs[i]) | (high >> i & 1) << 8];
        grid::codes_of_4_bits(|l| ([entry(2 * l), entry(2 * l + 1)], self.signs[4 * j + l]))
    }
}

// SAFETY: `repr(C)` of byte arrays only.
unsafe impl super::block::Block<256> for Block {
    #[inline]
    fn dequantize(&self, out: &mut [f32; 256]) {
        let d = self.d.to_f32();
        grid::dequantize(out, &TABLE, |j| (self.codes(j), [d * f32::from(self.scale(j)); 2]));
    }
}
