//! Softmax page by page: a running maximum, and what came before is scaled when it grows.

use std::ops::Range;

use qrun_quant::simd::{FloatKernel, FloatLanes, VectorWidth};

use super::super::simd::LANES;
use crate::kv::PAGE;

/// Turns the scores of a page into weights of some queries, and scales what came before.
pub struct OnlineSoftmax<'a> {
    /// One row per query.
    pub scores: &'a mut [[f32; PAGE]],
    /// Positions that each token sees, and the queries of a token.
    pub visible: (&'a [Range<usize>], usize),
    /// The positions of the page begin here.
    pub start: usize,
    /// Of each query: the maximum, the sum, and its weighted values.
    pub max: &'a mut [f32],
    pub sum: &'a mut [f32],
    pub values: &'a mut [f32],
}

impl OnlineSoftmax<'_> {
    /// Does so. Panics where there are not as many of each as queries.
    pub fn run(self) {
        let queries = self.visible.0.len() * self.visible.1;
        assert!([self.scores.len(), self.max.len(), self.sum.len()] == [queries; 3]);
        assert!(queries > 0 && self.values.len().is_multiple_of(queries));
        // SAFETY: the kernel asks for nothing more.
        unsafe { VectorWidth::best().run(self) }
    }
}

impl FloatKernel for OnlineSoftmax<'_> {
    /// # Safety
    /// The machine can run `L`.
    #[inline(always)]
    unsafe fn run<L: FloatLanes>(self) {
        let (visible, width) = self.visible;
        let n = self.values.len() / self.max.len();
        for (i, scores) in self.scores.iter_mut().enumerate() {
            let in_page = |at: usize| at.clamp(self.start, self.start + PAGE) - self.start;
            let seen = &visible[i / width];
            let seen = in_page(seen.start)..in_page(seen.end).max(in_page(seen.start));
            // SAFETY: that of this function.
            unsafe { add::<L>(scores, seen, (&mut self.max[i], &mut self.sum[i]), &mut self.values[i * n..][..n]) };
        }
    }
}

/// One query: the slots of the page that it sees.
///
/// # Safety
/// The machine can run `L`.
#[inline(always)]
unsafe fn add<L: FloatLanes>(
    scores: &mut [f32; PAGE],
    seen: Range<usize>,
    (max, sum): (&mut f32, &mut f32),
    values: &mut [f32],
) {
    let is_whole = seen == (0..PAGE);
    if !is_whole {
        scores[..seen.start].fill(f32::NEG_INFINITY);
        scores[seen.end..].fill(f32::NEG_INFINITY);
    }
    // SAFETY: the machine can run `L`; a page is whole vectors.
    let largest = unsafe { over_lanes::<L, true>(scores, *max) };
    if largest == f32::NEG_INFINITY {
        scores.fill(0.0);
        return;
    }
    for i in (0..PAGE).step_by(L::ROWS) {
        // SAFETY: as above.
        unsafe {
            let p = scores.as_mut_ptr().add(i);
            L::store_f32(exp_below_0::<L>(L::add_f32(L::load_f32(p), L::splat_f32(-largest))), p);
        }
    }
    if !is_whole {
        scores[..seen.start].fill(0.0);
        scores[seen.end..].fill(0.0);
    }
    if largest > *max {
        let rescale = (*max - largest).exp();
        *sum *= rescale;
        values.iter_mut().for_each(|v| *v *= rescale);
        *max = largest;
    }
    // SAFETY: as above.
    *sum += unsafe { over_lanes::<L, false>(scores, 0.0) };
}

/// The largest of the scores of a page and `start`, or the sum: lane by lane, of 16, and then the lanes in order.
///
/// # Safety
/// The machine can run `L`.
#[inline(always)]
unsafe fn over_lanes<L: FloatLanes, const MAX: bool>(scores: &[f32; PAGE], start: f32) -> f32 {
    let mut lanes = [start; LANES];
    for lane in (0..LANES).step_by(L::ROWS) {
        // SAFETY: the machine can run `L`; a page and the lanes are whole vectors.
        unsafe {
            let mut joined = L::splat_f32(start);
            for i in (lane..PAGE).step_by(LANES) {
                let score = L::load_f32(scores.as_ptr().add(i));
                joined = if MAX { L::max_f32(score, joined) } else { L::add_f32(score, joined) };
            }
            L::store_f32(joined, lanes.as_mut_ptr().add(lane));
        }
    }
    let join = |a: f32, b: f32| if MAX { if b > a { b } else { a } } else { a + b };
    lanes.into_iter().fold(start, join)
}

/// `e^x` of what is not above 0, relative error below 2e-7; below −87 that of −87.
///
/// # Safety
/// The machine can run `L`.
#[inline(always)]
unsafe fn exp_below_0<L: FloatLanes>(x: L::F) -> L::F {
    // ln 2 in two parts, so that n·ln2 loses nothing.
    const LN2_HI: f32 = 0.693_145_75;
    const LN2_LO: f32 = 1.428_606_8e-6;
    // Adding 1.5·2²³ rounds to the nearest integer and leaves it in the low bits.
    const ROUND: f32 = 12_582_912.0;
    // SAFETY: that of this function.
    unsafe {
        let x = L::max_f32(L::splat_f32(-87.0), x);
        let rounded = L::fma(x, L::splat_f32(std::f32::consts::LOG2_E), L::splat_f32(ROUND));
        let n = L::add_f32(rounded, L::splat_f32(-ROUND));
        let r = L::fma(n, L::splat_f32(-LN2_LO), L::fma(n, L::splat_f32(-LN2_HI), x));
        // Taylor to the 7th power: |r| ≤ 0.347, remainder below 1e-9.
        let mut p = L::splat_f32(1.0 / 5040.0);
        for c in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
            p = L::fma(p, r, L::splat_f32(c));
        }
        L::mul(p, L::power_of_2(rounded))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `e^x` of each.
    struct Exp<'a>(&'a mut [f32]);

    impl FloatKernel for Exp<'_> {
        #[inline(always)]
        unsafe fn run<L: FloatLanes>(self) {
            for x in self.0.chunks_exact_mut(L::ROWS) {
                // SAFETY: the machine can run `L`, and there are as many.
                unsafe { L::store_f32(exp_below_0::<L>(L::load_f32(x.as_ptr())), x.as_mut_ptr()) }
            }
        }
    }

    #[test]
    fn exp_is_right_to_the_last_bits_and_the_same_on_every_width() {
        let x: Vec<f32> = (0..86_992).map(|i| -(i as f32) * 1e-3).collect();
        let of = |width: VectorWidth| {
            let mut y = x.clone();
            // SAFETY: the kernel asks for nothing.
            unsafe { width.run(Exp(&mut y)) };
            y
        };
        let exact = of(VectorWidth::Scalar);
        for (x, y) in x.iter().zip(&exact) {
            let error = f64::from(*y) / f64::from(*x).exp() - 1.0;
            assert!(error.abs() < 2e-7, "e^{x} = {y}: {error}");
        }
        VectorWidth::available().for_each(|width| assert!(of(width) == exact, "{width:?}"));
    }

    #[test]
    fn what_is_not_seen_weighs_nothing_and_nan_stays() {
        let (mut max, mut sum, mut values) = ([f32::NEG_INFINITY; 2], [0.0; 2], [0.0; 32]);
        let mut scores = [[1.0f32; PAGE]; 2];
        (scores[0][0], scores[0][7], scores[1][3]) = (1e30, -1e30, f32::NAN);
        let (visible, start) = ([PAGE + 1..PAGE + 9, 0..2 * PAGE], PAGE);
        let (state, values) = ((&mut max, &mut sum), &mut values);
        OnlineSoftmax { scores: &mut scores, visible: (&visible, 1), start, max: state.0, sum: state.1, values }.run();
        assert!(max[0] == 1.0 && sum[0] == 7.0 && sum[1].is_nan(), "{max:?} {sum:?}");
        let weights = |slot: usize| if (1..9).contains(&slot) && slot != 7 { 1.0 } else { 0.0 };
        assert!((0..PAGE).all(|slot| (scores[0][slot] - weights(slot)).abs() < 1e-37), "{:?}", scores[0]);
    }
}
