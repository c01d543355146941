//! Exact arithmetic: products of f32 weights and f32 activations, summed in f64.
//!
//! The sum is spread over 16 lanes, which are added in a fixed order, so that every machine and every instruction set
//! gives the same bits: a product of two f32 is exact in f64, whether it is fused with the addition or not.

use crate::{
    cpu::layout::LANES,
    simd::{LaneKernel, Lanes},
};

/// Rows that are multiplied at once: each number of a token is loaded once for all.
pub(in crate::cpu) const ROWS: usize = 4;

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
        let w: [_; ROWS] = std::array::from_fn(|r| &self.w[r * cols..][..cols]);
        // Sums of four rows and two tokens take half of the registers of AVX-512; elsewhere those of one token do.
        let at_once = if L::ROWS == LANES { 2 } else { 1 };
        let groups = self.x.chunks(at_once * cols).zip(self.sums.as_chunks_mut::<ROWS>().0.chunks_mut(at_once));
        for (x, sums) in groups {
            // SAFETY: the machine can run `L`.
            unsafe {
                match sums {
                    [one] => *one = dots::<L, 1>(w, [&x[..cols]])[0],
                    two if L::ROWS == LANES => two.copy_from_slice(&dots::<L, 2>(w, [&x[..cols], &x[cols..]])),
                    _ => unreachable!("one token at a time"),
                }
            }
        }
    }
}

/// The products of the rows with some tokens.
///
/// # Safety
/// The machine can run `L`.
#[inline(always)]
unsafe fn dots<L: Lanes, const T: usize>(w: [&[f64]; ROWS], x: [&[f64]; T]) -> [[f32; ROWS]; T] {
    let cols = x[0].len();
    assert!(w.iter().chain(&x).all(|row| row.len() == cols));
    let (steps, mut sums) = (cols / LANES, [[[0f64; LANES]; ROWS]; T]);
    for lane in (0..LANES).step_by(L::ROWS) {
        // SAFETY: the machine can run `L`, whose lanes from this one on are among `LANES`; all rows have these steps.
        unsafe {
            let load = |row: &[f64], step: usize| L::load_f64(row.as_ptr().add(step * LANES + lane));
            let mut y = [[load(&sums[0][0], 0); ROWS]; T];
            for step in 0..steps {
                for r in 0..ROWS {
                    let w = load(w[r], step);
                    for t in 0..T {
                        y[t][r] = L::fma_f64(w, load(x[t], step), y[t][r]);
                    }
                }
            }
            // By index: a reference would keep them in memory.
            for t in 0..T {
                for r in 0..ROWS {
                    L::store_f64(y[t][r], sums[t][r].as_mut_ptr().add(lane));
                }
            }
        }
    }
    let mut out = [[0.0; ROWS]; T];
    for t in 0..T {
        for r in 0..ROWS {
            for column in steps * LANES..cols {
                sums[t][r][column % LANES] += w[r][column] * x[t][column];
            }
            out[t][r] = total(&sums[t][r]) as f32;
        }
    }
    out
}

/// The sum of all lanes: neighbours at distance 8 are added first, then those at 4, 2 and 1.
#[inline(always)]
fn total(lanes: &[f64; LANES]) -> f64 {
    let (mut eight, mut four) = ([0.0; 8], [0.0; 4]);
    for i in 0..8 {
        eight[i] = lanes[i] + lanes[i + 8];
    }
    for i in 0..4 {
        four[i] = eight[i] + eight[i + 4];
    }
    (four[0] + four[2]) + (four[1] + four[3])
}
