//! Scale searches of the K-quants: 256 weights whose sub-blocks have small integer scales of their own.
//!
//! First every sub-block finds its best real scale; then the block's scale is chosen and the
//! sub-blocks' become integers; then both settle: integers for the scales, scales for the integers.

use super::{
    fit::{self, Sums, half, inverse, round, round_to_byte},
    scalar::Half,
};

/// Where the largest scale of a sub-block starts; the best of the outcomes is taken.
const STARTS: [f32; 3] = [63.0, 61.5, 59.0];
/// Rounds of settling.
const ROUNDS: usize = 3;
/// Largest 6-bit scale or minimum.
const TOP_SCALE: f32 = 63.0;

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

/// Integer scale and minimum of one sub-block, as floats.
#[derive(Clone, Copy, Default)]
struct Pair {
    scale: f32,
    min: f32,
}

/// The weights of a sub-block with their sum.
struct Part<'a> {
    x: &'a [f32; 32],
    sum: f32,
}

impl Part<'_> {
    /// Sums of the integers for `x ≈ a·q − b`.
    #[inline(always)]
    fn sums(&self, a: f32, b: f32, top: f32) -> Sums {
        let inverse = inverse(a);
        Sums::of(self.x, |x| round((x + b) * inverse, 0.0, top))
    }

    /// The integer pair near the best real one with the least error for these integers.
    #[inline(always)]
    fn nearest(&self, s: &Sums, d: f32, dmin: f32) -> Pair {
        let (n, det) = (32.0, 32.0 * s.qq - s.q * s.q);
        let mut a = (n * s.qx - s.q * self.sum) * inverse(det.max(0.0));
        if a * s.q <= self.sum {
            // The free line would need a negative minimum (or all integers are the same).
            a = s.qx * inverse(s.qq);
        }
        let middle = round(a * inverse(d), 0.0, TOP_SCALE);
        let (mut least, mut best) = (f32::INFINITY, Pair::default());
        for scale in [middle, (middle - 1.0).max(0.0), (middle + 1.0).min(TOP_SCALE)] {
            let a = d * scale;
            let min = round((a * s.q - self.sum) / n * inverse(dmin), 0.0, TOP_SCALE);
            let b = dmin * min;
            // Σ(x − a·q + b)² without its constant Σx².
            let error = a * a * s.qq - 2.0 * a * (s.qx + b * s.q) + b * (2.0 * self.sum + n * b);
            if error < least {
                (least, best) = (error, Pair { scale, min });
            }
        }
        best
    }
}

/// The block closest to `x` that the search finds; `top` is 15 or 31.
#[inline(always)]
pub(crate) fn affine(x: &[f32; 256], top: f32) -> Affine {
    let x = fit::tame(x, 65504.0 * TOP_SCALE * top);
    let part = |j: usize| {
        let x = &x.as_chunks::<32>().0[j];
        Part { x, sum: Sums::of(x, |_| 1.0).qx }
    };
    let parts: [Part; 8] = std::array::from_fn(part);
    let lines = parts.each_ref().map(|p| fit::affine(p.x, top, 0.0));
    let mut sums: [Sums; 8] = std::array::from_fn(|j| parts[j].sums(lines[j].a, -lines[j].b, top));
    let sums: [Sums; 8] = std::array::from_fn(|j| parts[j].sums(lines[j].a, -lines[j].b, top));
    let largest = lines.iter().fold((0f32, 0f32), |m, l| (m.0.max(l.a), m.1.max(-l.b)));
    let mut best =
        Choice { error: f32::INFINITY, d: Half::default(), dmin: Half::default(), pairs: Default::default() };
    for start in STARTS {
        let mut sums = sums;
        let (mut d, mut dmin) = (largest.0 / start, largest.1 / start);
        for _ in 0..ROUNDS {
            let choice = settle(&parts, &mut sums, (d, dmin), top);
            (d, dmin) = refit(&parts, &choice.pairs, &sums, (d, dmin));
            if choice.error < best.error {
                best = choice;
            }
        }
    }
    let Choice { d, dmin, pairs, .. } = best;
    let (scales, mins) = (pairs.map(|p| p.scale as u8), pairs.map(|p| p.min as u8));
    let mut block = Affine { d, dmin, scales, mins, q: [[0; 32]; 8] };
    for j in 0..8 {
        let (inverse, b) = (inverse(d.to_f32() * pairs[j].scale), dmin.to_f32() * pairs[j].min);
        block.q[j] = parts[j].x.map(|x| round_to_byte((x + b) * inverse, 0.0, top));
    }
    block
}

/// Scales of a block with the error they lead to.
#[derive(Clone, Copy)]
struct Choice {
    error: f32,
    d: Half,
    dmin: Half,
    pairs: [Pair; 8],
}

/// The sub-blocks' integer scales for the block's, and the sums of the integers that follow.
#[inline(always)]
fn settle(parts: &[Part; 8], sums: &mut [Sums; 8], (d, dmin): (f32, f32), top: f32) -> Choice {
    let (stored_d, stored_dmin) = (nonzero(d), nonzero(dmin));
    let (d, dmin) = (stored_d.to_f32(), stored_dmin.to_f32());
    let mut error = 0.0;
    let pairs = std::array::from_fn(|j| {
        let pair = parts[j].nearest(&sums[j], d, dmin);
        let (a, b) = (d * pair.scale, dmin * pair.min);
        let inverse = inverse(a);
        error += fit::error(parts[j].x, |x| a * round((x + b) * inverse, 0.0, top) - b);
        sums[j] = parts[j].sums(a, b, top);
        pair
    });
    Choice { error, d: stored_d, dmin: stored_dmin, pairs }
}

/// The nearest f16, except that only 0 becomes 0: integer scales make up for a scale that is too large.
#[inline(always)]
fn nonzero(d: f32) -> Half {
    const SMALLEST: f32 = 1.0 / (1u32 << 24) as f32;
    half(if d.abs() < SMALLEST && d != 0.0 { SMALLEST.copysign(d) } else { d })
}

/// Least squares for `(d, dmin)` with all integers given; what is not determined stays as it is.
#[inline(always)]
fn refit(parts: &[Part; 8], pairs: &[Pair; 8], sums: &[Sums; 8], old: (f32, f32)) -> (f32, f32) {
    let (mut dd, mut dm, mut mm, mut dx, mut mx) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for ((part, p), s) in parts.iter().zip(pairs).zip(sums) {
        dd += p.scale * p.scale * s.qq;
        dm += p.scale * p.min * s.q;
        mm += p.min * p.min * 32.0;
        dx += p.scale * s.qx;
        mx += p.min * part.sum;
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
    let rounded = |a: f32| {
        let inverse = inverse(a);
        move |x: f32| round(x * inverse, -32.0, 31.0)
    };
    let wanted: [f32; 16] = std::array::from_fn(|j| fit::symmetric(&parts[j], 32.0));
    let largest = wanted.iter().fold(0f32, |m, a| if a.abs() > m.abs() { *a } else { m });
    let (mut least, mut best) = (f32::INFINITY, (Half::default(), [0f32; 16]));
    for start in [-128.0, 127.0, -125.0] {
        let (mut wanted, mut d) = (wanted, largest / start);
        for _ in 0..ROUNDS {
            let stored = nonzero(d);
            d = stored.to_f32();
            let scales = wanted.map(|a| round(a * inverse(d), -128.0, 127.0));
            let (mut error, mut qq, mut qx) = (0.0, 0.0, 0.0);
            for j in 0..16 {
                let a = d * scales[j];
                let q = rounded(a);
                error += fit::error(&parts[j], |x| a * q(x));
                let s = Sums::of(&parts[j], q);
                wanted[j] = s.qx * inverse(s.qq);
                qq += scales[j] * scales[j] * s.qq;
                qx += scales[j] * s.qx;
            }
            if error < least {
                (least, best) = (error, (stored, scales));
            }
            d = qx * inverse(qq);
        }
    }
    let (d, scales) = best;
    let mut q = [0; 256];
    for j in 0..16 {
        let inverse = inverse(d.to_f32() * scales[j]);
        for (q, x) in q[16 * j..].iter_mut().zip(&parts[j]) {
            *q = round_to_byte(x * inverse + 32.0, 0.0, 63.0);
        }
    }
    Symmetric { d, scales: scales.map(|s| s as i8), q }
}
