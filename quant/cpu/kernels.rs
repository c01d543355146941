//! The products of one tile with one panel of activations, for quantized formats.
//!
//! For one panel of tokens a tile is unpacked in registers. For more, it is unpacked once into a strip of
//! bytes and f32 scales, and the strip is multiplied with all panels. Both end in [`finish`], so that a token
//! gets the same bits alone and in any batch.

use std::{marker::PhantomData, ops::Range};

use super::{
    activations::{BLOCK, Panel},
    lanes::{Kernel, Lanes},
    tiles::{Codes, Layout, Line, ROWS, Scale, Scales, Shape, ShapeOf, TileFormat},
};

/// Bytes of one line.
const LINE: usize = size_of::<Line>();

/// One block of 32 columns of a tile in registers.
struct Block<L: Lanes> {
    codes: [L::V; 8],
    scale: Scale<L::F>,
}

/// What sums of products start at: as bits of an f32, this plus an integer below 2²² is the float 1.5·2²³
/// plus that integer, so that sums need no conversion. It is in the `bias` of activations already.
pub(super) const OFFSET: i32 = 0x4b40_0000;

/// Where a sum of products starts: at [`OFFSET`] and what is missing from the sum of the instruction set's
/// dot products to `Σ (w − 128)·a`, or to `Σ w·a` in formats with minimums.
///
/// # Safety
/// The machine can run `L`; `x` is the panel of `width` tokens advanced to the block, `t < width`.
#[inline(always)]
unsafe fn start<L: Lanes, S: Shape>(x: Panel, width: usize, part: usize, t: usize) -> L::V {
    // SAFETY: the caller's promise.
    unsafe {
        let bias = if S::PARTS == 1 { x.bias.add(t) } else { x.half_bias.add(part * width + t) };
        match (S::MIN, L::CENTRED) {
            (false, false) => L::splat(*bias),
            (true, true) => L::splat(OFFSET - (*bias - OFFSET)),
            _ => L::splat(OFFSET),
        }
    }
}

/// What takes the offset off a sum that is multiplied with the scale `d`. Exact: a scale has 19 bits at
/// most, the offset two.
///
/// # Safety
/// The machine can run `L`.
#[inline(always)]
unsafe fn offset<L: Lanes>(d: L::F) -> L::F {
    // SAFETY: the caller's promise.
    unsafe { L::mul(d, L::splat_f32(-f32::from_bits(OFFSET as u32))) }
}

/// Adds a sum of products to `y`. Integers are exact; this is all that rounds, one lane per row, in this
/// order, columns ascending.
///
/// # Safety
/// As [`start`]; `offset` is that of the part's scale.
#[inline(always)]
unsafe fn finish<L: Lanes, S: Shape>(
    sum: L::V,
    (scale, offset): (&Scale<L::F>, L::F),
    x: Panel,
    (width, part, t): (usize, usize, usize),
    y: L::F,
) -> L::F {
    // SAFETY: the caller's promise.
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

impl Panel {
    /// The panel of `width` tokens, advanced by `b` blocks.
    ///
    /// # Safety
    /// The panel has these blocks.
    #[inline(always)]
    pub(super) unsafe fn at(self, b: usize, width: usize) -> Self {
        let i = b * width;
        // SAFETY: the caller's promise.
        unsafe {
            Self {
                q: self.q.add(BLOCK * i),
                d: self.d.add(i),
                bias: self.bias.add(i),
                sum: self.sum.add(i),
                half_bias: self.half_bias.add(2 * i),
                half_sum: self.half_sum.add(2 * i),
            }
        }
    }
}

/// A packed tile of `cols` columns.
#[derive(Clone, Copy)]
pub(super) struct Tile<F> {
    bytes: *const u8,
    cols: usize,
    format: PhantomData<F>,
}

impl<F: TileFormat> Tile<F> {
    /// The tile in these lines.
    pub(super) fn new(bytes: &[u8], cols: usize) -> Self {
        assert!(bytes.len() >= Layout::of::<F>(cols).lines * LINE);
        Self { bytes: bytes.as_ptr(), cols, format: PhantomData }
    }

    /// Codes and scales of block `b` for rows `row … row + L::ROWS`.
    ///
    /// # Safety
    /// The machine can run `L`; the tile has the block and the rows.
    #[inline(always)]
    unsafe fn unpack<L: Lanes>(&self, b: usize, row: usize) -> Block<L> {
        let group = F::Scales::GROUP;
        // SAFETY: the caller's promise; `new` checked that the planes are inside the tile.
        unsafe {
            let scales = self.scales(b);
            let codes = self.bytes.add(b * F::Codes::LINES * LINE + 4 * row);
            let scale = F::Scales::load::<L>(scales, row, b % group, F::Codes::UNIT);
            Block { codes: F::Codes::unpack::<L>(codes), scale }
        }
    }

    /// Where the scales of block `b` are.
    #[inline(always)]
    fn scales(&self, b: usize) -> *const u8 {
        let codes = self.cols / BLOCK * F::Codes::LINES * LINE;
        self.bytes.wrapping_add(codes + b / F::Scales::GROUP * F::Scales::BYTES)
    }

    /// Asks for what is read some time after block `b`: the tiles that follow, and the scales of the next one,
    /// which are used long before the codes that lie in front of them.
    #[inline(always)]
    fn prefetch(&self, b: usize) {
        // What a block takes of its tile, on the average.
        let bytes = const { F::Codes::LINES * LINE + F::Scales::BYTES / F::Scales::GROUP };
        stream(self.bytes.wrapping_add(b * bytes), bytes.div_ceil(LINE));
        prefetch(self.scales(b).wrapping_add(self.cols / BLOCK * bytes + b % F::Scales::GROUP * LINE));
    }
}

/// How far ahead of their use weights are asked for into the second-level cache, and from there into the first.
/// What the processor's own look-ahead over a few blocks of arithmetic does not reach; either of the two alone
/// reads a tenth less.
const FAR: usize = 8192;
const NEAR: usize = 2048;

/// Asks for what comes some lines after `p`, whatever lies there: tiles and rows follow each other.
#[inline(always)]
pub(super) fn stream(p: *const u8, lines: usize) {
    #[cfg(target_arch = "x86_64")]
    for i in 0..lines {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: every x86-64 processor has the instruction, and it may be given any address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(p.wrapping_add(i * LINE + FAR).cast()) }
        prefetch(p.wrapping_add(i * LINE + NEAR));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (p, lines);
}

/// Asks for the line at `p`, whatever lies there.
#[inline(always)]
pub(super) fn prefetch(p: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: as in `stream`.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(p.cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}

/// Tile × one panel of `T` tokens: each block is unpacked in registers and used for all of them.
pub(super) struct Gemv<'a, F, const T: usize> {
    /// The weights.
    pub(super) tile: Tile<F>,
    /// A panel of width `T`.
    pub(super) x: Panel,
    /// One sum per token and row.
    pub(super) y: &'a mut [[f32; ROWS]; T],
}

impl<F: TileFormat, const T: usize> Kernel for Gemv<'_, F, T> {
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
                            for j in ShapeOf::<F>::quads(part) {
                                sum = L::dot(sum, w.codes[j], x.q.add(BLOCK * t + 4 * j));
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

/// Unpacks some blocks of a tile into a strip.
pub(super) struct Expand<'a, F> {
    /// The weights.
    pub(super) tile: Tile<F>,
    /// Which blocks.
    pub(super) blocks: Range<usize>,
    /// [`strip_lines`] per block.
    pub(super) strip: &'a mut [Line],
}

/// Lines of one block of a strip: 8 of codes, then f32 scales, then minimums.
pub(super) const fn strip_lines<S: Shape>() -> usize {
    8 + S::PARTS * if S::MIN { 2 } else { 1 }
}

impl<F: TileFormat> Kernel for Expand<'_, F> {
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let lines = strip_lines::<ShapeOf<F>>();
        assert!(self.strip.len() >= self.blocks.len() * lines && self.blocks.end <= self.tile.cols / BLOCK);
        let (strip, first) = (self.strip.as_mut_ptr(), self.blocks.start);
        for b in self.blocks {
            for row in (0..ROWS).step_by(L::ROWS) {
                // SAFETY: the machine can run `L`; `row + L::ROWS ≤ 16` lanes of the lines of block b.
                unsafe {
                    let w = self.tile.unpack::<L>(b, row);
                    let line = |i: usize| -> *mut u8 { strip.add((b - first) * lines + i).cast::<u8>().add(4 * row) };
                    for j in 0..8 {
                        L::store(w.codes[j], line(j));
                    }
                    for part in 0..ShapeOf::<F>::PARTS {
                        L::store_f32(w.scale.d[part], line(8 + part).cast());
                        if ShapeOf::<F>::MIN {
                            L::store_f32(w.scale.m[part], line(8 + ShapeOf::<F>::PARTS + part).cast());
                        }
                    }
                }
            }
        }
    }
}

/// Strips of `R` tiles × as many blocks of one panel of `T` tokens, added to what is there.
pub(super) struct Gemm<'a, S, const R: usize, const T: usize> {
    /// What the scales of the strips are.
    pub(super) shape: PhantomData<S>,
    /// The weights, strips of one length.
    pub(super) strips: [&'a [Line]; R],
    /// A panel of width `T`, advanced to the first block of the strips.
    pub(super) x: Panel,
    /// Sums by tile and token: `[R · T]` times a tile's rows.
    pub(super) y: &'a mut [[f32; ROWS]],
}

impl<S: Shape, const R: usize, const T: usize> Kernel for Gemm<'_, S, R, T> {
    /// # Safety
    /// The panel has as many blocks as each strip.
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let lines = strip_lines::<S>();
        let blocks = self.strips[0].len() / lines;
        assert!(self.strips.iter().all(|s| s.len() == blocks * lines) && self.y.len() >= R * T);
        for row in (0..ROWS).step_by(L::ROWS) {
            // SAFETY: the machine can run `L`; `row + L::ROWS ≤ 16` lanes of each line, and the panel has
            // as many blocks as the strips.
            unsafe {
                let mut y = [[L::splat_f32(0.0); R]; T];
                for t in 0..T {
                    for r in 0..R {
                        y[t][r] = L::load_f32(self.y[r * T + t].as_ptr().add(row));
                    }
                }
                for b in 0..blocks {
                    multiply_block::<L, S, R, T>(&self.strips, b, row, self.x.at(b, T), &mut y);
                }
                for t in 0..T {
                    for r in 0..R {
                        L::store_f32(y[t][r], self.y[r * T + t].as_mut_ptr().add(row));
                    }
                }
            }
        }
    }
}

/// Adds the products of block `b` of some strips with a panel: `R · T` sums in registers, each of the
/// loaded activations used for `R` tiles and each of the codes for `T` tokens.
///
/// # Safety
/// The machine can run `L`; the strips have the block; `x` is the panel advanced to it.
#[inline(always)]
unsafe fn multiply_block<L: Lanes, S: Shape, const R: usize, const T: usize>(
    strips: &[&[Line]; R],
    b: usize,
    row: usize,
    x: Panel,
    y: &mut [[L::F; R]; T],
) {
    // SAFETY: the caller's promise.
    unsafe {
        for part in 0..S::PARTS {
            let mut sums = [[start::<L, S>(x, T, part, 0); R]; T];
            for t in 1..T {
                sums[t] = [start::<L, S>(x, T, part, t); R];
            }
            for j in S::quads(part) {
                let mut codes = [L::load(strip_line::<S>(strips[0], b, j, row)); R];
                for r in 1..R {
                    codes[r] = L::load(strip_line::<S>(strips[r], b, j, row));
                }
                for t in 0..T {
                    for r in 0..R {
                        sums[t][r] = L::dot(sums[t][r], codes[r], x.q.add(BLOCK * t + 4 * j));
                    }
                }
            }
            for r in 0..R {
                let d = L::load_f32(strip_line::<S>(strips[r], b, 8 + part, row).cast());
                let m = if S::MIN {
                    L::load_f32(strip_line::<S>(strips[r], b, 8 + S::PARTS + part, row).cast())
                } else {
                    d
                };
                let (scale, offset) = (Scale { d: [d; 2], m: [m; 2] }, offset::<L>(d));
                for t in 0..T {
                    y[t][r] = finish::<L, S>(sums[t][r], (&scale, offset), x, (T, part, t), y[t][r]);
                }
            }
        }
    }
}

/// A row of a line of a strip.
///
/// # Safety
/// The strip has the block.
#[inline(always)]
unsafe fn strip_line<S: Shape>(strip: &[Line], b: usize, line: usize, row: usize) -> *const u8 {
    // SAFETY: the caller's promise.
    unsafe { strip.as_ptr().add(b * strip_lines::<S>() + line).cast::<u8>().add(4 * row) }
}
