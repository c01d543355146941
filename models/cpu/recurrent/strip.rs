//! States `[rows][columns]` that tokens change one after the other: no column looks at the others, so some go through all
//! tokens together, as a strip `[rows][width]`. For several tokens it lies side by side, to stay in the nearest cache; one
//! token changes it where it is.

use std::ops::Range;

use qrun_quant::simd::FloatLanes;

/// Registers of columns in a strip: as many sums of each kind hide how long an addition takes.
pub const REGISTERS: usize = 4;
/// Most columns of a strip.
pub const WIDEST: usize = REGISTERS * 16;

/// The strips of a matrix `[rows][n]` that goes through so many tokens.
pub struct Strips {
    shape: [usize; 2],
    width: usize,
    tokens: usize,
    copy: Vec<f32>,
}

impl Strips {
    /// Of so many columns each, the last one of fewer.
    pub fn new(shape: [usize; 2], width: usize, tokens: usize) -> Self {
        Self { shape, width, tokens, copy: Vec::new() }
    }

    /// The columns of each.
    pub fn columns(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let ([_, n], width) = (self.shape, self.width);
        (0..n).step_by(width).map(move |start| start..(start + width).min(n))
    }

    fn is_in_place(&self, columns: &Range<usize>) -> bool {
        columns.len() == self.width && (self.tokens == 1 || self.shape[1] == self.width)
    }

    /// The strip of these columns, and elements from row to row. What it has beyond them is not used.
    pub fn take<'a>(&'a mut self, matrix: &'a mut [f32], columns: &Range<usize>) -> (&'a mut [f32], usize) {
        let ([rows, n], width) = (self.shape, self.width);
        if self.is_in_place(columns) {
            return (&mut matrix[columns.start..], n);
        }
        self.copy.resize(rows * width, 0.0);
        for (strip, row) in self.copy.chunks_exact_mut(width).zip(matrix.chunks_exact(n)) {
            strip[..columns.len()].copy_from_slice(&row[columns.clone()]);
        }
        (&mut self.copy, width)
    }

    /// Writes a strip that was copied back to the matrix.
    pub fn put(&self, matrix: &mut [f32], columns: &Range<usize>) {
        if self.is_in_place(columns) {
            return;
        }
        for (strip, row) in self.copy.chunks_exact(self.width).zip(matrix.chunks_exact_mut(self.shape[1])) {
            row[columns.clone()].copy_from_slice(&strip[..columns.len()]);
        }
    }
}

/// Sums of each column.
pub type Sums<L> = [<L as FloatLanes>::F; REGISTERS];

/// # Safety
/// The machine can run `L`.
#[inline(always)]
pub unsafe fn zeros<L: FloatLanes>() -> Sums<L> {
    // SAFETY: that of this function.
    unsafe { [L::splat_f32(0.0); REGISTERS] }
}

/// `x` by register; zeros beyond its end.
///
/// # Safety
/// The machine can run `L`.
#[inline(always)]
pub unsafe fn load<L: FloatLanes>(x: &[f32]) -> Sums<L> {
    let mut padded = [0.0; WIDEST];
    padded[..x.len()].copy_from_slice(x);
    // SAFETY: that of this function; `(c + 1) · L::ROWS ≤ WIDEST`.
    unsafe {
        let mut sums = zeros::<L>();
        for c in 0..REGISTERS {
            sums[c] = L::load_f32(padded.as_ptr().add(c * L::ROWS));
        }
        sums
    }
}

/// Writes as many sums as `x` has elements.
///
/// # Safety
/// The machine can run `L`.
#[inline(always)]
pub unsafe fn store<L: FloatLanes>(sums: &Sums<L>, x: &mut [f32]) {
    let mut padded = [0.0; WIDEST];
    for c in 0..REGISTERS {
        // SAFETY: that of this function; `(c + 1) · L::ROWS ≤ WIDEST`.
        unsafe { L::store_f32(sums[c], padded.as_mut_ptr().add(c * L::ROWS)) };
    }
    x.copy_from_slice(&padded[..x.len()]);
}

/// What a strip, whose rows are `stride` elements apart, holds for these keys: `Sᵀk`, a sum for each column.
///
/// # Safety
/// The machine can run `L`.
#[inline(always)]
pub unsafe fn product<L: FloatLanes>((strip, stride): (&[f32], usize), k: &[f32]) -> Sums<L> {
    assert!(strip.len() + stride >= k.len() * stride + REGISTERS * L::ROWS);
    // SAFETY: that of this function; the strip has as many rows as `k` elements.
    unsafe {
        let mut sums = zeros::<L>();
        for row in 0..k.len() {
            let k = L::splat_f32(*k.get_unchecked(row));
            for c in 0..REGISTERS {
                let s = L::load_f32(strip.as_ptr().add(row * stride + c * L::ROWS));
                sums[c] = L::fma(s, k, sums[c]);
            }
        }
        sums
    }
}

/// One token: `S = S · decay + k δᵀ`. Gives `Sᵀq` and, with the keys of the next token, what [`product`] gives of them.
///
/// # Safety
/// The machine can run `L`.
#[inline(always)]
pub unsafe fn update<L: FloatLanes, const MORE: bool>(
    (strip, stride): (&mut [f32], usize),
    decay: f32,
    (k, delta): (&[f32], &Sums<L>),
    q: &[f32],
    next: &[f32],
) -> [Sums<L>; 2] {
    assert!(strip.len() + stride >= k.len() * stride + REGISTERS * L::ROWS);
    assert!(q.len() == k.len() && (next.len() == k.len() || !MORE));
    // SAFETY: that of this function; the strip has as many rows as `k` and `q` elements, and `next` where it is read.
    unsafe {
        let (decay, mut read, mut found) = (L::splat_f32(decay), zeros::<L>(), zeros::<L>());
        for row in 0..k.len() {
            let (k, q) = (L::splat_f32(*k.get_unchecked(row)), L::splat_f32(*q.get_unchecked(row)));
            for c in 0..REGISTERS {
                let at = strip.as_mut_ptr().add(row * stride + c * L::ROWS);
                let s = L::fma(k, delta[c], L::mul(L::load_f32(at), decay));
                L::store_f32(s, at);
                read[c] = L::fma(s, q, read[c]);
                if MORE {
                    found[c] = L::fma(s, L::splat_f32(*next.get_unchecked(row)), found[c]);
                }
            }
        }
        [read, found]
    }
}

/// Panics where what a kernel gave is further from the plain loops than FMA explains.
#[cfg(test)]
pub fn assert_close(what: &str, got: &[f32], want: &[f32]) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (got, want) in got.iter().zip(want) {
        assert!((got - want).abs() <= 1e-5 * want.abs().max(1.0), "{what}: {got}, not {want}");
    }
}
