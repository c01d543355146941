//! Q3_K: 256 weights in 16 sub-blocks of 16, each `d·(sc − 32)·(q − 4)`, 3.4375 bits per weight.
//!
//! The low two bits of the values lie as in Q2_K. The third bit of weight `l + 32·j` is bit `j` of
//! `hmask[l]` (j = 0…7, over the whole block). The 6-bit scales: low four bits of scale `i` in byte
//! `i mod 8`, nibble `i / 8`; high two bits in byte `8 + i mod 4` at shift `2·(i / 4)`.

use super::{block::dequantize, codec::Codec, scalar::Half};

/// The block as it lies in the file.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Block {
    /// Third bits: bit `j` of byte `l` belongs to weight `l + 32·j`.
    pub(crate) hmask: [u8; 32],
    /// Low two bits, 32 bytes per half, as in Q2_K.
    pub(crate) qs: [u8; 64],
    /// 16 packed 6-bit scales: see [`scales`].
    pub(crate) scales: [u8; 12],
    /// Scale of the scales.
    pub(crate) d: Half,
}
const _: () = assert!(size_of::<Block>() == 110);

/// Row of the format table.
pub(crate) const FORMAT: Codec =
    Codec { block: 256, bytes: size_of::<Block>(), dequantize: dequantize::<Block, 256>, quantize: None };

/// The 16 sub-block scales, −32…31.
#[inline(always)]
pub(crate) fn scales(packed: &[u8; 12]) -> [i8; 16] {
    std::array::from_fn(|i| {
        let low = packed[i % 8] >> (i / 8 * 4) & 15;
        let high = packed[8 + i % 4] >> (i / 4 * 2) & 3;
        (low | high << 4) as i8 - 32
    })
}

// SAFETY: `repr(C)` of byte arrays only.
unsafe impl super::block::Block<256> for Block {
    #[inline]
    fn dequantize(&self, out: &mut [f32; 256]) {
        let (d, scales) = (self.d.to_f32(), scales(&self.scales));
        for (i, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            let d = d * f32::from(scales[i]);
            let (column, start, shift) = (i % 2 * 16, i / 8 * 32 + i % 2 * 16, i / 2 % 4 * 2);
            let (qs, high) = (&self.qs[start..start + 16], &self.hmask[column..column + 16]);
            for l in 0..16 {
                let q = (qs[l] >> shift & 3) | (high[l] >> (i / 2) & 1) << 2;
                out[l] = d * f32::from(q as i8 - 4);
            }
        }
    }
}
