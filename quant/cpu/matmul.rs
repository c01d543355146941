//! `y[token][row] = Σ_col w[row][col] · x[token][col]`.

use std::{cell::RefCell, marker::PhantomData, ops::Range};

use super::{
    Activations, Arithmetic, Matrix,
    activations::Panel,
    exact,
    floats::{self, Dots, Element},
    kernels::{Expand, Gemm, Gemv, STRIP_LINES, Tile},
    lanes::Isa,
    par::{self, Shared},
    tiles::{self, Line, ROWS, Scales, TileFormat, with_format},
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
/// Bytes of strips that stay in the second-level cache beside the activations.
const STRIPS: usize = 512 << 10;

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
        par::for_chunks(tiles, (CHUNK * tiles / bytes.max(1)).max(1), |range| {
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

    /// Writes outputs of one token from row `row` on.
    fn write(&self, token: usize, row: usize, sums: &[f32]) {
        let rows = self.w.rows();
        let n = sums.len().min(rows - row);
        // SAFETY: token and rows are inside the job's outputs (`matmul` checked their length), and each
        // row is computed by one chunk only.
        unsafe { std::ptr::copy_nonoverlapping(sums.as_ptr(), self.y.get().add(token * rows + row), n) }
    }

    fn exact(&self, x: &Activations, tiles: Range<usize>, w: &mut Vec<f32>) {
        w.resize(x.cols, 0.0);
        for row in tiles.start * ROWS..(tiles.end * ROWS).min(self.w.rows()) {
            self.w.row(row, w);
            let kernel = exact::Row { w, x: &x.f32, write: &mut |t, sum| self.write(t, row, &[sum]) };
            // SAFETY: the instruction set was checked when the activations were made.
            unsafe { x.isa.run(kernel) };
        }
    }

    fn floats<E: Element>(&self, x: &Activations, tiles: Range<usize>) {
        let rows = tiles.start * ROWS..(tiles.end * ROWS).min(self.w.rows());
        match (x.isa, x.tokens) {
            (_, 1) => self.dots::<E, 4, 1>(x, rows),
            (Isa::Avx512Vnni, _) => self.dots::<E, 4, 4>(x, rows),
            _ => self.dots::<E, 2, 4>(x, rows),
        }
    }

    fn dots<E: Element, const R: usize, const T: usize>(&self, x: &Activations, rows: Range<usize>) {
        for row in rows.clone().step_by(R) {
            // Beyond the end the last row and token are computed again, and not written.
            let w = std::array::from_fn(|i| self.w.file_row((row + i).min(rows.end - 1)));
            for token in (0..x.tokens).step_by(T) {
                let t = |i: usize| (token + i).min(x.tokens - 1) * x.cols;
                let (mut y, tokens) = ([[0.0; R]; T], std::array::from_fn(|i| &x.f32[t(i)..t(i) + x.cols]));
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
        let blocks = x.cols / super::activations::BLOCK;
        if x.tokens == 1 {
            for tile in tiles {
                let mut y = [0.0; ROWS];
                let weights = Tile::<F>::new(self.w.tile(tile, &mut scratch.tile), x.cols);
                // SAFETY: the instruction set was checked when the activations were made, and panel and
                // tile both have `cols` columns.
                unsafe { x.isa.run(Gemv { tile: weights, x: x.ints.panel(0, blocks), y: &mut y }) };
                self.write(0, tile * ROWS, &y);
            }
            return;
        }
        let strip = blocks * STRIP_LINES;
        let at_once = (STRIPS / (strip * size_of::<Line>())).clamp(1, tiles.len());
        scratch.strips.resize(scratch.strips.len().max(at_once * strip), Line::ZERO);
        for start in tiles.clone().step_by(at_once) {
            let tiles = start..(start + at_once).min(tiles.end);
            for (tile, strip) in tiles.clone().zip(scratch.strips.chunks_exact_mut(strip)) {
                let weights = Tile::<F>::new(self.w.tile(tile, &mut scratch.tile), x.cols);
                // SAFETY: as above.
                unsafe { x.isa.run(Expand { tile: weights, strip }) };
            }
            for panel in 0..x.ints.panels(x.tokens) {
                let p = x.ints.panel(panel, blocks);
                for (tile, strip) in tiles.clone().zip(scratch.strips.chunks_exact(strip)) {
                    match x.ints.width {
                        8 => self.panel::<<F::Scales as Scales>::Shape, 8>(x, (panel, p), tile, strip),
                        _ => self.panel::<<F::Scales as Scales>::Shape, 4>(x, (panel, p), tile, strip),
                    }
                }
            }
        }
    }

    /// Strip of a tile × one panel.
    fn panel<S: tiles::Shape, const T: usize>(
        &self,
        x: &Activations,
        (panel, at): (usize, Panel),
        tile: usize,
        strip: &[Line],
    ) {
        assert_eq!(x.ints.width, T);
        let mut y = [[0.0; ROWS]; T];
        // SAFETY: the instruction set was checked when the activations were made; strip and panel both
        // have `cols` columns, and the panel has width `T`.
        unsafe { x.isa.run(Gemm { shape: PhantomData::<S>, strip, x: at, y: &mut y }) };
        for (t, y) in y.iter().enumerate().take(x.tokens - panel * T) {
            self.write(panel * T + t, tile * ROWS, y);
        }
    }
}
