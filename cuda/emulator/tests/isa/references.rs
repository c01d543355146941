//! Bits as numbers, and roundings as the manual describes them: plain and slow.

/// Bits of a source as a number.
pub fn f(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}
pub fn d(bits: u64) -> f64 {
    f64::from_bits(bits)
}
pub fn i(bits: u64) -> i32 {
    bits as u32 as i32
}
pub fn u(bits: u64) -> u32 {
    bits as u32
}
pub fn l(bits: u64) -> i64 {
    bits as i64
}

/// A result as bits.
pub fn float(value: f32) -> Option<u64> {
    Some(u64::from(value.to_bits()))
}
pub fn double(value: f64) -> Option<u64> {
    Some(value.to_bits())
}
pub fn half(bits: u64) -> Option<u64> {
    Some(bits & 0xFFFF)
}
pub fn word(value: i128) -> Option<u64> {
    Some(value as u64 & 0xFFFF_FFFF)
}
pub fn wide(value: i128) -> Option<u64> {
    Some(value as u64)
}
pub fn yes(value: bool) -> Option<u64> {
    Some(u64::from(value))
}

/// Rounds to nearest even into a format of 16 bits with an exponent of so many; infinite beyond its ends.
pub fn to_16_bits(value: f32, exponent: i32) -> u64 {
    let (mantissa, bias) = (15 - exponent, (1 << (exponent - 1)) - 1);
    let sign = u64::from(value.is_sign_negative()) << 15;
    let infinity = ((1_u64 << exponent) - 1) << mantissa;
    if value.is_nan() {
        return 0x7FFF;
    }
    if value.is_infinite() {
        return sign | infinity;
    }
    let size = f64::from(value).abs();
    // The exponent of the value, or the least one that has an implicit bit: f64 holds every f32 with one.
    let e = ((size.to_bits() >> 52) as i32 - 1023).max(1 - bias);
    let quanta = (size / 2f64.powi(e - mantissa)).round_ties_even();
    // With 2^mantissa quanta there is an implicit bit, and twice as many carry into the exponent by themselves.
    let bits = quanta as u64 + (((e + bias - 1) as u64) << mantissa);
    sign | bits.min(infinity)
}

/// The value of a format of 16 bits with an exponent of so many.
pub fn from_16_bits(bits: u64, exponent: i32) -> f64 {
    let (mantissa, bias) = (15 - exponent, (1 << (exponent - 1)) - 1);
    let (e, rest) = ((bits & 0x7FFF) >> mantissa, bits & ((1 << mantissa) - 1));
    let size = match e {
        0 => rest as f64 * 2f64.powi(1 - bias - mantissa),
        e if e == (1 << exponent) - 1 => [f64::INFINITY, f64::NAN][usize::from(rest > 0)],
        e => (rest as f64 + 2f64.powi(mantissa)) * 2f64.powi(e as i32 - bias - mantissa),
    };
    if bits & 0x8000 == 0 { size } else { -size }
}

/// x + y as a nearest f64 and what is missing to the exact sum.
fn two_sum(x: f64, y: f64) -> (f64, f64) {
    let sum = x + y;
    let of_y = sum - x;
    (sum, (x - (sum - of_y)) + (y - of_y))
}

/// a·b + c rounded down: towards −∞. The product of two f32 is exact in f64.
pub fn fma_down(a: f32, b: f32, c: f32) -> f32 {
    let (product, c) = (f64::from(a) * f64::from(b), f64::from(c));
    let (sum, missing) = two_sum(product, c);
    if !sum.is_finite() {
        return sum as f32;
    }
    if sum == 0.0 && missing == 0.0 {
        // A sum of two zeros of one sign keeps it; any other exact zero is −0 in this rounding.
        let positive = product == 0.0 && c == 0.0 && product.is_sign_positive() && c.is_sign_positive();
        return if positive { 0.0 } else { -0.0 };
    }
    let nearest = sum as f32;
    let above = f64::from(nearest) > sum || f64::from(nearest) == sum && missing < 0.0;
    if above { nearest.next_down() } else { nearest }
}

/// a + b rounded towards zero.
pub fn add_towards_zero(a: f32, b: f32) -> f32 {
    let (sum, missing) = two_sum(f64::from(a), f64::from(b));
    if !sum.is_finite() || sum == 0.0 {
        return a + b;
    }
    let nearest = sum as f32;
    // How far the nearest one is beyond the exact sum, seen from zero.
    let beyond = (f64::from(nearest) - sum) * sum.signum();
    let farther = beyond > 0.0 || beyond == 0.0 && missing * sum.signum() < 0.0;
    match (farther, sum > 0.0) {
        (false, _) => nearest,
        (true, true) => nearest.next_down(),
        (true, false) => nearest.next_up(),
    }
}

/// Denormals as zeros of their sign.
pub fn flushed(value: f32) -> f32 {
    if value.is_subnormal() { 0.0_f32.copysign(value) } else { value }
}

/// The larger one; the one that is a number where the other is not; +0 is larger than −0.
pub fn larger(a: f32, b: f32) -> f32 {
    let first = b.is_nan() || a > b || a == b && a.is_sign_positive();
    if first { a } else { b }
}
/// The smaller one in the same way.
pub fn smaller(a: f32, b: f32) -> f32 {
    -larger(-a, -b)
}

/// A number without its fraction as an integer of `bits` bits with a sign; the nearest one where it does not fit. Not
/// a number: zero, except that from or to 64 bits it is the least one.
pub fn truncated(value: f64, bits: u32, from_f64: bool) -> i128 {
    let (least, most) = (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1);
    match (value.is_nan(), from_f64 || bits == 64) {
        (true, true) => least,
        (true, false) => 0,
        (false, _) => (value.trunc() as i128).clamp(least, most),
    }
}

/// Four bytes out of eight (b above a), chosen by nibbles; a nibble above 7 takes the sign of the byte instead.
pub fn permuted(a: u32, b: u32, selector: u32) -> u32 {
    let bytes = [a.to_le_bytes(), b.to_le_bytes()].concat();
    let chosen = |n: u32| {
        let nibble = selector >> (4 * n) & 15;
        let byte = bytes[nibble as usize % 8];
        if nibble < 8 { byte } else { (byte as i8 >> 7) as u8 }
    };
    u32::from_le_bytes([0, 1, 2, 3].map(chosen))
}

/// `length` low bits of `from` at `position` of `into`, bit by bit; only the low byte of both numbers counts.
pub fn inserted(from: u32, into: u32, position: u32, length: u32) -> u32 {
    let (position, length) = (position & 0xFF, length & 0xFF);
    let mut result = into;
    for bit in 0..length.min(32) {
        let at = position + bit;
        if at < 32 {
            result = result & !(1 << at) | (from >> bit & 1) << at;
        }
    }
    result
}

/// A shift to the left of `bits` bits, clamped to their number.
pub fn left(value: u64, by: u64, bits: u32) -> Option<u64> {
    let by = (by & 0xFFFF_FFFF).min(u64::from(bits));
    let mask = (1_u128 << bits) - 1;
    Some(((u128::from(value) << by) & mask) as u64)
}
/// The same to the right, without a sign.
pub fn right(value: u64, by: u64, bits: u32) -> Option<u64> {
    let by = (by & 0xFFFF_FFFF).min(u64::from(bits));
    Some((u128::from(value) >> by) as u64)
}
/// The same with a sign.
pub fn right_signed(value: u64, by: u64, bits: u32) -> Option<u64> {
    let by = (by & 0xFFFF_FFFF).min(u64::from(bits));
    let signed = (i128::from(value) << (128 - bits)) >> (128 - bits);
    Some((signed >> by) as u64 & ((1_u128 << bits) - 1) as u64)
}

/// c + the sum of four products of signed bytes.
pub fn dot4(a: u32, b: u32, c: i32) -> i128 {
    let products = a.to_le_bytes().into_iter().zip(b.to_le_bytes());
    products.map(|(a, b)| i128::from(a as i8) * i128::from(b as i8)).sum::<i128>() + i128::from(c)
}
