//! The products of rows in F32, F16 or BF16 with activations in f32: any number of tokens with F32, few with the
//! others (many are multiplied in [fixed point](super::fixed)).
//!
//! These rows stay as they lie in the file; 16 consecutive columns are a step. A row is cut into strips: in
//! a strip, column `k` is summed in lane `k mod 16`, then the lanes are added in pairs, then strip is added
//! to strip. One token alone and several, on every instruction set, all in this order.

use std::{marker::PhantomData, ops::Range};

use super::{
    blocked::{self, Method},
    fixed::FixedPoint,
    kernels::{prefetch, stream},
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
    /// How rows are multiplied with many tokens.
    type Many: Method;
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
    type Many = blocked::Floats;
    const SIZE: usize = 4;
    #[inline(always)]
    unsafe fn load<L: Lanes>(p: *const u8) -> L::F {
        // SAFETY: the caller's promise; the load is unaligned.
        unsafe { L::load_f32(p.cast()) }
    }
}
impl Element for F16 {
    type Many = FixedPoint<Self>;
    const SIZE: usize = 2;
    #[inline(always)]
    unsafe fn load<L: Lanes>(p: *const u8) -> L::F {
        // SAFETY: the caller's promise.
        unsafe { L::load_f16(p) }
    }
}
impl Element for Bf16 {
    type Many = FixedPoint<Self>;
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

/// Rows × one token: a single stream through memory.
pub(super) struct Dot<'a, E> {
    /// Format of the rows.
    pub(super) element: PhantomData<E>,
    /// The rows, one after the other.
    pub(super) rows: &'a [u8],
    /// A line per step.
    pub(super) x: &'a [Line],
    /// A sum per row.
    pub(super) y: &'a mut [f32],
}

impl<E: Element> Kernel for Dot<'_, E> {
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let bytes = self.rows.len() / self.y.len().max(1);
        let (steps, whole) = (self.x.len(), bytes / (LANES * E::SIZE));
        assert!(self.rows.len() == bytes * self.y.len() && bytes.div_ceil(LANES * E::SIZE) == steps);
        let strip = strip(steps);
        for (y, rows) in self.y.chunks_mut(ROWS).zip(self.rows.chunks(ROWS * bytes)) {
            let mut sums = [0.0; ROWS];
            for first in (0..steps).step_by(strip * SPAN) {
                let mut lines = [const { std::mem::MaybeUninit::<[[f32; LANES]; ROWS]>::uninit() }; SPAN];
                let strips = (first..steps).step_by(strip).take(SPAN);
                lines.iter_mut().zip(strips.clone()).for_each(|(lines, _)| _ = lines.write([[0.0; LANES]; ROWS]));
                for (r, row) in rows.chunks_exact(bytes).enumerate() {
                    for (lines, step) in lines.iter_mut().zip(strips.clone()) {
                        let rest = if step + strip > whole && whole < steps { Some(rest::<E>(row)) } else { None };
                        let n = strip.min(whole.saturating_sub(step));
                        // SAFETY: the machine can run `L`; `n` whole steps end inside the row, which has as
                        // many as x; the rest is one more line of both. The lines were written above.
                        unsafe {
                            let (w, x) = (row.as_ptr().add(step * LANES * E::SIZE), self.x.as_ptr().add(step).cast());
                            strip_sums::<E, L>((w, n), rest.as_ref(), x, &mut lines.assume_init_mut()[r]);
                        }
                    }
                }
                for (lines, _) in lines.iter().zip(strips) {
                    // SAFETY: the machine can run `L`; these lines were written above.
                    unsafe { L::add_lanes(lines.assume_init_ref(), &mut sums) }
                }
            }
            y.copy_from_slice(&sums[..y.len()]);
        }
    }
}

/// Strips of a row whose lanes wait to be added together with those of other rows.
const SPAN: usize = 8;

/// The products of `n` whole steps of a row from `w` on, and of its rest, by lane.
///
/// # Safety
/// The machine can run `L`; the steps are there in the row and, with a line more for a rest, in `x`.
#[inline(always)]
unsafe fn strip_sums<E: Element, L: Lanes>(
    (mut w, n): (*const u8, usize),
    rest: Option<&[u8; LANES * 4]>,
    mut x: *const f32,
    sums: &mut [f32; LANES],
) {
    let per_line = const { size_of::<Line>() / (LANES * E::SIZE) };
    // SAFETY: the caller's promise.
    unsafe {
        let mut acc = [L::splat_f32(0.0); LANES];
        for _ in 0..n / per_line {
            stream(w, 1);
            for step in 0..per_line {
                add_step::<E, L>(w.add(step * LANES * E::SIZE), x.add(step * LANES), &mut acc);
            }
            (w, x) = (w.add(size_of::<Line>()), x.add(per_line * LANES));
        }
        for _ in 0..n % per_line {
            add_step::<E, L>(w, x, &mut acc);
            (w, x) = (w.add(LANES * E::SIZE), x.add(LANES));
        }
        if let Some(rest) = rest {
            add_step::<E, L>(rest.as_ptr(), x, &mut acc);
        }
        for i in 0..LANES / L::ROWS {
            L::store_f32(acc[i], sums.as_mut_ptr().add(i * L::ROWS));
        }
    }
}

/// Adds the products of one step.
///
/// # Safety
/// The machine can run `L`; `w` and `x` are valid for 16 elements.
#[inline(always)]
unsafe fn add_step<E: Element, L: Lanes>(w: *const u8, x: *const f32, acc: &mut [L::F; LANES]) {
    // SAFETY: the caller's promise.
    unsafe {
        for i in 0..LANES / L::ROWS {
            acc[i] = L::fma(E::load::<L>(w.add(i * L::ROWS * E::SIZE)), L::load_f32(x.add(i * L::ROWS)), acc[i]);
        }
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
                                prefetch(w.wrapping_add(R * bytes));
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

/// Copies some steps of the F32 rows of a tile into a strip: lines `[16 / R][step][R]`.
pub(super) struct Spread<'a, const R: usize> {
    /// Up to 16 rows as in the file.
    pub(super) rows: &'a [u8],
    /// Elements of a row.
    pub(super) cols: usize,
    /// Which steps.
    pub(super) steps: Range<usize>,
    /// A line per step and row; those of rows that are not there become zeros.
    pub(super) strip: &'a mut [Line],
}

impl<const R: usize> Kernel for Spread<'_, R> {
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let (bytes, n) = (self.cols * F32::SIZE, self.steps.len());
        let whole = self.cols / LANES;
        assert!(self.strip.len() >= n * ROWS && self.steps.end <= steps(self.cols) && ROWS.is_multiple_of(R));
        let first = self.steps.start;
        for r in 0..ROWS {
            let lines = &mut self.strip[r / R * n * R..][..n * R];
            let Some(row) = self.rows.get(r * bytes..(r + 1) * bytes) else {
                lines.iter_mut().skip(r % R).step_by(R).for_each(|line| *line = Line::ZERO);
                continue;
            };
            let rest = rest::<F32>(row);
            for step in self.steps.clone() {
                let w = if step < whole { row[step * LANES * F32::SIZE..].as_ptr() } else { rest.as_ptr() };
                // A strip is a short piece of each row: the processor's own look-ahead ends with it.
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
