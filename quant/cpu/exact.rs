//! Exact arithmetic: f32 weights times f32 activations, summed in f64.
//!
//! The sum is spread over 16 lanes in a fixed order and nothing is fused, so that every machine and every
//! instruction set gives the same bits.

use super::lanes::{Kernel, Lanes};

/// One dequantized row × all tokens.
pub(super) struct Row<'a> {
    /// `[cols]`.
    pub(super) w: &'a [f32],
    /// `[tokens][cols]`.
    pub(super) x: &'a [f32],
    /// Takes the sum of a token.
    pub(super) write: &'a mut dyn FnMut(usize, f32),
}

impl Kernel for Row<'_> {
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        for (t, x) in self.x.chunks_exact(self.w.len()).enumerate() {
            let mut sums = [0f64; 16];
            let ((w, w_rest), (x, x_rest)) = (self.w.as_chunks::<16>(), x.as_chunks::<16>());
            for (w, x) in w.iter().zip(x) {
                for i in 0..16 {
                    sums[i] += f64::from(w[i]) * f64::from(x[i]);
                }
            }
            for (i, (w, x)) in w_rest.iter().zip(x_rest).enumerate() {
                sums[i] += f64::from(*w) * f64::from(*x);
            }
            (self.write)(t, sums.iter().sum::<f64>() as f32);
        }
    }
}
