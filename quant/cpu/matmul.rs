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

/// Memory that a thread works in: a packed tile, strips, an f32 row.
#[derive(Default)]
struct Scratch {
    tile: Vec<Line>,
    strips: Vec<Line>,
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

    /// Reads what [`Part::write_tile`] wrote.
    fn read_tile(&self, token: usize, tile: usize) -> [f32; ROWS] {
        match self.outputs(token, tile * ROWS, ROWS) {
            // SAFETY: as in `write`: the chunk that reads is the one that writes these rows.
            (y, ROWS) => unsafe { y.cast::<[f32; ROWS]>().read_unaligned() },
            (y, n) => {
                let mut sums = [0.0; ROWS];
                // SAFETY: as above.
                unsafe { std::ptr::copy_nonoverlapping(y, sums.as_mut_ptr(), n) };
                sums
            }
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
        for first in (0..blocks).step_by(STRIP) {
            let blocks = first..(first + STRIP).min(blocks);
            let lines = blocks.len() * strip_lines::<ShapeOf<F>>();
            scratch.strips.resize(scratch.strips.len().max(TILES * lines), Line::ZERO);
            for tile in tiles.clone().step_by(at_once) {
                let n = at_once.min(tiles.end - tile);
                for (i, strip) in scratch.strips.chunks_exact_mut(lines).take(n).enumerate() {
                    let tile = Tile::<F>::new(self.w.tile(tile + i, &mut scratch.tile), x.cols);
                    // SAFETY: as above.
                    unsafe { x.isa.run(Expand { tile, blocks: blocks.clone(), strip }) };
                }
                let strips = Strips { tile, first, lines: &scratch.strips[..n * lines] };
                for panel in 0..x.ints.panels(x.tokens) {
                    match (x.ints.width, n) {
                        (WIDE, TILES) => self.panel::<ShapeOf<F>, TILES, WIDE>(x, panel, &strips),
                        (WIDE, _) => self.panel::<ShapeOf<F>, 1, WIDE>(x, panel, &strips),
                        (_, TILES) => self.panel::<ShapeOf<F>, TILES, NARROW>(x, panel, &strips),
                        (_, _) => self.panel::<ShapeOf<F>, 1, NARROW>(x, panel, &strips),
                    }
                }
            }
        }
    }

    /// Strips of `R` tiles × one panel.
    fn panel<S: Shape, const R: usize, const T: usize>(&self, x: &Activations, panel: usize, strips: &Strips) {
        assert_eq!(x.ints.width, T);
        let tokens = T.min(x.tokens - panel * T);
        let mut y = [[[0.0; ROWS]; T]; R];
        if strips.first > 0 {
            for (r, y) in y.iter_mut().enumerate() {
                for (t, y) in y.iter_mut().enumerate().take(tokens) {
                    *y = self.read_tile(panel * T + t, strips.tile + r);
                }
            }
        }
        let n = strips.lines.len() / R;
        let w = std::array::from_fn(|r| &strips.lines[r * n..(r + 1) * n]);
        // SAFETY: the instruction set was checked when the activations were made; the panel has width `T`
        // and, as the tiles, `cols` columns: the blocks of the strips are blocks of it.
        unsafe {
            let at = x.ints.panel(panel, x.cols / BLOCK).at(strips.first, T);
            x.isa.run(Gemm { shape: PhantomData::<S>, strips: w, x: at, y: &mut y });
        }
        for (r, y) in y.iter().enumerate() {
            for (t, y) in y.iter().enumerate().take(tokens) {
                self.write_tile(panel * T + t, strips.tile + r, y);
            }
        }
    }
}

/// Unpacked blocks of some tiles.
struct Strips<'a> {
    /// The first of the tiles.
    tile: usize,
    /// The first of the blocks.
    first: usize,
    /// The strips of the tiles, one after the other.
    lines: &'a [Line],
}
