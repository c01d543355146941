//! The scales of a tile: planes of 16 rows, so that one load gives a value for each row.

use std::marker::PhantomData;

use super::codes::{Width, each};
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
    /// Whether codes of many tokens are widened to 16 bits on this instruction set.
    #[inline(always)]
    fn is_wide<L: Lanes>() -> bool {
        L::PAIRS && !Self::is_short::<L>()
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
    /// What the blocks of a group share, of `L::ROWS` rows.
    type Header<L: Lanes>: Copy;
    /// Stores one row of a group.
    fn pack(parts: &Parts, row: usize, plane: &mut [u8]);
    /// The scales of a group for rows `row … row + L::ROWS`, times `unit`.
    ///
    /// # Safety
    /// The machine can run `L`; `p` points to `BYTES` bytes; `row + L::ROWS ≤ 16`.
    unsafe fn header<L: Lanes>(p: *const u8, row: usize, unit: f32) -> Self::Header<L>;
    /// Those of block `j` of the group.
    ///
    /// # Safety
    /// As [`Scales::header`], whose bytes are still there; `j < GROUP`.
    unsafe fn of<L: Lanes>(header: &Self::Header<L>, j: usize) -> Scale<L::F>;
}

impl<F: Copy> Scale<F> {
    /// One for the whole block.
    #[inline(always)]
    pub(in crate::cpu) fn whole(d: F) -> Self {
        Self { d: [d; 2], m: [d; 2] }
    }
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

/// Stores eight six-bit values of a row: planes of low nibbles (values `i` and `i + 4` share a byte), then planes of upper
/// pairs (values `i`, `i + 2` … share a byte).
#[inline(always)]
fn pack_eight(values: &[u8], row: usize, plane: &mut [u8]) {
    for i in 0..4 {
        plane[16 * i + row] = values[i] & 15 | values[i + 4] << 4;
    }
    for i in 0..2 {
        plane[16 * (4 + i) + row] = (0..4).fold(0, |byte, k| byte | values[i + 2 * k] >> 4 << (2 * k));
    }
}

/// Value `i` stored by [`pack_eight`].
///
/// # Safety
/// As [`Scales::header`], with `p` advanced to the row.
#[inline(always)]
unsafe fn of_eight<L: Lanes>(p: *const u8, i: usize) -> L::V {
    // SAFETY: the machine can run `L`; the planes at `p` hold `BYTES` bytes: 16 rows of each value.
    unsafe {
        let (low, high) = (L::load_u8(p.add(16 * (i % 4))), L::load_u8(p.add(16 * (4 + i % 2))));
        let low = L::and(L::shr(low, 4 * (i / 4) as u32), 15);
        let high = L::and(L::shr(L::shl(high, 4), 2 * (i / 2) as u32), 0x30);
        L::or(low, high)
    }
}

/// Stores sixteen six-bit values of a row: two lines of low nibbles, whose bytes hold values 0…7 and in their upper halves
/// 8…15, and a line of upper pairs, whose byte `i` is that of values `i`, `i + 4`, `i + 8` and `i + 12`.
#[inline(always)]
fn pack_sixteen(values: &[u8; 16], row: usize, lines: &mut [u8]) {
    for i in 0..4 {
        lines[4 * row + i] = values[i] & 15 | values[i + 8] << 4;
        lines[64 + 4 * row + i] = values[i + 4] & 15 | values[i + 12] << 4;
        lines[128 + 4 * row + i] = (0..4).fold(0, |byte, k| byte | values[i + 4 * k] >> 4 << (2 * k));
    }
}

/// Sixteen six-bit integers in each lane, and what they are to be multiplied with.
#[derive(Clone, Copy)]
pub(in crate::cpu) struct SixBits<L: Lanes> {
    /// Of the scales, and of the minimums.
    pub(in crate::cpu) d: [L::F; 2],
    /// Four bytes each: values 0…3, 4…7, 8…11, 12…15.
    pub(in crate::cpu) values: [L::V; 4],
}

impl<L: Lanes> SixBits<L> {
    /// Those stored by [`pack_sixteen`].
    ///
    /// # Safety
    /// As [`Scales::header`], with `p` advanced to the row.
    #[inline(always)]
    unsafe fn load(p: *const u8, d: [L::F; 2]) -> Self {
        // SAFETY: the machine can run `L`; there are three lines at `p`.
        unsafe {
            let (a, b, high) = (L::load(p), L::load(p.add(64)), L::load(p.add(128)));
            let (low, pairs) = (each(15), each(0x30));
            let values = [
                L::or(L::and(a, low), L::and(L::shl(high, 4), pairs)),
                L::or(L::and(b, low), L::and(L::shl(high, 2), pairs)),
                L::or(L::and(L::shr(a, 4), low), L::and(high, pairs)),
                L::or(L::and(L::shr(b, 4), low), L::and(L::shr(high, 2), pairs)),
            ];
            Self { d, values }
        }
    }

    /// # Safety
    /// The machine can run `L`.
    #[inline(always)]
    unsafe fn value(&self, i: usize) -> L::V {
        // SAFETY: that of this function.
        unsafe { L::and(L::shr(self.values[i / 4], 8 * (i % 4) as u32), 255) }
    }

    /// Scale and minimum of block `j`: values `j` and `j + 8`.
    ///
    /// # Safety
    /// The machine can run `L`.
    #[inline(always)]
    pub(in crate::cpu) unsafe fn with_min(&self, j: usize) -> Scale<L::F> {
        // SAFETY: that of this function.
        let (d, m) = unsafe { (times::<L>(self.value(j), self.d[0]), times::<L>(self.value(j + 8), self.d[1])) };
        Scale { d: [d; 2], m: [m; 2] }
    }

    /// The scales of the halves of block `j`, 32 less than values `2j` and `2j + 1`.
    ///
    /// # Safety
    /// The machine can run `L`.
    #[inline(always)]
    unsafe fn halves(&self, j: usize) -> Scale<L::F> {
        // SAFETY: that of this function.
        unsafe {
            let low = times::<L>(L::add(self.value(2 * j), -32), self.d[0]);
            let high = times::<L>(L::add(self.value(2 * j + 1), -32), self.d[0]);
            Scale { d: [low, high], m: [low, high] }
        }
    }
}

/// `d · unit` of the f16 plane at `p`, to be multiplied with integer scales: exact, as long as it has
/// no more than 24 bits.
///
/// # Safety
/// As [`Scales::header`].
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

/// A row of a group's planes, and what their integers are to be multiplied with: for integers that are widened as they are
/// loaded.
#[derive(Clone, Copy)]
pub(in crate::cpu) struct Planes<F> {
    p: *const u8,
    d: F,
}

impl<const BLOCKS: usize> Scales for PerBlock<BLOCKS> {
    type Shape<W: Width> = Whole<W>;
    const BYTES: usize = 32;
    const GROUP: usize = BLOCKS;
    type Header<L: Lanes> = L::F;
    #[inline(always)]
    fn pack(parts: &Parts, row: usize, plane: &mut [u8]) {
        pack_half(parts.d, row, plane);
    }
    #[inline(always)]
    unsafe fn header<L: Lanes>(p: *const u8, row: usize, unit: f32) -> L::F {
        // SAFETY: the trait's contract.
        unsafe { half::<L>(p, row, unit) }
    }
    #[inline(always)]
    unsafe fn of<L: Lanes>(d: &L::F, _: usize) -> Scale<L::F> {
        Scale::whole(*d)
    }
}

impl Scales for Exponent {
    type Shape<W: Width> = Whole<W>;
    const BYTES: usize = 16;
    const GROUP: usize = 1;
    type Header<L: Lanes> = L::F;
    #[inline(always)]
    fn pack(parts: &Parts, row: usize, plane: &mut [u8]) {
        plane[row] = parts.values[0];
    }
    #[inline(always)]
    unsafe fn header<L: Lanes>(p: *const u8, row: usize, unit: f32) -> L::F {
        // SAFETY: the trait's contract: a byte of each row.
        unsafe {
            let e = L::load_u8(p.add(row));
            // 2^(e − 128) may be subnormal: the product of 2^(⌊e/2⌋ − 64) and 2^(⌈e/2⌉ − 64), which are not.
            let power = |half: L::V| L::bits_to_f32(L::shl(L::add(half, 127 - 64), 23));
            let d = L::mul(power(L::shr(e, 1)), power(L::shr(L::add(e, 1), 1)));
            L::mul(d, L::splat_f32(unit))
        }
    }
    #[inline(always)]
    unsafe fn of<L: Lanes>(d: &L::F, _: usize) -> Scale<L::F> {
        Scale::whole(*d)
    }
}

impl Scales for FloatHalves {
    type Shape<W: Width> = Halves<W>;
    const BYTES: usize = 64;
    const GROUP: usize = 2;
    type Header<L: Lanes> = Planes<L::F>;
    #[inline(always)]
    fn pack(parts: &Parts, row: usize, plane: &mut [u8]) {
        for (i, v) in parts.values[..4].iter().enumerate() {
            plane[16 * i + row] = *v;
        }
    }
    #[inline(always)]
    unsafe fn header<L: Lanes>(p: *const u8, row: usize, unit: f32) -> Planes<L::F> {
        // SAFETY: the trait's contract.
        unsafe { Planes { p: p.add(row), d: L::splat_f32(nvfp4::HALF_SCALE * unit) } }
    }
    #[inline(always)]
    unsafe fn of<L: Lanes>(planes: &Planes<L::F>, j: usize) -> Scale<L::F> {
        // SAFETY: the trait's contract: 16 rows of each value.
        let d = unsafe {
            let load = |i: usize| L::mul(L::f16_to_f32(L::shl(L::load_u8(planes.p.add(16 * i)), 7)), planes.d);
            [load(2 * j), load(2 * j + 1)]
        };
        Scale { d, m: d }
    }
}

impl Scales for PerBlockMin {
    type Shape<W: Width> = WholeMin<W>;
    const BYTES: usize = 64;
    const GROUP: usize = 1;
    type Header<L: Lanes> = [L::F; 2];
    #[inline(always)]
    fn pack(parts: &Parts, row: usize, plane: &mut [u8]) {
        pack_half(parts.d, row, plane);
        pack_half(parts.m, row, &mut plane[32..]);
    }
    #[inline(always)]
    unsafe fn header<L: Lanes>(p: *const u8, row: usize, unit: f32) -> [L::F; 2] {
        // SAFETY: the trait's contract.
        unsafe { [half::<L>(p, row, unit), L::load_f16(p.add(32 + 2 * row))] }
    }
    #[inline(always)]
    unsafe fn of<L: Lanes>([d, m]: &[L::F; 2], _: usize) -> Scale<L::F> {
        Scale { d: [*d; 2], m: [*m; 2] }
    }
}

impl Scales for SixBitMin {
    type Shape<W: Width> = WholeMin<W>;
    const BYTES: usize = 192 + 64;
    const GROUP: usize = 8;
    type Header<L: Lanes> = SixBits<L>;
    #[inline(always)]
    fn pack(parts: &Parts, row: usize, plane: &mut [u8]) {
        pack_sixteen(&parts.values, row, plane);
        pack_half(parts.d, row, &mut plane[192..]);
        pack_half(parts.m, row, &mut plane[224..]);
    }
    #[inline(always)]
    unsafe fn header<L: Lanes>(p: *const u8, row: usize, unit: f32) -> SixBits<L> {
        // SAFETY: the trait's contract.
        unsafe {
            let d = [half::<L>(p.add(192), row, unit), half::<L>(p.add(224), row, -1.0)];
            SixBits::load(p.add(4 * row), d)
        }
    }
    #[inline(always)]
    unsafe fn of<L: Lanes>(values: &SixBits<L>, j: usize) -> Scale<L::F> {
        // SAFETY: the trait's contract.
        unsafe { values.with_min(j) }
    }
}

impl Scales for SixBitHalves {
    type Shape<W: Width> = Halves<W>;
    const BYTES: usize = 192 + 32;
    const GROUP: usize = 8;
    type Header<L: Lanes> = SixBits<L>;
    #[inline(always)]
    fn pack(parts: &Parts, row: usize, plane: &mut [u8]) {
        pack_sixteen(&parts.values, row, plane);
        pack_half(parts.d, row, &mut plane[192..]);
    }
    #[inline(always)]
    unsafe fn header<L: Lanes>(p: *const u8, row: usize, unit: f32) -> SixBits<L> {
        // SAFETY: the trait's contract.
        unsafe { SixBits::load(p.add(4 * row), [half::<L>(p.add(192), row, unit); 2]) }
    }
    #[inline(always)]
    unsafe fn of<L: Lanes>(values: &SixBits<L>, j: usize) -> Scale<L::F> {
        // SAFETY: the trait's contract.
        unsafe { values.halves(j) }
    }
}

impl Scales for SixBit {
    type Shape<W: Width> = Whole<W>;
    const BYTES: usize = 96 + 32;
    const GROUP: usize = 8;
    type Header<L: Lanes> = Planes<L::F>;
    #[inline(always)]
    fn pack(parts: &Parts, row: usize, plane: &mut [u8]) {
        pack_eight(&parts.values, row, plane);
        pack_half(parts.d, row, &mut plane[96..]);
    }
    #[inline(always)]
    unsafe fn header<L: Lanes>(p: *const u8, row: usize, unit: f32) -> Planes<L::F> {
        // SAFETY: the trait's contract.
        unsafe { Planes { p: p.add(row), d: half::<L>(p.add(96), row, unit) } }
    }
    #[inline(always)]
    unsafe fn of<L: Lanes>(planes: &Planes<L::F>, j: usize) -> Scale<L::F> {
        // SAFETY: the trait's contract.
        unsafe { Scale::whole(times::<L>(L::add(of_eight::<L>(planes.p, j), -32), planes.d)) }
    }
}

impl Scales for SignedHalves {
    type Shape<W: Width> = Halves<W>;
    const BYTES: usize = 256 + 32;
    const GROUP: usize = 8;
    type Header<L: Lanes> = Planes<L::F>;
    #[inline(always)]
    fn pack(parts: &Parts, row: usize, plane: &mut [u8]) {
        for (i, v) in parts.values.iter().enumerate() {
            plane[16 * i + row] = *v;
        }
        pack_half(parts.d, row, &mut plane[256..]);
    }
    #[inline(always)]
    unsafe fn header<L: Lanes>(p: *const u8, row: usize, unit: f32) -> Planes<L::F> {
        // SAFETY: the trait's contract.
        unsafe { Planes { p: p.add(row), d: half::<L>(p.add(256), row, unit) } }
    }
    #[inline(always)]
    unsafe fn of<L: Lanes>(planes: &Planes<L::F>, j: usize) -> Scale<L::F> {
        // SAFETY: the trait's contract: 16 rows of each value.
        unsafe {
            let low = times::<L>(L::load_i8(planes.p.add(32 * j)), planes.d);
            let high = times::<L>(L::load_i8(planes.p.add(32 * j + 16)), planes.d);
            Scale { d: [low, high], m: [low, high] }
        }
    }
}

impl Scales for NibbleHalves {
    type Shape<W: Width> = HalvesMin<W>;
    const BYTES: usize = 256 + 64;
    const GROUP: usize = 8;
    /// Of the scales, and of the minimums.
    type Header<L: Lanes> = [Planes<L::F>; 2];
    #[inline(always)]
    fn pack(parts: &Parts, row: usize, plane: &mut [u8]) {
        for (i, v) in parts.values.iter().enumerate() {
            plane[16 * i + row] = *v;
        }
        pack_half(parts.d, row, &mut plane[256..]);
        pack_half(parts.m, row, &mut plane[288..]);
    }
    #[inline(always)]
    unsafe fn header<L: Lanes>(p: *const u8, row: usize, unit: f32) -> [Planes<L::F>; 2] {
        // SAFETY: the trait's contract.
        unsafe {
            let (d, m) = (half::<L>(p.add(256), row, unit), half::<L>(p.add(288), row, -1.0));
            [Planes { p: p.add(row), d }, Planes { p: p.add(row), d: m }]
        }
    }
    #[inline(always)]
    unsafe fn of<L: Lanes>([scales, minimums]: &[Planes<L::F>; 2], j: usize) -> Scale<L::F> {
        // SAFETY: the trait's contract: 16 rows of each value.
        unsafe {
            let (d, m) = (scales.d, minimums.d);
            let (low, high) = (L::load_u8(scales.p.add(32 * j)), L::load_u8(scales.p.add(32 * j + 16)));
            Scale {
                d: [times::<L>(L::and(low, 15), d), times::<L>(L::and(high, 15), d)],
                m: [times::<L>(L::shr(low, 4), m), times::<L>(L::shr(high, 4), m)],
            }
        }
    }
}
