//! The products of rows in F32 with many tokens, in f32: rows are copied into packed panels, in which 16 rows lie
//! side by side. Sums are those of [few tokens](super::f32), in the same order.

use std::ops::Range;

use super::{
    f32::{Element, F32, panel_steps, rest},
    micro::{MicroKernel, PackedPanels},
};
use crate::{
    cpu::{
        Activations, ComputeType, Matrix,
        layout::{LANES, Line, NARROW, ROWS, WIDE, steps},
        packing::TileScratch,
        prefetch::prefetch,
        tuning::Tuning,
    },
    simd::{Isa, LaneKernel, Lanes},
};

/// F32: steps of 16 columns, products in f32.
pub(in crate::cpu) struct Float;

/// Tiles of floats for which the activations are read again.
const FLOAT_TILES: usize = 8;

impl MicroKernel for Float {
    const PRODUCTS: ComputeType = ComputeType::Float;

    fn lines(_: Isa) -> usize {
        ROWS
    }

    fn tiles(_: &Tuning) -> usize {
        FLOAT_TILES
    }

    fn k_blocks(x: &Activations) -> (usize, usize) {
        let steps = steps(x.cols);
        (steps, panel_steps(steps))
    }

    fn pack(isa: Isa, w: &Matrix, tile: usize, steps: Range<usize>, (packed, _): (&mut [Line], &mut TileScratch)) {
        let (rows, cols) = (w.tile_rows(tile..tile + 1), w.cols());
        // SAFETY: the instruction set was checked when the activations were made.
        unsafe {
            match isa.is_avx512() {
                true => isa.run(Spread::<4> { rows, cols, steps, packed }),
                false => isa.run(Spread::<2> { rows, cols, steps, packed }),
            }
        }
    }

    fn multiply(x: &Activations, weights: &PackedPanels, sums: &mut [[f32; ROWS]]) {
        for (i, y) in sums.chunks_exact_mut(x.width).enumerate() {
            let (panel, tile) = (i / FLOAT_TILES, i % FLOAT_TILES);
            if tile >= weights.tiles {
                continue;
            }
            let (w, columns) = (weights.of(tile), x.floats(panel, weights.k_blocks.clone()));
            // SAFETY: the instruction set was checked when the activations were made.
            unsafe {
                match (x.isa.is_avx512(), x.width) {
                    (true, WIDE) => x.isa.run(Dots::<4, WIDE> { w, x: columns, y }),
                    (true, _) => x.isa.run(Dots::<4, NARROW> { w, x: columns, y }),
                    (false, _) => x.isa.run(Dots::<2, NARROW> { w, x: columns, y }),
                }
            }
        }
    }
}

/// Rows between what is packed and what is prefetched.
const ROWS_AHEAD: usize = 4;

/// Copies some steps of the F32 rows of a tile into a packed panel: lines `[16 / R][step][R]`.
struct Spread<'a, const R: usize> {
    /// Up to 16 rows as in the file.
    rows: &'a [u8],
    /// Elements of a row.
    cols: usize,
    steps: Range<usize>,
    /// A line per step and row; those of rows that are not there become zeros.
    packed: &'a mut [Line],
}

impl<const R: usize> LaneKernel for Spread<'_, R> {
    const ONLY_AVX512: bool = R == 4;

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let (bytes, n) = (self.cols * F32::SIZE, self.steps.len());
        let whole = self.cols / LANES;
        assert!(self.packed.len() >= n * ROWS && self.steps.end <= steps(self.cols) && ROWS.is_multiple_of(R));
        let first = self.steps.start;
        for r in 0..ROWS {
            let lines = &mut self.packed[r / R * n * R..][..n * R];
            let Some(row) = self.rows.get(r * bytes..(r + 1) * bytes) else {
                lines.iter_mut().skip(r % R).step_by(R).for_each(|line| *line = Line::ZERO);
                continue;
            };
            let rest = rest::<F32>(row);
            for step in self.steps.clone() {
                let w = if step < whole { row[step * LANES * F32::SIZE..].as_ptr() } else { rest.as_ptr() };
                // A packed panel is a short piece of each row: the processor's own prefetcher stops with it.
                prefetch(w.wrapping_add(ROWS_AHEAD * bytes));
                let line = &mut lines[(step - first) * R + r % R];
                for lane in (0..LANES).step_by(L::ROWS) {
                    // SAFETY: the machine can run `L`; the step and the line have 16 elements.
                    unsafe {
                        let w = F32::load::<L>(w.add(lane * F32::SIZE));
                        L::store_f32(w, (&raw mut *line).cast::<f32>().add(lane));
                    }
                }
            }
        }
    }
}

/// The packed panel of a tile × as many steps of one panel of `T` tokens, added to what is there: `R · T` sums in
/// registers, each of the loaded weights used for `T` tokens and each of the activations for `R` rows.
struct Dots<'a, const R: usize, const T: usize> {
    /// The weights, `[16 / R][step][R]`.
    w: &'a [Line],
    /// The activations, `[step][T]`.
    x: &'a [Line],
    /// Sums by token: `[T]` times a tile's rows.
    y: &'a mut [[f32; ROWS]],
}

impl<const R: usize, const T: usize> LaneKernel for Dots<'_, R, T> {
    const ONLY_AVX512: bool = R == 4;

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let steps = self.x.len() / T;
        assert!(self.w.len() == steps * ROWS && self.x.len() == steps * T && self.y.len() >= T);
        let mut sums = [const { std::mem::MaybeUninit::<[[f32; LANES]; ROWS]>::uninit() }; T];
        for row in (0..ROWS).step_by(R) {
            for lane in (0..LANES).step_by(L::ROWS) {
                // SAFETY: the machine can run `L`; there are 16 lines of weights and `T` of activations for
                // each step, all of 16 elements; `row + R ≤ 16`.
                unsafe {
                    let (mut w, mut x) = (self.w.as_ptr().add(row * steps), self.x.as_ptr());
                    let mut acc = [[L::splat_f32(0.0); R]; T];
                    for _ in 0..steps {
                        let mut rows = [L::splat_f32(0.0); R];
                        for r in 0..R {
                            rows[r] = L::load_f32(w.add(r).cast::<f32>().add(lane));
                        }
                        for t in 0..T {
                            let x = L::load_f32(x.add(t).cast::<f32>().add(lane));
                            for r in 0..R {
                                acc[t][r] = L::fma(rows[r], x, acc[t][r]);
                            }
                        }
                        (w, x) = (w.add(R), x.add(T));
                    }
                    for t in 0..T {
                        for r in 0..R {
                            let sums = sums[t].as_mut_ptr().cast::<[f32; LANES]>().add(row + r);
                            L::store_f32(acc[t][r], sums.cast::<f32>().add(lane));
                        }
                    }
                }
            }
        }
        for (sums, y) in sums.iter().zip(self.y) {
            // SAFETY: the machine can run `L`; all rows and lanes were written above.
            unsafe { L::add_lanes(sums.assume_init_ref(), y) }
        }
    }
}
