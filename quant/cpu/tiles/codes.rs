//! The integer codes of a tile: 16 rows × 32 columns in lines of 64 bytes, 4 bytes per row and line.
//!
//! A quad is four consecutive columns of a row, one byte each; a block of 32 columns has quads 0…7.
//! Unpacked codes are left-aligned in their bytes (`q · 2^(8 − bits)`), so that the zero point of every
//! symmetric format is 128; the scale makes up for it by the factor `UNIT`. Where an instruction set sums products of
//! narrow codes in 16 bits they are right-aligned, for there they have room; the sums are shifted instead.

use std::marker::PhantomData;

use crate::{
    formats::{iq1_s, iq2_xxs, iq3_s, iq3_xxs, iq4_nl, mxfp4, q2_0, ternary},
    simd::Lanes,
};

/// How the codes of a block are stored.
pub(in crate::cpu) trait Codes {
    /// Lines per block of 32 columns.
    const LINES: usize;
    /// How many bits a code has.
    type Width: Width;
    /// Value of one step of a left-aligned code.
    const UNIT: f32 = 1.0 / Self::Width::STEP as f32;
    /// Stores the quads of (right-aligned) codes of `L::ROWS` rows.
    ///
    /// # Safety
    /// As [`Codes::unpack`], to write.
    unsafe fn pack<L: Lanes>(quads: [L::V; 8], p: *mut u8);
    /// The quads of `L::ROWS` rows, left-aligned less [`Width::down`].
    ///
    /// # Safety
    /// The machine can run `L`; `p` points to those rows in `LINES` lines.
    unsafe fn unpack<L: Lanes>(p: *const u8) -> [L::V; 8];
}

/// Bits of a code, and what follows for sums of products.
pub(in crate::cpu) trait Width {
    const BITS: u32;
    /// A left-aligned code is a multiple of this.
    const STEP: i16 = 1 << (8 - Self::BITS);
    /// Quads whose products with any activations sum up in 16 bits: each has two that are added, of −128 at most.
    const QUADS: usize = match i16::MAX as u32 / (2 * 128 * ((1 << Self::BITS) - 1)) {
        0 => 1,
        n => 1 << n.ilog2(),
    };
    /// How much lower than left-aligned codes are unpacked: right-aligned where their products are summed in 16 bits.
    #[inline(always)]
    fn down<L: Lanes>() -> u32 {
        if L::SHORT_SUMS { 8 - Self::BITS } else { 0 }
    }
}

/// Codes of `N` bits.
pub(in crate::cpu) struct Bits<const N: u32>;

impl<const N: u32> Width for Bits<N> {
    const BITS: u32 = N;
}

/// `[body(0), …, body(7)]` without a closure: a closure that is not inlined lacks the instructions.
macro_rules! quads {
    ($j:ident => $body:expr) => {
        quads!(@ $j, $body, 0 1 2 3 4 5 6 7)
    };
    (@ $j:ident, $body:expr, $($n:literal)*) => {
        [$({
            const $j: u32 = $n;
            $body
        }),*]
    };
}

pub(super) use quads;

/// The same byte in all four columns of a quad.
pub(super) const fn each(bits: u8) -> u32 {
    u32::from_ne_bytes([bits; 4])
}

/// Eight bits, one quad per line.
pub(in crate::cpu) struct Bits8;
/// Four bits: line `j` holds quads `j` (low nibbles) and `j + 4`.
pub(in crate::cpu) struct Bits4;
/// Four bits that select from the table of `T`, stored as [`Bits4`].
pub(in crate::cpu) struct Bits4Table<T>(PhantomData<T>);
/// [`Bits4`] and a line of fifth bits: bit `j` for quad `j`.
pub(in crate::cpu) struct Bits5;
/// [`Bits4`] and two lines as in [`Bits2`] of the upper two bits.
pub(in crate::cpu) struct Bits6;
/// One bit, which is 1 or −1 beside the zero point: a line has bit `j` for quad `j`.
pub(in crate::cpu) struct Bits1;
/// Two bits: line `i` holds quads `4i … 4i + 3`.
pub(in crate::cpu) struct Bits2;
/// Two bits that select from the first quarter of the table of `T`, stored as [`Bits2`].
pub(in crate::cpu) struct Bits2Table<T>(PhantomData<T>);
/// [`Bits2`] and a line of third bits: bit `j` for quad `j`.
pub(in crate::cpu) struct Bits3;
/// Three bits that select from the first half of the table of `T`, stored as [`Bits3`].
pub(in crate::cpu) struct Bits3Table<T>(PhantomData<T>);

/// The signed values that four bits select, or fewer.
pub(in crate::cpu) trait Table {
    const VALUES: [i8; 16];
    /// What a value is to be multiplied with.
    const UNIT: f32 = 1.0;
    /// Bits that the values take beside their zero point.
    type Width: Width;
    /// The values beside the zero point, left-aligned.
    const LEFT: [u8; 16] = codes(Self::VALUES, Self::Width::BITS, Self::Width::STEP as u8);
    /// The same, right-aligned.
    const RIGHT: [u8; 16] = codes(Self::VALUES, Self::Width::BITS, 1);
}

/// Values in `bits` bits beside the zero point in their middle, times `step`.
const fn codes(values: [i8; 16], bits: u32, step: u8) -> [u8; 16] {
    let (mut table, mut i) = ([0; 16], 0);
    while i < 16 {
        let code = values[i] as i16 + (1 << (bits - 1));
        assert!(code >= 0 && code < 1 << bits);
        table[i] = code as u8 * step;
        i += 1;
    }
    table
}

impl Table for iq4_nl::Block {
    const VALUES: [i8; 16] = iq4_nl::TABLE;
    type Width = Bits<8>;
}

// Twelve at most.
impl Table for mxfp4::Block {
    const VALUES: [i8; 16] = mxfp4::TABLE;
    type Width = Bits<5>;
}

// Fifteen at most.
impl Table for iq3_s::Block {
    const VALUES: [i8; 16] = iq3_s::TABLE;
    type Width = Bits<5>;
}

impl Table for iq3_xxs::Block {
    const VALUES: [i8; 16] = iq3_xxs::TABLE;
    const UNIT: f32 = iq3_xxs::UNIT;
    type Width = Bits<8>;
}

impl Table for iq2_xxs::Block {
    const VALUES: [i8; 16] = iq2_xxs::TABLE;
    const UNIT: f32 = iq2_xxs::UNIT;
    type Width = Bits<8>;
}

// Nine eighths at most.
impl Table for iq1_s::Block {
    const VALUES: [i8; 16] = iq1_s::TABLE;
    const UNIT: f32 = iq1_s::UNIT;
    type Width = Bits<5>;
}

// From −1 to 2: one more than two bits have beside a zero point in their middle.
impl Table for q2_0::Block {
    const VALUES: [i8; 16] = ternary::TABLE;
    type Width = Bits<3>;
}

/// # Safety
/// As [`Codes::pack`].
#[inline(always)]
unsafe fn pack_nibbles<L: Lanes>(quads: &[L::V; 8], p: *mut u8) {
    // SAFETY: the machine can run `L`, and `p` points to the rows in as many lines as are written here.
    unsafe {
        for j in 0..4 {
            let line = L::or(moved::<L>(quads[j], 0, 0, 15), moved::<L>(quads[j + 4], 0, 4, 15));
            L::store(line, p.add(64 * j));
        }
    }
}

/// The two bits of each code from `bit` on.
///
/// # Safety
/// As [`Codes::pack`].
#[inline(always)]
unsafe fn pack_pairs<L: Lanes>(quads: &[L::V; 8], bit: u32, p: *mut u8) {
    // SAFETY: the machine can run `L`, and `p` points to the rows in as many lines as are written here.
    unsafe {
        for i in 0..2 {
            let mut line = moved::<L>(quads[4 * i], bit, 0, 3);
            for f in 1..4 {
                line = L::or(line, moved::<L>(quads[4 * i + f], bit, 2 * f as u32, 3));
            }
            L::store(line, p.add(64 * i));
        }
    }
}

/// One bit of each code.
///
/// # Safety
/// As [`Codes::pack`].
#[inline(always)]
unsafe fn pack_bits<L: Lanes>(quads: &[L::V; 8], bit: u32, p: *mut u8) {
    // SAFETY: the machine can run `L`, and `p` points to the rows in a line.
    unsafe {
        let mut line = moved::<L>(quads[0], bit, 0, 1);
        for j in 1..8 {
            line = L::or(line, moved::<L>(quads[j], bit, j as u32, 1));
        }
        L::store(line, p);
    }
}

/// [`nibbles`] of four lines.
///
/// # Safety
/// As [`Codes::unpack`].
#[inline(always)]
unsafe fn unpack_nibbles<L: Lanes>(p: *const u8, top: u32) -> [L::V; 8] {
    // SAFETY: the machine can run `L`, and `p` points to the rows in as many lines as are read here.
    unsafe {
        let lines = [L::load(p), L::load(p.add(64)), L::load(p.add(128)), L::load(p.add(192))];
        nibbles::<L>(&lines, top)
    }
}

/// Vectors of nibbles as quads: the low ones, then the high ones; `top` is the bit above the nibble.
///
/// # Safety
/// The machine can run `L`.
#[inline(always)]
pub(super) unsafe fn nibbles<L: Lanes>(v: &[L::V; 4], top: u32) -> [L::V; 8] {
    // SAFETY: the machine can run `L`.
    unsafe { quads!(J => moved::<L>(v[J as usize % 4], J / 4 * 4, top - 4, 15)) }
}

/// The bits of `mask` in each byte, from bit `from` of it moved to bit `to`.
///
/// # Safety
/// The machine can run `L`.
#[inline(always)]
pub(super) unsafe fn moved<L: Lanes>(v: L::V, from: u32, to: u32, mask: u8) -> L::V {
    // SAFETY: the machine can run `L`.
    unsafe {
        let v = if to >= from { L::shl(v, to - from) } else { L::shr(v, from - to) };
        L::and(v, each(mask << to))
    }
}

impl Codes for Bits8 {
    const LINES: usize = 8;
    type Width = Bits<8>;
    #[inline(always)]
    unsafe fn pack<L: Lanes>(quads: [L::V; 8], p: *mut u8) {
        // SAFETY: the machine can run `L`, and `p` points to the rows in as many lines as are written here.
        unsafe {
            for j in 0..8 {
                L::store(quads[j], p.add(64 * j));
            }
        }
    }
    #[inline(always)]
    unsafe fn unpack<L: Lanes>(p: *const u8) -> [L::V; 8] {
        // SAFETY: the machine can run `L`, and `p` points to the rows in as many lines as are read here.
        unsafe { quads!(J => L::load(p.add(64 * J as usize))) }
    }
}

impl Codes for Bits4 {
    const LINES: usize = 4;
    type Width = Bits<4>;
    #[inline(always)]
    unsafe fn pack<L: Lanes>(quads: [L::V; 8], p: *mut u8) {
        // SAFETY: the machine can run `L`, and `p` points to the rows in as many lines as are written here.
        unsafe { pack_nibbles::<L>(&quads, p) }
    }
    #[inline(always)]
    unsafe fn unpack<L: Lanes>(p: *const u8) -> [L::V; 8] {
        // SAFETY: the machine can run `L`, and `p` points to the rows in as many lines as are read here.
        unsafe { unpack_nibbles::<L>(p, 8 - Self::Width::down::<L>()) }
    }
}

impl<T: Table> Codes for Bits4Table<T> {
    const LINES: usize = 4;
    // Of the values.
    type Width = T::Width;
    const UNIT: f32 = T::UNIT / T::Width::STEP as f32;
    #[inline(always)]
    unsafe fn pack<L: Lanes>(quads: [L::V; 8], p: *mut u8) {
        // SAFETY: the machine can run `L`, and `p` points to the rows in as many lines as are written here.
        unsafe { pack_nibbles::<L>(&quads, p) }
    }
    #[inline(always)]
    unsafe fn unpack<L: Lanes>(p: *const u8) -> [L::V; 8] {
        // SAFETY: the machine can run `L`, and `p` points to the rows in as many lines as are read here.
        unsafe {
            let nibbles = unpack_nibbles::<L>(p, 4);
            let table = if L::SHORT_SUMS { &T::RIGHT } else { &T::LEFT };
            quads!(J => L::lookup(nibbles[J as usize], table))
        }
    }
}

impl Codes for Bits5 {
    const LINES: usize = 5;
    type Width = Bits<5>;
    #[inline(always)]
    unsafe fn pack<L: Lanes>(quads: [L::V; 8], p: *mut u8) {
        // SAFETY: the machine can run `L`, and `p` points to the rows in as many lines as are written here.
        unsafe {
            pack_nibbles::<L>(&quads, p);
            pack_bits::<L>(&quads, 4, p.add(64 * 4));
        }
    }
    #[inline(always)]
    unsafe fn unpack<L: Lanes>(p: *const u8) -> [L::V; 8] {
        // SAFETY: the machine can run `L`, and `p` points to the rows in as many lines as are read here.
        unsafe {
            let down = Self::Width::down::<L>();
            let (low, high) = (unpack_nibbles::<L>(p, 7 - down), L::load(p.add(64 * 4)));
            quads!(J => L::or(low[J as usize], moved::<L>(high, J, 7 - down, 1)))
        }
    }
}

impl Codes for Bits6 {
    const LINES: usize = 6;
    type Width = Bits<6>;
    #[inline(always)]
    unsafe fn pack<L: Lanes>(quads: [L::V; 8], p: *mut u8) {
        // SAFETY: the machine can run `L`, and `p` points to the rows in as many lines as are written here.
        unsafe {
            pack_nibbles::<L>(&quads, p);
            pack_pairs::<L>(&quads, 4, p.add(64 * 4));
        }
    }
    #[inline(always)]
    unsafe fn unpack<L: Lanes>(p: *const u8) -> [L::V; 8] {
        // SAFETY: the machine can run `L`, and `p` points to the rows in as many lines as are read here.
        unsafe {
            let down = Self::Width::down::<L>();
            let low = unpack_nibbles::<L>(p, 6 - down);
            let high = [L::load(p.add(64 * 4)), L::load(p.add(64 * 5))];
            quads!(J => L::or(low[J as usize], moved::<L>(high[J as usize / 4], J % 4 * 2, 6 - down, 3)))
        }
    }
}

impl Codes for Bits1 {
    const LINES: usize = 1;
    // Of the values: from 1 to 3 around 2.
    type Width = Bits<2>;
    #[inline(always)]
    unsafe fn pack<L: Lanes>(quads: [L::V; 8], p: *mut u8) {
        // SAFETY: the machine can run `L`, and `p` points to the rows in as many lines as are written here.
        unsafe { pack_bits::<L>(&quads, 0, p) }
    }
    #[inline(always)]
    unsafe fn unpack<L: Lanes>(p: *const u8) -> [L::V; 8] {
        // SAFETY: the machine can run `L`, and `p` points to the rows in as many lines as are read here.
        unsafe {
            let (line, down) = (L::load(p), Self::Width::down::<L>());
            let one = L::splat(each(1 << (6 - down)) as i32);
            quads!(J => L::or(moved::<L>(line, J, 7 - down, 1), one))
        }
    }
}

impl Codes for Bits2 {
    const LINES: usize = 2;
    type Width = Bits<2>;
    #[inline(always)]
    unsafe fn pack<L: Lanes>(quads: [L::V; 8], p: *mut u8) {
        // SAFETY: the machine can run `L`, and `p` points to the rows in as many lines as are written here.
        unsafe { pack_pairs::<L>(&quads, 0, p) }
    }
    #[inline(always)]
    unsafe fn unpack<L: Lanes>(p: *const u8) -> [L::V; 8] {
        // SAFETY: the machine can run `L`, and `p` points to the rows in as many lines as are read here.
        unsafe {
            let lines = [L::load(p), L::load(p.add(64))];
            quads!(J => moved::<L>(lines[J as usize / 4], J % 4 * 2, 6 - Self::Width::down::<L>(), 3))
        }
    }
}

impl<T: Table> Codes for Bits2Table<T> {
    const LINES: usize = 2;
    // As of `Bits4Table`.
    type Width = T::Width;
    const UNIT: f32 = T::UNIT / T::Width::STEP as f32;
    #[inline(always)]
    unsafe fn pack<L: Lanes>(quads: [L::V; 8], p: *mut u8) {
        // SAFETY: the machine can run `L`, and `p` points to the rows in as many lines as are written here.
        unsafe { pack_pairs::<L>(&quads, 0, p) }
    }
    #[inline(always)]
    unsafe fn unpack<L: Lanes>(p: *const u8) -> [L::V; 8] {
        // SAFETY: the machine can run `L`, and `p` points to the rows in as many lines as are read here.
        unsafe {
            let lines = [L::load(p), L::load(p.add(64))];
            let table = if L::SHORT_SUMS { &T::RIGHT } else { &T::LEFT };
            quads!(J => L::lookup(moved::<L>(lines[J as usize / 4], J % 4 * 2, 0, 3), table))
        }
    }
}

impl Codes for Bits3 {
    const LINES: usize = 3;
    type Width = Bits<3>;
    #[inline(always)]
    unsafe fn pack<L: Lanes>(quads: [L::V; 8], p: *mut u8) {
        // SAFETY: the machine can run `L`, and `p` points to the rows in as many lines as are written here.
        unsafe {
            pack_pairs::<L>(&quads, 0, p);
            pack_bits::<L>(&quads, 2, p.add(64 * 2));
        }
    }
    #[inline(always)]
    unsafe fn unpack<L: Lanes>(p: *const u8) -> [L::V; 8] {
        // SAFETY: the machine can run `L`, and `p` points to the rows in as many lines as are read here.
        unsafe {
            let (lines, high) = ([L::load(p), L::load(p.add(64))], L::load(p.add(128)));
            let down = Self::Width::down::<L>();
            quads!(J => {
                let low = moved::<L>(lines[J as usize / 4], J % 4 * 2, 5 - down, 3);
                L::or(low, moved::<L>(high, J, 7 - down, 1))
            })
        }
    }
}

impl<T: Table> Codes for Bits3Table<T> {
    const LINES: usize = 3;
    // As of `Bits4Table`.
    type Width = T::Width;
    const UNIT: f32 = T::UNIT / T::Width::STEP as f32;
    #[inline(always)]
    unsafe fn pack<L: Lanes>(quads: [L::V; 8], p: *mut u8) {
        // SAFETY: the machine can run `L`, and `p` points to the rows in as many lines as are written here.
        unsafe { Bits3::pack::<L>(quads, p) }
    }
    #[inline(always)]
    unsafe fn unpack<L: Lanes>(p: *const u8) -> [L::V; 8] {
        // SAFETY: the machine can run `L`, and `p` points to the rows in as many lines as are read here.
        unsafe {
            let (lines, high) = ([L::load(p), L::load(p.add(64))], L::load(p.add(128)));
            let table = if L::SHORT_SUMS { &T::RIGHT } else { &T::LEFT };
            quads!(J => {
                let low = moved::<L>(lines[J as usize / 4], J % 4 * 2, 0, 3);
                L::lookup(L::or(low, moved::<L>(high, J, 2, 1)), table)
            })
        }
    }
}
