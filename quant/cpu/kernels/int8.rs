//! Int8 products of one tile with one panel of activations, for quantized formats and few tokens: the tile is
//! unpacked in registers. [`finish`] is all that rounds, here and with [many tokens](super::int8_gemm).

use std::marker::PhantomData;

use crate::{
    cpu::{
        activations::int8::Panel,
        layout::{BLOCK, Line, OFFSET, ROWS},
        prefetch::{prefetch, stream},
        tiles::{Codes, Scale, Scales, Shape, ShapeOf, TileFormat, TileLayout, Width},
    },
    simd::{LaneKernel, Lanes},
};

/// One block of 32 columns of a tile in registers.
pub(super) struct Block<L: Lanes> {
    /// Left-aligned codes, four columns per lane.
    pub(super) codes: [L::V; 8],
    /// Scales of its halves.
    pub(super) scale: Scale<L::F>,
}

/// Where a sum of products starts: at [`OFFSET`] and what is missing from the sum of the instruction set's
/// dot products to `Σ (w − 128)·a`, or to `Σ w·a` in formats with minimums.
///
/// # Safety
/// The machine can run `L`; `x` is the panel of `width` tokens advanced to the block, `t < width`.
#[inline(always)]
pub(super) unsafe fn start<L: Lanes, S: Shape>(x: Panel, width: usize, part: usize, t: usize) -> L::V {
    // SAFETY: the machine can run `L`; `x` is the panel at the block, and `part` and `t` are inside it.
    unsafe {
        let bias = if S::PARTS == 1 { x.bias.add(t) } else { x.half_bias.add(part * width + t) };
        match (S::MIN, L::CENTRED && !S::is_short::<L>()) {
            (false, false) => L::splat(*bias),
            (true, true) => L::splat(OFFSET - (*bias - OFFSET)),
            _ => L::splat(OFFSET),
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
    (scale, offset): (&Scale<L::F>, L::F),
    x: Panel,
    (width, part, t): (usize, usize, usize),
    y: L::F,
) -> L::F {
    // SAFETY: as in `start`: the machine can run `L`, and `x` is the panel at the block.
    unsafe {
        let product = L::fma(L::bits_to_f32(sum), scale.d[part], offset);
        let y = L::fma(product, L::splat_f32(*x.d.add(t)), y);
        match (S::MIN, S::PARTS) {
            (false, _) => y,
            (true, 1) => L::fma(scale.m[part], L::splat_f32(*x.sum.add(t)), y),
            (true, _) => L::fma(scale.m[part], L::splat_f32(*x.half_sum.add(part * width + t)), y),
        }
    }
}

/// A packed tile of `cols` columns.
#[derive(Clone, Copy)]
pub(in crate::cpu) struct Tile<F> {
    bytes: *const u8,
    /// Columns of the tile.
    pub(super) cols: usize,
    format: PhantomData<F>,
}

impl<F: TileFormat> Tile<F> {
    /// The tile in these lines.
    pub(in crate::cpu) fn new(bytes: &[u8], cols: usize) -> Self {
        assert!(bytes.len() >= TileLayout::of::<F>(cols).lines * Line::BYTES);
        Self { bytes: bytes.as_ptr(), cols, format: PhantomData }
    }

    /// Codes and scales of block `b` for rows `row … row + L::ROWS`.
    ///
    /// # Safety
    /// The machine can run `L`; the tile has the block and the rows.
    #[inline(always)]
    pub(super) unsafe fn unpack<L: Lanes>(&self, b: usize, row: usize) -> Block<L> {
        let group = F::Scales::GROUP;
        // SAFETY: the machine can run `L`, and the tile has the block and the rows; `new` checked its length.
        unsafe {
            let scales = self.scales(b);
            let codes = self.bytes.add(b * F::Codes::LINES * Line::BYTES + 4 * row);
            let scale = F::Scales::load::<L>(scales, row, b % group, F::Codes::UNIT);
            Block { codes: F::Codes::unpack::<L>(codes), scale }
        }
    }

    /// Where the scales of block `b` are.
    #[inline(always)]
    fn scales(&self, b: usize) -> *const u8 {
        let codes = self.cols / BLOCK * F::Codes::LINES * Line::BYTES;
        self.bytes.wrapping_add(codes + b / F::Scales::GROUP * F::Scales::BYTES)
    }

    /// Prefetches what is read some time after block `b`: the tiles that follow, and the scales of the next one,
    /// which are used long before the codes that lie in front of them.
    #[inline(always)]
    fn prefetch(&self, b: usize) {
        // What a block takes of its tile, on the average.
        let bytes = const { F::Codes::LINES * Line::BYTES + F::Scales::BYTES / F::Scales::GROUP };
        stream(self.bytes.wrapping_add(b * bytes), bytes.div_ceil(Line::BYTES));
        prefetch(self.scales(b).wrapping_add(self.cols / BLOCK * bytes + b % F::Scales::GROUP * Line::BYTES));
    }
}

/// Tile × one panel of `T` tokens: each block is unpacked in registers and used for all of them.
pub(in crate::cpu) struct Gemv<'a, F, const T: usize> {
    pub(in crate::cpu) tile: Tile<F>,
    /// A panel of width `T`.
    pub(in crate::cpu) x: Panel,
    /// One sum per token and row.
    pub(in crate::cpu) y: &'a mut [[f32; ROWS]; T],
}

impl<F: TileFormat, const T: usize> LaneKernel for Gemv<'_, F, T> {
    /// # Safety
    /// The panel has as many blocks as the tile.
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        for row in (0..ROWS).step_by(L::ROWS) {
            // SAFETY: the machine can run `L`; blocks and rows are inside tile and panel.
            unsafe {
                let mut y = [L::splat_f32(0.0); T];
                for b in 0..self.tile.cols / BLOCK {
                    self.tile.prefetch(b);
                    let (w, x) = (self.tile.unpack::<L>(b, row), self.x.at(b, T));
                    for part in 0..ShapeOf::<F>::PARTS {
                        let offset = offset::<L>(w.scale.d[part]);
                        for t in 0..T {
                            let mut sum = start::<L, ShapeOf<F>>(x, T, part, t);
                            for group in 0..ShapeOf::<F>::groups() {
                                let mut short = L::splat(0);
                                for j in ShapeOf::<F>::quads(part, group) {
                                    let (w, a) = (w.codes[j], x.q.add(BLOCK * t + 4 * j));
                                    if ShapeOf::<F>::is_short::<L>() {
                                        short = L::dot_short(short, w, a);
                                    } else {
                                        sum = L::dot(sum, w, a);
                                    }
                                }
                                sum = add_short::<L, ShapeOf<F>>(sum, short);
                            }
                            y[t] = finish::<L, ShapeOf<F>>(sum, (&w.scale, offset), x, (T, part, t), y[t]);
                        }
                    }
                }
                for t in 0..T {
                    L::store_f32(y[t], self.y[t].as_mut_ptr().add(row));
                }
            }
        }
    }
}
