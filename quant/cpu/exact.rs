//! Exact arithmetic: f32 weights times f32 activations, summed in f64.
//!
//! The sum is spread over 16 lanes in a fixed order and nothing is fused, so that every machine and every
//! instruction set gives the same bits.

use super::lanes::{Kernel, Lanes};

/// One dequantized row × one token.
pub(super) struct Dot<'a> {
    /// `[cols]`.
    pub(super) w: &'a [f32],
    /// `[cols]`.
    pub(super) x: &'a [f32],
    /// Takes the result.
    pub(super) sum: &'a mut f32,
}

impl Kernel for Dot<'_> {
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
