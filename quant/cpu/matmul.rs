//! `y[token][row] = Σ_col w[row][col] · x[token][col]`.

use std::{cell::RefCell, marker::PhantomData, ops::Range};

use super::{
    Activations, Arithmetic, Matrix,
    activations::{BLOCK, NARROW, WIDE},
    exact,
    floats::{self, Dots, Element},
    kernels::{Expand, Gemm, Gemv, Tile, strip_lines},
    lanes::Isa,
    par::{self, Shared},
    tiles::{Line, ROWS, Shape, ShapeOf, TileFormat, with_format},
};
use crate::GgmlType;

/// One product: a matrix and where its outputs go, `y[tokens][w.rows()]`.
pub struct Job<'a> {
    /// The weights.
    pub w: &'a Matrix,
    /// The outputs, token-major.
    pub y: &'a mut [f32],
}

/// A job with outputs that several threads write, each other rows.
#[derive(Clone, Copy)]
struct Part<'a> {
    w: &'a Matrix,
    y: Shared<f32>,
    /// Row tiles of the jobs before this one.
    start: usize,
}

/// Jobs of one parallel region; more are run one group after the other.
const GROUP: usize = 4;
/// Bytes of weights that one chunk of a parallel region reads: some 10 µs, so that the threads end
/// together, and much more than it costs to hand out a chunk.
const CHUNK: usize = 96 << 10;
/// Blocks of a strip: two strips and the same columns of a panel fit the first-level cache.
const STRIP: usize = 32;
/// Tiles that are multiplied at once: each activation is loaded once for all of them.
const TILES: usize = 2;

/// Runs several products of the same activations in one parallel region.
pub fn matmul(x: &Activations, jobs: &mut [Job]) {
    for jobs in jobs.chunks_mut(GROUP) {
        let Some(first) = jobs.first_mut() else { continue };
        let first = Part { w: first.w, y: Shared::new(first.y.as_mut_ptr()), start: 0 };
        let (mut parts, n) = ([first; GROUP], jobs.len());
        let (mut tiles, mut bytes) = (0, 0);
        for (part, job) in parts.iter_mut().zip(jobs) {
            assert_eq!(job.w.cols(), x.cols, "columns of the weights, length of the activations");
            assert_eq!(job.y.len(), x.tokens * job.w.rows(), "outputs: tokens x rows");
            *part = Part { w: job.w, y: Shared::new(job.y.as_mut_ptr()), start: tiles };
            tiles += job.w.rows().div_ceil(ROWS);
            bytes += job.w.bytes();
        }
        if tiles == 0 || x.tokens == 0 {
            continue;
        }
        let chunk = match x.tokens {
            1 => CHUNK * tiles / bytes.max(1),
            _ => (tiles / (8 * par::threads())).clamp(TILES, 16) / TILES * TILES,
        };
        par::for_chunks(tiles, chunk, |range| {
            for (i, part) in parts[..n].iter().enumerate() {
                let end = if i + 1 < n { parts[i + 1].start } else { tiles };
                let (a, b) = (range.start.max(part.start), range.end.min(end));
                if a < b {
                    part.run(x, a - part.start..b - part.start);
                }
            }
        });
    }
}

/// Memory that a thread works in: a packed tile, strips, sums, an f32 row.
#[derive(Default)]
struct Scratch {
    tile: Vec<Line>,
    strips: Vec<Line>,
    /// Sums of what strips there have been.
    sums: Vec<[f32; ROWS]>,
    row: Vec<f32>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Part<'_> {
    /// Computes the rows of these tiles.
    fn run(&self, x: &Activations, tiles: Range<usize>) {
        SCRATCH.with_borrow_mut(|scratch| match (x.arithmetic, self.w.ty()) {
            (Arithmetic::Exact, _) => self.exact(x, tiles, &mut scratch.row),
            (_, GgmlType::F32) => self.floats::<floats::F32>(x, tiles),
            (_, GgmlType::F16) => self.floats::<floats::F16>(x, tiles),
            (_, GgmlType::BF16) => self.floats::<floats::Bf16>(x, tiles),
            (_, ty) => with_format!(ty, F => self.quantized::<F>(x, tiles, scratch), unreachable!()),
        });
    }

    /// Where outputs of one token from row `row` on are, and how many of `n` there are.
    fn outputs(&self, token: usize, row: usize, n: usize) -> (*mut f32, usize) {
        let rows = self.w.rows();
        // SAFETY: token and rows are inside the job's outputs: `matmul` checked their length.
        (unsafe { self.y.get().add(token * rows + row) }, n.min(rows - row))
    }

    /// Writes outputs of one token from row `row` on.
    fn write(&self, token: usize, row: usize, sums: &[f32]) {
        let (y, n) = self.outputs(token, row, sums.len());
        // SAFETY: `outputs` says that there are n, and each row is computed by one chunk only.
        unsafe { std::ptr::copy_nonoverlapping(sums.as_ptr(), y, n) }
    }

    /// Writes the outputs of one token for a tile.
    fn write_tile(&self, token: usize, tile: usize, sums: &[f32; ROWS]) {
        match self.outputs(token, tile * ROWS, ROWS) {
            // SAFETY: as in `write`. A copy of known size is a few instructions, not a call.
            (y, ROWS) => unsafe { y.cast::<[f32; ROWS]>().write_unaligned(*sums) },
            _ => self.write(token, tile * ROWS, sums),
        }
    }

    fn exact(&self, x: &Activations, tiles: Range<usize>, w: &mut Vec<f32>) {
        w.resize(x.cols, 0.0);
        for row in tiles.start * ROWS..(tiles.end * ROWS).min(self.w.rows()) {
            self.w.row(row, w);
            for t in 0..x.tokens {
                let mut sum = 0.0;
                // SAFETY: the instruction set was checked when the activations were made.
                unsafe { x.isa.run(exact::Dot { w, x: x.token(t), sum: &mut sum }) };
                self.write(t, row, &[sum]);
            }
        }
    }

    fn floats<E: Element>(&self, x: &Activations, tiles: Range<usize>) {
        let rows = tiles.start * ROWS..(tiles.end * ROWS).min(self.w.rows());
        match (x.isa, x.tokens) {
            // One row after the other: a single stream through memory.
            (_, 1) => self.dots::<E, 1, 1>(x, rows),
            (Isa::Avx512Vnni, 5..) => self.dots::<E, 4, 6>(x, rows),
            (Isa::Avx512Vnni, _) => self.dots::<E, 4, 4>(x, rows),
            _ => self.dots::<E, 2, 4>(x, rows),
        }
    }

    fn dots<E: Element, const R: usize, const T: usize>(&self, x: &Activations, rows: Range<usize>) {
        // Few tokens, all rows: the tokens stay in the nearest cache.
        for token in (0..x.tokens).step_by(T) {
            // Beyond the end the last token and row are computed again, and not written.
            let tokens = std::array::from_fn(|i| x.token((token + i).min(x.tokens - 1)));
            for row in rows.clone().step_by(R) {
                let w = std::array::from_fn(|i| self.w.file_row((row + i).min(rows.end - 1)));
                let mut y = [[0.0; R]; T];
                let kernel = Dots { element: PhantomData::<E>, w, x: tokens, y: &mut y };
                // SAFETY: the instruction set was checked when the activations were made.
                unsafe { x.isa.run(kernel) };
                for (i, y) in y.iter().enumerate().take(x.tokens - token) {
                    self.write(token + i, row, &y[..R.min(rows.end - row)]);
                }
            }
        }
    }

    fn quantized<F: TileFormat>(&self, x: &Activations, tiles: Range<usize>, scratch: &mut Scratch) {
        let blocks = x.cols / BLOCK;
        if x.tokens == 1 {
            for tile in tiles {
                let mut y = [0.0; ROWS];
                let weights = Tile::<F>::new(self.w.tile(tile, &mut scratch.tile), x.cols);
                // SAFETY: the instruction set was checked when the activations were made, and panel and
                // tile both have `cols` columns.
                unsafe { x.isa.run(Gemv { tile: weights, x: x.ints.panel(0, blocks), y: &mut y }) };
                self.write_tile(0, tile, &y);
            }
            return;
        }
        let at_once = if x.isa == Isa::Avx512Vnni { TILES } else { 1 };
        // Strips of one length, so that none is short.
        let strip = blocks.div_ceil(blocks.div_ceil(STRIP));
        let panels = x.ints.panels(x.tokens);
        let sums_of_panel = at_once * x.ints.width;
        let sums = tiles.len().div_ceil(at_once) * panels * sums_of_panel;
        scratch.sums.resize(scratch.sums.len().max(sums), [0.0; ROWS]);
        for first in (0..blocks).step_by(strip) {
            let blocks = first..(first + strip).min(blocks);
            let lines = blocks.len() * strip_lines::<ShapeOf<F>>();
            scratch.strips.resize(scratch.strips.len().max(TILES * lines), Line::ZERO);
            let sums = scratch.sums.chunks_exact_mut(panels * sums_of_panel);
            for (tile, sums) in tiles.clone().step_by(at_once).zip(sums) {
                let n = at_once.min(tiles.end - tile);
                for (i, strip) in scratch.strips.chunks_exact_mut(lines).take(n).enumerate() {
                    let tile = Tile::<F>::new(self.w.tile(tile + i, &mut scratch.tile), x.cols);
                    // SAFETY: as above.
                    unsafe { x.isa.run(Expand { tile, blocks: blocks.clone(), strip }) };
                }
                let strips = Strips { blocks: blocks.clone(), lines: &scratch.strips[..n * lines] };
                for (panel, sums) in sums.chunks_exact_mut(sums_of_panel).enumerate() {
                    match (x.ints.width, n) {
                        (WIDE, TILES) => multiply::<ShapeOf<F>, TILES, WIDE>(x, panel, &strips, sums),
                        (WIDE, _) => multiply::<ShapeOf<F>, 1, WIDE>(x, panel, &strips, sums),
                        (_, TILES) => multiply::<ShapeOf<F>, TILES, NARROW>(x, panel, &strips, sums),
                        (_, _) => multiply::<ShapeOf<F>, 1, NARROW>(x, panel, &strips, sums),
                    }
                }
            }
        }
        // All tiles of one token after the other: long runs, as outputs are far apart.
        let width = x.ints.width;
        for token in 0..x.tokens {
            let (panel, t) = (token / width, token % width);
            for (i, tile) in tiles.clone().enumerate() {
                let pair = i / at_once * panels + panel;
                self.write_tile(token, tile, &scratch.sums[pair * sums_of_panel + i % at_once * width + t]);
            }
        }
    }
}

/// Adds strips of `R` tiles × one panel to `sums[R · T]`.
fn multiply<S: Shape, const R: usize, const T: usize>(
    x: &Activations,
    panel: usize,
    strips: &Strips,
    sums: &mut [[f32; ROWS]],
) {
    assert_eq!(x.ints.width, T);
    if strips.blocks.start == 0 {
        sums.fill([0.0; ROWS]);
    }
    let n = strips.lines.len() / R;
    let w = std::array::from_fn(|r| &strips.lines[r * n..(r + 1) * n]);
    // SAFETY: the instruction set was checked when the activations were made; the panel has width `T`
    // and, as the tiles, `cols` columns: the blocks of the strips are blocks of it.
    unsafe {
        let x_strip = x.ints.panel(panel, x.cols / BLOCK).at(strips.blocks.start, T);
        x.isa.run(Gemm::<S, R, T> { shape: PhantomData, strips: w, x: x_strip, y: sums });
    }
}

/// Unpacked blocks of some tiles.
struct Strips<'a> {
    /// Which blocks.
    blocks: Range<usize>,
    /// The strips of the tiles, one after the other.
    lines: &'a [Line],
}
