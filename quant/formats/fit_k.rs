//! Scale searches of the K-quants: 256 weights whose sub-blocks have small integer scales of their own.
//!
//! First every sub-block finds its best real scale (`fit`). Then the block's scale is chosen and those
//! of the sub-blocks become integers; then both settle: integers for the scales, scales for the
//! integers. Eight sub-blocks settle at once, one per vector lane: weights are transposed for it.

use super::{
    fit::{self, LANES, half, inverse, round, round_to_byte},
    scalar::Half,
};

/// One number per sub-block.
type Lanes = [f32; LANES];

/// Where the largest scale of a sub-block starts; the best of the outcomes is taken.
const STARTS: [f32; 3] = [63.0, 61.5, 59.0];
/// Rounds of settling.
const ROUNDS: usize = 3;
/// Largest 6-bit scale or minimum.
const TOP_SCALE: f32 = 63.0;

/// Eight sub-blocks of `N` weights side by side: `x[weight][sub-block]`.
struct Columns<const N: usize>([Lanes; N]);

/// Sums over each column of weights `x` and their integers `q`.
#[derive(Clone, Copy, Default)]
struct Sums {
    q: Lanes,
    qq: Lanes,
    qx: Lanes,
    /// Σ(x − a·q + b)²
    error: Lanes,
}

impl<const N: usize> Columns<N> {
    #[inline(always)]
    fn new(parts: &[[f32; N]]) -> Self {
        Self(std::array::from_fn(|i| std::array::from_fn(|j| parts[j][i])))
    }

    /// Rounds all weights to `x ≈ a·q − b` and sums up.
    #[inline(always)]
    fn sums(&self, a: &Lanes, b: &Lanes, (low, high): (f32, f32)) -> Sums {
        let (mut s, inverse) = (Sums::default(), a.map(inverse));
        for x in &self.0 {
            for j in 0..LANES {
                let q = round((x[j] + b[j]) * inverse[j], low, high);
                let r = x[j] + b[j] - a[j] * q;
                s.q[j] += q;
                s.qq[j] += q * q;
                s.qx[j] += q * x[j];
                s.error[j] += r * r;
            }
        }
        s
    }

    #[inline(always)]
    fn total(&self) -> Lanes {
        let mut sum = [0.0; LANES];
        for x in &self.0 {
            for j in 0..LANES {
                sum[j] += x[j];
            }
        }
        sum
    }
}

/// A block of 8 sub-blocks `d·scale·q − dmin·min` (Q4_K, Q5_K).
#[derive(Clone, Copy)]
pub(crate) struct Affine {
    pub(crate) d: Half,
    pub(crate) dmin: Half,
    pub(crate) scales: [u8; 8],
    pub(crate) mins: [u8; 8],
    /// `0..=top`, a row per sub-block.
    pub(crate) q: [[u8; 32]; 8],
}

/// Scales of a block, the integers as floats, with the error they lead to.
#[derive(Clone, Copy)]
struct Choice {
    error: f32,
    d: Half,
    dmin: Half,
    scales: Lanes,
    mins: Lanes,
}

/// The block closest to `x` that the search finds; `top` is 15 or 31.
#[inline(always)]
pub(crate) fn affine(x: &[f32; 256], top: f32) -> Affine {
    let x = fit::tame(x, 65504.0 * TOP_SCALE * top);
    let (parts, _) = x.as_chunks::<32>();
    let (columns, top) = (Columns::new(parts), (0.0, top));
    let total = columns.total();
    let (mut a, mut b) = ([0.0; LANES], [0.0; LANES]);
    for j in 0..LANES {
        let line = fit::affine(&parts[j], top.1, 0.0);
        (a[j], b[j]) = (line.a, -line.b);
    }
    let largest = |v: &Lanes| v.iter().fold(0f32, |m, v| if *v > m { *v } else { m });
    let (sums, largest) = (columns.sums(&a, &b, top), (largest(&a), largest(&b)));
    let mut best =
        Choice { error: f32::INFINITY, d: Half::default(), dmin: Half::default(), scales: [0.0; 8], mins: [0.0; 8] };
    for start in STARTS {
        let mut sums = sums;
        let (mut d, mut dmin) = (largest.0 / start, largest.1 / start);
        for _ in 0..ROUNDS {
            let stored = (nonzero(d), nonzero(dmin));
            (d, dmin) = (stored.0.to_f32(), stored.1.to_f32());
            let (scales, mins) = nearest(&sums, &total, d, dmin);
            sums = columns.sums(&scales.map(|s| d * s), &mins.map(|m| dmin * m), top);
            let error = sums.error.iter().sum();
            if error < best.error {
                best = Choice { error, d: stored.0, dmin: stored.1, scales, mins };
            }
            (d, dmin) = refit(&sums, &total, (&scales, &mins), (d, dmin));
        }
    }
    let Choice { d, dmin, scales, mins, .. } = best;
    let mut q = [[0; 32]; 8];
    for j in 0..8 {
        let (inverse, b) = (inverse(d.to_f32() * scales[j]), dmin.to_f32() * mins[j]);
        q[j] = parts[j].map(|x| round_to_byte((x + b) * inverse, 0.0, top.1));
    }
    Affine { d, dmin, scales: scales.map(|s| s as u8), mins: mins.map(|m| m as u8), q }
}

/// For each sub-block the integer scale and minimum with the least error, for integers as summed up.
#[inline(always)]
fn nearest(s: &Sums, total: &Lanes, d: f32, dmin: f32) -> (Lanes, Lanes) {
    let (n, to_scale, to_min) = (32.0, inverse(d), inverse(dmin));
    let (mut scales, mut mins, mut least) = ([0.0; LANES], [0.0; LANES], [f32::INFINITY; LANES]);
    for step in [0.0, -1.0, 1.0] {
        for j in 0..LANES {
            let det = n * s.qq[j] - s.q[j] * s.q[j];
            let free = if det > 0.0 { (n * s.qx[j] - s.q[j] * total[j]) / det } else { 0.0 };
            // Otherwise the free line needs a negative minimum, or all integers are the same.
            let a = if free * s.q[j] > total[j] { free } else { s.qx[j] * inverse(s.qq[j]) };
            let scale = round(round(a * to_scale, 0.0, TOP_SCALE) + step, 0.0, TOP_SCALE);
            let a = d * scale;
            let min = round((a * s.q[j] - total[j]) * (1.0 / n) * to_min, 0.0, TOP_SCALE);
            let b = dmin * min;
            // Σ(x − a·q + b)² without its constant Σx².
            let error = a * a * s.qq[j] - 2.0 * a * (s.qx[j] + b * s.q[j]) + b * (2.0 * total[j] + n * b);
            let better = error < least[j];
            scales[j] = if better { scale } else { scales[j] };
            mins[j] = if better { min } else { mins[j] };
            least[j] = if better { error } else { least[j] };
        }
    }
    (scales, mins)
}

/// Least squares for `(d, dmin)` with all integers given; what is not determined stays as it is.
#[inline(always)]
fn refit(s: &Sums, total: &Lanes, (scales, mins): (&Lanes, &Lanes), old: (f32, f32)) -> (f32, f32) {
    let (mut dd, mut dm, mut mm, mut dx, mut mx) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for j in 0..LANES {
        dd += scales[j] * scales[j] * s.qq[j];
        dm += scales[j] * mins[j] * s.q[j];
        mm += mins[j] * mins[j] * 32.0;
        dx += scales[j] * s.qx[j];
        mx += mins[j] * total[j];
    }
    // Minimize Σ(x − d·scale·q + dmin·min)².
    let det = dd * mm - dm * dm;
    if det > 1e-6 * dd * mm {
        let (d, dmin) = ((dx * mm - mx * dm) / det, (dx * dm - mx * dd) / det);
        if d > 0.0 && dmin >= 0.0 {
            return (d, dmin);
        }
    } else if dd > 0.0 && mm == 0.0 {
        return (dx / dd, old.1);
    } else if mm > 0.0 && dd == 0.0 {
        return (old.0, -mx / mm);
    }
    old
}

/// The nearest f16, except that only 0 becomes 0: integer scales make up for a scale that is too large.
#[inline(always)]
fn nonzero(d: f32) -> Half {
    const SMALLEST: f32 = 1.0 / (1u32 << 24) as f32;
    half(if d.abs() < SMALLEST && d != 0.0 { SMALLEST.copysign(d) } else { d })
}

/// A block of 16 sub-blocks `d·scale·q`, q in −32..32 (Q6_K).
pub(crate) struct Symmetric {
    pub(crate) d: Half,
    pub(crate) scales: [i8; 16],
    /// With 32 added: `0..64`.
    pub(crate) q: [u8; 256],
}

/// The block closest to `x` that the search finds.
#[inline(always)]
pub(crate) fn symmetric(x: &[f32; 256]) -> Symmetric {
    let x = fit::tame(x, 65504.0 * 128.0 * 32.0);
    let (parts, _) = x.as_chunks::<16>();
    let columns = [Columns::new(&parts[..8]), Columns::new(&parts[8..])];
    let mut wanted = [[0.0; LANES]; 2];
    for j in 0..16 {
        wanted[j / 8][j % 8] = fit::symmetric(&parts[j], 32.0);
    }
    let largest = wanted.as_flattened().iter().fold(0f32, |m, a| if a.abs() > m.abs() { *a } else { m });
    let (mut least, mut best) = (f32::INFINITY, (Half::default(), wanted));
    for start in [-128.0, 127.0, -125.0] {
        let (mut wanted, mut d) = (wanted, largest / start);
        for _ in 0..ROUNDS {
            let stored = nonzero(d);
            d = stored.to_f32();
            let scales = wanted.map(|half| half.map(|a| round(a * inverse(d), -128.0, 127.0)));
            let (mut error, mut qq, mut qx) = (0.0, 0.0, 0.0);
            for h in 0..2 {
                let s = columns[h].sums(&scales[h].map(|s| d * s), &[0.0; LANES], (-32.0, 31.0));
                error += s.error.iter().sum::<f32>();
                for j in 0..LANES {
                    wanted[h][j] = s.qx[j] * inverse(s.qq[j]);
                    qq += scales[h][j] * scales[h][j] * s.qq[j];
                    qx += scales[h][j] * s.qx[j];
                }
            }
            if error < least {
                (least, best) = (error, (stored, scales));
            }
            d = qx * inverse(qq);
        }
    }
    let (d, scales) = best;
    let (mut q, mut bytes) = ([0; 256], [0; 16]);
    for j in 0..16 {
        let scale = scales[j / 8][j % 8];
        let inverse = inverse(d.to_f32() * scale);
        bytes[j] = scale as i8;
        for (q, x) in q[16 * j..].iter_mut().zip(&parts[j]) {
            *q = round_to_byte(x * inverse + 32.0, 0.0, 63.0);
        }
    }
    Symmetric { d, scales: bytes, q }
}
