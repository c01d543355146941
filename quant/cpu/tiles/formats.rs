//! Which codes and scales each file format becomes in a tile: one row per format.

use super::{
    codes::{Bytes, Codes, Fives, Nibbles, Pairs, Sixes, Table, Threes},
    scales::{NibbleHalves, Parts, PerBlock, PerBlockMin, Scales, SignedHalves, SixBit, SixBitHalves, SixBitMin},
};
use crate::formats::{
    block::blocks, iq4_nl, iq4_xs, q2_k, q3_k, q4_0, q4_1, q4_k, q5_0, q5_1, q5_k, q6_k, q8_0, scalar::Half,
};

/// A file block that tiles are made of.
pub(in crate::cpu) trait TileFormat: Sized {
    /// How its codes are stored in a tile.
    type Codes: Codes;
    /// How its scales are stored in a tile.
    type Scales: Scales;
    /// The blocks in these bytes of a file.
    fn blocks(bytes: &[u8]) -> &[Self];
    /// Unsigned codes of sub-block `j` of 32 columns.
    fn codes(&self, j: usize) -> [u8; 32];
    /// Its scales.
    fn parts(&self) -> Parts;
}

/// One row: file block, columns per block, codes, scales, and how to read both.
macro_rules! tile_format {
    ($($format:ident($n:literal): $codes:ty, $scales:ty, |$b:ident, $j:pat_param| $read:expr, $parts:expr;)*) => {$(
        impl TileFormat for $format::Block {
            type Codes = $codes;
            type Scales = $scales;
            fn blocks(bytes: &[u8]) -> &[Self] {
                blocks::<Self, $n>(bytes)
            }
            #[inline(always)]
            fn codes(&self, $j: usize) -> [u8; 32] {
                let $b = self;
                $read
            }
            #[inline(always)]
            fn parts(&self) -> Parts {
                let $b = self;
                $parts
            }
        }
    )*};
}

tile_format! {
    q4_0(32): Nibbles, PerBlock, |b, _| nibbles(&b.qs), one(b.d);
    q4_1(32): Nibbles, PerBlockMin, |b, _| nibbles(&b.qs), two(b.d, b.m, [0; 16]);
    q5_0(32): Fives, PerBlock, |b, _| q5_0::unpack(&b.qs, &b.qh), one(b.d);
    q5_1(32): Fives, PerBlockMin, |b, _| q5_0::unpack(&b.qs, &b.qh), two(b.d, b.m, [0; 16]);
    q8_0(32): Bytes, PerBlock, |b, _| b.qs.map(|q| q as u8 ^ 0x80), one(b.d);
    iq4_nl(32): Table, PerBlock, |b, _| nibbles(&b.qs), one(b.d);
    q2_k(256): Pairs, NibbleHalves, |b, j| pairs(&b.qs, j), two(b.d, b.dmin, b.scales);
    q3_k(256): Threes, SixBitHalves, |b, j| {
        let low = pairs(&b.qs, j);
        std::array::from_fn(|l| low[l] | (b.hmask[l] >> j & 1) << 2)
    }, two(b.d, b.d, q3_k::scales(&b.scales).map(|s| (s + 32) as u8));
    q4_k(256): Nibbles, SixBitMin, |b, j| chunk_nibbles(&b.qs, j), two(b.d, b.dmin, scales_mins(&b.scales));
    q5_k(256): Fives, SixBitMin, |b, j| {
        let low = chunk_nibbles(&b.qs, j);
        std::array::from_fn(|l| low[l] | (b.qh[l] >> j & 1) << 4)
    }, two(b.d, b.dmin, scales_mins(&b.scales));
    q6_k(256): Sixes, SignedHalves, |b, j| {
        let (low, high) = (&b.ql[j / 4 * 64 + j % 2 * 32..][..32], &b.qh[j / 4 * 32..][..32]);
        let (low_shift, high_shift) = (j % 4 / 2 * 4, j % 4 * 2);
        std::array::from_fn(|l| low[l] >> low_shift & 15 | (high[l] >> high_shift & 3) << 4)
    }, two(b.d, b.d, b.scales.map(|s| s as u8));
    iq4_xs(256): Table, SixBit, |b, j| nibbles(b.qs[16 * j..][..16].try_into().expect("16 bytes")),
        two(b.d, b.d, std::array::from_fn(|i| if i < 8 { (iq4_xs::scale(b, i) + 32) as u8 } else { 0 }));
}

fn one(d: Half) -> Parts {
    two(d, d, [0; 16])
}

fn two(d: Half, m: Half, values: [u8; 16]) -> Parts {
    Parts { d, m, values }
}

/// The layout of the Q4_0 family: columns `i` and `i + 16` share a byte.
#[inline(always)]
fn nibbles(qs: &[u8; 16]) -> [u8; 32] {
    std::array::from_fn(|i| qs[i % 16] >> (i / 16 * 4) & 15)
}

/// The layout of Q4_K and Q5_K: sub-blocks `2c` and `2c + 1` share chunk `c` of 32 bytes.
#[inline(always)]
fn chunk_nibbles(qs: &[u8; 128], j: usize) -> [u8; 32] {
    let (chunk, shift) = (&qs[j / 2 * 32..][..32], j % 2 * 4);
    std::array::from_fn(|l| chunk[l] >> shift & 15)
}

/// The layout of Q2_K and Q3_K: four sub-blocks share a chunk of 32 bytes.
#[inline(always)]
fn pairs(qs: &[u8; 64], j: usize) -> [u8; 32] {
    let (chunk, shift) = (&qs[j / 4 * 32..][..32], j % 4 * 2);
    std::array::from_fn(|l| chunk[l] >> shift & 3)
}

/// 8 scales, then 8 minimums.
#[inline(always)]
fn scales_mins(packed: &[u8; 12]) -> [u8; 16] {
    std::array::from_fn(|i| match q4_k::scale_min(packed, i % 8) {
        (scale, _) if i < 8 => scale,
        (_, min) => min,
    })
}
