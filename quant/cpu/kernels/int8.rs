//! Int8 products of 16 rows with one panel of activations, for quantized formats and few tokens: the rows are
//! unpacked in registers. [`finish`] is all that rounds, here and with [many tokens](super::int8_gemm).

use std::sync::atomic::{Ordering, compiler_fence};

use super::source::Source;
use crate::{
    cpu::{
        activations::int8::Panel,
        layout::{BLOCK, OFFSET, ROWS, WIDE},
        tiles::{Block, Scale, Shape, ShapeOf, Width, file::each_block},
    },
    simd::{LaneKernel, Lanes},
};

/// Where a sum of products starts: at [`OFFSET`] and what is missing from the sum of the instruction set's
/// dot products, or of pairs, to `Σ (w − 128)·a`, or to `Σ w·a` in formats with minimums.
///
/// # Safety
/// The machine can run `L`; `x` is the panel of `width` tokens advanced to the block, `t < width`.
#[inline(always)]
pub(super) unsafe fn start<L: Lanes, S: Shape>(x: Panel, width: usize, part: usize, t: usize, pairs: bool) -> L::V {
    // SAFETY: the machine can run `L`; `x` is the panel at the block, and `part` and `t` are inside it.
    unsafe {
        let bias = if S::PARTS == 1 { x.bias.add(t) } else { x.half_bias.add(part * width + t) };
        match (S::MIN, L::CENTRED && !S::is_short::<L>() && !pairs) {
            (false, false) => L::splat(*bias),
            (true, true) => L::splat(OFFSET - (*bias - OFFSET)),
            _ => L::splat(OFFSET),
        }
    }
}

/// Adds the products of four codes per lane and the activations at `a`: to the short sums of their group of quads, whose first
/// ones they may be, or where there are none to `sum`.
///
/// # Safety
/// The machine can run `L`; `a` is valid for four bytes.
#[inline(always)]
pub(super) unsafe fn add_quad<L: Lanes, S: Shape>(
    sum: &mut L::V,
    short: &mut L::V,
    is_first: bool,
    (codes, a): (L::V, *const i8),
) {
    // SAFETY: that of this function.
    unsafe {
        match (S::is_short::<L>(), is_first) {
            (false, _) => *sum = L::dot(*sum, codes, a),
            (true, true) => *short = L::short_sums(codes, a),
            (true, false) => *short = L::dot_short(*short, codes, a),
        }
    }
}

/// Adds the short sums of a group of quads, which are of right-aligned codes, to a sum of products; where there are no
/// short sums it is the sum.
///
/// # Safety
/// The machine can run `L`.
#[inline(always)]
pub(super) unsafe fn add_short<L: Lanes, S: Shape>(sum: L::V, short: L::V) -> L::V {
    if !S::is_short::<L>() {
        return sum;
    }
    // SAFETY: the machine can run `L`; two integers.
    unsafe { L::dot_pairs(sum, short, const { &[S::Width::STEP; 2] }.as_ptr()) }
}

/// What takes the offset off a sum that is multiplied with the scale `d`. Exact: a scale has 19 bits at
/// most, the offset two.
///
/// # Safety
/// The machine can run `L`.
#[inline(always)]
pub(super) unsafe fn offset<L: Lanes>(d: L::F) -> L::F {
    // SAFETY: the machine can run `L`.
    unsafe { L::mul(d, L::splat_f32(-f32::from_bits(OFFSET as u32))) }
}

/// Adds a sum of products to `y`. Integers are exact; this is all that rounds, one lane per row, in this
/// order, columns ascending.
///
/// # Safety
/// As [`start`]; `offset` is that of the part's scale.
#[inline(always)]
pub(super) unsafe fn finish<L: Lanes, S: Shape>(
    sum: L::V,
    scale: (&Scale<L::F>, L::F),
    x: Panel,
    at: (usize, usize, usize),
    y: L::F,
) -> L::F {
    // SAFETY: that of this function.
    unsafe { finish_tokens::<L, S, 1>(sum, scale, x, at, y) }
}

/// [`finish`] of sums of `TOKENS` tokens from `t` on: of one, or of two that take turns.
///
/// # Safety
/// As [`finish`], of all the tokens.
#[inline(always)]
pub(super) unsafe fn finish_tokens<L: Lanes, S: Shape, const TOKENS: usize>(
    sum: L::V,
    (scale, offset): (&Scale<L::F>, L::F),
    x: Panel,
    (width, part, t): (usize, usize, usize),
    y: L::F,
) -> L::F {
    // SAFETY: as in `start`: the machine can run `L`, and `x` is the panel at the block.
    unsafe {
        let product = L::fma(L::bits_to_f32(sum), scale.d[part], offset);
        let y = L::fma(product, of_tokens::<L, TOKENS>(x.d.add(t)), y);
        match (S::MIN, S::PARTS) {
            (false, _) => y,
            (true, 1) => L::fma(scale.m[part], of_tokens::<L, TOKENS>(x.sum.add(t)), y),
            (true, _) => L::fma(scale.m[part], of_tokens::<L, TOKENS>(x.half_sum.add(part * width + t)), y),
        }
    }
}

/// The number of a token in all lanes, or those of two in turns.
///
/// # Safety
/// The machine can run `L`, and has [`Lanes::MATRICES`] where there are two tokens; `p` is valid for them.
#[inline(always)]
unsafe fn of_tokens<L: Lanes, const TOKENS: usize>(p: *const f32) -> L::F {
    // SAFETY: that of this function.
    unsafe { if TOKENS == 1 { L::splat_f32(*p) } else { L::bits_to_f32(L::splat_two(p.cast())) } }
}

/// Tiles of 16 rows × panels of `T` tokens: each block is unpacked in registers and used for all tokens of a panel. The loops over
/// tiles and panels are in here, for a call drains the processor's pipeline, and with one token a tile is 300 ns.
pub(in crate::cpu) struct Gemv<S, const T: usize> {
    /// The first tile.
    pub(in crate::cpu) w: S,
    /// How many there are, each [`Source::after`] the one before.
    pub(in crate::cpu) tiles: usize,
    /// The first panel, of width `T`.
    pub(in crate::cpu) x: Panel,
    pub(in crate::cpu) y: Outputs,
}

/// Where products of whole tiles go: `[tokens][stride]`.
#[derive(Clone, Copy)]
pub(in crate::cpu) struct Outputs {
    /// That of the first row and the first token.
    pub(in crate::cpu) y: *mut f32,
    pub(in crate::cpu) stride: usize,
    pub(in crate::cpu) tokens: usize,
}

impl<S: Source, const T: usize> LaneKernel for Gemv<S, T> {
    const ONLY_AVX512: bool = T == WIDE;

    /// # Safety
    /// There are so many tiles, panels for `y.tokens` with as many blocks as the rows, and memory for 16 outputs of each tile and
    /// token, which nobody else has.
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let Self { w, tiles, x, y } = self;
        for tile in 0..tiles {
            let w = w.after(tile);
            for token in (0..y.tokens).step_by(T) {
                // SAFETY: that of this function.
                unsafe {
                    let sums = multiply_tile::<L, S, T>(w, x.at(token / T * w.blocks(), T));
                    for t in 0..T.min(y.tokens - token) {
                        let y = y.y.add((token + t) * y.stride + tile * ROWS);
                        y.cast::<[f32; ROWS]>().write_unaligned(sums[t]);
                    }
                }
            }
        }
    }
}

/// The products of 16 rows with a panel, one per token and row.
///
/// # Safety
/// The machine can run `L`; the panel has as many blocks as the rows.
#[inline(always)]
unsafe fn multiply_tile<L: Lanes, S: Source, const T: usize>(w: S, x: Panel) -> [[f32; ROWS]; T] {
    let mut sums = [[0.0f32; ROWS]; T];
    let groups = w.blocks() / S::GROUP;
    // Lines that hold more rows than a register are read from memory once, and evenly: some blocks of some rows, then the
    // same blocks of the others.
    let step = if S::LINES && L::ROWS < ROWS { const { usize::div_ceil(8, S::GROUP) } } else { groups.max(1) };
    for first in (0..groups).step_by(step) {
        for row in (0..ROWS).step_by(L::ROWS) {
            // SAFETY: the machine can run `L`; blocks and rows are inside source and panel.
            unsafe {
                let mut y = [L::splat_f32(0.0); T];
                for t in 0..T {
                    y[t] = L::load_f32(sums[t].as_ptr().add(row));
                }
                for group in first..groups.min(first + step) {
                    let header = w.header::<L>(group, row);
                    for run in 0..S::GROUP / S::RUN {
                        let words = w.words::<L>(group, run, row);
                        each_block!(S::RUN, B => {
                            let block = S::block::<L, B>(&header, &words, run);
                            let b = group * S::GROUP + run * S::RUN + B;
                            w.prefetch(b, row, L::ROWS);
                            // No instruction. Loads for the next block would move up and take the registers that this one
                            // needs: without, one token of Q6_K in place takes a quarter longer.
                            compiler_fence(Ordering::SeqCst);
                            multiply_block::<L, ShapeOf<S::Format>, T>(&block, x.at(b, T), &mut y);
                        });
                    }
                }
                for t in 0..T {
                    L::store_f32(y[t], sums[t].as_mut_ptr().add(row));
                }
            }
        }
    }
    sums
}

/// Adds the products of a block with a panel.
///
/// # Safety
/// The machine can run `L`; `x` is the panel advanced to the block.
#[inline(always)]
unsafe fn multiply_block<L: Lanes, S: Shape, const T: usize>(w: &Block<L>, x: Panel, y: &mut [L::F; T]) {
    // SAFETY: that of this function.
    unsafe {
        multiply_part::<L, S, 0, T>(w, x, y);
        if S::PARTS == 2 {
            multiply_part::<L, S, 1, T>(w, x, y);
        }
    }
}

/// The part of [`multiply_block`] that has a scale of its own.
///
/// # Safety
/// The machine can run `L`; `x` is the panel advanced to the block.
#[inline(always)]
unsafe fn multiply_part<L: Lanes, S: Shape, const PART: usize, const T: usize>(
    w: &Block<L>,
    x: Panel,
    y: &mut [L::F; T],
) {
    // SAFETY: that of this function.
    unsafe {
        let mut sums = [L::splat(0); T];
        for t in 0..T {
            sums[t] = start::<L, S>(x, T, PART, t, false);
        }
        for group in 0..S::groups() {
            let mut short = [L::splat(0); T];
            // Quad by quad: where codes are in registers there is one for all tokens.
            for j in S::quads(PART, group) {
                for t in 0..T {
                    let (is_first, a) = (j == S::quads(PART, group).start, x.q.add(BLOCK * t + 4 * j));
                    add_quad::<L, S>(&mut sums[t], &mut short[t], is_first, (w.codes[j], a));
                }
            }
            for t in 0..T {
                sums[t] = add_short::<L, S>(sums[t], short[t]);
            }
        }
        let offset = offset::<L>(w.scale.d[PART]);
        for t in 0..T {
            y[t] = finish::<L, S>(sums[t], (&w.scale, offset), x, (T, PART, t), y[t]);
        }
    }
}
