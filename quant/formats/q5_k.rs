//! Q5_K: 256 weights in 8 sub-blocks of 32, each `d·sc·q − dmin·m`, 5.5 bits per weight.
//!
//! Q4_K with a fifth bit per weight: bit `i` of `qh[l]` is the top bit of weight `l` of sub-block `i`.

use super::{
    block::{Quantize, dequantize, quantize},
    codec::Codec,
    fit_k,
    q4_k::{pack, pack_scale_min, scale_min},
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
    /// Fifth bits: bit `i` of byte `l` belongs to weight `32·i + l`.
    pub(crate) qh: [u8; 32],
    /// Nibbles, as in Q4_K.
    pub(crate) qs: [u8; 128],
}
const _: () = assert!(size_of::<Block>() == 176);

/// Row of the format table.
pub(crate) const FORMAT: Codec = Codec {
    block: 256,
    bytes: size_of::<Block>(),
    dequantize: dequantize::<Block, 256>,
    quantize: Some(quantize::<Block, 256>),
};

// SAFETY: `repr(C)` of byte arrays only.
unsafe impl super::block::Block<256> for Block {
    #[inline]
    fn dequantize(&self, out: &mut [f32; 256]) {
        let (d, dmin) = (self.d.to_f32(), self.dmin.to_f32());
        let (qs, _) = self.qs.as_chunks::<32>();
        for (i, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let (sc, m) = scale_min(&self.scales, i);
            let (d, m) = (d * f32::from(sc), dmin * f32::from(m));
            let (qs, shift) = (&qs[i / 2], i % 2 * 4);
            for l in 0..32 {
                let q = qs[l] >> shift & 15 | (self.qh[l] >> i & 1) << 4;
                out[l] = d * f32::from(q) - m;
            }
        }
    }
}

impl Quantize<256> for Block {
    #[inline(always)]
    fn quantize(x: &[f32; 256]) -> Self {
        let fit = fit_k::affine(x, 31.0);
        let high = |l: usize| (0..8).fold(0, |bits, i| bits | fit.q[i][l] >> 4 << i);
        Self {
            d: fit.d,
            dmin: fit.dmin,
            scales: pack_scale_min(&fit.scales, &fit.mins),
            qh: std::array::from_fn(high),
            qs: pack(&fit.q),
        }
    }
}
