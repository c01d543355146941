//! The products of rows in F32, F16 or BF16 with activations in f32.
//!
//! These rows stay as they lie in the file; 16 consecutive columns are a step. A row is cut into strips: in
//! a strip, column `k` is summed in lane `k mod 16`, then the lanes are added in pairs, then strip is added
//! to strip. One token alone and many, on every instruction set, all in this order.

use std::{marker::PhantomData, ops::Range};

use super::{
    kernels::{AHEAD, prefetch},
    lanes::{Kernel, Lanes},
    tiles::{Line, ROWS},
};

/// Columns per step: lanes that a dot product is spread over.
pub(super) const LANES: usize = 16;
/// Most steps of a strip: so many of [`WIDE`](super::activations::WIDE) tokens and of a few rows fit the
/// first-level cache.
const STRIP: usize = 72;

/// Steps of a row; the last one is filled up with zeros.
pub(super) fn steps(cols: usize) -> usize {
    cols.div_ceil(LANES)
}

/// Steps per strip, about the same for all strips of a row.
pub(super) fn strip(steps: usize) -> usize {
    steps.div_ceil(steps.div_ceil(STRIP))
}

/// A float format of the file.
pub(super) trait Element {
    /// Bytes of one element.
    const SIZE: usize;
    /// # Safety
    /// The machine can run `L`, and `p` is valid for `L::ROWS` elements.
    unsafe fn load<L: Lanes>(p: *const u8) -> L::F;
}
/// IEEE single.
pub(super) struct F32;
/// IEEE half.
pub(super) struct F16;
/// Upper half of an IEEE single.
pub(super) struct Bf16;

impl Element for F32 {
    const SIZE: usize = 4;
    #[inline(always)]
    unsafe fn load<L: Lanes>(p: *const u8) -> L::F {
        // SAFETY: the caller's promise; the load is unaligned.
        unsafe { L::load_f32(p.cast()) }
    }
}
impl Element for F16 {
    const SIZE: usize = 2;
    #[inline(always)]
    unsafe fn load<L: Lanes>(p: *const u8) -> L::F {
        // SAFETY: the caller's promise.
        unsafe { L::load_f16(p) }
    }
}
impl Element for Bf16 {
    const SIZE: usize = 2;
    #[inline(always)]
    unsafe fn load<L: Lanes>(p: *const u8) -> L::F {
        // SAFETY: the caller's promise.
        unsafe { L::load_bf16(p) }
    }
}

/// The columns of a row after its last whole step, filled up with zeros.
#[inline(always)]
fn rest<E: Element>(row: &[u8]) -> [u8; LANES * 4] {
    let (mut rest, n) = ([0; LANES * 4], row.len() % (LANES * E::SIZE));
    rest[..n].copy_from_slice(&row[row.len() - n..]);
    rest
}

/// One row × one token.
pub(super) struct Dot<'a, E> {
    /// Format of the row.
    pub(super) element: PhantomData<E>,
    /// The row.
    pub(super) w: &'a [u8],
    /// A line per step.
    pub(super) x: &'a [Line],
    /// The sum.
    pub(super) y: &'a mut f32,
}

impl<E: Element> Kernel for Dot<'_, E> {
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let (steps, whole) = (self.x.len(), self.w.len() / (LANES * E::SIZE));
        assert!(self.w.len().div_ceil(LANES * E::SIZE) == steps);
        let rest = rest::<E>(self.w);
        let (mut y, strip) = ([0f32; ROWS], strip(steps));
        for first in (0..steps).step_by(strip) {
            let end = (first + strip).min(steps);
            let mut sums = [0f32; LANES];
            for lane in (0..LANES).step_by(L::ROWS) {
                // SAFETY: the machine can run `L`. Whole steps end inside the row; the rest and lines of x
                // have 16 elements.
                unsafe {
                    let mut sum = L::splat_f32(0.0);
                    let x = self.x.as_ptr().cast::<f32>().add(lane);
                    for step in first..end.min(whole) {
                        let w = self.w.as_ptr().add((step * LANES + lane) * E::SIZE);
                        // One token reads weights once, from memory: ask for them early.
                        prefetch(w.wrapping_add(AHEAD), 1);
                        sum = L::fma(E::load::<L>(w), L::load_f32(x.add(step * LANES)), sum);
                    }
                    if end > whole {
                        let w = rest.as_ptr().add(lane * E::SIZE);
                        sum = L::fma(E::load::<L>(w), L::load_f32(x.add(whole * LANES)), sum);
                    }
                    L::store_f32(sum, sums.as_mut_ptr().add(lane));
                }
            }
            y[0] += add_lanes(sums);
        }
        *self.y = y[0];
    }
}

/// The sum of all lanes: halves added until one is left.
#[inline(always)]
pub(super) fn add_lanes(mut sums: [f32; LANES]) -> f32 {
    let mut n = LANES;
    while n > 1 {
        n /= 2;
        for i in 0..n {
            sums[i] += sums[i + n];
        }
    }
    sums[0]
}

/// `R` rows × one panel of `T` tokens, for few tokens: rows are read where they lie.
pub(super) struct Few<'a, E, const R: usize, const T: usize> {
    /// Format of the rows.
    pub(super) element: PhantomData<E>,
    /// The rows.
    pub(super) w: [&'a [u8]; R],
    /// The activations, `[step][T]`.
    pub(super) x: &'a [Line],
    /// The sums.
    pub(super) y: &'a mut [[f32; R]; T],
}

impl<E: Element, const R: usize, const T: usize> Kernel for Few<'_, E, R, T> {
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let (steps, bytes) = (self.x.len() / T, self.w[0].len());
        let whole = bytes / (LANES * E::SIZE);
        assert!(self.w.iter().all(|w| w.len() == bytes) && bytes.div_ceil(LANES * E::SIZE) == steps);
        let (rest, strip) = (self.w.map(rest::<E>), strip(steps));
        for first in (0..steps).step_by(strip) {
            let end = (first + strip).min(steps);
            let mut sums = [[[0f32; LANES]; R]; T];
            for lane in (0..LANES).step_by(L::ROWS) {
                // SAFETY: the machine can run `L`. Whole steps end inside the rows; the rest and lines of x
                // have 16 elements.
                unsafe {
                    let mut acc = [[L::splat_f32(0.0); R]; T];
                    for step in first..end {
                        let x = self.x.as_ptr().add(step * T).cast::<f32>().add(lane);
                        let mut rows = [L::splat_f32(0.0); R];
                        for r in 0..R {
                            if step < whole {
                                let w = self.w[r].as_ptr().add((step * LANES + lane) * E::SIZE);
                                // These columns of the rows that come next.
                                prefetch(w.wrapping_add(R * bytes), 1);
                                rows[r] = E::load::<L>(w);
                            } else {
                                rows[r] = E::load::<L>(rest[r].as_ptr().add(lane * E::SIZE));
                            }
                        }
                        for t in 0..T {
                            let x = L::load_f32(x.add(t * LANES));
                            for r in 0..R {
                                acc[t][r] = L::fma(rows[r], x, acc[t][r]);
                            }
                        }
                    }
                    for t in 0..T {
                        for r in 0..R {
                            L::store_f32(acc[t][r], sums[t][r].as_mut_ptr().add(lane));
                        }
                    }
                }
            }
            for t in 0..T {
                for r in 0..R {
                    self.y[t][r] += add_lanes(sums[t][r]);
                }
            }
        }
    }
}

/// Rows between what is unpacked and what is asked for.
const ROWS_AHEAD: usize = 4;

/// Unpacks some steps of the rows of a tile into a strip: lines `[16 / R][step][R]`.
pub(super) struct Spread<'a, E, const R: usize> {
    /// Format of the rows.
    pub(super) element: PhantomData<E>,
    /// Up to 16 rows as in the file.
    pub(super) rows: &'a [u8],
    /// Elements of a row.
    pub(super) cols: usize,
    /// Which steps.
    pub(super) steps: Range<usize>,
    /// A line per step and row; those of rows that are not there become zeros.
    pub(super) strip: &'a mut [Line],
}

impl<E: Element, const R: usize> Kernel for Spread<'_, E, R> {
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let (bytes, n) = (self.cols * E::SIZE, self.steps.len());
        let whole = self.cols / LANES;
        assert!(self.strip.len() >= n * ROWS && self.steps.end <= steps(self.cols) && ROWS.is_multiple_of(R));
        let first = self.steps.start;
        for r in 0..ROWS {
            let lines = &mut self.strip[r / R * n * R..][..n * R];
            let Some(row) = self.rows.get(r * bytes..(r + 1) * bytes) else {
                lines.iter_mut().skip(r % R).step_by(R).for_each(|line| *line = Line::ZERO);
                continue;
            };
            let rest = rest::<E>(row);
            for step in self.steps.clone() {
                let w = if step < whole { row[step * LANES * E::SIZE..].as_ptr() } else { rest.as_ptr() };
                // A strip is a short piece of each row: the processor's own look-ahead ends with it.
                prefetch(w.wrapping_add(ROWS_AHEAD * bytes), 1);
                let line = &mut lines[(step - first) * R + r % R];
                for lane in (0..LANES).step_by(L::ROWS) {
                    // SAFETY: the machine can run `L`; the step and the line have 16 elements.
                    unsafe {
                        let w = E::load::<L>(w.add(lane * E::SIZE));
                        L::store_f32(w, (&raw mut *line).cast::<f32>().add(lane));
                    }
                }
            }
        }
    }
}

/// The strip of a tile × as many steps of one panel of `T` tokens, added to what is there: `R · T` sums in
/// registers, each of the loaded weights used for `T` tokens and each of the activations for `R` rows.
pub(super) struct Dots<'a, const R: usize, const T: usize> {
    /// The weights, `[16 / R][step][R]`.
    pub(super) w: &'a [Line],
    /// The activations, `[step][T]`.
    pub(super) x: &'a [Line],
    /// Sums by token: `[T]` times a tile's rows.
    pub(super) y: &'a mut [[f32; ROWS]],
}

impl<const R: usize, const T: usize> Kernel for Dots<'_, R, T> {
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
