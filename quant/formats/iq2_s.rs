//! IQ2_S: 256 weights in 16 sub-blocks of 16, each `d·(2n + 1)/8·T[q]`, 2.5625 bits per weight.
//!
//! The table T is that of IQ2_XXS. Eight weights are one of 1024 grid entries, of whose index the upper two bits are in
//! `qh`; each weight has a sign bit.

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
    /// Grid entries of eight weights each: the lower eight bits.
    pub(crate) qs: [u8; 32],
    /// Signs, one bit per weight.
    pub(crate) signs: [u8; 32],
    /// Upper two bits of the entries: those of entry `4·j + l` in byte `j` at shift `2·l`.
    pub(crate) qh: [u8; 8],
    /// `n` of each sub-block, a nibble.
    pub(crate) scales: [u8; 8],
}
const _: () = assert!(size_of::<Block>() == 82);

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
        let high = usize::from(self.qh[j]);
        grid::codes_of_3_bits(|l| {
            let entry = usize::from(self.qs[4 * j + l]) | (high >> (2 * l) & 3) << 8;
            (grids::IQ2_S[entry], self.signs[4 * j + l])
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
