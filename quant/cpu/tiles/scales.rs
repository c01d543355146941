//! The scales of a tile: planes of 16 rows, so that one load gives a value for each row.

use std::marker::PhantomData;

use super::codes::Width;
use crate::{
    formats::{nvfp4, scalar::Half},
    simd::Lanes,
};

/// Scales of one block of 32 columns, per lane: a weight is `d·(code − 128)`, or `d·code + m` where the
/// shape has minimums. Index: half of the block; where the shape has no halves, both are the same.
#[derive(Clone, Copy)]
pub(in crate::cpu) struct Scale<F> {
    /// Value of one step of the left-aligned codes.
    pub(in crate::cpu) d: [F; 2],
    /// What is added; unused in shapes without minimums.
    pub(in crate::cpu) m: [F; 2],
}

/// What scales a block has, and the width of its codes: all that differs in the products of formats.
pub(in crate::cpu) trait Shape {
    /// Bits of a code.
    type Width: Width;
    /// Parts of a block with scales of their own: 1 (of 32 columns) or 2 (of 16).
    const PARTS: usize;
    /// Unsigned codes and minimums, not a zero point of 128.
    const MIN: bool;
    /// Whether sums of products are made in 16 bits on this instruction set: with right-aligned codes, not centred.
    #[inline(always)]
    fn is_short<L: Lanes>() -> bool {
        Self::Width::down::<L>() > 0
    }
    /// Groups of quads that each part has: their sums of products fit 16 bits.
    #[inline(always)]
    fn groups() -> usize {
        (8 / Self::PARTS).div_ceil(Self::Width::QUADS)
    }
    /// The quads of a group of a part.
    #[inline(always)]
    fn quads(part: usize, group: usize) -> std::ops::Range<usize> {
        let (of_part, n) = (8 / Self::PARTS, 8 / Self::PARTS / Self::groups());
        part * of_part + group * n..part * of_part + (group + 1) * n
    }
}

/// Scales per `PARTS`, with minimums where `MIN` is 1.
pub(in crate::cpu) struct Shaped<const PARTS: usize, const MIN: usize, W>(PhantomData<W>);

impl<const PARTS: usize, const MIN: usize, W: Width> Shape for Shaped<PARTS, MIN, W> {
    type Width = W;
    const PARTS: usize = PARTS;
    const MIN: bool = MIN == 1;
}

/// One scale per 32.
pub(in crate::cpu) type Whole<W> = Shaped<1, 0, W>;
/// One scale and minimum per 32.
pub(in crate::cpu) type WholeMin<W> = Shaped<1, 1, W>;
/// One scale per 16.
pub(in crate::cpu) type Halves<W> = Shaped<2, 0, W>;
/// One scale and minimum per 16.
pub(in crate::cpu) type HalvesMin<W> = Shaped<2, 1, W>;

/// The scales of a file block, taken apart.
pub(in crate::cpu) struct Parts {
    /// Scale of the block.
    pub(in crate::cpu) d: Half,
    /// Minimum of the block, or scale of the minimums.
    pub(in crate::cpu) m: Half,
    /// Integer scales (and minimums) of the sub-blocks.
    pub(in crate::cpu) values: [u8; 16],
}

/// How scales are stored.
pub(in crate::cpu) trait Scales {
    /// Which scales a block has, beside codes of this width.
    type Shape<W: Width>: Shape;
    /// Bytes for 16 rows of one group.
    const BYTES: usize;
    /// Blocks of 32 columns per group.
    const GROUP: usize;
    /// Stores one row of a group.
    fn pack(parts: &Parts, row: usize, plane: &mut [u8]);
    /// Scales of block `j` of a group for rows `row … row + L::ROWS`, times `unit`.
    ///
    /// # Safety
    /// The machine can run `L`; `p` points to `BYTES` bytes; `row + L::ROWS ≤ 16`, `j < GROUP`.
    unsafe fn load<L: Lanes>(p: *const u8, row: usize, j: usize, unit: f32) -> Scale<L::F>;
}

/// An f16 scale per file block, which is so many blocks of 32.
pub(in crate::cpu) struct PerBlock<const BLOCKS: usize>;
/// MXFP4: the exponent of a power of two per block.
pub(in crate::cpu) struct Exponent;
/// NVFP4: 4 floats of 8 bits.
pub(in crate::cpu) struct FloatHalves;
/// An f16 scale and minimum per block.
pub(in crate::cpu) struct PerBlockMin;
/// Q4_K, Q5_K: 8 six-bit scales, 8 six-bit minimums, f16 scales of both.
pub(in crate::cpu) struct SixBitMin;
/// Q3_K: 16 six-bit scales offset by 32, an f16 scale.
pub(in crate::cpu) struct SixBitHalves;
/// IQ4_XS: 8 six-bit scales offset by 32, an f16 scale.
pub(in crate::cpu) struct SixBit;
/// Q6_K: 16 signed bytes, an f16 scale.
pub(in crate::cpu) struct SignedHalves;
/// Q2_K: 16 pairs of nibbles (scale low, minimum high), f16 scales of both.
pub(in crate::cpu) struct NibbleHalves;

/// Stores the f16 of a row in a plane of 16 rows.
#[inline(always)]
fn pack_half(h: Half, row: usize, plane: &mut [u8]) {
    plane[2 * row..2 * row + 2].copy_from_slice(&h.0);
}

/// Stores `n` six-bit values of a row: planes of low nibbles (value `i` and `i + n/2` share a byte), then
/// planes of upper pairs (values `i + k·n/4` share a byte).
#[inline(always)]
fn pack_six(values: &[u8], row: usize, plane: &mut [u8]) {
    let n = values.len();
    for i in 0..n / 2 {
        plane[16 * i + row] = values[i] & 15 | values[i + n / 2] << 4;
    }
    for i in 0..n / 4 {
        plane[16 * (n / 2 + i) + row] = (0..4).fold(0, |byte, k| byte | values[i + k * n / 4] >> 4 << (2 * k));
    }
}

/// Value `i` of `n` stored by [`pack_six`].
///
/// # Safety
/// As [`Scales::load`], with `p` advanced to the row.
#[inline(always)]
unsafe fn six<L: Lanes>(p: *const u8, n: usize, i: usize) -> L::V {
    // SAFETY: the machine can run `L`; the planes at `p` hold `BYTES` bytes: 16 rows of each value.
    unsafe {
        let low = L::load_u8(p.add(16 * (i % (n / 2))));
        let high = L::load_u8(p.add(16 * (n / 2 + i % (n / 4))));
        let low = L::and(L::shr(low, 4 * (i / (n / 2)) as u32), 15);
        let high = L::and(L::shr(L::shl(high, 4), 2 * (i / (n / 4)) as u32), 0x30);
        L::or(low, high)
    }
}

/// `d · unit` of the f16 plane at `p`, to be multiplied with integer scales: exact, as long as it has
/// no more than 24 bits.
///
/// # Safety
/// As [`Scales::load`].
#[inline(always)]
unsafe fn half<L: Lanes>(p: *const u8, row: usize, unit: f32) -> L::F {
    // SAFETY: the machine can run `L`; the planes at `p` hold `BYTES` bytes: 16 rows of each value.
    unsafe { L::mul(L::load_f16(p.add(2 * row)), L::splat_f32(unit)) }
}

/// Integer scales times a common factor.
///
/// # Safety
/// The machine can run `L`.
#[inline(always)]
unsafe fn times<L: Lanes>(v: L::V, d: L::F) -> L::F {
    // SAFETY: the machine can run `L`.
    unsafe { L::mul(L::to_f32(v), d) }
}

impl<const BLOCKS: usize> Scales for PerBlock<BLOCKS> {
    type Shape<W: Width> = Whole<W>;
    const BYTES: usize = 32;
    const GROUP: usize = BLOCKS;
    #[inline(always)]
    fn pack(parts: &Parts, row: usize, plane: &mut [u8]) {
        pack_half(parts.d, row, plane);
    }
    #[inline(always)]
    unsafe fn load<L: Lanes>(p: *const u8, row: usize, _: usize, unit: f32) -> Scale<L::F> {
        // SAFETY: the machine can run `L`; the planes at `p` hold `BYTES` bytes: 16 rows of each value.
        let d = unsafe { half::<L>(p, row, unit) };
        Scale { d: [d; 2], m: [d; 2] }
    }
}

impl Scales for Exponent {
    type Shape<W: Width> = Whole<W>;
    const BYTES: usize = 16;
    const GROUP: usize = 1;
    #[inline(always)]
    fn pack(parts: &Parts, row: usize, plane: &mut [u8]) {
        plane[row] = parts.values[0];
    }
    #[inline(always)]
    unsafe fn load<L: Lanes>(p: *const u8, row: usize, _: usize, unit: f32) -> Scale<L::F> {
        // SAFETY: the machine can run `L`; the plane at `p` holds `BYTES` bytes: a byte of each row.
        let d = unsafe {
            let e = L::load_u8(p.add(row));
            // 2^(e − 128) may be subnormal: the product of 2^(⌊e/2⌋ − 64) and 2^(⌈e/2⌉ − 64), which are not.
            let power = |half: L::V| L::bits_to_f32(L::shl(L::add(half, 127 - 64), 23));
            let d = L::mul(power(L::shr(e, 1)), power(L::shr(L::add(e, 1), 1)));
            L::mul(d, L::splat_f32(unit))
        };
        Scale { d: [d; 2], m: [d; 2] }
    }
}

impl Scales for FloatHalves {
    type Shape<W: Width> = Halves<W>;
    const BYTES: usize = 64;
    const GROUP: usize = 2;
    #[inline(always)]
    fn pack(parts: &Parts, row: usize, plane: &mut [u8]) {
        for (i, v) in parts.values[..4].iter().enumerate() {
            plane[16 * i + row] = *v;
        }
    }
    #[inline(always)]
    unsafe fn load<L: Lanes>(p: *const u8, row: usize, j: usize, unit: f32) -> Scale<L::F> {
        // SAFETY: the machine can run `L`; the planes at `p` hold `BYTES` bytes: 16 rows of each value.
        let d = unsafe {
            let unit = L::splat_f32(nvfp4::HALF_SCALE * unit);
            let load = |i: usize| L::mul(L::f16_to_f32(L::shl(L::load_u8(p.add(16 * i + row)), 7)), unit);
            [load(2 * j), load(2 * j + 1)]
        };
        Scale { d, m: d }
    }
}

impl Scales for PerBlockMin {
    type Shape<W: Width> = WholeMin<W>;
    const BYTES: usize = 64;
    const GROUP: usize = 1;
    #[inline(always)]
    fn pack(parts: &Parts, row: usize, plane: &mut [u8]) {
        pack_half(parts.d, row, plane);
        pack_half(parts.m, row, &mut plane[32..]);
    }
    #[inline(always)]
    unsafe fn load<L: Lanes>(p: *const u8, row: usize, _: usize, unit: f32) -> Scale<L::F> {
        // SAFETY: the machine can run `L`; the planes at `p` hold `BYTES` bytes: 16 rows of each value.
        let (d, m) = unsafe { (half::<L>(p, row, unit), L::load_f16(p.add(32 + 2 * row))) };
        Scale { d: [d; 2], m: [m; 2] }
    }
}

impl Scales for SixBitMin {
    type Shape<W: Width> = WholeMin<W>;
    const BYTES: usize = 192 + 64;
    const GROUP: usize = 8;
    #[inline(always)]
    fn pack(parts: &Parts, row: usize, plane: &mut [u8]) {
        pack_six(&parts.values, row, plane);
        pack_half(parts.d, row, &mut plane[192..]);
        pack_half(parts.m, row, &mut plane[224..]);
    }
    #[inline(always)]
    unsafe fn load<L: Lanes>(p: *const u8, row: usize, j: usize, unit: f32) -> Scale<L::F> {
        // SAFETY: the machine can run `L`; the planes at `p` hold `BYTES` bytes: 16 rows of each value.
        unsafe {
            let d = times::<L>(six::<L>(p.add(row), 16, j), half::<L>(p.add(192), row, unit));
            let m = times::<L>(six::<L>(p.add(row), 16, j + 8), half::<L>(p.add(224), row, -1.0));
            Scale { d: [d; 2], m: [m; 2] }
        }
    }
}

impl Scales for SixBitHalves {
    type Shape<W: Width> = Halves<W>;
    const BYTES: usize = 192 + 32;
    const GROUP: usize = 8;
    #[inline(always)]
    fn pack(parts: &Parts, row: usize, plane: &mut [u8]) {
        pack_six(&parts.values, row, plane);
        pack_half(parts.d, row, &mut plane[192..]);
    }
    #[inline(always)]
    unsafe fn load<L: Lanes>(p: *const u8, row: usize, j: usize, unit: f32) -> Scale<L::F> {
        // SAFETY: the machine can run `L`; the planes at `p` hold `BYTES` bytes: 16 rows of each value.
        unsafe {
            let d = half::<L>(p.add(192), row, unit);
            let low = times::<L>(L::add(six::<L>(p.add(row), 16, 2 * j), -32), d);
            let high = times::<L>(L::add(six::<L>(p.add(row), 16, 2 * j + 1), -32), d);
            Scale { d: [low, high], m: [low, high] }
        }
    }
}

impl Scales for SixBit {
    type Shape<W: Width> = Whole<W>;
    const BYTES: usize = 96 + 32;
    const GROUP: usize = 8;
    #[inline(always)]
    fn pack(parts: &Parts, row: usize, plane: &mut [u8]) {
        pack_six(&parts.values[..8], row, plane);
        pack_half(parts.d, row, &mut plane[96..]);
    }
    #[inline(always)]
    unsafe fn load<L: Lanes>(p: *const u8, row: usize, j: usize, unit: f32) -> Scale<L::F> {
        // SAFETY: the machine can run `L`; the planes at `p` hold `BYTES` bytes: 16 rows of each value.
        unsafe {
            let d = half::<L>(p.add(96), row, unit);
            let d = times::<L>(L::add(six::<L>(p.add(row), 8, j), -32), d);
            Scale { d: [d; 2], m: [d; 2] }
        }
    }
}

impl Scales for SignedHalves {
    type Shape<W: Width> = Halves<W>;
    const BYTES: usize = 256 + 32;
    const GROUP: usize = 8;
    #[inline(always)]
    fn pack(parts: &Parts, row: usize, plane: &mut [u8]) {
        for (i, v) in parts.values.iter().enumerate() {
            plane[16 * i + row] = *v;
        }
        pack_half(parts.d, row, &mut plane[256..]);
    }
    #[inline(always)]
    unsafe fn load<L: Lanes>(p: *const u8, row: usize, j: usize, unit: f32) -> Scale<L::F> {
        // SAFETY: the machine can run `L`; the planes at `p` hold `BYTES` bytes: 16 rows of each value.
        unsafe {
            let d = half::<L>(p.add(256), row, unit);
            let low = times::<L>(L::load_i8(p.add(32 * j + row)), d);
            let high = times::<L>(L::load_i8(p.add(32 * j + 16 + row)), d);
            Scale { d: [low, high], m: [low, high] }
        }
    }
}

impl Scales for NibbleHalves {
    type Shape<W: Width> = HalvesMin<W>;
    const BYTES: usize = 256 + 64;
    const GROUP: usize = 8;
    #[inline(always)]
    fn pack(parts: &Parts, row: usize, plane: &mut [u8]) {
        for (i, v) in parts.values.iter().enumerate() {
            plane[16 * i + row] = *v;
        }
        pack_half(parts.d, row, &mut plane[256..]);
        pack_half(parts.m, row, &mut plane[288..]);
    }
    #[inline(always)]
    unsafe fn load<L: Lanes>(p: *const u8, row: usize, j: usize, unit: f32) -> Scale<L::F> {
        // SAFETY: the machine can run `L`; the planes at `p` hold `BYTES` bytes: 16 rows of each value.
        unsafe {
            let (d, m) = (half::<L>(p.add(256), row, unit), half::<L>(p.add(288), row, -1.0));
            let (low, high) = (L::load_u8(p.add(32 * j + row)), L::load_u8(p.add(32 * j + 16 + row)));
            Scale {
                d: [times::<L>(L::and(low, 15), d), times::<L>(L::and(high, 15), d)],
                m: [times::<L>(L::shr(low, 4), m), times::<L>(L::shr(high, 4), m)],
            }
        }
    }
}
