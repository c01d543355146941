//! Q6_K: 256 weights in 16 sub-blocks of 16, each `d·sc·(q − 32)`, 6.5625 bits per weight.
//!
//! Scales are signed bytes. In each half of the block (128 weights), byte `l` of the 64 bytes of `ql`
//! holds the low nibbles of weights `l` (low) and `l + 64` (high), and byte `l` of the 32 bytes of `qh`
//! the upper two bits of weights `l`, `l + 32`, `l + 64`, `l + 96` at shifts 0, 2, 4, 6.

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
    /// Low nibbles, 64 bytes per half.
    pub(crate) ql: [u8; 128],
    /// Upper two bits, 32 bytes per half.
    pub(crate) qh: [u8; 64],
    /// One scale per sub-block of 16.
    pub(crate) scales: [i8; 16],
    /// Scale of the scales.
    pub(crate) d: Half,
}
const _: () = assert!(size_of::<Block>() == 210);

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
        let d = self.d.to_f32();
        // One group of 32 weights at a time: both its sub-blocks have their bits at the same shifts.
        for (i, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let (half, j) = (i / 4, i % 4);
            let (low, high) = (half * 64 + j % 2 * 32, half * 32);
            let (ql, qh) = (&self.ql[low..low + 32], &self.qh[high..high + 32]);
            let d = [d * f32::from(self.scales[2 * i]), d * f32::from(self.scales[2 * i + 1])];
            for l in 0..32 {
                let q = ql[l] >> (j / 2 * 4) & 15 | (qh[l] >> (2 * j) & 3) << 4;
                out[l] = d[l / 16] * f32::from(q as i8 - 32);
            }
        }
    }
}

impl Quantize<256> for Block {
    #[inline(always)]
    fn quantize(x: &[f32; 256]) -> Self {
        let fit = fit_k::symmetric(x);
        // Weight `l` of group `j` (of 32) of a half.
        let q = |half: usize, j: usize, l: usize| fit.q[half * 128 + j * 32 + l];
        let low = |i: usize| q(i / 64, i / 32 % 2, i % 32) & 15 | q(i / 64, 2 + i / 32 % 2, i % 32) << 4;
        let high = |i: usize| (0..4).fold(0, |bits, j| bits | q(i / 32, j, i % 32) >> 4 << (2 * j));
        Self { ql: std::array::from_fn(low), qh: std::array::from_fn(high), scales: fit.scales, d: fit.d }
    }
}
