//! Arithmetic of the PTX manual on bits: roundings that the CPU lacks, half formats, approximations.

use super::Approximation;

/// What an instruction on f32 returns for NaN.
pub(super) const NAN: u32 = 0x7fff_ffff;

/// The bits of a result; every NaN is the same one.
#[inline(always)]
pub(super) fn bits(x: f32) -> u32 {
    if x.is_nan() { NAN } else { x.to_bits() }
}

/// The NaN that a result is where an operand is one.
#[inline(always)]
pub(super) fn nan_of(a: u32, b: u32) -> Option<u32> {
    (f32::from_bits(a).is_nan() || f32::from_bits(b).is_nan()).then(|| bits(f32::NAN))
}

/// `min.f32`: a NaN is ignored, -0 is less than +0.
#[inline(always)]
pub(super) fn min(a: u32, b: u32) -> u32 {
    let (x, y) = (f32::from_bits(a), f32::from_bits(b));
    match () {
        () if x.is_nan() => bits(y),
        () if y.is_nan() || x < y => a,
        () if x == y => a | b & 0x8000_0000,
        () => b,
    }
}

/// `max.f32`: a NaN is ignored, +0 is greater than -0.
#[inline(always)]
pub(super) fn max(a: u32, b: u32) -> u32 {
    let (x, y) = (f32::from_bits(a), f32::from_bits(b));
    match () {
        () if x.is_nan() => bits(y),
        () if y.is_nan() || x > y => a,
        () if x == y => a & (b | 0x7fff_ffff),
        () => b,
    }
}

/// `cvt.sat.f32.f32`: to 0…1, NaN and -0 to +0.
#[inline(always)]
pub(super) fn saturate(a: u32) -> u32 {
    let x = f32::from_bits(a);
    if x > 1.0 {
        1.0f32.to_bits()
    } else if x > 0.0 {
        a
    } else {
        0
    }
}

/// a + b as a rounded sum and what the rounding took away, both exact.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let part = sum - a;
    (sum, (a - (sum - part)) + (b - part))
}

/// Rounds sum + rest (|rest| at most half an ULP of the sum) down to f32.
fn down((sum, rest): (f64, f64)) -> f32 {
    let nearest = sum as f32;
    let above = f64::from(nearest) > sum || f64::from(nearest) == sum && rest < 0.0;
    if above { nearest.next_down() } else { nearest }
}

/// `fma.rm.f32`: a·b + c rounded once, towards minus infinity.
pub(super) fn fused_down(a: f32, b: f32, c: f32) -> u32 {
    // A product of two f32 is exact in f64.
    let product = f64::from(a) * f64::from(b);
    let sum = two_sum(product, f64::from(c));
    if !sum.0.is_finite() {
        return bits(sum.0 as f32);
    }
    if sum.0 == 0.0 && sum.1 == 0.0 {
        let positive = product.is_sign_positive() && c.is_sign_positive();
        return if positive { 0 } else { (-0.0f32).to_bits() };
    }
    down(sum).to_bits()
}

/// `fma.rp.f32`: a·b + c rounded once, towards plus infinity.
pub(super) fn fused_up(a: f32, b: f32, c: f32) -> u32 {
    bits(-f32::from_bits(fused_down(-a, b, -c)))
}

/// `fma.rz.f32`: a·b + c rounded once, towards zero.
pub(super) fn fused_zero(a: f32, b: f32, c: f32) -> u32 {
    // The product and the sum's sign are right in f64, where nothing of f32 is lost but digits.
    let sum = f64::from(a) * f64::from(b) + f64::from(c);
    match () {
        () if sum < 0.0 => fused_up(a, b, c),
        () if sum > 0.0 => fused_down(a, b, c),
        // A sum of zero, which is exact, has the nearest one's sign.
        () => bits(a.mul_add(b, c)),
    }
}

/// A whole number rounded towards plus infinity.
pub(super) fn up(x: i128) -> f32 {
    let nearest = x as f32;
    if (nearest as i128) < x { nearest.next_up() } else { nearest }
}

/// `div.rn.f32` by a reciprocal, a product and its remainder is not exact: an operand, the reciprocal, the quotient or
/// the remainder may not be a normal number.
pub(super) fn unsafe_division(a: u32, b: u32) -> bool {
    let exponent = |x: u32| (x >> 23 & 0xff) as i32 - 127;
    let (over, under) = (exponent(a), exponent(b));
    // A remainder has up to 48 binary digits behind the first one of a.
    !((-100..=126).contains(&over) && (-125..=125).contains(&under) && (-124..=126).contains(&(over - under)))
}

/// `add.rz.f32`: a + b rounded towards zero.
pub(super) fn add_zero(a: f32, b: f32) -> u32 {
    let sum = two_sum(f64::from(a), f64::from(b));
    if !sum.0.is_finite() || sum.0 == 0.0 {
        return bits(a + b);
    }
    if sum.0 < 0.0 { (-down((-sum.0, -sum.1))).to_bits() } else { down(sum).to_bits() }
}

/// An f16, exact.
#[inline(always)]
pub(super) fn from_half(h: u32) -> f32 {
    // As the bits of an f32 it is 2^112 times too small, also where it is subnormal.
    let magnitude = (f32::from_bits((h & 0x7fff) << 13) * f32::from_bits(239 << 23)).to_bits();
    let special = if h & 0x7c00 == 0x7c00 { 0x7f80_0000 } else { 0 };
    let value = f32::from_bits(h << 16 & 0x8000_0000 | magnitude | special);
    if value.is_nan() { f32::from_bits(NAN) } else { value }
}

/// `cvt.rn.f16.f32`.
#[inline(always)]
pub(super) fn to_half(x: f32) -> u32 {
    let word = x.to_bits();
    let (sign, magnitude) = (word >> 16 & 0x8000, word & 0x7fff_ffff);
    if magnitude > 0x7f80_0000 {
        return 0x7fff;
    }
    if magnitude >= 0x477f_f000 {
        return sign | 0x7c00; // 65520 and more
    }
    if magnitude < 0x3880_0000 {
        // Subnormal: counted in units of 2^-24, which the sum with 2^-1 rounds to.
        let rounded = f32::from_bits(magnitude) + 0.5;
        return sign | (rounded.to_bits() - 0.5f32.to_bits());
    }
    let rounded = magnitude - (112 << 23) + 0xfff + (magnitude >> 13 & 1);
    sign | rounded >> 13
}

/// The upper half of an f32, rounded to nearest even.
#[inline(always)]
pub(super) fn to_bf16(x: f32) -> u32 {
    let word = x.to_bits();
    if x.is_nan() { 0x7fff } else { (word + 0x7fff + (word >> 16 & 1)) >> 16 }
}

/// Whether subnormal numbers count as zero (`.ftz`).
#[inline(always)]
pub(super) fn flush(x: f32) -> f32 {
    if x.is_subnormal() { 0.0f32.copysign(x) } else { x }
}

/// Moves an approximate result by the ULPs that it may be off.
fn approximate(exact: f64, ulps: u32, how: Approximation) -> f32 {
    let mut x = exact as f32;
    if !x.is_finite() || x == 0.0 {
        return x;
    }
    for _ in 0..ulps {
        x = match how {
            Approximation::Exact => x,
            Approximation::Low => x.next_down(),
            Approximation::High => x.next_up(),
        };
    }
    x
}

/// `ex2.approx.ftz.f32`, 2 ULP; exact where the manual says so: of 0 and of infinities.
pub(super) fn exp2(x: f32, how: Approximation) -> u32 {
    let x = flush(x);
    let ulps = if x == 0.0 { 0 } else { 2 };
    bits(flush(approximate(f64::from(x).exp2(), ulps, how)))
}

/// `rcp.approx.ftz.f32`, 1 ULP.
pub(super) fn reciprocal(x: f32, how: Approximation) -> u32 {
    bits(flush(approximate(1.0 / f64::from(flush(x)), 1, how)))
}

/// `rsqrt.approx.ftz.f32`, 2 ULP; of a denormal that of zero, which is infinite.
pub(super) fn reciprocal_sqrt(x: f32, how: Approximation) -> u32 {
    let root = f64::from(flush(x)).sqrt();
    bits(approximate(1.0 / root, 2, how))
}

/// `cvt.rzi.s32.f64`: saturates; NaN is the least number.
pub(super) fn double_to_s32(x: f64) -> i32 {
    if x.is_nan() { i32::MIN } else { x as i32 }
}

/// `cvt.rzi.u64.f32`: saturates; NaN is the highest bit.
pub(super) fn single_to_u64(x: f32) -> u64 {
    if x.is_nan() { 1 << 63 } else { x as u64 }
}

/// `cvt.rzi.s64.f64`.
pub(super) fn double_to_s64(x: f64) -> i64 {
    if x.is_nan() { i64::MIN } else { x as i64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_round_to_nearest_even_and_back() {
        for h in 0..0x7c00 {
            for sign in [0, 0x8000] {
                assert_eq!(to_half(from_half(h | sign)), h | sign);
            }
            let (this, next) = (from_half(h), if h < 0x7bff { from_half(h + 1) } else { 65536.0 });
            let middle = (this + next) / 2.0;
            assert_eq!(to_half(middle), h + (h & 1), "{middle}");
            assert_eq!((to_half(middle.next_down()), to_half(middle.next_up())), (h, h + 1), "{middle}");
        }
        assert_eq!((to_half(f32::INFINITY), to_half(-f32::INFINITY), to_half(f32::NAN)), (0x7c00, 0xfc00, 0x7fff));
        assert_eq!((to_half(1e-10), to_half(-0.0)), (0, 0x8000));
    }

    #[test]
    fn roundings() {
        let tiny = f32::MIN_POSITIVE;
        assert_eq!(fused_down(1.0, 1.0, -tiny), 1.0f32.next_down().to_bits());
        assert_eq!(fused_down(1.0, 1.0, tiny), 1.0f32.to_bits());
        assert_eq!(fused_down(-1.0, 1.0, -tiny), (-1.0f32).next_down().to_bits());
        assert_eq!(fused_down(1.0, 1.0, -1.0), (-0.0f32).to_bits());
        assert_eq!(fused_down(f32::MAX, 2.0, 0.0), f32::MAX.to_bits());
        assert_eq!(fused_down(f32::MAX, -2.0, 0.0), (-f32::INFINITY).to_bits());
        assert_eq!(fused_down(f32::NAN, -2.0, 0.0), NAN);
        assert_eq!(fused_up(1.0, 1.0, tiny), 1.0f32.next_up().to_bits());
        assert_eq!((fused_up(1.0, 1.0, -1.0), fused_up(f32::MAX, -2.0, 0.0)), (0, f32::MIN.to_bits()));
        assert_eq!((fused_zero(-1.0, 1.0, tiny), fused_zero(f32::MAX, -2.0, 0.0)), (0xbf7f_ffff, f32::MIN.to_bits()));
        assert_eq!((fused_zero(1.0, 1.0, -1.0), fused_zero(-0.0, 1.0, -0.0)), (0, 0x8000_0000));
        assert_eq!((up(16_777_217), up(-16_777_217), up(3)), (16_777_218.0, -16_777_216.0, 3.0));
        assert_eq!(add_zero(1.0, -tiny), 1.0f32.next_down().to_bits());
        assert_eq!(add_zero(-1.0, tiny), (-1.0f32).next_up().to_bits());
        assert_eq!(add_zero(f32::MAX, f32::MAX), f32::MAX.to_bits());
        assert_eq!(add_zero(1.0, -1.0), 0);
        assert_eq!(add_zero(f32::INFINITY, 1.0), f32::INFINITY.to_bits());
    }

    #[test]
    fn zeros_and_nan() {
        let (plus, minus, one, nan) = (0u32, 0x8000_0000u32, 1.0f32.to_bits(), 0xffc0_0001u32);
        assert_eq!((min(plus, minus), min(minus, plus), min(nan, one), min(one, nan)), (minus, minus, one, one));
        assert_eq!((max(plus, minus), max(minus, plus), max(nan, one), max(one, nan)), (plus, plus, one, one));
        assert_eq!((min(nan, nan), max(nan, nan), saturate(nan), saturate(minus)), (NAN, NAN, 0, 0));
        assert_eq!(f32::from_bits(exp2(0.0, Approximation::Low)), 1.0);
        assert_eq!(exp2(-127.0, Approximation::Exact), 0);
        assert_eq!((double_to_s64(f64::NAN), double_to_s32(1e10)), (i64::MIN, i32::MAX));
    }
}
