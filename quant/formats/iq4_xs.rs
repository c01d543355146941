//! IQ4_XS: 256 weights in 8 sub-blocks of 32, each `d·(ls − 32)·T[q]`, 4.25 bits per weight.
//!
//! The table T is that of IQ4_NL. Each 6-bit scale has its low four bits in `scales_l` (a nibble per
//! sub-block) and its upper two in the word `scales_h` (two bits per sub-block). A sub-block's 16 bytes
//! of nibbles are in the order of Q4_0, not in that of the other K-quants.

use super::{block::dequantize, codec::Codec, iq4_nl::TABLE, scalar::Half};

/// The block as it lies in the file.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Block {
    /// Scale of the scales.
    pub(crate) d: Half,
    /// Upper two bits of the scales as a little-endian u16: see [`scale`].
    pub(crate) scales_h: [u8; 2],
    /// Low four bits of the scales.
    pub(crate) scales_l: [u8; 4],
    /// Nibbles, 16 bytes per sub-block: low = weight `i`, high = weight `i + 16`.
    pub(crate) qs: [u8; 128],
}
const _: () = assert!(size_of::<Block>() == 136);

/// Row of the format table.
pub(crate) const FORMAT: Codec =
    Codec { block: 256, bytes: size_of::<Block>(), dequantize: dequantize::<Block, 256>, quantize: None };

/// Scale of sub-block `i` (0…7), −32…31.
#[inline(always)]
pub(crate) fn scale(block: &Block, i: usize) -> i8 {
    let low = block.scales_l[i / 2] >> (i % 2 * 4) & 15;
    let high = (u16::from_le_bytes(block.scales_h) >> (2 * i) & 3) as u8;
    (low | high << 4) as i8 - 32
}

// SAFETY: `repr(C)` of byte arrays only.
unsafe impl super::block::Block<256> for Block {
    #[inline]
    fn dequantize(&self, out: &mut [f32; 256]) {
        let d = self.d.to_f32();
        let (qs, _) = self.qs.as_chunks::<16>();
        for (i, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let d = d * f32::from(scale(self, i));
            for (l, q) in qs[i].iter().enumerate() {
                out[l] = d * f32::from(TABLE[usize::from(q & 15)]);
                out[l + 16] = d * f32::from(TABLE[usize::from(q >> 4)]);
            }
        }
    }
}
