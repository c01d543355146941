//! The few vector loops of the forward pass outside of quantized products, for the widest
//! instructions of the machine. Every width adds in the same order, so all give the same bits (but for
//! machines without FMA, which round products on their way).

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Elements per step of elementwise functions.
pub const LANES: usize = 16;

/// Plain code that is compiled for several instruction sets. Rust never fuses or reorders arithmetic, so
/// all of them give the same bits.
pub trait Plain {
    /// Implementations are `#[inline(always)]`, as is all that they call: what is not inlined lacks the
    /// instructions.
    fn run(self);
}

/// Runs a loop with the widest instructions of the machine.
pub fn widest(plain: impl Plain) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
        fn avx512(plain: impl Plain) {
            plain.run();
        }
        #[target_feature(enable = "avx2")]
        fn avx2(plain: impl Plain) {
            plain.run();
        }
        use std::arch::is_x86_feature_detected as has;
        if has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl") {
            // SAFETY: the CPU has these features.
            return unsafe { avx512(plain) };
        }
        if has!("avx2") {
            // SAFETY: as above.
            return unsafe { avx2(plain) };
        }
    }
    plain.run();
}

/// `e^x`, relative error below 2e-7; 0 below -87.3 and infinity above 88.7.
#[inline(always)]
pub fn exp(x: &mut [f32; LANES]) {
    const LOG2_E: f32 = std::f32::consts::LOG2_E;
    // ln 2 in two parts, so that n·ln2 loses nothing.
    const LN2_HI: f32 = 0.693_145_75;
    const LN2_LO: f32 = 1.428_606_8e-6;
    for x in x {
        let clamped = x.clamp(-104.0, 89.0);
        // Adding 1.5·2²³ rounds to the nearest integer and leaves it in the low bits: vectors have no
        // conversion that does what a cast does.
        let rounded = clamped * LOG2_E + 12_582_912.0;
        let n = rounded - 12_582_912.0;
        let exponent = rounded.to_bits().wrapping_sub(12_582_912f32.to_bits()) as i32;
        let r = (clamped - n * LN2_HI) - n * LN2_LO;
        // Taylor to the 7th power: |r| ≤ 0.347, remainder below 1e-9.
        let mut p = 1.0 / 5040.0;
        for c in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
            p = p * r + c;
        }
        // 2^n in two steps, since n alone can leave the range of normal exponents.
        let half = exponent >> 1;
        let scale = |n: i32| f32::from_bits((n.wrapping_add(127) as u32) << 23);
        let y = p * scale(half) * scale(exponent.wrapping_sub(half));
        *x = if x.is_nan() {
            *x
        } else if *x < -103.9 {
            0.0
        } else {
            y
        };
    }
}

/// Sum of squares in f64, eight lanes wide.
pub fn sum_of_squares(x: &[f32]) -> f64 {
    let mut lanes = [0f64; 8];
    let chunks = x.chunks_exact(8);
    let rest = chunks.remainder().iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>();
    for chunk in chunks {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane += f64::from(x) * f64::from(x);
        }
    }
    lanes.iter().sum::<f64>() + rest
}

/// Little-endian f16 bytes to f32.
pub fn f16_to_f32(bytes: &[u8], out: &mut [f32]) {
    assert_eq!(bytes.len(), 2 * out.len());
    let whole = out.len() / 16 * 16;
    let (wide, rest) = out.split_at_mut(whole);
    let (wide_bytes, rest_bytes) = bytes.split_at(2 * whole);
    scalar(rest_bytes, rest);
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the CPU has AVX-512F.
            return unsafe { f16_to_f32_avx512(wide_bytes, wide) };
        }
        if is_x86_feature_detected!("f16c") && is_x86_feature_detected!("avx") {
            // SAFETY: the CPU has F16C.
            return unsafe { f16_to_f32_f16c(wide_bytes, wide) };
        }
    }
    scalar(wide_bytes, wide);

    fn scalar(bytes: &[u8], out: &mut [f32]) {
        for (b, o) in bytes.chunks_exact(2).zip(out) {
            *o = half::f16::from_le_bytes([b[0], b[1]]).to_f32();
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn f16_to_f32_avx512(bytes: &[u8], out: &mut [f32]) {
    for (b, o) in bytes.chunks_exact(32).zip(out.chunks_exact_mut(16)) {
        // SAFETY: 32 bytes to read, 16 floats to write.
        unsafe { _mm512_storeu_ps(o.as_mut_ptr(), _mm512_cvtph_ps(_mm256_loadu_si256(b.as_ptr().cast()))) }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "f16c,avx")]
fn f16_to_f32_f16c(bytes: &[u8], out: &mut [f32]) {
    for (b, o) in bytes.chunks_exact(16).zip(out.chunks_exact_mut(8)) {
        // SAFETY: 16 bytes to read, 8 floats to write.
        unsafe { _mm256_storeu_ps(o.as_mut_ptr(), _mm256_cvtph_ps(_mm_loadu_si128(b.as_ptr().cast()))) }
    }
}

/// A small product `out[rows][n] += a[rows][k] · b[k][n]`, `n` a multiple of 16.
pub struct Product<'a> {
    /// `[rows][k]`.
    pub a: &'a [f32],
    /// `[k][n]`.
    pub b: &'a [f32],
    /// Inner dimension.
    pub k: usize,
    /// Columns.
    pub n: usize,
}

impl Product<'_> {
    /// Adds the product to `out[rows][n]`. Every element adds its `k` terms in order.
    pub fn add_to(&self, out: &mut [f32]) {
        let rows = out.len() / self.n;
        assert!(self.n.is_multiple_of(16) && self.a.len() >= rows * self.k && self.b.len() >= self.k * self.n);
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") {
                // SAFETY: the CPU has AVX-512F; sizes are checked above.
                return unsafe { self.avx512(out) };
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                // SAFETY: the CPU has AVX2 and FMA; sizes are checked above.
                return unsafe { self.avx2(out) };
            }
        }
        self.scalar(out);
    }

    fn scalar(&self, out: &mut [f32]) {
        for (a, out) in self.a.chunks_exact(self.k).zip(out.chunks_exact_mut(self.n)) {
            for (a, b) in a.iter().zip(self.b.chunks_exact(self.n)) {
                for (o, b) in out.iter_mut().zip(b) {
                    *o += a * b;
                }
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f")]
    fn avx512(&self, out: &mut [f32]) {
        let rows = out.len() / self.n;
        let mut row = 0;
        while row < rows {
            let mut col = 0;
            while col < self.n {
                match (rows - row, self.n - col) {
                    (4.., 64..) => self.tile512::<4, 4>(out, row, col),
                    (4.., _) => self.tile512::<4, 1>(out, row, col),
                    (2.., 64..) => self.tile512::<2, 4>(out, row, col),
                    (2.., _) => self.tile512::<2, 1>(out, row, col),
                    (_, 64..) => self.tile512::<1, 4>(out, row, col),
                    _ => self.tile512::<1, 1>(out, row, col),
                }
                col += if self.n - col >= 64 { 64 } else { 16 };
            }
            row += match rows - row {
                4.. => 4,
                2.. => 2,
                _ => 1,
            };
        }
    }

    /// `R` rows by `16·C` columns, held in registers.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn tile512<const R: usize, const C: usize>(&self, out: &mut [f32], row: usize, col: usize) {
        let out = &mut out[row * self.n + col..];
        let mut acc = [[_mm512_setzero_ps(); C]; R];
        // SAFETY: the caller keeps rows row..row+R and columns col..col+16·C inside `a`, `b` and `out`.
        unsafe {
            for r in 0..R {
                for c in 0..C {
                    acc[r][c] = _mm512_loadu_ps(out.as_ptr().add(r * self.n + 16 * c));
                }
            }
            for k in 0..self.k {
                let b = self.b.as_ptr().add(k * self.n + col);
                for r in 0..R {
                    let a = _mm512_set1_ps(*self.a.as_ptr().add((row + r) * self.k + k));
                    for c in 0..C {
                        acc[r][c] = _mm512_fmadd_ps(a, _mm512_loadu_ps(b.add(16 * c)), acc[r][c]);
                    }
                }
            }
            for r in 0..R {
                for c in 0..C {
                    _mm512_storeu_ps(out.as_mut_ptr().add(r * self.n + 16 * c), acc[r][c]);
                }
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    fn avx2(&self, out: &mut [f32]) {
        let rows = out.len() / self.n;
        for row in 0..rows {
            for col in (0..self.n).step_by(16) {
                let out = &mut out[row * self.n + col..];
                // SAFETY: 16 columns from `col` lie inside `b` and `out`, `row` inside `a`.
                unsafe {
                    let (mut lo, mut hi) = (_mm256_loadu_ps(out.as_ptr()), _mm256_loadu_ps(out.as_ptr().add(8)));
                    for k in 0..self.k {
                        let b = self.b.as_ptr().add(k * self.n + col);
                        let a = _mm256_set1_ps(*self.a.as_ptr().add(row * self.k + k));
                        lo = _mm256_fmadd_ps(a, _mm256_loadu_ps(b), lo);
                        hi = _mm256_fmadd_ps(a, _mm256_loadu_ps(b.add(8)), hi);
                    }
                    _mm256_storeu_ps(out.as_mut_ptr(), lo);
                    _mm256_storeu_ps(out.as_mut_ptr().add(8), hi);
                }
            }
        }
    }
}
