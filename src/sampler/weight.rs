//! The exponential as an integer, the same on every machine.

/// Bits after the point: the best token weighs 2^40.
const SCALE_BITS: i32 = 40;

/// `floor(2^40 * e^x)` for `x ≤ 0`, by these `f64` operations and no others:
/// `t = max(x * log2(e), -42)`, `n = trunc(t - 0.5)`, `y = (t - n) * ln(2)`, the Taylor sum of e^y to the 9th power by
/// Horner's rule (`sum = sum * y + c`, a product and a sum), times the power of two 2^(40 + n). The relative
/// error is below 2^-36.
#[inline]
pub fn weight(x: f32) -> u64 {
    const TAYLOR: [f64; 10] = [
        1.0 / 362_880.0,
        1.0 / 40_320.0,
        1.0 / 5_040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ];
    let t = f64::from(x) * std::f64::consts::LOG2_E;
    // No branch: below 2^-40 the product is less than 1 anyway, and from -42 on 2^(40 + n) stays a normal number.
    let t = if t > -42.0 { t } else { -42.0 };
    let n = (t - 0.5) as i32;
    let y = (t - f64::from(n)) * std::f64::consts::LN_2;
    let mut sum = TAYLOR[0];
    for coefficient in &TAYLOR[1..] {
        sum = sum * y + coefficient;
    }
    let power = f64::from_bits(((1023 + SCALE_BITS + n) as u64) << 52);
    // Below 2^41, so the cheaper signed conversion gives the same.
    (sum * power) as i64 as u64
}
