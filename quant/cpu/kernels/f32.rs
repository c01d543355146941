//! The products of rows in F32, F16 or BF16 with activations in f32, for few tokens. More are multiplied in
//! [packed panels](super::f32_gemm), or in [fixed point](super::int16_gemm).
//!
//! These rows stay as they lie in the file; 16 consecutive columns are a step. A row is cut into k-panels: in
//! a k-panel, column `k` is summed in lane `k mod 16`, then the lanes are added in pairs, then k-panel is added
//! to k-panel. One token alone and several, on every instruction set, all in this order.

use std::marker::PhantomData;

use crate::{
    cpu::{
        layout::{LANES, Line, ROWS},
        prefetch::{Ahead, prefetch},
    },
    simd::{LaneKernel, Lanes, sum_lanes},
};

/// Most steps of a k-panel: so many of [`WIDE`](crate::cpu::layout::WIDE) tokens and of a few rows fit the
/// first-level cache.
const PANEL: usize = 72;

/// Steps per k-panel, about the same for all k-panels of a row of so many steps.
pub(super) fn panel_steps(steps: usize) -> usize {
    steps.div_ceil(steps.div_ceil(PANEL))
}

/// A float format of the file.
pub(in crate::cpu) trait Element {
    /// Bytes of one element.
    const SIZE: usize;
    /// # Safety
    /// The machine can run `L`, and `p` is valid for `L::ROWS` elements.
    unsafe fn load<L: Lanes>(p: *const u8) -> L::F;
}
/// IEEE single.
pub(in crate::cpu) struct F32;
/// IEEE half.
pub(in crate::cpu) struct F16;
/// Upper half of an IEEE single.
pub(in crate::cpu) struct Bf16;

impl Element for F32 {
    const SIZE: usize = 4;
    #[inline(always)]
    unsafe fn load<L: Lanes>(p: *const u8) -> L::F {
        // SAFETY: the machine can run `L`, and `p` is valid for `L::ROWS` elements; the load is unaligned.
        unsafe { L::load_f32(p.cast()) }
    }
}
impl Element for F16 {
    const SIZE: usize = 2;
    #[inline(always)]
    unsafe fn load<L: Lanes>(p: *const u8) -> L::F {
        // SAFETY: the machine can run `L`, and `p` is valid for `L::ROWS` elements.
        unsafe { L::load_f16(p) }
    }
}
impl Element for Bf16 {
    const SIZE: usize = 2;
    #[inline(always)]
    unsafe fn load<L: Lanes>(p: *const u8) -> L::F {
        // SAFETY: the machine can run `L`, and `p` is valid for `L::ROWS` elements.
        unsafe { L::load_bf16(p) }
    }
}

/// The columns of a row after its last whole step, filled up with zeros.
#[inline(always)]
pub(super) fn rest<E: Element>(row: &[u8]) -> [u8; LANES * 4] {
    let (mut rest, n) = ([0; LANES * 4], row.len() % (LANES * E::SIZE));
    rest[..n].copy_from_slice(&row[row.len() - n..]);
    rest
}

/// Rows × one token: a single stream through memory.
pub(in crate::cpu) struct Dot<'a, E> {
    /// Format of the rows.
    pub(in crate::cpu) element: PhantomData<E>,
    /// The rows, one after the other.
    pub(in crate::cpu) rows: &'a [u8],
    /// A line per step.
    pub(in crate::cpu) x: &'a [Line],
    /// A sum per row.
    pub(in crate::cpu) y: &'a mut [f32],
    pub(in crate::cpu) ahead: Ahead,
}

impl<E: Element> LaneKernel for Dot<'_, E> {
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let bytes = self.rows.len() / self.y.len().max(1);
        let (steps, whole) = (self.x.len(), bytes / (LANES * E::SIZE));
        assert!(self.rows.len() == bytes * self.y.len() && bytes.div_ceil(LANES * E::SIZE) == steps);
        let panel = panel_steps(steps);
        for (y, rows) in self.y.chunks_mut(ROWS).zip(self.rows.chunks(ROWS * bytes)) {
            let mut sums = [0.0; ROWS];
            for first in (0..steps).step_by(panel * SPAN) {
                let mut lines = [const { std::mem::MaybeUninit::<[[f32; LANES]; ROWS]>::uninit() }; SPAN];
                let panels = (first..steps).step_by(panel).take(SPAN);
                lines.iter_mut().zip(panels.clone()).for_each(|(lines, _)| _ = lines.write([[0.0; LANES]; ROWS]));
                for (r, row) in rows.chunks_exact(bytes).enumerate() {
                    for (lines, step) in lines.iter_mut().zip(panels.clone()) {
                        let rest = if step + panel > whole && whole < steps { Some(rest::<E>(row)) } else { None };
                        let n = panel.min(whole.saturating_sub(step));
                        // SAFETY: the machine can run `L`; `n` whole steps end inside the row, which has as
                        // many as x; the rest is one more line of both. The lines were written above.
                        unsafe {
                            let (w, x) = (row.as_ptr().add(step * LANES * E::SIZE), self.x.as_ptr().add(step).cast());
                            panel_sums::<E, L>((w, n), rest.as_ref(), x, self.ahead, &mut lines.assume_init_mut()[r]);
                        }
                    }
                }
                for (lines, _) in lines.iter().zip(panels) {
                    // SAFETY: the machine can run `L`; these lines were written above.
                    unsafe { L::add_lanes(lines.assume_init_ref(), &mut sums) }
                }
            }
            y.copy_from_slice(&sums[..y.len()]);
        }
    }
}

/// K-panels of a row whose lanes wait to be added together with those of other rows.
const SPAN: usize = 8;

/// The products of `n` whole steps of a row from `w` on, and of its rest, by lane.
///
/// # Safety
/// The machine can run `L`; the steps are there in the row and, with a line more for a rest, in `x`.
#[inline(always)]
unsafe fn panel_sums<E: Element, L: Lanes>(
    (mut w, n): (*const u8, usize),
    rest: Option<&[u8; LANES * 4]>,
    mut x: *const f32,
    ahead: Ahead,
    sums: &mut [f32; LANES],
) {
    let per_line = const { size_of::<Line>() / (LANES * E::SIZE) };
    // SAFETY: the machine can run `L`; the steps, and the line of a rest, are inside the row and `x`.
    unsafe {
        let mut acc = [L::splat_f32(0.0); LANES];
        for _ in 0..n / per_line {
            ahead.stream(w, 1);
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
    // SAFETY: the machine can run `L`; `w` and `x` are valid for 16 elements.
    unsafe {
        for i in 0..LANES / L::ROWS {
            acc[i] = L::fma(E::load::<L>(w.add(i * L::ROWS * E::SIZE)), L::load_f32(x.add(i * L::ROWS)), acc[i]);
        }
    }
}

/// `R` rows × one panel of `T` tokens, for few tokens: rows are read where they lie.
pub(in crate::cpu) struct Few<'a, E, const R: usize, const T: usize> {
    /// Format of the rows.
    pub(in crate::cpu) element: PhantomData<E>,
    pub(in crate::cpu) w: [&'a [u8]; R],
    /// The activations, `[step][T]`.
    pub(in crate::cpu) x: &'a [Line],
    pub(in crate::cpu) y: &'a mut [[f32; R]; T],
}

impl<E: Element, const R: usize, const T: usize> LaneKernel for Few<'_, E, R, T> {
    const ONLY_AVX512: bool = R == 4;

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let (steps, bytes) = (self.x.len() / T, self.w[0].len());
        let whole = bytes / (LANES * E::SIZE);
        assert!(self.w.iter().all(|w| w.len() == bytes) && bytes.div_ceil(LANES * E::SIZE) == steps);
        let rest = if whole < steps { Some(self.w.map(rest::<E>)) } else { None };
        let panel = panel_steps(steps);
        for first in (0..steps).step_by(panel) {
            let end = (first + panel).min(steps);
            let mut sums = [[[0f32; LANES]; R]; T];
            for lane in (0..LANES).step_by(L::ROWS) {
                // SAFETY: the machine can run `L`. Whole steps end inside the rows; the rest and lines of x
                // have 16 elements.
                unsafe {
                    let x = |step: usize| self.x.as_ptr().add(step * T).cast::<f32>().add(lane);
                    let mut acc = [[L::splat_f32(0.0); R]; T];
                    for step in first..end.min(whole) {
                        let mut w = [std::ptr::null(); R];
                        for r in 0..R {
                            w[r] = self.w[r].as_ptr().add((step * LANES + lane) * E::SIZE);
                            // These columns of the rows that come next.
                            prefetch(w[r].wrapping_add(R * bytes));
                        }
                        add_few::<E, L, R, T>(w, x(step), &mut acc);
                    }
                    if let Some(rest) = rest.as_ref().filter(|_| end > whole) {
                        let w = rest.each_ref().map(|row| row.as_ptr().add(lane * E::SIZE));
                        add_few::<E, L, R, T>(w, x(whole), &mut acc);
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
                    self.y[t][r] += sum_lanes(sums[t][r]);
                }
            }
        }
    }
}

/// Adds the products of `R` rows with `T` lines of activations, of one register each.
///
/// # Safety
/// The machine can run `L`; `w` are valid for `L::ROWS` elements, `x` for as many of each line.
#[inline(always)]
unsafe fn add_few<E: Element, L: Lanes, const R: usize, const T: usize>(
    w: [*const u8; R],
    x: *const f32,
    acc: &mut [[L::F; R]; T],
) {
    // SAFETY: that of this function.
    unsafe {
        let mut rows = [L::splat_f32(0.0); R];
        for r in 0..R {
            rows[r] = E::load::<L>(w[r]);
        }
        for t in 0..T {
            let x = L::load_f32(x.add(t * LANES));
            for r in 0..R {
                acc[t][r] = L::fma(rows[r], x, acc[t][r]);
            }
        }
    }
}
