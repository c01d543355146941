//! How the quantizers choose scales: least squares over a set of roundings.
//!
//! Rounding weights to integers for a given scale is easy, and so is the best scale for given integers
//! (least squares). The two are not independent, so the searches try a range of scales around the
//! obvious one, fit each, and let the best of them settle. The measure is the plain sum of squared
//! errors: with inputs that nothing is known about, it is what the error of `W·x` is proportional to.
//!
//! Everything is f32 in a fixed order (eight interleaved sums), without library functions whose result
//! depends on the machine: the same weights give the same bytes everywhere.

use super::scalar::Half;

/// Sums run in this many interleaved parts, so that they become vector code.
pub(crate) const LANES: usize = 8;

/// Rounds of "integers for the line, line for the integers" after the search, at most.
const SETTLE: usize = 4;

/// Blocks whose largest magnitude is below this are zero: far below the smallest f16 (2^-24), and far above
/// where squares underflow.
pub(crate) const NOTHING: f32 = 1.0 / (1u32 << 30) as f32;

/// The nearest integer (ties to even) within `low..=high`; NaN gives `low`.
#[inline(always)]
pub(crate) fn round(v: f32, low: f32, high: f32) -> f32 {
    clamp(v, low, high) + MAGIC - MAGIC
}

/// [`round`] to the low byte of the integer, two's complement.
#[inline(always)]
pub(crate) fn round_to_byte(v: f32, low: f32, high: f32) -> u8 {
    (clamp(v, low, high) + MAGIC).to_bits() as u8
}

/// 1.5·2^23: a sum with it has no room for fraction bits, and its mantissa ends in the integer.
const MAGIC: f32 = 12_582_912.0;

/// Comparisons rather than `max` and `min` because those care about NaN, in more instructions.
#[inline(always)]
fn clamp(v: f32, low: f32, high: f32) -> f32 {
    let v = if v > low { v } else { low };
    if v < high { v } else { high }
}

/// The weights with NaN made 0, and what is beyond `limit` (infinities too) brought to it.
#[inline(always)]
pub(crate) fn tame<const N: usize>(x: &[f32; N], limit: f32) -> [f32; N] {
    x.map(|v| {
        let v = if v < limit { v } else { limit * f32::from(v >= limit) };
        if v > -limit { v } else { -limit }
    })
}

/// The smallest and the largest of `x`.
#[inline(always)]
pub(crate) fn range<const N: usize>(x: &[f32; N]) -> (f32, f32) {
    let (mut low, mut high) = ([f32::INFINITY; LANES], [f32::NEG_INFINITY; LANES]);
    for x in x.as_chunks::<LANES>().0 {
        for l in 0..LANES {
            low[l] = if x[l] < low[l] { x[l] } else { low[l] };
            high[l] = if x[l] > high[l] { x[l] } else { high[l] };
        }
    }
    let least = low.into_iter().fold(f32::INFINITY, |m, v| if v < m { v } else { m });
    let most = high.into_iter().fold(f32::NEG_INFINITY, |m, v| if v > m { v } else { m });
    (least, most)
}

#[inline(always)]
fn total(parts: [f32; LANES]) -> f32 {
    let [a, b, c, d, e, f, g, h] = parts;
    ((a + e) + (b + f)) + ((c + g) + (d + h))
}

/// What least squares needs to know about weights `x` and their integers `q`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sums {
    /// Σq
    pub(crate) q: f32,
    /// Σq²
    pub(crate) qq: f32,
    /// Σq·x
    pub(crate) qx: f32,
}

impl Sums {
    /// The sums for `q(x)`.
    #[inline(always)]
    pub(crate) fn of<const N: usize>(x: &[f32; N], q: impl Fn(f32) -> f32) -> Self {
        let (mut s, mut ss, mut sx) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
        for x in x.as_chunks::<LANES>().0 {
            for l in 0..LANES {
                let q = q(x[l]);
                s[l] += q;
                ss[l] += q * q;
                sx[l] += q * x[l];
            }
        }
        Self { q: total(s), qq: total(ss), qx: total(sx) }
    }
}

/// Σ(x − y(x))²
#[inline(always)]
pub(crate) fn error<const N: usize>(x: &[f32; N], y: impl Fn(f32) -> f32) -> f32 {
    let mut sum = [0.0; LANES];
    for x in x.as_chunks::<LANES>().0 {
        for l in 0..LANES {
            let r = x[l] - y(x[l]);
            sum[l] += r * r;
        }
    }
    total(sum)
}

/// `1 / d`, or 0 for 0: everything then rounds to 0.
#[inline(always)]
pub(crate) fn inverse(d: f32) -> f32 {
    if d == 0.0 { 0.0 } else { 1.0 / d }
}

/// The f16 nearest to `v`, at most ±65504.
#[inline(always)]
pub(crate) fn half(v: f32) -> Half {
    Half::from_f32(v.clamp(-65504.0, 65504.0))
}

/// Where the extreme weight may end, as a multiple of the end of the range: from 12 % inside it, which
/// clips nothing, to 12 % beyond.
const ENDS: [[f32; LANES]; 3] = {
    let mut ends = [[0.0; LANES]; 3];
    let mut i = 0;
    while i < 3 * LANES {
        ends[i / LANES][i % LANES] = 1.0 + (i as f32 - 12.0) * 0.01;
        i += 1;
    }
    ends
};

/// Sums (q, q², q·x) of eight roundings of the same weights at once: one scale per lane.
#[inline(always)]
fn eight<const N: usize>(x: &[f32; N], inverse: [f32; LANES], (low, high): (f32, f32)) -> [[f32; LANES]; 3] {
    let (mut s, mut ss, mut sx) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
    for &x in x {
        for l in 0..LANES {
            let q = round(x * inverse[l], low, high);
            s[l] += q;
            ss[l] += q * q;
            sx[l] += q * x;
        }
    }
    [s, ss, sx]
}

/// The scale `d` that makes `d·q`, q in `−half..half`, closest to `x`; 0 for a block of zeros.
#[inline(always)]
pub(crate) fn symmetric<const N: usize>(x: &[f32; N], half: f32) -> f32 {
    let (low, high) = range(x);
    // The weight of largest magnitude goes to the longer side, −half.
    let extreme = if -low >= high { low } else { high };
    if extreme.abs() < NOTHING {
        return 0.0;
    }
    let (mut best, mut d) = (0.0, 0.0);
    for ends in ENDS {
        let inverse = -half / extreme;
        let [_, qq, qx] = eight(x, ends.map(|end| end * inverse), (-half, half - 1.0));
        for (qq, qx) in qq.into_iter().zip(qx) {
            // What d = Σqx/Σq² takes off Σx²: the larger, the better.
            let scale = qx / qq;
            if qx * scale > best {
                (best, d) = (qx * scale, scale);
            }
        }
    }
    d
}

/// `x ≈ a·q + b`, q in `0..=top`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Line {
    pub(crate) a: f32,
    pub(crate) b: f32,
}

/// The line whose multiples come closest to `x`. `ceiling` bounds the offset `b` from above.
#[inline(always)]
pub(crate) fn affine<const N: usize>(x: &[f32; N], top: f32, ceiling: f32) -> Line {
    let (low, high) = range(x);
    let low = if low < ceiling { low } else { ceiling };
    if high - low < NOTHING {
        return Line { a: 0.0, b: low };
    }
    // Offsets are fitted from `low`: a block far from zero would lose its digits otherwise.
    let x = &x.map(|v| v - low);
    let (n, sum) = (N as f32, Sums::of(x, |_| 1.0).qx);
    let limit = ceiling - low;
    // The best line for these integers, and what it takes off Σx². Without branches: it runs in lanes.
    let line = |s: Sums| {
        let det = n * s.qq - s.q * s.q;
        let free = if det > 0.0 { (n * s.qx - s.q * sum) / det } else { 0.0 };
        let b = (sum - free * s.q) * (1.0 / n);
        let bound = (s.qx - limit * s.q) * inverse(s.qq);
        let (a, b) = if b > limit { (bound, limit) } else { (free, b) };
        (2.0 * (a * s.qx + b * sum) - a * a * s.qq - 2.0 * a * b * s.q - n * b * b, a, b)
    };
    let (mut best, mut found) = (f32::NEG_INFINITY, Line { a: 0.0, b: 0.0 });
    for ends in ENDS {
        let inverse = top / (high - low);
        let [q, qq, qx] = eight(x, ends.map(|end| end * inverse), (0.0, top));
        let (mut gain, mut a, mut b) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
        for l in 0..LANES {
            (gain[l], a[l], b[l]) = line(Sums { q: q[l], qq: qq[l], qx: qx[l] });
        }
        for l in 0..LANES {
            if gain[l] > best {
                (best, found) = (gain[l], Line { a: a[l], b: b[l] });
            }
        }
    }
    // Both ends move in the fit; rounding again with the fitted line lets them move on.
    for _ in 0..SETTLE {
        let (inverse, from) = (inverse(found.a), found.b);
        let (gain, a, b) = line(Sums::of(x, |x| round((x - from) * inverse, 0.0, top)));
        if gain <= best {
            break;
        }
        (best, found) = (gain, Line { a, b });
    }
    Line { a: found.a, b: found.b + low }
}

/// Scale and integers (with `half` added: `0..2·half`) of a block `d·q`, q in `−half..half`.
#[inline(always)]
pub(crate) fn symmetric_block(x: &[f32; 32], half_range: f32) -> (Half, [u8; 32]) {
    let x = &tame(x, 65504.0 * half_range);
    let (low, high) = range(x);
    let obvious = if -low >= high { low } else { high } / -half_range;
    let rounded = |d: f32| {
        let inverse = inverse(d);
        move |x: f32| round(x * inverse, -half_range, half_range - 1.0)
    };
    let (mut least, mut best) = (f32::INFINITY, Half::default());
    // The obvious scale competes too, so that the search never makes a block worse.
    for mut d in [symmetric(x, half_range), obvious] {
        for _ in 0..SETTLE {
            let stored = half(d);
            let (d16, q) = (stored.to_f32(), rounded(stored.to_f32()));
            let error = error(x, |x| d16 * q(x));
            if error >= least {
                break;
            }
            (least, best) = (error, stored);
            let s = Sums::of(x, q);
            d = s.qx * inverse(s.qq);
        }
    }
    let inverse = inverse(best.to_f32());
    (best, x.map(|x| round_to_byte(x * inverse + half_range, 0.0, 2.0 * half_range - 1.0)))
}

/// Scale, minimum and integers of a block `d·q + m`, q in `0..=top`.
#[inline(always)]
pub(crate) fn affine_block(x: &[f32; 32], top: f32) -> (Half, Half, [u8; 32]) {
    let x = &tame(x, 65504.0);
    let (low, high) = range(x);
    let rounded = |d: f32, m: f32| {
        let inverse = inverse(d);
        move |x: f32| round((x - m) * inverse, 0.0, top)
    };
    let (mut least, mut best) = (f32::INFINITY, (Half::default(), Half::default()));
    for line in [affine(x, top, f32::INFINITY), Line { a: (high - low) / top, b: low }] {
        let stored = (half(line.a), half(line.b));
        let (d, m) = (stored.0.to_f32(), stored.1.to_f32());
        let q = rounded(d, m);
        let error = error(x, |x| d * q(x) + m);
        if error < least {
            (least, best) = (error, stored);
        }
    }
    let (inverse, m) = (inverse(best.0.to_f32()), best.1.to_f32());
    (best.0, best.1, x.map(|x| round_to_byte((x - m) * inverse, 0.0, top)))
}
