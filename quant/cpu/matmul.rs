//! `y[token][row] = Σ_col w[row][col] · x[token][col]`.

use std::{cell::RefCell, marker::PhantomData, ops::Range};

use super::{
    Activations, Arithmetic, Matrix,
    activations::FEW,
    gemm::{self, Scratch},
    kernels::{
        exact,
        f32::{Bf16, Dot, Element, F16, F32, Few},
        f32_gemm::Float,
        int8::Gemv,
        int8_gemm::Int8,
        int16_gemm::Int16,
        micro::MicroKernel,
        source::{FileRows, Source, Tile},
    },
    layout::{BLOCK, NARROW, ROWS, WIDE, in_registers, steps},
    matrix::TileBytes,
    par::{self, Shared},
    prefetch::prefetch,
    tiles::{FileBlocks, TileFormat, with_format},
};
use crate::{GgmlType, simd::Isa};

/// One product: a matrix and where its outputs go, `y[tokens][w.rows()]`.
pub struct Job<'a> {
    /// The weights, `[rows][cols]`.
    pub w: &'a Matrix,
    /// The outputs, `[tokens][rows]`.
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
/// Tokens between what is written and what is prefetched.
const TOKENS_AHEAD: usize = 2;

/// Runs several products of the same vectors `x[tokens][cols]` in one parallel region. Panics where the
/// matrices do not have `cols` columns, or the outputs not `tokens` times their rows.
pub fn matmul(activations: &mut Activations, x: &[f32], jobs: &mut [Job]) {
    let Some(first) = jobs.first() else { return };
    activations.set(x, first.w.cols(), jobs.iter().map(|job| job.w.ty()));
    let x = &*activations;
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
        let run = |range: Range<usize>| {
            for (i, part) in parts[..n].iter().enumerate() {
                let end = if i + 1 < n { parts[i + 1].start } else { tiles };
                let (a, b) = (range.start.max(part.start), range.end.min(end));
                if a < b {
                    part.run(x, a - part.start..b - part.start);
                }
            }
        };
        if x.tokens <= in_registers(x.isa) {
            par::parallel_for_guided(tiles, CHUNK * tiles / bytes.max(1), run);
        } else {
            let chunk = match tiles / (8 * par::threads()) {
                16.. => 16,
                4.. => 4,
                _ => 2,
            };
            par::parallel_for(tiles, chunk, run);
        }
    }
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Part<'_> {
    /// Computes the rows of these tiles: which kernel multiplies which type of weights.
    fn run(&self, x: &Activations, tiles: Range<usize>) {
        let few = x.tokens <= FEW;
        SCRATCH.with_borrow_mut(|scratch| match (x.arithmetic, self.w.ty()) {
            (Arithmetic::Exact, _) => self.exact(x, tiles, &mut scratch.row),
            (_, GgmlType::F32) if few => self.floats::<F32>(x, tiles),
            (_, GgmlType::F32) => self.gemm::<Float>(x, tiles, scratch),
            (_, GgmlType::F16) if few => self.floats::<F16>(x, tiles),
            (_, GgmlType::F16) => self.gemm::<Int16<F16>>(x, tiles, scratch),
            (_, GgmlType::BF16) if few => self.floats::<Bf16>(x, tiles),
            (_, GgmlType::BF16) => self.gemm::<Int16<Bf16>>(x, tiles, scratch),
            (_, ty) => with_format!(ty, F => self.quantized::<F>(x, tiles, scratch), unreachable!()),
        });
    }

    /// Where outputs of one token from row `row` on are, and how many of `n` there are.
    fn outputs(&self, token: usize, row: usize, n: usize) -> (*mut f32, usize) {
        let rows = self.w.rows();
        // SAFETY: token and rows are inside the job's outputs: `matmul` checked their length.
        (unsafe { self.y.get().add(token * rows + row) }, n.min(rows - row))
    }

    /// Writes outputs of one token from row `row` on. Not inlined, or the copy of known size in
    /// [`Part::write_tile`] would be joined with it.
    #[inline(never)]
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

    /// A few tokens: rows in floats are multiplied as they lie in the file, for packing them would cost more than
    /// the products.
    fn floats<E: Element>(&self, x: &Activations, tiles: Range<usize>) {
        let rows = tiles.start * ROWS..(tiles.end * ROWS).min(self.w.rows());
        match (x.isa, x.width) {
            (_, 1) => self.dot::<E>(x, rows),
            (Isa::Avx512Vnni, WIDE) => self.few::<E, 4, WIDE>(x, rows),
            (Isa::Avx512Vnni, _) => self.few::<E, 4, NARROW>(x, rows),
            _ => self.few::<E, 2, NARROW>(x, rows),
        }
    }

    fn dot<E: Element>(&self, x: &Activations, rows: Range<usize>) {
        let (y, n) = self.outputs(0, rows.start, rows.len());
        // SAFETY: `outputs` says that there are n, and each row is computed by one chunk only.
        let y = unsafe { std::slice::from_raw_parts_mut(y, n) };
        let x_lines = x.floats(0, 0..steps(x.cols));
        let dot = Dot { element: PhantomData::<E>, rows: self.w.file_rows(rows), x: x_lines, y };
        // SAFETY: the instruction set was checked when the activations were made.
        unsafe { x.isa.run(dot) };
    }

    fn few<E: Element, const R: usize, const T: usize>(&self, x: &Activations, rows: Range<usize>) {
        for row in rows.clone().step_by(R) {
            // Beyond the end the last row is computed again, and not written.
            let w = std::array::from_fn(|i| self.w.file_row((row + i).min(rows.end - 1)));
            for panel in 0..x.panels() {
                let mut y = [[0.0; R]; T];
                let panel_x = x.floats(panel, 0..steps(x.cols));
                // SAFETY: the instruction set was checked when the activations were made.
                unsafe { x.isa.run(Few { element: PhantomData::<E>, w, x: panel_x, y: &mut y }) };
                for (y, token) in y.iter().zip(panel * T..x.tokens) {
                    self.write(token, row, &y[..R.min(rows.end - row)]);
                }
            }
        }
    }

    fn quantized<F: TileFormat>(&self, x: &Activations, tiles: Range<usize>, scratch: &mut Scratch) {
        if x.tokens > in_registers(x.isa) {
            return self.gemm::<Int8<F>>(x, tiles, scratch);
        }
        for tile in tiles {
            scratch.tiles.begin(tile);
            match self.w.tile(tile, &mut scratch.tiles) {
                TileBytes::Packed(bytes) => self.panels(x, tile, Tile::<F>::new(bytes, x.cols)),
                TileBytes::File(rows) if F::File::READ => self.panels(x, tile, FileRows::<F>::new(rows, x.cols)),
                TileBytes::File(_) => unreachable!("{} is packed first", self.w.ty()),
            }
        }
    }

    /// The rows of a tile with all panels.
    fn panels(&self, x: &Activations, tile: usize, w: impl Source) {
        for panel in 0..x.panels() {
            match x.width {
                1 => self.gemv::<_, 1>(x, panel, tile, w),
                NARROW => self.gemv::<_, NARROW>(x, panel, tile, w),
                _ => self.gemv::<_, WIDE>(x, panel, tile, w),
            }
        }
    }

    /// The rows of a tile with a panel of width `T`.
    fn gemv<S: Source, const T: usize>(&self, x: &Activations, panel: usize, tile: usize, w: S) {
        assert!(x.width == T && w.blocks() == x.cols / BLOCK);
        let mut y = [[0.0; ROWS]; T];
        let x_blocks = x.int8.panel(panel, (x.cols / BLOCK, T));
        // SAFETY: the instruction set was checked when the activations were made; panel and rows both have `cols`
        // columns.
        unsafe { x.isa.run(Gemv { w, x: x_blocks, y: &mut y }) };
        for (y, token) in y.iter().zip(panel * T..x.tokens) {
            self.write_tile(token, tile, y);
        }
    }

    fn gemm<M: MicroKernel>(&self, x: &Activations, tiles: Range<usize>, scratch: &mut Scratch) {
        gemm::multiply::<M>(x, self.w, tiles, scratch, |token, tile, sums| {
            // Outputs of tokens are far apart: no processor sees which come next.
            prefetch(self.outputs(token, tile * ROWS, ROWS).0.wrapping_add(TOKENS_AHEAD * self.w.rows()).cast());
            self.write_tile(token, tile, sums);
        });
    }
}
