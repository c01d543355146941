//! The products of rows in F16 or BF16 with many tokens, in fixed point: 16-bit integers that share a scale per block
//! of 32 columns, on both sides. An instruction multiplies twice as many of them as floats.
//!
//! Codes have 13 bits and a sign, so that 32 products fit 32 bits: their sums are exact, and all that rounds is
//! the step to codes. Weights are kept exactly as long as a block's magnitudes are within a factor of 32 (BF16) or
//! 4 (F16); otherwise a weight changes by at most 2⁻¹³ of the block's largest magnitude.
//!
//! Where a processor multiplies pairs of bf16 (`vdpbf16ps`) that is not faster by much: a core of Zen 5 does 2.29·10¹¹ such products
//! per second with as many sums in registers as there are here (2.62·10¹¹ with twice as many, its limit), and 2.25·10¹¹ of
//! these, scales included; Zen 4 does one instruction of 512 bits per cycle of either kind, as of FMA, all in the same two pipes;
//! and vectors rounded to bf16 are off by ten times as much.

use std::{marker::PhantomData, ops::Range};

#[cfg(target_arch = "x86_64")]
use super::amx::{self, BlockSums, TileBlock, each_token};
use super::{
    f32::{Bf16, Element, F16},
    micro::{self, At, IntegerBlock, MicroKernel, PackedPanels},
};
#[cfg(target_arch = "x86_64")]
use crate::{cpu::layout::TILE, simd::amx as tile};
use crate::{
    cpu::{
        Activations, ComputeType, Matrix,
        layout::{BLOCK, Line, ROUND, ROWS},
        packing::TileScratch,
        prefetch::prefetch,
        tuning::Tuning,
    },
    simd::{Isa, LaneKernel, Lanes},
};

/// Words of a row in a block: pairs of codes.
const PAIRS: usize = BLOCK / 2;

/// A float format of 16 bits.
pub(in crate::cpu) trait Half: Element {
    /// The element in the lower half of each lane.
    ///
    /// # Safety
    /// The machine can run `L`.
    unsafe fn low<L: Lanes>(words: L::V) -> L::F;
}

impl Half for Bf16 {
    #[inline(always)]
    unsafe fn low<L: Lanes>(words: L::V) -> L::F {
        // SAFETY: the machine can run `L`.
        unsafe { L::bits_to_f32(L::shl(words, 16)) }
    }
}

impl Half for F16 {
    #[inline(always)]
    unsafe fn low<L: Lanes>(words: L::V) -> L::F {
        // SAFETY: the machine can run `L`.
        unsafe { L::f16_to_f32(words) }
    }
}

/// Bits of 2ⁿ.
const fn power(n: i32) -> u32 {
    ((127 + n) as u32) << 23
}

/// How weights in 16-bit floats are multiplied with many tokens.
pub(in crate::cpu) struct Int16<E>(PhantomData<E>);

/// Lines of a packed block: of pairs for each two columns, and one of scales.
const LINES: usize = PAIRS + 1;

impl<E: Half> MicroKernel for Int16<E> {
    const PRODUCTS: ComputeType = ComputeType::Int16;

    fn lines(_: Isa) -> usize {
        LINES
    }

    fn tiles(tuning: &Tuning) -> usize {
        tuning.tiles
    }

    fn k_blocks(x: &Activations) -> (usize, usize) {
        (x.cols.div_ceil(BLOCK), x.tuning.pair_blocks)
    }

    fn pack(isa: Isa, w: &Matrix, tile: usize, blocks: Range<usize>, (packed, _): (&mut [Line], &mut TileScratch)) {
        let (element, rows, cols) = (PhantomData::<E>, w.tile_rows(tile..tile + 1), w.cols());
        // SAFETY: the instruction set was checked when the activations were made.
        unsafe { isa.run(Fix { element, rows, cols, blocks, packed, in_bytes: isa == Isa::Amx }) };
    }

    fn multiply(x: &Activations, weights: &PackedPanels, sums: &mut [[f32; ROWS]]) {
        let in_row = x.cols.div_ceil(BLOCK);
        let width = x.width_of(ComputeType::Int16);
        assert!(x.int16.d.len() >= x.tokens.div_ceil(width) * in_row * width);
        // SAFETY: the panels have, as the rows, `cols` columns, filled up to whole blocks.
        unsafe {
            let first = Panel { q: x.int16.q.as_ptr(), d: x.int16.d.as_ptr() }.at(weights.k_blocks.start, width);
            match x.isa {
                #[cfg(target_arch = "x86_64")]
                Isa::Amx => amx::multiply::<Products>(x, weights, (first, in_row), sums),
                _ => micro::multiply::<Products>(x, weights, (first, in_row), sums),
            }
        }
    }
}

/// Rows between what is packed and what is prefetched.
const ROWS_AHEAD: usize = 2 * ROWS;

/// Packs some blocks of a tile.
struct Fix<'a, E> {
    element: PhantomData<E>,
    /// Up to 16 rows as in the file.
    rows: &'a [u8],
    cols: usize,
    blocks: Range<usize>,
    packed: &'a mut [Line],
    /// Whether they are taken apart into bytes, for tiles of AMX.
    in_bytes: bool,
}

impl<E: Half> LaneKernel for Fix<'_, E> {
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let bytes = self.cols * E::SIZE;
        for (b, lines) in self.blocks.zip(self.packed.as_chunks_mut::<LINES>().0) {
            // What is not there, of rows or of columns, is zero.
            let mut padded = [Line::ZERO; ROWS];
            let mut rows = padded.each_ref().map(|line| (&raw const *line).cast::<u8>());
            let columns = b * size_of::<Line>()..bytes.min((b + 1) * size_of::<Line>());
            for (r, row) in self.rows.chunks_exact(bytes).enumerate() {
                let block = &row[columns.clone()];
                if block.len() < size_of::<Line>() {
                    padded[r].0.as_flattened_mut()[..block.len()].copy_from_slice(block);
                } else {
                    rows[r] = block.as_ptr();
                    // A packed panel is a short piece of each row, where the processor's own prefetcher stops: those of the
                    // tiles that come next.
                    prefetch(block.as_ptr().wrapping_add(ROWS_AHEAD * bytes));
                }
            }
            // SAFETY: the machine can run `L`; each row points to a whole line.
            unsafe {
                fix::<L, E>(&L::transpose(&rows), lines);
                if self.in_bytes {
                    take_apart::<L>(lines);
                }
            }
        }
    }
}

/// The first and the second elements of the words of some rows.
///
/// # Safety
/// The machine can run `L`; `row + L::ROWS ≤ 16`.
#[inline(always)]
unsafe fn halves<L: Lanes, E: Half>(words: &[u32; ROWS], row: usize) -> (L::F, L::F) {
    // SAFETY: the machine can run `L`; `row + L::ROWS ≤ 16` words.
    unsafe {
        let words = L::load(words.as_ptr().add(row).cast());
        (E::low::<L>(words), E::low::<L>(L::shr(words, 16)))
    }
}

/// `−v`, modulo 2³², of each lane.
///
/// # Safety
/// The machine can run `L`.
#[inline(always)]
unsafe fn negative<L: Lanes>(v: L::V) -> L::V {
    // SAFETY: that of this function.
    unsafe { L::add(L::xor(v, u32::MAX), 1) }
}

/// The pairs of codes of 16 rows, `[pair][row]`, and their scales.
///
/// # Safety
/// The machine can run `L`.
#[inline(always)]
unsafe fn fix<L: Lanes, E: Half>(words: &[[u32; ROWS]; PAIRS], lines: &mut [Line; LINES]) {
    const MAGNITUDE: u32 = u32::MAX >> 1;
    for row in (0..ROWS).step_by(L::ROWS) {
        // SAFETY: the machine can run `L`; `row + L::ROWS ≤ 16` words of each line.
        unsafe {
            let mut largest = L::splat(0);
            for pair in 0..PAIRS {
                let (low, high) = halves::<L, E>(&words[pair], row);
                largest = L::max(largest, L::and(L::f32_to_bits(low), MAGNITUDE));
                largest = L::max(largest, L::and(L::f32_to_bits(high), MAGNITUDE));
            }
            // 2ⁿ ≤ largest < 2ⁿ⁺¹ becomes 2¹² … 2¹³. Blocks below 2⁻¹⁰⁰ need not be told from zero.
            let exponent = L::max(L::and(largest, power(128)), L::splat(power(-100) as i32));
            let inverse = L::bits_to_f32(L::add(negative::<L>(exponent), (power(0) + power(12)) as i32));
            // The exponent of infinities and NaN, one more, is the sign: all bits are set.
            let unknown = negative::<L>(L::shr(L::add(exponent, 1 << 23), 31));
            let scale = L::or(L::add(exponent, -(12 << 23)), unknown);
            let round = L::splat_f32(ROUND);
            for pair in 0..PAIRS {
                let (low, high) = halves::<L, E>(&words[pair], row);
                let low = L::and(L::f32_to_bits(L::fma(low, inverse, round)), 0xffff);
                let high = L::shl(L::f32_to_bits(L::fma(high, inverse, round)), 16);
                L::store(L::or(low, high), (&raw mut lines[pair]).cast::<u8>().add(4 * row));
            }
            L::store(scale, (&raw mut lines[PAIRS]).cast::<u8>().add(4 * row));
        }
    }
}

/// Lines of pairs of codes become lines of high bytes and lines of low ones in turns: of a code `128·high + low`, low ≥ 0. Of four
/// columns the first and the third are before the others.
///
/// # Safety
/// The machine can run `L`.
#[inline(always)]
unsafe fn take_apart<L: Lanes>(lines: &mut [Line; LINES]) {
    for two in lines.as_chunks_mut::<2>().0 {
        for row in (0..ROWS).step_by(L::ROWS) {
            let [first, second] = two.each_mut().map(|line| (&raw mut *line).cast::<u8>().wrapping_add(4 * row));
            // SAFETY: the machine can run `L`; `row + L::ROWS ≤ 16` words of each line.
            unsafe {
                let (a, b) = (L::load(first), L::load(second));
                let high = |codes| L::and(L::shr(codes, 7), 0x00ff_00ff);
                let low = |codes| L::and(codes, 0x007f_007f);
                L::store(L::or(high(a), L::shl(high(b), 8)), first);
                L::store(L::or(low(a), L::shl(low(b), 8)), second);
            }
        }
    }
}

/// Where the parts of a panel start: `[block][width]` of each; for tiles of AMX codes are 32 high bytes and 32 low ones.
#[derive(Clone, Copy)]
struct Panel {
    q: *const [i16; BLOCK],
    d: *const f32,
}

impl At for Panel {
    #[inline(always)]
    unsafe fn at(self, b: usize, width: usize) -> Self {
        // SAFETY: that of this function.
        unsafe { Self { q: self.q.add(b * width), d: self.d.add(b * width) } }
    }
}

/// Adds a sum of products to `y`: all that rounds.
///
/// # Safety
/// The machine can run `L`.
#[inline(always)]
unsafe fn finish<L: Lanes>(sum: L::V, scale: L::F, d: f32, y: L::F) -> L::F {
    // SAFETY: that of this function.
    unsafe { L::fma(L::mul(L::to_f32(sum), scale), L::splat_f32(d), y) }
}

struct Products;

impl IntegerBlock for Products {
    type Activations = Panel;

    #[inline(always)]
    fn lines<L: Lanes>() -> usize {
        LINES
    }

    #[inline(always)]
    unsafe fn multiply<L: Lanes, const N: usize, const T: usize>(w: &[*const u8; N], x: Panel, y: &mut [[L::F; N]; T]) {
        // SAFETY: that of this function.
        unsafe {
            let line = |i: usize, line: usize| w[i].add(line * Line::BYTES);
            let mut products = [[L::splat(0); N]; T];
            for pair in 0..PAIRS {
                let mut codes = [L::splat(0); N];
                for i in 0..N {
                    codes[i] = L::load(line(i, pair));
                }
                for t in 0..T {
                    for i in 0..N {
                        products[t][i] = L::dot_pairs(products[t][i], codes[i], x.q.add(t).cast::<i16>().add(2 * pair));
                    }
                }
            }
            for i in 0..N {
                let scale = L::load_f32(line(i, PAIRS).cast());
                for t in 0..T {
                    y[t][i] = finish::<L>(products[t][i], scale, *x.d.add(t), y[t][i]);
                }
            }
        }
    }
}

/// Codes are `128·high + low`, both signed bytes.
#[cfg(target_arch = "x86_64")]
impl TileBlock for Products {
    const COLUMNS: usize = BLOCK;

    #[inline(always)]
    unsafe fn multiply_tiles<const EVEN: bool>(w: *const u8, x: Panel, [high, middle, low]: &mut BlockSums) {
        // SAFETY: that of this function: lines of high and low bytes take turns, and so do the 32 of each of the tokens.
        unsafe {
            let q = x.q.cast::<u8>();
            tile::zero::<0>();
            tile::zero::<1>();
            tile::zero::<2>();
            tile::load::<3>(q, 2 * BLOCK);
            tile::load::<5>(w, 2 * Line::BYTES);
            tile::dot_signed::<0, 3, 5>();
            tile::load::<4>(q.add(BLOCK), 2 * BLOCK);
            tile::load::<6>(w.add(Line::BYTES), 2 * Line::BYTES);
            tile::dot_signed::<1, 3, 6>();
            tile::dot_signed::<2, 4, 6>();
            tile::dot_signed::<1, 4, 5>();
            tile::store::<0>(high);
            tile::store::<1>(middle);
            tile::store::<2>(low);
        }
    }

    #[inline(always)]
    unsafe fn finish<L: Lanes>(w: *const u8, x: Panel, [high, middle, low]: &BlockSums, y: &mut [L::F; TILE]) {
        // SAFETY: that of this function; behind the codes are scales.
        unsafe {
            let scale = L::load_f32(w.add(PAIRS * Line::BYTES).cast());
            each_token!(T => {
                let of = |sums: &tile::Sums| L::load(sums.0[T].as_ptr().cast());
                let sum = L::sum(L::shl(L::sum(L::shl(of(high), 7), of(middle)), 7), of(low));
                y[T] = finish::<L>(sum, scale, *x.d.add(T), y[T]);
            });
        }
    }
}
