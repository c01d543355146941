//! NVFP4: 64 weights in 4 sub-blocks of 16, each `d·T[q]`, 4.5 bits per weight.
//!
//! Scales are 8-bit floats without a sign; `T` is that of MXFP4: the values of a 4-bit float, doubled, so that `d` is half
//! the scale. They reach 448 at most and 2⁻⁹ at least, so that files have a second scale for a whole matrix beside it, in a
//! tensor of its own.

use super::{block::dequantize, codec::Codec, mxfp4::TABLE, scalar::f16_to_f32};

/// The block as it lies in the file.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Block {
    /// Scales: 4 bits of exponent above 3 of mantissa; the uppermost bit says nothing.
    pub(crate) scales: [u8; 4],
    /// Nibbles of each sub-block: low = weight `i`, high = weight `i + 8`.
    pub(crate) qs: [[u8; 8]; 4],
}
const _: () = assert!(size_of::<Block>() == 36);

/// Row of the format table.
pub(crate) const FORMAT: Codec =
    Codec { block: 64, bytes: size_of::<Block>(), dequantize: dequantize::<Block, 64>, quantize: None };

/// What an f16 with the exponent and mantissa of a scale is multiplied with to give half the scale: exponents are less
/// 7 in a scale, less 15 in an f16.
pub(crate) const HALF_SCALE: f32 = 128.0;

impl Block {
    /// Exponent and mantissa of the scale of sub-block `i`, where they are in an f16 but for a shift by 7.
    #[inline(always)]
    pub(crate) fn scale(&self, i: usize) -> u8 {
        match self.scales[i] {
            // Not a number, for whoever writes it; zero for all who read it.
            0x7f => 0,
            scale => scale & 0x7f,
        }
    }

    /// The codes of half `j` of the block, four per word.
    #[inline(always)]
    pub(crate) fn codes(&self, j: usize) -> [u32; 8] {
        let mut quads = [0; 8];
        for (i, q) in quads.iter_mut().enumerate() {
            let part = &self.qs[2 * j + i / 4];
            let bytes = part.as_chunks::<4>().0[i % 2];
            *q = u32::from_le_bytes(bytes) >> (i % 4 / 2 * 4) & 0x0f0f_0f0f;
        }
        quads
    }
}

// SAFETY: `repr(C)` of byte arrays only.
unsafe impl super::block::Block<64> for Block {
    #[inline]
    fn dequantize(&self, out: &mut [f32; 64]) {
        for (i, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            let d = f16_to_f32(u16::from(self.scale(i)) << 7) * HALF_SCALE;
            for (j, q) in self.qs[i].iter().enumerate() {
                out[j] = d * f32::from(TABLE[usize::from(q & 15)]);
                out[j + 8] = d * f32::from(TABLE[usize::from(q >> 4)]);
            }
        }
    }
}
