//! Exact arithmetic: f32 weights times f32 activations, summed in f64.
//!
//! The sum is spread over 16 lanes in a fixed order and nothing is fused, so that every machine and every
//! instruction set gives the same bits.

use crate::simd::{LaneKernel, Lanes};

/// One dequantized row × one token.
pub(in crate::cpu) struct Dot<'a> {
    /// `[cols]`.
    pub(in crate::cpu) w: &'a [f32],
    /// `[cols]`.
    pub(in crate::cpu) x: &'a [f32],
    /// Takes the result.
    pub(in crate::cpu) sum: &'a mut f32,
}

impl LaneKernel for Dot<'_> {
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let mut sums = [0f64; 16];
        let ((w, w_rest), (x, x_rest)) = (self.w.as_chunks::<16>(), self.x.as_chunks::<16>());
        for (w, x) in w.iter().zip(x) {
            for i in 0..16 {
                sums[i] += f64::from(w[i]) * f64::from(x[i]);
            }
        }
        for (i, (w, x)) in w_rest.iter().zip(x_rest).enumerate() {
            sums[i] += f64::from(*w) * f64::from(*x);
        }
        *self.sum = sums.iter().sum::<f64>() as f32;
    }
}
