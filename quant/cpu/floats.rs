//! The products of rows in F32, F16 or BF16 with activations in f32.
//!
//! These rows stay as they lie in the file: 16 consecutive columns make a vector. Column `k` of a row is
//! summed in lane `k mod 16`, then the lanes are added in pairs; the same on every instruction set.

use std::marker::PhantomData;

use super::{
    kernels::{AHEAD, prefetch},
    lanes::{Kernel, Lanes},
};

/// Lanes that a dot product is spread over.
const LANES: usize = 16;

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

/// `R` rows × `T` tokens.
pub(super) struct Dots<'a, E, const R: usize, const T: usize> {
    /// Format of the rows.
    pub(super) element: PhantomData<E>,
    /// The rows, `cols` elements each.
    pub(super) w: [&'a [u8]; R],
    /// The tokens, `cols` elements each.
    pub(super) x: [&'a [f32]; T],
    /// The sums.
    pub(super) y: &'a mut [[f32; R]; T],
}

impl<E: Element, const R: usize, const T: usize> Kernel for Dots<'_, E, R, T> {
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let cols = self.x[0].len();
        assert!(self.x.iter().all(|x| x.len() == cols) && self.w.iter().all(|w| w.len() == cols * E::SIZE));
        let whole = cols / LANES * LANES;
        // What is left of each row, filled up with zeros.
        let (mut w_rest, mut x_rest) = ([[0u8; LANES * 4]; R], [[0f32; LANES]; T]);
        for (rest, w) in w_rest.iter_mut().zip(self.w) {
            rest[..(cols - whole) * E::SIZE].copy_from_slice(&w[whole * E::SIZE..]);
        }
        for (rest, x) in x_rest.iter_mut().zip(self.x) {
            rest[..cols - whole].copy_from_slice(&x[whole..]);
        }
        let mut sums = [[[0f32; LANES]; R]; T];
        for lane in (0..LANES).step_by(L::ROWS) {
            // SAFETY: the machine can run `L`. Full steps end at `whole ≤ cols`; the rest has 16 elements.
            unsafe {
                let mut acc = [[L::splat_f32(0.0); R]; T];
                for k in (lane..whole).step_by(LANES) {
                    if T == 1 {
                        // One token reads weights once, from memory: ask for them early.
                        self.w.iter().for_each(|w| prefetch(w.as_ptr().wrapping_add(k * E::SIZE + AHEAD), 1));
                    }
                    step::<E, L, R, T>(&self.w, &self.x, k, &mut acc);
                }
                if whole < cols {
                    step::<E, L, R, T>(
                        &w_rest.each_ref().map(|w| &w[..]),
                        &x_rest.each_ref().map(|x| &x[..]),
                        lane,
                        &mut acc,
                    );
                }
                for t in 0..T {
                    for r in 0..R {
                        L::store_f32(acc[t][r], sums[t][r].as_mut_ptr().add(lane));
                    }
                }
            }
        }
        for t in 0..T {
            self.y[t] = sums[t].map(add_lanes);
        }
    }
}

/// Adds the products of columns `k … k + L::ROWS`.
///
/// # Safety
/// The machine can run `L`; rows and tokens have these columns.
#[inline(always)]
unsafe fn step<E: Element, L: Lanes, const R: usize, const T: usize>(
    w: &[&[u8]; R],
    x: &[&[f32]; T],
    k: usize,
    acc: &mut [[L::F; R]; T],
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut rows = [E::load::<L>(w[0].as_ptr().add(k * E::SIZE)); R];
        for r in 1..R {
            rows[r] = E::load::<L>(w[r].as_ptr().add(k * E::SIZE));
        }
        for t in 0..T {
            let x = L::load_f32(x[t].as_ptr().add(k));
            for r in 0..R {
                acc[t][r] = L::fma(rows[r], x, acc[t][r]);
            }
        }
    }
}

/// The sum of all lanes: halves added until one is left.
#[inline(always)]
fn add_lanes(mut sums: [f32; LANES]) -> f32 {
    let mut n = LANES;
    while n > 1 {
        n /= 2;
        for i in 0..n {
            sums[i] += sums[i + n];
        }
    }
    sums[0]
}
