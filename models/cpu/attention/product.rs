//! The products of attention: `out[rows][n] += a[rows][k] · b[k][n]`, where `b` is a page of keys or values.

use std::marker::PhantomData;

use qrun_quant::{
    cpu::prefetch_far,
    simd::{FloatKernel, FloatLanes, VectorWidth},
};

use super::super::simd::LANES;

/// Rows that a page in f16 is widened for in registers; for more it is widened once, into memory.
pub const FEW: usize = 8;

/// A matrix `[k][n]`.
#[derive(Clone, Copy)]
pub enum Elements<'a> {
    F32(&'a [f32]),
    /// Little-endian f16.
    F16(&'a [u8]),
}

impl Elements<'_> {
    fn len(&self) -> usize {
        match self {
            Self::F32(x) => x.len(),
            Self::F16(bytes) => bytes.len() / 2,
        }
    }

    fn at(&self, i: usize) -> f32 {
        match self {
            Self::F32(x) => x[i],
            Self::F16(bytes) => half::f16::from_le_bytes([bytes[2 * i], bytes[2 * i + 1]]).to_f32(),
        }
    }
}

/// A small product, `n` a multiple of 16.
pub struct Product<'a> {
    /// `[rows][stride]`.
    pub a: &'a [f32],
    pub stride: usize,
    pub b: Elements<'a>,
    /// Columns of `a` that are looked at, and rows of `b`.
    pub k: usize,
    /// Columns of `b` and of the result.
    pub n: usize,
    /// What is read after `b`: prefetched as `b` is read.
    pub next: &'a [u8],
}

impl Product<'_> {
    /// Adds the product to `out[rows][n]`. Every element adds its `k` terms in order.
    pub fn add_to(&self, out: &mut [f32]) {
        let rows = out.len() / self.n;
        assert!(self.n.is_multiple_of(LANES) && self.k <= self.stride && self.b.len() >= self.k * self.n);
        assert!(self.a.len() >= rows * self.stride);
        match (VectorWidth::best(), self.b) {
            (VectorWidth::Scalar, _) => self.scalar(out),
            // SAFETY: the sizes are checked above.
            (_, Elements::F32(b)) => unsafe { self.run::<F32>(b.as_ptr().cast(), rows, out) },
            // SAFETY: the sizes are checked above.
            (_, Elements::F16(b)) => unsafe { self.run::<F16>(b.as_ptr(), rows, out) },
        }
    }

    /// Without FMA instructions: a fused multiply-add would be a call for each term.
    fn scalar(&self, out: &mut [f32]) {
        for (a, out) in self.a.chunks_exact(self.stride).zip(out.chunks_exact_mut(self.n)) {
            for (i, a) in a[..self.k].iter().enumerate() {
                for (j, o) in out.iter_mut().enumerate() {
                    *o += a * self.b.at(i * self.n + j);
                }
            }
        }
    }

    /// # Safety
    /// `out` is `[rows][n]`, `a` has `rows` rows and `b` points to `k · n` elements at least, and `n` is a multiple of 16.
    unsafe fn run<E: Element>(&self, b: *const u8, rows: usize, out: &mut [f32]) {
        let tiles = Tiles { product: self, b, rows, out, element: PhantomData::<E> };
        // SAFETY: that of this function.
        unsafe { VectorWidth::best().run(tiles) }
    }
}

/// How an element of `b` is stored.
trait Element {
    const SIZE: usize;
    /// # Safety
    /// The machine can run `L`; there are `L::ROWS` elements at `p`.
    unsafe fn load<L: FloatLanes>(p: *const u8) -> L::F;
}

struct F32;
struct F16;

impl Element for F32 {
    const SIZE: usize = 4;
    #[inline(always)]
    unsafe fn load<L: FloatLanes>(p: *const u8) -> L::F {
        // SAFETY: that of this function.
        unsafe { L::load_f32(p.cast()) }
    }
}

impl Element for F16 {
    const SIZE: usize = 2;
    #[inline(always)]
    unsafe fn load<L: FloatLanes>(p: *const u8) -> L::F {
        // SAFETY: that of this function.
        unsafe { L::load_f16(p) }
    }
}

/// A product tile by tile: sums stay in registers.
struct Tiles<'a, E> {
    product: &'a Product<'a>,
    b: *const u8,
    rows: usize,
    out: &'a mut [f32],
    element: PhantomData<E>,
}

impl<E: Element> FloatKernel for Tiles<'_, E> {
    /// # Safety
    /// That of [`Product::run`].
    #[inline(always)]
    unsafe fn run<L: FloatLanes>(mut self) {
        let mut row = 0;
        while row < self.rows {
            // SAFETY: the machine can run `L`; rows `row … row + R` exist.
            row += unsafe {
                match self.rows - row {
                    // 16 sums fit 32 registers, which those of 16 lanes are.
                    4.. if L::ROWS == 16 => self.rows::<L, 4>(row),
                    3 if L::ROWS == 16 => self.rows::<L, 3>(row),
                    2.. => self.rows::<L, 2>(row),
                    _ => self.rows::<L, 1>(row),
                }
            };
        }
    }
}

impl<E: Element> Tiles<'_, E> {
    /// `R` rows from `row` on; returns `R`.
    ///
    /// # Safety
    /// The machine can run `L`, and the product has the rows.
    #[inline(always)]
    unsafe fn rows<L: FloatLanes, const R: usize>(&mut self, row: usize) -> usize {
        let mut col = 0;
        while col < self.product.n {
            // SAFETY: `n` is a multiple of `L::ROWS`, so the columns exist.
            unsafe {
                if self.product.n - col >= 4 * L::ROWS {
                    self.tile::<L, R, 4>(row, col);
                    col += 4 * L::ROWS;
                } else {
                    self.tile::<L, R, 1>(row, col);
                    col += L::ROWS;
                }
            }
        }
        R
    }

    /// `R` rows by `C · L::ROWS` columns.
    ///
    /// # Safety
    /// The machine can run `L`, and the product has these rows and columns.
    #[inline(always)]
    unsafe fn tile<L: FloatLanes, const R: usize, const C: usize>(&mut self, row: usize, col: usize) {
        let &Product { a, stride, k, n, next, .. } = self.product;
        // Each line once: with the first rows.
        let prefetches = row == 0 && !next.is_empty() && (col * E::SIZE).is_multiple_of(64);
        let lines = if prefetches { (C * L::ROWS * E::SIZE).div_ceil(64) } else { 0 };
        // SAFETY: rows row..row + R and the columns lie inside `a`, `b` and `out`.
        unsafe {
            let out = self.out.as_mut_ptr().add(row * n + col);
            let mut sums = [[L::splat_f32(0.0); C]; R];
            for r in 0..R {
                for c in 0..C {
                    sums[r][c] = L::load_f32(out.add(r * n + L::ROWS * c));
                }
            }
            for i in 0..k {
                let at = (i * n + col) * E::SIZE;
                for line in 0..lines {
                    prefetch_far(next.as_ptr().wrapping_add(at + 64 * line));
                }
                let mut b = [L::splat_f32(0.0); C];
                for c in 0..C {
                    b[c] = E::load::<L>(self.b.add(at + L::ROWS * c * E::SIZE));
                }
                for r in 0..R {
                    let a = L::splat_f32(*a.as_ptr().add((row + r) * stride + i));
                    for c in 0..C {
                        sums[r][c] = L::fma(a, b[c], sums[r][c]);
                    }
                }
            }
            for r in 0..R {
                for c in 0..C {
                    L::store_f32(sums[r][c], out.add(r * n + L::ROWS * c));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::*;

    #[test]
    fn every_element_adds_its_terms_in_order_however_b_is_stored() {
        let number = |i: usize| ((i * 7919 + 13) % 1009) as f32 / 512.0 - 1.0;
        let fma = VectorWidth::best() != VectorWidth::Scalar;
        for (rows, stride, k, n) in
            [(1, 64, 64, 64), (2, 64, 1, 16), (3, 64, 37, 80), (8, 5, 5, 48), (33, 7, 0, 96), (6, 9, 9, 256)]
        {
            let a: Vec<f32> = (0..rows * stride).map(number).collect();
            let stored: Vec<f16> = (0..k * n).map(|i| f16::from_f32(number(3 * i))).collect();
            let bytes: Vec<u8> = stored.iter().flat_map(|x| x.to_le_bytes()).collect();
            let widened: Vec<f32> = stored.iter().map(|x| x.to_f32()).collect();
            let start: Vec<f32> = (0..rows * n).map(|i| number(5 * i)).collect();
            let mut expected = start.clone();
            for (i, sum) in expected.iter_mut().enumerate() {
                for j in 0..k {
                    let (a, b) = (a[i / n * stride + j], widened[j * n + i % n]);
                    *sum = if fma { a.mul_add(b, *sum) } else { *sum + a * b };
                }
            }
            for b in [Elements::F32(&widened), Elements::F16(&bytes)] {
                let mut out = start.clone();
                Product { a: &a, stride, b, k, n, next: &bytes }.add_to(&mut out);
                assert!(out == expected, "{rows} rows of {k} in {stride}, {n} columns");
            }
        }
    }
}
