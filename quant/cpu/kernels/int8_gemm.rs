//! Int8 products of many tokens, for quantized formats: tiles are unpacked once into packed panels of bytes and f32
//! scales, which are multiplied with all panels of tokens.

use std::{marker::PhantomData, ops::Range};

use super::{
    int8::{add_quad, add_short, finish, offset, start},
    micro::{MicroKernel, PackedPanels, TILES, tiles_at_once},
    source::{FileRows, Source, Tile},
};
use crate::{
    cpu::{
        Activations, Matrix,
        activations::int8::Panel,
        layout::{BLOCK, Line, NARROW, ROWS, WIDE},
        matrix::TileBytes,
        packing::TileScratch,
        tiles::{Block, FileBlocks, Scale, Shape, ShapeOf, TileFormat, file::each_block},
    },
    simd::{Isa, LaneKernel, Lanes},
};

/// Formats with tiles: blocks of 32 columns, integer products.
pub(in crate::cpu) struct Int8<F>(PhantomData<F>);

/// Most blocks of a packed panel: as many panels as are multiplied at once and the same columns of a panel of activations fit
/// the first-level cache; on processors with AVX2 alone it is small, or half of it where two threads share a core.
const fn most_blocks(isa: Isa) -> usize {
    match isa {
        Isa::Avx2 => 16,
        _ => 32,
    }
}

impl<F: TileFormat> MicroKernel for Int8<F> {
    const LINES: usize = packed_lines::<ShapeOf<F>>();

    fn tiles(isa: Isa) -> usize {
        tiles_at_once(isa)
    }

    fn k_blocks(isa: Isa, cols: usize) -> (usize, usize) {
        let blocks = cols / BLOCK;
        (blocks, blocks.div_ceil(blocks.div_ceil(most_blocks(isa))))
    }

    fn pack(
        isa: Isa,
        w: &Matrix,
        tile: usize,
        blocks: Range<usize>,
        (packed, unpacked): (&mut [Line], &mut TileScratch),
    ) {
        match w.tile(tile, unpacked) {
            TileBytes::Packed(bytes) => expand(isa, Tile::<F>::new(bytes, w.cols()), blocks, packed),
            TileBytes::File(rows) if F::File::READ => expand(isa, FileRows::<F>::new(rows, w.cols()), blocks, packed),
            TileBytes::File(_) => unreachable!("{} is packed first", w.ty()),
        }
    }

    fn multiply(x: &Activations, panel: usize, weights: &PackedPanels, sums: &mut [[f32; ROWS]]) {
        match (x.width, weights.tiles) {
            (WIDE, TILES) => gemm::<F, TILES, WIDE>(x, panel, weights, sums),
            (WIDE, _) => gemm::<F, 1, WIDE>(x, panel, weights, sums),
            (_, TILES) => gemm::<F, TILES, NARROW>(x, panel, weights, sums),
            (_, _) => gemm::<F, 1, NARROW>(x, panel, weights, sums),
        }
    }
}

fn gemm<F: TileFormat, const R: usize, const T: usize>(
    x: &Activations,
    panel: usize,
    weights: &PackedPanels,
    sums: &mut [[f32; ROWS]],
) {
    assert!(x.width == T && weights.tiles == R);
    // SAFETY: the instruction set was checked when the activations were made; the panel has width `T` and,
    // as the tiles, `cols` columns: the blocks of the weights are blocks of it.
    unsafe {
        let x_blocks = x.int8.panel(panel, (x.cols / BLOCK, T)).at(weights.k_blocks.start, T);
        let weights = std::array::from_fn(|r| weights.of(r));
        x.isa.run(Gemm::<ShapeOf<F>, R, T> { shape: PhantomData, weights, x: x_blocks, y: sums });
    }
}

fn expand(isa: Isa, w: impl Source, blocks: Range<usize>, packed: &mut [Line]) {
    // SAFETY: the instruction set was checked when the activations were made.
    unsafe { isa.run(Expand { w, blocks, packed }) };
}

/// Unpacks some blocks of 16 rows into packed lines.
struct Expand<'a, S> {
    w: S,
    blocks: Range<usize>,
    /// [`packed_lines`] per block.
    packed: &'a mut [Line],
}

/// Lines of one packed block: 8 of codes, then f32 scales, then minimums.
const fn packed_lines<S: Shape>() -> usize {
    8 + S::PARTS * if S::MIN { 2 } else { 1 }
}

impl<S: Source> LaneKernel for Expand<'_, S> {
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let lines = packed_lines::<ShapeOf<S::Format>>();
        assert!(self.packed.len() >= self.blocks.len() * lines && self.blocks.end <= self.w.blocks());
        let (packed, first) = (self.packed.as_mut_ptr(), self.blocks.start);
        let of_group = S::GROUP / S::RUN;
        for row in (0..ROWS).step_by(L::ROWS) {
            // SAFETY: the machine can run `L`; `row + L::ROWS ≤ 16`, and the rows have the blocks, whole groups of them.
            unsafe {
                let runs = self.blocks.start / S::RUN..self.blocks.end.div_ceil(S::RUN);
                let mut header = self.w.header::<L>(runs.start / of_group, row);
                for run in runs.clone() {
                    let (group, of_it) = (run / of_group, run % of_group);
                    if of_it == 0 && run > runs.start {
                        header = self.w.header::<L>(group, row);
                    }
                    let words = self.w.words::<L>(group, of_it, row);
                    each_block!(S::RUN, B => {
                        let b = run * S::RUN + B;
                        if self.blocks.contains(&b) {
                            self.w.prefetch(b, row, L::ROWS);
                            let w = S::block::<L, B>(&header, &words, of_it);
                            let to = packed.add((b - first) * lines).cast::<u8>().add(4 * row);
                            store::<L, ShapeOf<S::Format>>(&w, to);
                        }
                    });
                }
            }
        }
    }
}

/// Writes rows of a packed block.
///
/// # Safety
/// The machine can run `L`; the rows are in lines of their own.
#[inline(always)]
unsafe fn store<L: Lanes, S: Shape>(w: &Block<L>, to: *mut u8) {
    let line = |i: usize| to.wrapping_add(i * Line::BYTES);
    // SAFETY: that of this function.
    unsafe {
        for j in 0..8 {
            L::store(w.codes[j], line(j));
        }
        for part in 0..S::PARTS {
            L::store_f32(w.scale.d[part], line(8 + part).cast());
            if S::MIN {
                L::store_f32(w.scale.m[part], line(8 + S::PARTS + part).cast());
            }
        }
    }
}

/// Packed panels of `R` tiles × as many blocks of one panel of `T` tokens, added to what is there.
struct Gemm<'a, S, const R: usize, const T: usize> {
    /// What scales the packed blocks have.
    shape: PhantomData<S>,
    /// The weights, packed panels of one length.
    weights: [&'a [Line]; R],
    /// A panel of width `T`, advanced to the first block of the weights.
    x: Panel,
    /// Sums by tile and token: `[R · T]` times a tile's rows.
    y: &'a mut [[f32; ROWS]],
}

impl<S: Shape, const R: usize, const T: usize> LaneKernel for Gemm<'_, S, R, T> {
    /// # Safety
    /// The panel has as many blocks as each packed panel.
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let lines = packed_lines::<S>();
        let blocks = self.weights[0].len() / lines;
        assert!(self.weights.iter().all(|s| s.len() == blocks * lines) && self.y.len() >= R * T);
        for row in (0..ROWS).step_by(L::ROWS) {
            // SAFETY: the machine can run `L`; `row + L::ROWS ≤ 16` lanes of each line, and the panel has
            // as many blocks as the weights.
            unsafe {
                let mut y = [[L::splat_f32(0.0); R]; T];
                for t in 0..T {
                    for r in 0..R {
                        y[t][r] = L::load_f32(self.y[r * T + t].as_ptr().add(row));
                    }
                }
                for b in 0..blocks {
                    multiply_block::<L, S, R, T>(&self.weights, b, row, self.x.at(b, T), &mut y);
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

/// Adds the products of block `b` of some packed panels with a panel: `R · T` sums in registers, each of the
/// loaded activations used for `R` tiles and each of the codes for `T` tokens.
///
/// # Safety
/// The machine can run `L`; the weights have the block; `x` is the panel advanced to it.
#[inline(always)]
unsafe fn multiply_block<L: Lanes, S: Shape, const R: usize, const T: usize>(
    weights: &[&[Line]; R],
    b: usize,
    row: usize,
    x: Panel,
    y: &mut [[L::F; R]; T],
) {
    // SAFETY: that of this function.
    unsafe {
        multiply_part::<L, S, 0, R, T>(weights, b, row, x, y);
        if S::PARTS == 2 {
            multiply_part::<L, S, 1, R, T>(weights, b, row, x, y);
        }
    }
}

/// The part of [`multiply_block`] that has scales of its own.
///
/// # Safety
/// The machine can run `L`; the weights have the block; `x` is the panel advanced to it.
#[inline(always)]
unsafe fn multiply_part<L: Lanes, S: Shape, const PART: usize, const R: usize, const T: usize>(
    weights: &[&[Line]; R],
    b: usize,
    row: usize,
    x: Panel,
    y: &mut [[L::F; R]; T],
) {
    // SAFETY: the machine can run `L`; the panels have the block, and `x` is the panel of tokens at it.
    unsafe {
        let mut sums = [[L::splat(0); R]; T];
        for t in 0..T {
            sums[t] = [start::<L, S>(x, T, PART, t); R];
        }
        for group in 0..S::groups() {
            let mut short = [[L::splat(0); R]; T];
            for j in S::quads(PART, group) {
                let mut codes = [L::splat(0); R];
                for r in 0..R {
                    codes[r] = L::load(packed_line::<S>(weights[r], b, j, row));
                }
                for t in 0..T {
                    for r in 0..R {
                        let (is_first, a) = (j == S::quads(PART, group).start, x.q.add(BLOCK * t + 4 * j));
                        add_quad::<L, S>(&mut sums[t][r], &mut short[t][r], is_first, (codes[r], a));
                    }
                }
            }
            for t in 0..T {
                for r in 0..R {
                    sums[t][r] = add_short::<L, S>(sums[t][r], short[t][r]);
                }
            }
        }
        for r in 0..R {
            let d = L::load_f32(packed_line::<S>(weights[r], b, 8 + PART, row).cast());
            let m =
                if S::MIN { L::load_f32(packed_line::<S>(weights[r], b, 8 + S::PARTS + PART, row).cast()) } else { d };
            let (scale, offset) = (Scale { d: [d; 2], m: [m; 2] }, offset::<L>(d));
            for t in 0..T {
                y[t][r] = finish::<L, S>(sums[t][r], (&scale, offset), x, (T, PART, t), y[t][r]);
            }
        }
    }
}

/// A row of a line of a packed panel.
///
/// # Safety
/// The panel has the block.
#[inline(always)]
unsafe fn packed_line<S: Shape>(packed: &[Line], b: usize, line: usize, row: usize) -> *const u8 {
    // SAFETY: block, line and row are inside the panel.
    unsafe { packed.as_ptr().add(b * packed_lines::<S>() + line).cast::<u8>().add(4 * row) }
}
