//! Which codes and scales each file format becomes in a tile: one row per format.

use super::{
    codes::{Bits1, Bits2, Bits2Table, Bits3, Bits3Table, Bits4, Bits4Table, Bits5, Bits6, Bits8, Codes},
    file::{FileBlocks, Packed},
    scales::{
        Exponent, FloatHalves, NibbleHalves, Parts, PerBlock, PerBlockMin, Scales, SignedHalves, SixBit, SixBitHalves,
        SixBitMin,
    },
};
use crate::formats::{
    block::blocks, iq1_m, iq1_s, iq2_s, iq2_xs, iq2_xxs, iq3_s, iq3_xxs, iq4_nl, iq4_xs, mxfp4, nvfp4, q1_0, q2_0,
    q2_k, q3_k, q4_0, q4_1, q4_k, q5_0, q5_1, q5_k, q6_k, q8_0, scalar::Half, spread, tq1_0, tq2_0,
};

/// A file block that tiles are made of.
pub(in crate::cpu) trait TileFormat: Copy {
    /// How its codes are stored in a tile.
    type Codes: Codes;
    /// How its scales are stored in a tile.
    type Scales: Scales;
    /// How it is read without a tile.
    type File: FileBlocks;
    /// The blocks in these bytes of a file.
    fn blocks(bytes: &[u8]) -> &[Self];
    /// The quads of sub-block `j` of 32 columns: unsigned codes, right-aligned.
    fn quads(&self, j: usize) -> [u32; 8];
    /// Scale and minimum of the block, and the integer scales of its sub-blocks.
    fn parts(&self) -> Parts;
}

/// One row: type, file block, columns per block, codes, scales, how it is read without a tile, and how a tile is made. `$` is a dollar sign for the macro
/// that is written here.
macro_rules! tile_formats {
    ($d:tt $($ty:ident, $format:ident($n:literal): $codes:ty, $scales:ty, $file:ty, |$b:ident, $j:pat_param| $read:expr, $parts:expr;)*) => {
        /// Runs a body with a name as the [`TileFormat`] of a type, or another one for types that are not quantized.
        macro_rules! with_format {
            ($d ty:expr, $d F:ident => $d body:expr, $d other:expr) => {
                match $d ty {
                    $(crate::GgmlType::$ty => {
                        type $d F = crate::formats::$format::Block;
                        $d body
                    })*
                    crate::GgmlType::F32 | crate::GgmlType::F16 | crate::GgmlType::BF16 => $d other,
                }
            };
        }
        pub(in crate::cpu) use with_format;

        $(
        impl TileFormat for $format::Block {
            type Codes = $codes;
            type Scales = $scales;
            type File = $file;
            fn blocks(bytes: &[u8]) -> &[Self] {
                blocks::<Self, $n>(bytes)
            }
            #[inline(always)]
            fn quads(&self, $j: usize) -> [u32; 8] {
                let $b = self;
                $read
            }
            #[inline(always)]
            fn parts(&self) -> Parts {
                let $b = self;
                $parts
            }
        })*
    };
}

tile_formats! { $
    Q1_0, q1_0(128): Bits1, PerBlock<4>, Packed, |b, j| b.codes(j), scale(b.d);
    Q2_0, q2_0(64): Bits2Table<q2_0::Block>, PerBlock<2>, Packed, |b, j| b.codes(j), scale(b.d);
    Q4_0, q4_0(32): Bits4, PerBlock<1>, Self, |b, _| nibbles(&b.qs), scale(b.d);
    Q4_1, q4_1(32): Bits4, PerBlockMin, Packed, |b, _| nibbles(&b.qs), scales(b.d, b.m, [0; 16]);
    Q5_0, q5_0(32): Bits5, PerBlock<1>, Self, |b, _| nibbles_5(&b.qs, b.qh), scale(b.d);
    Q5_1, q5_1(32): Bits5, PerBlockMin, Packed, |b, _| nibbles_5(&b.qs, b.qh), scales(b.d, b.m, [0; 16]);
    Q8_0, q8_0(32): Bits8, PerBlock<1>, Self, |b, _| quads(|i| b.qs[i] as u8).map(|q| q ^ each(0x80)), scale(b.d);
    IQ4_NL, iq4_nl(32): Bits4Table<iq4_nl::Block>, PerBlock<1>, Packed, |b, _| nibbles(&b.qs), scale(b.d);
    MXFP4, mxfp4(32): Bits4Table<mxfp4::Block>, Exponent, Packed, |b, _| nibbles(&b.qs), scales(NO_HALF, NO_HALF, [b.e; 16]);
    NVFP4, nvfp4(64): Bits4Table<mxfp4::Block>, FloatHalves, Packed, |b, j| b.codes(j),
        scales(NO_HALF, NO_HALF, std::array::from_fn(|i| b.scale(i % 4)));
    TQ1_0, tq1_0(256): Bits2Table<q2_0::Block>, PerBlock<8>, Packed, |b, j| { let codes = b.codes(j); quads(|i| codes[i]) }, scale(b.d);
    TQ2_0, tq2_0(256): Bits2Table<q2_0::Block>, PerBlock<8>, Packed, |b, j| field(chunk(&b.qs, j / 4), j % 4 * 2, 3), scale(b.d);
    Q2_K, q2_k(256): Bits2, NibbleHalves, Packed, |b, j| field(chunk(&b.qs, j / 4), j % 4 * 2, 3), scales(b.d, b.dmin, b.scales);
    Q3_K, q3_k(256): Bits3, SixBitHalves, Packed,
        |b, j| with(field(chunk(&b.qs, j / 4), j % 4 * 2, 3), field(&b.hmask, j, 1), 2),
        scales(b.d, b.d, q3_k::scales(&b.scales).map(|s| (s + 32) as u8));
    Q4_K, q4_k(256): Bits4, SixBitMin, Self,
        |b, j| field(chunk(&b.qs, j / 2), j % 2 * 4, 15), scales(b.d, b.dmin, scales_mins(&b.scales));
    Q5_K, q5_k(256): Bits5, SixBitMin, Self,
        |b, j| with(field(chunk(&b.qs, j / 2), j % 2 * 4, 15), field(&b.qh, j, 1), 4),
        scales(b.d, b.dmin, scales_mins(&b.scales));
    Q6_K, q6_k(256): Bits6, SignedHalves, Self, |b, j| {
        let low = field(chunk(&b.ql, j / 4 * 2 + j % 2), j % 4 / 2 * 4, 15);
        with(low, field(chunk(&b.qh, j / 4), j % 4 * 2, 3), 4)
    }, scales(b.d, b.d, b.scales.map(|s| s as u8));
    IQ4_XS, iq4_xs(256): Bits4Table<iq4_nl::Block>, SixBit, Packed, |b, j| nibbles(&b.qs.as_chunks().0[j]),
        six_bits(b.d, 8, |i| iq4_xs::scale(b, i));
    IQ1_S, iq1_s(256): Bits3Table<iq1_s::Block>, SixBit, Packed, |b, j| b.codes(j), six_bits(b.d, 8, |i| b.scale(i) as i8);
    IQ1_M, iq1_m(256): Bits3Table<iq1_s::Block>, SixBitHalves, Packed, |b, j| b.codes(j), six_bits(b.d(), 16, |i| b.scale(i) as i8);
    IQ2_XXS, iq2_xxs(256): Bits3Table<iq2_xxs::Block>, SixBit, Packed, |b, j| b.codes(j), six_bits(b.d, 8, |i| b.scale(i) as i8);
    IQ2_XS, iq2_xs(256): Bits3Table<iq2_xxs::Block>, SixBitHalves, Packed, |b, j| b.codes(j), six_bits(b.d, 16, |i| b.scale(i) as i8);
    IQ2_S, iq2_s(256): Bits3Table<iq2_xxs::Block>, SixBitHalves, Packed, |b, j| b.codes(j), six_bits(b.d, 16, |i| b.scale(i) as i8);
    IQ3_XXS, iq3_xxs(256): Bits4Table<iq3_xxs::Block>, SixBit, Packed, |b, j| b.codes(j), six_bits(b.d, 8, |i| b.scale(i) as i8);
    IQ3_S, iq3_s(256): Bits4Table<iq3_s::Block>, SixBit, Packed, |b, j| b.codes(j), six_bits(b.d, 8, |i| b.scale(i) as i8);
}

/// Of formats without an f16 scale.
const NO_HALF: Half = Half([0; 2]);

/// The same byte in all four columns of a quad.
const fn each(byte: u8) -> u32 {
    u32::from_ne_bytes([byte; 4])
}

/// 32 bytes as quads.
#[inline(always)]
fn quads(byte: impl Fn(usize) -> u8) -> [u32; 8] {
    // A loop: compilers make no vector code of `array::from_fn`.
    let mut quads = [0; 8];
    for (i, q) in quads.iter_mut().enumerate() {
        *q = u32::from_le_bytes([byte(4 * i), byte(4 * i + 1), byte(4 * i + 2), byte(4 * i + 3)]);
    }
    quads
}

#[inline(always)]
fn chunk(bytes: &[u8], i: usize) -> &[u8; 32] {
    &bytes.as_chunks().0[i]
}

/// `byte >> shift & mask` of each byte.
#[inline(always)]
fn field(bytes: &[u8; 32], shift: usize, mask: u8) -> [u32; 8] {
    let mut quads = quads(|i| bytes[i]);
    for q in &mut quads {
        *q = *q >> shift & each(mask);
    }
    quads
}

/// Upper bits added to the codes.
#[inline(always)]
fn with(mut low: [u32; 8], high: [u32; 8], shift: usize) -> [u32; 8] {
    for (q, high) in low.iter_mut().zip(high) {
        *q |= high << shift;
    }
    low
}

/// The layout of the Q4_0 family: columns `i` and `i + 16` share a byte.
#[inline(always)]
fn nibbles(qs: &[u8; 16]) -> [u32; 8] {
    let mut quads = quads(|i| qs[i % 16]);
    for (j, q) in quads.iter_mut().enumerate() {
        *q = *q >> (j / 4 * 4) & each(15);
    }
    quads
}

/// [`nibbles`] with fifth bits: bit `i` belongs to column `i`.
#[inline(always)]
fn nibbles_5(qs: &[u8; 16], qh: [u8; 4]) -> [u32; 8] {
    let mut high = [0; 8];
    for (j, q) in high.iter_mut().enumerate() {
        *q = spread::bits(qh[j / 2] >> (j % 2 * 4));
    }
    with(nibbles(qs), high, 4)
}

#[inline(always)]
fn scale(d: Half) -> Parts {
    scales(d, d, [0; 16])
}

#[inline(always)]
fn scales(d: Half, m: Half, values: [u8; 16]) -> Parts {
    Parts { d, m, values }
}

/// `n` scales of −32…31.
#[inline(always)]
fn six_bits(d: Half, n: usize, scale: impl Fn(usize) -> i8) -> Parts {
    let mut values = [0; 16];
    for (i, value) in values[..n].iter_mut().enumerate() {
        *value = (scale(i) + 32) as u8;
    }
    scales(d, d, values)
}

/// 8 scales, then 8 minimums.
#[inline(always)]
fn scales_mins(packed: &[u8; 12]) -> [u8; 16] {
    let mut values = [0; 16];
    for i in 0..8 {
        (values[i], values[i + 8]) = q4_k::scale_min(packed, i);
    }
    values
}
