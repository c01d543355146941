//! Exact arithmetic: products of f32 weights and f32 activations, summed in f64.
//!
//! The sum is spread over 16 lanes in a fixed order, so that every machine and every instruction set gives the same bits: a
//! product of two f32 is exact in f64, whether it is fused with the addition or not.

use crate::{
    cpu::layout::LANES,
    simd::{LaneKernel, Lanes},
};

/// Rows that are multiplied at once: each number of a token is loaded once for all.
pub(in crate::cpu) const ROWS: usize = 2;

/// Some dequantized rows × all tokens.
pub(in crate::cpu) struct Dots<'a> {
    /// `[ROWS][cols]`.
    pub(in crate::cpu) w: &'a [f64],
    /// `[tokens][cols]`.
    pub(in crate::cpu) x: &'a [f64],
    /// `[tokens][ROWS]`.
    pub(in crate::cpu) sums: &'a mut [f32],
}

impl LaneKernel for Dots<'_> {
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let cols = self.w.len() / ROWS;
        let rows: [_; ROWS] = std::array::from_fn(|r| self.w[r * cols..][..cols].as_chunks::<LANES>());
        for (x, of_token) in self.x.chunks_exact(cols).zip(self.sums.as_chunks_mut::<ROWS>().0) {
            let (x, x_rest) = x.as_chunks::<LANES>();
            let mut sums = [[0f64; LANES]; ROWS];
            for lane in (0..LANES).step_by(L::ROWS) {
                // SAFETY: the machine can run `L`, whose lanes from this one on are among `LANES`.
                unsafe {
                    let load = |lanes: &[f64; LANES]| L::load_f64(lanes.as_ptr().wrapping_add(lane));
                    let [mut a, mut b] = [load(&sums[0]); ROWS];
                    for ((x, first), second) in x.iter().zip(rows[0].0).zip(rows[1].0) {
                        let x = load(x);
                        (a, b) = (L::fma_f64(load(first), x, a), L::fma_f64(load(second), x, b));
                    }
                    for (y, sums) in [a, b].into_iter().zip(&mut sums) {
                        L::store_f64(y, sums.as_mut_ptr().wrapping_add(lane));
                    }
                }
            }
            for r in 0..ROWS {
                let rest = rows[r].1.iter().zip(x_rest);
                sums[r].iter_mut().zip(rest).for_each(|(sum, (w, x))| *sum += w * x);
                of_token[r] = sums[r].iter().sum::<f64>() as f32;
            }
        }
    }
}
