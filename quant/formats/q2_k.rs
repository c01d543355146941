//! Q2_K: 256 weights in 16 sub-blocks of 16, each `d·sc·q − dmin·m`, 2.625 bits per weight.
//!
//! One byte per sub-block holds its 4-bit scale (low nibble) and 4-bit minimum (high). The 2-bit values
//! of one half of the block (128 weights) share 32 bytes: byte `l` holds weights `l`, `l + 32`, `l + 64`
//! and `l + 96` of that half at shifts 0, 2, 4, 6.

use super::{block::dequantize, codec::Codec, scalar::Half};

/// The block as it lies in the file.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Block {
    /// Per sub-block of 16: scale in the low nibble, minimum in the high one.
    pub(crate) scales: [u8; 16],
    /// 2-bit values, 32 bytes per half.
    pub(crate) qs: [u8; 64],
    /// Scale of the scales.
    pub(crate) d: Half,
    /// Scale of the minimums.
    pub(crate) dmin: Half,
}
const _: () = assert!(size_of::<Block>() == 84);

/// Row of the format table.
pub(crate) const FORMAT: Codec =
    Codec { block: 256, bytes: size_of::<Block>(), dequantize: dequantize::<Block, 256>, quantize: None };

// SAFETY: `repr(C)` of byte arrays only.
unsafe impl super::block::Block<256> for Block {
    #[inline]
    fn dequantize(&self, out: &mut [f32; 256]) {
        let (d, dmin) = (self.d.to_f32(), self.dmin.to_f32());
        for (i, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            let (d, m) = (d * f32::from(self.scales[i] & 15), dmin * f32::from(self.scales[i] >> 4));
            let (start, shift) = (i / 8 * 32 + i % 2 * 16, i / 2 % 4 * 2);
            for (o, q) in out.iter_mut().zip(&self.qs[start..start + 16]) {
                *o = d * f32::from(q >> shift & 3) - m;
            }
        }
    }
}
