//! `y[token][row] = Σ_col w[row][col] · x[token][col]`.

use std::{cell::RefCell, marker::PhantomData, ops::Range};

use super::{
    Activations, Arithmetic, Matrix,
    activations::FEW,
    gemm::{self, Scratch, Sums},
    kernels::{
        exact,
        f32::{Bf16, Dot, Element, F16, F32, Few},
        f32_gemm::Float,
        int8::{Gemv, Outputs},
        int8_gemm::Int8,
        int16_gemm::Int16,
        source::{FileRows, Source, Tile},
    },
    layout::{BLOCK, NARROW, ROWS, WIDE, steps},
    matrix::TileBytes,
    par::{self, Shared},
    prefetch::prefetch,
    tiles::{FileBlocks, TileFormat, with_format},
};
use crate::GgmlType;

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
/// Bytes of weights that the last chunks of a parallel region read: one or two µs, so that the threads end
/// together, and more than it costs to hand out a chunk.
const CHUNK: usize = 48 << 10;
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
        if x.tokens <= x.tuning.in_registers {
            par::parallel_for_runs(tiles, CHUNK * tiles / bytes.max(1), run);
        } else {
            par::parallel_for(tiles, tiles_of_chunk(tiles), run);
        }
    }
}

/// Tiles that a thread multiplies with many tokens at a time.
fn tiles_of_chunk(tiles: usize) -> usize {
    match tiles / (8 * par::threads()) {
        16.. => 16,
        4.. => 4,
        _ => 2,
    }
}

/// Two products of the same many vectors, of which `activate(gate, up)` leaves one in `gate`, elementwise.
pub struct Gated<'a> {
    /// Weights of the product that is activated, `[rows][cols]`.
    pub gate: &'a Matrix,
    /// Weights of the product that it is multiplied with, of the same shape.
    pub up: &'a Matrix,
    /// Where what `activate` leaves goes, `[tokens][rows]`.
    pub y: &'a mut [f32],
    /// Makes the outputs from as many elements of both products.
    pub activate: &'a (dyn Fn(&mut [f32], &[f32]) + Sync),
}

/// Whether [`matmul_gated`] multiplies so many vectors.
pub fn multiplies_gated(activations: &Activations, tokens: usize) -> bool {
    activations.arithmetic == Arithmetic::Fast && tokens > activations.tuning.in_registers.max(FEW)
}

/// Runs two products and what joins them while a part of both is in the cache: the same outputs as of [`matmul`] and `activate`
/// after it, but a third of the memory is written, and none of it read. Panics as [`matmul`] does, and where
/// [`multiplies_gated`] does not hold.
pub fn matmul_gated(activations: &mut Activations, x: &[f32], job: Gated) {
    let [gate, up] = [job.gate, job.up];
    activations.set(x, gate.cols(), [gate.ty(), up.ty()].into_iter());
    let x = &*activations;
    assert!(multiplies_gated(x, x.tokens), "{} tokens are few", x.tokens);
    assert_eq!([up.rows(), up.cols()], [gate.rows(), gate.cols()], "rows and columns of the weights");
    assert_eq!(job.y.len(), x.tokens * gate.rows(), "outputs: tokens x rows");
    let y = Shared::new(job.y.as_mut_ptr());
    let [gate, up] = [gate, up].map(|w| Part { w, y, start: 0 });
    let tiles = gate.w.rows().div_ceil(ROWS);
    // Half as many: of both there are sums.
    par::parallel_for(tiles, tiles_of_chunk(tiles) / 2, |tiles| {
        SCRATCH.with_borrow_mut(|scratch| {
            let gates = gate.multiply(x, tiles.clone(), scratch, 0);
            let ups = up.multiply(x, tiles.clone(), scratch, gates.end);
            gate.write_gated(x, tiles, [gates, ups], scratch, job.activate);
        });
    });
}

/// Tokens whose outputs are activated at a time.
const TOGETHER: usize = 16;

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Part<'_> {
    /// Computes the rows of these tiles: which kernel multiplies which type of weights.
    fn run(&self, x: &Activations, tiles: Range<usize>) {
        let few = x.tokens <= FEW;
        SCRATCH.with_borrow_mut(|scratch| match (x.arithmetic, self.w.ty()) {
            (Arithmetic::Exact, _) => self.exact(x, tiles, scratch),
            (_, GgmlType::F32) if few => self.floats::<F32>(x, tiles),
            (_, GgmlType::F16) if few => self.floats::<F16>(x, tiles),
            (_, GgmlType::BF16) if few => self.floats::<Bf16>(x, tiles),
            (_, ty) if ty.format().block > 1 && x.tokens <= x.tuning.in_registers => {
                with_format!(ty, F => self.quantized::<F>(x, tiles, scratch), unreachable!());
            }
            _ => {
                let sums = self.multiply(x, tiles.clone(), scratch, 0);
                self.write_sums(x, tiles, sums, &scratch.sums);
            }
        });
    }

    /// The products of these tiles with many tokens, among the scratch's sums from `start` on.
    fn multiply(&self, x: &Activations, tiles: Range<usize>, scratch: &mut Scratch, start: usize) -> Sums {
        match self.w.ty() {
            GgmlType::F32 => gemm::multiply::<Float>(x, self.w, tiles, scratch, start),
            GgmlType::F16 => gemm::multiply::<Int16<F16>>(x, self.w, tiles, scratch, start),
            GgmlType::BF16 => gemm::multiply::<Int16<Bf16>>(x, self.w, tiles, scratch, start),
            ty => with_format!(ty, F => gemm::multiply::<Int8<F>>(x, self.w, tiles, scratch, start), unreachable!()),
        }
    }

    /// Writes products with all tokens: all tiles of one token after the other, long runs, as the outputs of tokens are far apart.
    fn write_sums(&self, x: &Activations, tiles: Range<usize>, at: Sums, sums: &[[f32; ROWS]]) {
        for token in 0..x.tokens {
            for (i, tile) in tiles.clone().enumerate() {
                self.prefetch_outputs(token, tile * ROWS, 1);
                self.write_tile(token, tile, &sums[at.at(token, i)]);
            }
        }
    }

    /// Writes what is made of two products with all tokens.
    fn write_gated(
        &self,
        x: &Activations,
        tiles: Range<usize>,
        at: [Sums; 2],
        scratch: &mut Scratch,
        activate: &dyn Fn(&mut [f32], &[f32]),
    ) {
        let width = tiles.len() * ROWS;
        for token in (0..x.tokens).step_by(TOGETHER) {
            let tokens = token..(token + TOGETHER).min(x.tokens);
            for (rows, at) in scratch.rows.iter_mut().zip(at) {
                rows.clear();
                for token in tokens.clone() {
                    (0..tiles.len()).for_each(|i| rows.extend_from_slice(&scratch.sums[at.at(token, i)]));
                }
            }
            let [gate, up] = &mut scratch.rows;
            activate(gate, up);
            for (token, row) in tokens.zip(gate.chunks_exact(width)) {
                self.prefetch_outputs(token, tiles.start * ROWS, tiles.len());
                self.write(token, tiles.start * ROWS, row);
            }
        }
    }

    /// Prefetches outputs of a token that comes soon: they are far apart, and no processor sees which come next.
    #[inline(always)]
    fn prefetch_outputs(&self, token: usize, row: usize, tiles: usize) {
        let first = self.outputs(token, row, ROWS).0.wrapping_add(TOKENS_AHEAD * self.w.rows());
        for tile in 0..tiles {
            prefetch(first.wrapping_add(tile * ROWS).cast());
        }
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

    fn exact(&self, x: &Activations, tiles: Range<usize>, scratch: &mut Scratch) {
        let Scratch { rows: [row, sums], exact: w, .. } = scratch;
        row.resize(x.cols, 0.0);
        w.resize(exact::ROWS * x.cols, 0.0);
        sums.resize(exact::ROWS * x.tokens, 0.0);
        let rows = tiles.start * ROWS..(tiles.end * ROWS).min(self.w.rows());
        for first in rows.clone().step_by(exact::ROWS) {
            // Beyond the end there is what was there before; its sums are not written.
            let n = exact::ROWS.min(rows.end - first);
            for (i, w) in w.chunks_exact_mut(x.cols).take(n).enumerate() {
                self.w.row(first + i, row);
                w.iter_mut().zip(&*row).for_each(|(wide, w)| *wide = f64::from(*w));
            }
            // SAFETY: the instruction set was checked when the activations were made.
            unsafe { x.isa.run(exact::Dots { w, x: &x.exact, sums }) };
            for (t, sums) in sums.chunks_exact(exact::ROWS).enumerate() {
                self.write(t, first, &sums[..n]);
            }
        }
    }

    /// A few tokens: rows in floats are multiplied as they lie in the file, for packing them would cost more than
    /// the products.
    fn floats<E: Element>(&self, x: &Activations, tiles: Range<usize>) {
        let rows = tiles.start * ROWS..(tiles.end * ROWS).min(self.w.rows());
        match (x.isa.is_avx512(), x.width) {
            (_, 1) => self.dot::<E>(x, rows),
            (true, WIDE) => self.few::<E, 4, WIDE>(x, rows),
            (true, _) => self.few::<E, 4, NARROW>(x, rows),
            (false, _) => self.few::<E, 2, NARROW>(x, rows),
        }
    }

    fn dot<E: Element>(&self, x: &Activations, rows: Range<usize>) {
        let (y, n) = self.outputs(0, rows.start, rows.len());
        // SAFETY: `outputs` says that there are n, and each row is computed by one chunk only.
        let y = unsafe { std::slice::from_raw_parts_mut(y, n) };
        let (rows, x_lines) = (self.w.file_rows(rows), x.floats(0, 0..steps(x.cols)));
        let dot = Dot { element: PhantomData::<E>, rows, x: x_lines, y, ahead: x.tuning.ahead(self.w.ty()) };
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

    fn quantized<F: TileFormat>(&self, x: &Activations, mut tiles: Range<usize>, scratch: &mut Scratch) {
        while !tiles.is_empty() {
            scratch.tiles.begin(tiles.start);
            let (bytes, n) = self.w.tiles(tiles.clone(), &mut scratch.tiles);
            let ahead = x.tuning.ahead(self.w.ty());
            match bytes {
                TileBytes::Packed(bytes) => self.panels(x, tiles.start, n, Tile::<F>::new(bytes, x.cols, n, ahead)),
                TileBytes::File(rows) if F::File::READ => {
                    self.panels(x, tiles.start, n, FileRows::<F>::new(rows, x.cols));
                }
                TileBytes::File(_) => unreachable!("{} is packed first", self.w.ty()),
            }
            tiles.start += n;
        }
    }

    /// The rows of `n` tiles from `tile` on with all panels.
    fn panels(&self, x: &Activations, tile: usize, n: usize, w: impl Source) {
        match x.width {
            1 => self.gemv::<_, 1>(x, tile, n, w),
            NARROW => self.gemv::<_, NARROW>(x, tile, n, w),
            _ => self.gemv::<_, WIDE>(x, tile, n, w),
        }
    }

    /// The same with panels of width `T`.
    fn gemv<S: Source, const T: usize>(&self, x: &Activations, tile: usize, n: usize, w: S) {
        assert!(x.width == T && w.blocks() == x.cols / BLOCK);
        let (y, rows) = self.outputs(0, tile * ROWS, n * ROWS);
        let x_blocks = x.int8.panel(0, (x.cols / BLOCK, T));
        let run = |w, tiles, y, stride| {
            let y = Outputs { y, stride, tokens: x.tokens };
            // SAFETY: the instruction set was checked when the activations were made; rows and panels both have `cols` columns,
            // and there are panels for all tokens; there are outputs of whole tiles, each computed by one chunk only.
            unsafe { x.isa.run(Gemv::<S, T> { w, tiles, x: x_blocks, y }) };
        };
        let whole = rows / ROWS;
        run(w, whole, y, self.w.rows());
        if whole < n {
            // The last tile has fewer rows.
            let mut sums = vec![[0.0; ROWS]; x.tokens];
            run(w.after(whole), 1, sums.as_flattened_mut().as_mut_ptr(), ROWS);
            for (token, sums) in sums.iter().enumerate() {
                self.write_tile(token, tile + whole, sums);
            }
        }
    }
}
