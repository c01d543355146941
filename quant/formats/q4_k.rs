//! Q4_K: 256 weights in 8 sub-blocks of 32, each `d·sc·q − dmin·m`, 4.5 bits per weight.
//!
//! `d` and `dmin` are f16; the eight 6-bit scales and eight 6-bit minimums are packed into 12 bytes
//! (see [`scale_min`]). Chunk `c` of 32 bytes of `qs` holds two sub-blocks: `2c` in the low nibbles and
//! `2c + 1` in the high ones.

use super::{
    block::{Quantize, dequantize, quantize},
    codec::Codec,
    fit_k,
    scalar::Half,
};

/// The block as it lies in the file.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Block {
    /// Scale of the scales.
    pub(crate) d: Half,
    /// Scale of the minimums.
    pub(crate) dmin: Half,
    /// Packed 6-bit scales and minimums: see [`scale_min`].
    pub(crate) scales: [u8; 12],
    /// Nibbles: byte `32·c + l` holds weights `64·c + l` (low) and `64·c + 32 + l` (high).
    pub(crate) qs: [u8; 128],
}
const _: () = assert!(size_of::<Block>() == 144);

/// Row of the format table.
pub(crate) const FORMAT: Codec = Codec {
    block: 256,
    bytes: size_of::<Block>(),
    dequantize: dequantize::<Block, 256>,
    quantize: Some(quantize::<Block, 256>),
};

/// Scale and minimum of sub-block `i` (0…7) of a Q4_K or Q5_K block, 0…63 each.
///
/// Bytes 0–3 hold scales 0–3 and bytes 4–7 minimums 0–3 in their low six bits. Byte 8 + j holds the low
/// nibbles of scale 4 + j (low) and minimum 4 + j (high), whose upper two bits fill up bytes j and 4 + j.
#[inline(always)]
pub(crate) fn scale_min(scales: &[u8; 12], i: usize) -> (u8, u8) {
    if i < 4 {
        (scales[i] & 63, scales[i + 4] & 63)
    } else {
        let low = scales[i + 4];
        (low & 15 | scales[i - 4] >> 6 << 4, low >> 4 | scales[i] >> 6 << 4)
    }
}

// SAFETY: `repr(C)` of byte arrays only.
unsafe impl super::block::Block<256> for Block {
    #[inline]
    fn dequantize(&self, out: &mut [f32; 256]) {
        let (d, dmin) = (self.d.to_f32(), self.dmin.to_f32());
        let (qs, _) = self.qs.as_chunks::<32>();
        for (i, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let (sc, m) = scale_min(&self.scales, i);
            let (d, m) = (d * f32::from(sc), dmin * f32::from(m));
            let shift = i % 2 * 4;
            for (o, q) in out.iter_mut().zip(&qs[i / 2]) {
                *o = d * f32::from(q >> shift & 15) - m;
            }
        }
    }
}

/// [`scale_min`] the other way: the 12 bytes of eight scales and eight minimums.
pub(crate) fn pack_scale_min(scales: &[u8; 8], mins: &[u8; 8]) -> [u8; 12] {
    std::array::from_fn(|i| match i {
        0..4 => scales[i] | scales[i + 4] >> 4 << 6,
        4..8 => mins[i - 4] | mins[i] >> 4 << 6,
        _ => scales[i - 4] & 15 | mins[i - 4] << 4,
    })
}

/// The nibbles of eight sub-blocks, pairs of them sharing bytes. Upper bits are dropped.
pub(crate) fn pack(q: &[[u8; 32]; 8]) -> [u8; 128] {
    std::array::from_fn(|i| {
        let (pair, l) = (i / 32 * 2, i % 32);
        q[pair][l] & 15 | q[pair + 1][l] << 4
    })
}

impl Quantize<256> for Block {
    #[inline(always)]
    fn quantize(x: &[f32; 256]) -> Self {
        let fit = fit_k::affine(x, 15.0);
        Self { d: fit.d, dmin: fit.dmin, scales: pack_scale_min(&fit.scales, &fit.mins), qs: pack(&fit.q) }
    }
}
