//! Blocks of rows as they lie in a file, read into lanes: vectors get the words of a row each (see [`Lanes::words`]), and
//! with them codes and scales as a tile has them.

use super::{
    Block, Codes, Scale, Width,
    codes::{Bits4, Bits5, Bits6, Bits8, each, moved, nibbles, quads},
    scales::SixBits,
};
use crate::{
    formats::{q4_0, q4_k, q5_0, q5_k, q6_k, q8_0},
    simd::Lanes,
};

/// Where file blocks of some rows are: behind pointers to the rows.
#[derive(Clone, Copy)]
pub(in crate::cpu) struct Place {
    rows: *const *const u8,
    offset: usize,
}

impl Place {
    /// So many bytes behind `L::ROWS` pointers.
    pub(in crate::cpu) fn new(rows: *const *const u8, offset: usize) -> Self {
        Self { rows, offset }
    }

    /// The words of 16 bytes from byte `n` of the blocks on.
    ///
    /// # Safety
    /// The machine can run `L`; there are `L::ROWS` rows, and their blocks have the bytes.
    #[inline(always)]
    unsafe fn words<L: Lanes>(self, n: usize) -> [L::V; 4] {
        // SAFETY: that of this function.
        unsafe { L::words(self.rows, self.offset + n) }
    }

    /// Of 32 bytes.
    ///
    /// # Safety
    /// As [`Place::words`].
    #[inline(always)]
    unsafe fn eight_words<L: Lanes>(self, n: usize) -> [L::V; 8] {
        // SAFETY: that of this function.
        unsafe {
            let ([a, b, c, d], [e, f, g, h]) = (self.words::<L>(n), self.words::<L>(n + 16));
            [a, b, c, d, e, f, g, h]
        }
    }
}

/// How blocks of 32 columns are read from the file blocks of several rows.
///
/// # Safety
/// All functions: the machine can run `L`; the place has a file block of each of `L::ROWS` rows.
#[allow(clippy::missing_safety_doc)] // Stated once, here above.
pub(in crate::cpu) trait FileBlocks {
    /// Whether they can be; where not, a tile is packed first.
    const READ: bool = true;
    /// Blocks whose codes are in the same bytes.
    const RUN: usize = 1;
    /// What the blocks of a file block share.
    type Header<L: Lanes>: Copy;
    /// The bytes of a run.
    type Words<L: Lanes>: Copy;
    /// What the blocks share.
    unsafe fn header<L: Lanes>(p: Place) -> Self::Header<L>;
    /// The bytes of a run.
    unsafe fn words<L: Lanes>(p: Place, run: usize) -> Self::Words<L>;
    /// Block `B` of a run.
    unsafe fn block<L: Lanes, const B: usize>(header: &Self::Header<L>, words: &Self::Words<L>, run: usize)
    -> Block<L>;
}

/// Runs a body for each block of a run, with its number as a constant: shifts by constants are cheaper.
macro_rules! each_block {
    ($run:expr, $b:ident => $body:expr) => {
        each_block!(@ $run, $b, $body, 0 1 2 3)
    };
    (@ $run:expr, $b:ident, $body:expr, $($n:literal)*) => {
        const { assert!($run <= 4) };
        $(if $n < $run {
            const $b: usize = $n;
            $body
        })*
    };
}
pub(in crate::cpu) use each_block;

/// Formats that are read through tiles only.
pub(in crate::cpu) struct Packed;

impl FileBlocks for Packed {
    const READ: bool = false;
    type Header<L: Lanes> = ();
    type Words<L: Lanes> = ();
    unsafe fn header<L: Lanes>(_: Place) {
        unreachable!("only with READ")
    }
    unsafe fn words<L: Lanes>(_: Place, _: usize) {
        unreachable!("only with READ")
    }
    unsafe fn block<L: Lanes, const B: usize>(_: &(), _: &(), _: usize) -> Block<L> {
        unreachable!("only with READ")
    }
}

/// The f16 in the lower halves, times the value of a step of codes.
///
/// # Safety
/// The machine can run `L`.
#[inline(always)]
unsafe fn scale<L: Lanes, C: Codes>(halves: L::V) -> L::F {
    // SAFETY: that of this function.
    unsafe { L::mul(L::f16_to_f32(halves), L::splat_f32(C::UNIT)) }
}

/// How far left-aligned codes are shifted down (see [`Width::down`]).
#[inline(always)]
fn down<L: Lanes, C: Codes>() -> u32 {
    C::Width::down::<L>()
}

impl FileBlocks for q4_0::Block {
    type Header<L: Lanes> = L::F;
    type Words<L: Lanes> = [L::V; 4];
    #[inline(always)]
    unsafe fn header<L: Lanes>(p: Place) -> L::F {
        // SAFETY: the trait's contract.
        unsafe { scale::<L, Bits4>(p.words::<L>(0)[0]) }
    }
    #[inline(always)]
    unsafe fn words<L: Lanes>(p: Place, _: usize) -> [L::V; 4] {
        // SAFETY: the trait's contract.
        unsafe { p.words::<L>(2) }
    }
    #[inline(always)]
    unsafe fn block<L: Lanes, const B: usize>(d: &L::F, words: &[L::V; 4], _: usize) -> Block<L> {
        // SAFETY: the trait's contract.
        unsafe { Block { codes: nibbles::<L>(words, 8 - down::<L, Bits4>()), scale: Scale::whole(*d) } }
    }
}

impl FileBlocks for q5_0::Block {
    /// The scale, and the fifth bits.
    type Header<L: Lanes> = (L::F, L::V);
    type Words<L: Lanes> = [L::V; 4];
    #[inline(always)]
    unsafe fn header<L: Lanes>(p: Place) -> (L::F, L::V) {
        // SAFETY: the trait's contract.
        unsafe {
            let [first, second, ..] = p.words::<L>(0);
            let bits = L::or(L::shr(first, 16), L::shl(second, 16));
            // Bit 4j + k belongs to byte k of quad j: bits 1 and 4 of its number change places, and bits 0 and 3.
            let bits = swapped::<L>(bits, 14, 0x0000_cccc);
            (scale::<L, Bits5>(first), swapped::<L>(bits, 7, 0x00aa_00aa))
        }
    }
    #[inline(always)]
    unsafe fn words<L: Lanes>(p: Place, _: usize) -> [L::V; 4] {
        // SAFETY: the trait's contract.
        unsafe { p.words::<L>(6) }
    }
    #[inline(always)]
    unsafe fn block<L: Lanes, const B: usize>((d, bits): &(L::F, L::V), words: &[L::V; 4], _: usize) -> Block<L> {
        // SAFETY: the trait's contract.
        unsafe {
            let to = 7 - down::<L, Bits5>();
            let low = nibbles::<L>(words, to);
            let codes = quads!(J => {
                // Where bits 2, 1 and 0 of J have come to.
                let from = (J & 1) << 2 | J >> 2 << 1 | J >> 1 & 1;
                L::or(low[J as usize], moved::<L>(*bits, from, to, 1))
            });
            Block { codes, scale: Scale::whole(*d) }
        }
    }
}

/// The bits of `mask` change places with those `n` above them.
///
/// # Safety
/// The machine can run `L`.
#[inline(always)]
unsafe fn swapped<L: Lanes>(v: L::V, n: u32, mask: u32) -> L::V {
    // SAFETY: that of this function.
    unsafe {
        let (up, down) = (L::shl(L::and(v, mask), n), L::and(L::shr(v, n), mask));
        L::or(L::and(v, !(mask | mask << n)), L::or(up, down))
    }
}

impl FileBlocks for q8_0::Block {
    type Header<L: Lanes> = L::F;
    type Words<L: Lanes> = [L::V; 8];
    #[inline(always)]
    unsafe fn header<L: Lanes>(p: Place) -> L::F {
        // SAFETY: the trait's contract.
        unsafe { scale::<L, Bits8>(p.words::<L>(0)[0]) }
    }
    #[inline(always)]
    unsafe fn words<L: Lanes>(p: Place, _: usize) -> [L::V; 8] {
        // SAFETY: the trait's contract.
        unsafe { p.eight_words::<L>(2) }
    }
    #[inline(always)]
    unsafe fn block<L: Lanes, const B: usize>(d: &L::F, words: &[L::V; 8], _: usize) -> Block<L> {
        // SAFETY: the trait's contract.
        unsafe { Block { codes: quads!(J => L::xor(words[J as usize], each(0x80))), scale: Scale::whole(*d) } }
    }
}

/// Scales and minimums of Q4_K and Q5_K.
///
/// # Safety
/// That of [`FileBlocks`].
#[inline(always)]
unsafe fn six_bits<L: Lanes, C: Codes>(p: Place) -> SixBits<L> {
    // SAFETY: the trait's contract.
    unsafe {
        let [d, low, min, high] = p.words::<L>(0);
        let upper = |v| L::and(L::shr(v, 2), each(0x30));
        let values = [
            L::and(low, each(63)),
            L::or(L::and(high, each(15)), upper(low)),
            L::and(min, each(63)),
            L::or(L::and(L::shr(high, 4), each(15)), upper(min)),
        ];
        let m = L::mul(L::f16_to_f32(L::shr(d, 16)), L::splat_f32(-1.0));
        SixBits { d: [scale::<L, C>(d), m], values }
    }
}

impl FileBlocks for q4_k::Block {
    const RUN: usize = 2;
    type Header<L: Lanes> = SixBits<L>;
    type Words<L: Lanes> = [L::V; 8];
    #[inline(always)]
    unsafe fn header<L: Lanes>(p: Place) -> SixBits<L> {
        // SAFETY: the trait's contract.
        unsafe { six_bits::<L, Bits4>(p) }
    }
    #[inline(always)]
    unsafe fn words<L: Lanes>(p: Place, run: usize) -> [L::V; 8] {
        // SAFETY: the trait's contract.
        unsafe { p.eight_words::<L>(16 + 32 * run) }
    }
    #[inline(always)]
    unsafe fn block<L: Lanes, const B: usize>(scales: &SixBits<L>, words: &[L::V; 8], run: usize) -> Block<L> {
        // SAFETY: the trait's contract.
        unsafe {
            let (from, to) = (4 * B as u32, 4 - down::<L, Bits4>());
            let codes = quads!(J => moved::<L>(words[J as usize], from, to, 15));
            Block { codes, scale: scales.with_min(2 * run + B) }
        }
    }
}

impl FileBlocks for q5_k::Block {
    const RUN: usize = 2;
    /// The scales, and the fifth bits: bit `j` of a byte for block `j`.
    type Header<L: Lanes> = (SixBits<L>, [L::V; 8]);
    type Words<L: Lanes> = [L::V; 8];
    #[inline(always)]
    unsafe fn header<L: Lanes>(p: Place) -> (SixBits<L>, [L::V; 8]) {
        // SAFETY: the trait's contract.
        unsafe { (six_bits::<L, Bits5>(p), p.eight_words::<L>(16)) }
    }
    #[inline(always)]
    unsafe fn words<L: Lanes>(p: Place, run: usize) -> [L::V; 8] {
        // SAFETY: the trait's contract.
        unsafe { p.eight_words::<L>(48 + 32 * run) }
    }
    #[inline(always)]
    unsafe fn block<L: Lanes, const B: usize>(
        (scales, bits): &(SixBits<L>, [L::V; 8]),
        words: &[L::V; 8],
        run: usize,
    ) -> Block<L> {
        // SAFETY: the trait's contract.
        unsafe {
            let down = down::<L, Bits5>();
            let codes = quads!(J => {
                let low = moved::<L>(words[J as usize], 4 * B as u32, 3 - down, 15);
                // Moved by a constant: the run is none.
                let of_run = L::shr(bits[J as usize], 2 * run as u32);
                L::or(low, moved::<L>(of_run, B as u32, 7 - down, 1))
            });
            Block { codes, scale: scales.with_min(2 * run + B) }
        }
    }
}

impl FileBlocks for q6_k::Block {
    const RUN: usize = 4;
    /// The scale, and 16 signed scales as bytes, each 128 more than it is.
    type Header<L: Lanes> = (L::F, [L::V; 4]);
    /// Lower bits of blocks 0 and 2, of 1 and 3, upper bits of all four.
    type Words<L: Lanes> = [[L::V; 8]; 3];
    #[inline(always)]
    unsafe fn header<L: Lanes>(p: Place) -> (L::F, [L::V; 4]) {
        // SAFETY: the trait's contract.
        unsafe {
            let [a, b, c, d] = p.words::<L>(192);
            let scales = [L::xor(a, each(0x80)), L::xor(b, each(0x80)), L::xor(c, each(0x80)), L::xor(d, each(0x80))];
            // The last 16 bytes end with the scale.
            (scale::<L, Bits6>(L::shr(p.words::<L>(194)[3], 16)), scales)
        }
    }
    #[inline(always)]
    unsafe fn words<L: Lanes>(p: Place, run: usize) -> [[L::V; 8]; 3] {
        // SAFETY: the trait's contract.
        unsafe {
            let low = [p.eight_words::<L>(64 * run), p.eight_words::<L>(64 * run + 32)];
            [low[0], low[1], p.eight_words::<L>(128 + 32 * run)]
        }
    }
    #[inline(always)]
    unsafe fn block<L: Lanes, const B: usize>(
        (d, scales): &(L::F, [L::V; 4]),
        words: &[[L::V; 8]; 3],
        run: usize,
    ) -> Block<L> {
        // SAFETY: the trait's contract.
        unsafe {
            let (down, pair) = (down::<L, Bits6>(), scales[2 * run + B / 2]);
            let codes = quads!(J => {
                let low = moved::<L>(words[B % 2][J as usize], 4 * (B / 2) as u32, 2 - down, 15);
                L::or(low, moved::<L>(words[2][J as usize], 2 * B as u32, 6 - down, 3))
            });
            let shift = 16 * (B % 2) as u32;
            let low = L::to_f32(L::add(L::and(L::shr(pair, shift), 255), -128));
            let high = L::to_f32(L::add(L::and(L::shr(pair, shift + 8), 255), -128));
            let d = [L::mul(low, *d), L::mul(high, *d)];
            Block { codes, scale: Scale { d, m: d } }
        }
    }
}
