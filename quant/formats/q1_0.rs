//! Q1_0: 128 weights, each `d` or `−d`, 1.125 bits per weight.
//!
//! One f16 scale, then a bit per weight, the first one lowest: 1 is `d`.

use super::{
    block::{Quantize, dequantize, quantize},
    codec::Codec,
    fit,
    scalar::Half,
    spread,
};

/// The block as it lies in the file.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Block {
    /// What every code of the block is multiplied by.
    pub(crate) d: Half,
    /// Weight `i` is bit `i mod 8` of byte `i / 8`.
    pub(crate) qs: [u8; 16],
}
const _: () = assert!(size_of::<Block>() == 18);

/// Row of the format table.
pub(crate) const FORMAT: Codec = Codec {
    block: 128,
    bytes: size_of::<Block>(),
    dequantize: dequantize::<Block, 128>,
    quantize: Some(quantize::<Block, 128>),
};

impl Block {
    /// The bits of sub-block `j` of 32 weights, four per word.
    #[inline(always)]
    pub(crate) fn codes(&self, j: usize) -> [u32; 8] {
        let mut quads = [0; 8];
        for (i, q) in quads.iter_mut().enumerate() {
            *q = spread::bits(self.qs[4 * j + i / 2] >> (i % 2 * 4));
        }
        quads
    }
}

// SAFETY: `repr(C)` of byte arrays only.
unsafe impl super::block::Block<128> for Block {
    #[inline]
    fn dequantize(&self, out: &mut [f32; 128]) {
        let d = self.d.to_f32();
        for (i, o) in out.iter_mut().enumerate() {
            *o = if self.qs[i / 8] >> (i % 8) & 1 == 1 { d } else { -d };
        }
    }
}

impl Quantize<128> for Block {
    /// The nearest block: the signs of the weights and the mean of their magnitudes.
    #[inline(always)]
    fn quantize(x: &[f32; 128]) -> Self {
        let x = &fit::tame(x, 65504.0);
        let sum = fit::Sums::of(x, |x| if x < 0.0 { -1.0 } else { 1.0 }).qx;
        let byte = |i: usize| (0..8).fold(0, |byte, j| byte | u8::from(x[8 * i + j] >= 0.0) << j);
        Self { d: fit::half(sum / 128.0), qs: std::array::from_fn(byte) }
    }
}
