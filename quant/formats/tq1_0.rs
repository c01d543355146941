//! TQ1_0: 256 ternary weights `d·(q − 1)`, 1.6875 bits per weight.
//!
//! A byte holds five digits of base 3, the first weight's first, as the fraction that they are of 3⁵ (rounded up to a
//! 256th): a digit is what is left of the point once the byte is multiplied by 3. The digits of a group of bytes are
//! weights in the order of the digits, then of the bytes: 32 bytes of five digits are 160 weights, 16 bytes are 80, and
//! four bytes of four digits the last 16.

use super::{
    block::{Quantize, dequantize, quantize},
    codec::Codec,
    fit,
    scalar::Half,
    ternary,
};

/// The block as it lies in the file.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Block {
    /// 32 bytes and 16 bytes of five digits.
    pub(crate) qs: [u8; 48],
    /// Four digits each.
    pub(crate) qh: [u8; 4],
    /// What every code of the block is multiplied by.
    pub(crate) d: Half,
}
const _: () = assert!(size_of::<Block>() == 54);

/// Row of the format table.
pub(crate) const FORMAT: Codec = Codec {
    block: 256,
    bytes: size_of::<Block>(),
    dequantize: dequantize::<Block, 256>,
    quantize: Some(quantize::<Block, 256>),
};

/// Digit `n` of each byte.
#[inline(always)]
fn digits(bytes: &[u8], n: usize, out: &mut [u8]) {
    const POWERS: [u8; 5] = [1, 3, 9, 27, 81];
    for (o, byte) in out.iter_mut().zip(bytes) {
        *o = ((u16::from(byte.wrapping_mul(POWERS[n])) * 3) >> 8) as u8;
    }
}

/// Bytes of `n` digits from the codes of as many groups of weights as digits.
#[inline(always)]
fn join<const B: usize>(codes: &[u8], n: usize) -> [u8; B] {
    std::array::from_fn(|byte| {
        let number = (0..5).fold(0, |number, i| 3 * number + if i < n { u16::from(codes[i * B + byte]) } else { 0 });
        (number * 256).div_ceil(243) as u8
    })
}

impl Block {
    /// The codes of sub-block `j` of 32 weights.
    #[inline(always)]
    pub(crate) fn codes(&self, j: usize) -> [u8; 32] {
        let (five, rest) = self.qs.split_at(32);
        let mut out = [0; 32];
        match j {
            0..5 => digits(five, j, &mut out),
            5 | 6 => (0..2).for_each(|half| digits(rest, 2 * (j - 5) + half, &mut out[16 * half..])),
            _ => {
                digits(rest, 4, &mut out);
                (0..4).for_each(|n| digits(&self.qh, n, &mut out[16 + 4 * n..]));
            }
        }
        out
    }
}

// SAFETY: `repr(C)` of byte arrays only.
unsafe impl super::block::Block<256> for Block {
    #[inline]
    fn dequantize(&self, out: &mut [f32; 256]) {
        for (j, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            ternary::dequantize(self.d, self.codes(j), out);
        }
    }
}

impl Quantize<256> for Block {
    #[inline(always)]
    fn quantize(x: &[f32; 256]) -> Self {
        let x = &fit::tame(x, 65504.0);
        let (d, q) = ternary::nearest(x, 1.0, ternary::scales(x));
        let (five, rest): ([u8; 32], [u8; 16]) = (join(&q[..160], 5), join(&q[160..240], 5));
        let mut qs = [0; 48];
        qs[..32].copy_from_slice(&five);
        qs[32..].copy_from_slice(&rest);
        Self { qs, qh: join(&q[240..], 4), d }
    }
}
