//! Instructions that write 32-bit rows from 32-bit rows.

use super::super::Approximation;
use super::super::code::{Binary, R, Ternary, Unary};
use super::super::float;
use super::super::registers::{Registers, each, over};

/// An instruction on f32 whose NaN results are all the same one.
#[inline(always)]
fn real(f: impl Fn(f32) -> f32) -> impl Fn(u32) -> u32 {
    move |a| float::bits(f(f32::from_bits(a)))
}

#[inline(always)]
pub(in super::super) fn real2(f: impl Fn(f32, f32) -> f32) -> impl Fn(u32, u32) -> u32 {
    move |a, b| float::bits(f(f32::from_bits(a), f32::from_bits(b)))
}

/// Signed operands.
#[inline(always)]
pub(in super::super) fn signed(f: impl Fn(i32, i32) -> i32) -> impl Fn(u32, u32) -> u32 {
    move |a, b| f(a as i32, b as i32) as u32
}

/// A 16-bit register that holds a signed number.
#[inline(always)]
fn signed16(a: u32) -> i32 {
    i32::from(a as i16)
}

#[inline(always)]
pub(super) fn unary(f: Unary, w: &mut Registers, mask: u32, d: R, a: R, how: Approximation) {
    match f {
        Unary::Move => w.map(mask, d, a, |a| a),
        Unary::Not => w.map(mask, d, a, |a| !a),
        Unary::Not16 => w.map(mask, d, a, |a| !a & 0xffff),
        Unary::Negate => w.map(mask, d, a, u32::wrapping_neg),
        Unary::NegateF => w.map(mask, d, a, |a| a ^ 0x8000_0000),
        Unary::AbsoluteF => w.map(mask, d, a, |a| a & 0x7fff_ffff),
        Unary::Low16 => w.map(mask, d, a, |a| a & 0xffff),
        Unary::Signed8To32 => w.map(mask, d, a, |a| a as i8 as u32),
        Unary::Signed8To16 => w.map(mask, d, a, |a| a as i8 as u32 & 0xffff),
        Unary::RoundF => w.map(mask, d, a, real(f32::round_ties_even)),
        Unary::TruncateF => w.map(mask, d, a, real(f32::trunc)),
        Unary::SaturateF => w.map(mask, d, a, float::saturate),
        Unary::FromS32 => w.map(mask, d, a, |a| (a as i32 as f32).to_bits()),
        Unary::FromU32 => w.map(mask, d, a, |a| (a as f32).to_bits()),
        Unary::FromS16 => w.map(mask, d, a, |a| (signed16(a) as f32).to_bits()),
        // Saturates; NaN is 0.
        Unary::ToS32 => w.map(mask, d, a, |a| f32::from_bits(a) as i32 as u32),
        Unary::FromHalf => w.map(mask, d, a, |a| float::from_half(a).to_bits()),
        Unary::ToHalf => w.map(mask, d, a, |a| float::to_half(f32::from_bits(a))),
        Unary::Exp2 => w.map(mask, d, a, |a| float::exp2(f32::from_bits(a), how)),
        Unary::Reciprocal => w.map(mask, d, a, |a| float::reciprocal(f32::from_bits(a), how)),
        Unary::ReciprocalSqrt => w.map(mask, d, a, |a| float::reciprocal_sqrt(f32::from_bits(a), how)),
        Unary::ReciprocalExact => w.map(mask, d, a, real(|x| 1.0 / x)),
        Unary::Sqrt => w.map(mask, d, a, real(f32::sqrt)),
    }
}

#[inline(always)]
pub(super) fn binary(f: Binary, w: &mut Registers, mask: u32, d: R, ab: [R; 2]) {
    match f {
        Binary::Add => w.map2(mask, d, ab, u32::wrapping_add),
        Binary::Subtract => w.map2(mask, d, ab, u32::wrapping_sub),
        Binary::Multiply => w.map2(mask, d, ab, u32::wrapping_mul),
        // By zero: what the manual leaves open.
        Binary::DivideS => w.map2(mask, d, ab, signed(|a, b| if b == 0 { -1 } else { a.wrapping_div(b) })),
        Binary::DivideU => w.map2(mask, d, ab, |a, b| a.checked_div(b).unwrap_or(u32::MAX)),
        Binary::RemainderS => w.map2(mask, d, ab, signed(|a, b| if b == 0 { a } else { a.wrapping_rem(b) })),
        Binary::RemainderU => w.map2(mask, d, ab, |a, b| a.checked_rem(b).unwrap_or(a)),
        Binary::And => w.map2(mask, d, ab, |a, b| a & b),
        Binary::Or => w.map2(mask, d, ab, |a, b| a | b),
        Binary::Xor => w.map2(mask, d, ab, |a, b| a ^ b),
        Binary::MinS => w.map2(mask, d, ab, signed(i32::min)),
        Binary::MaxS => w.map2(mask, d, ab, signed(i32::max)),
        Binary::MinU => w.map2(mask, d, ab, u32::min),
        Binary::MaxU => w.map2(mask, d, ab, u32::max),
        // Counts beyond the width clamp to it.
        Binary::Left => w.map2(mask, d, ab, |a, b| a.checked_shl(b).unwrap_or(0)),
        Binary::RightU => w.map2(mask, d, ab, |a, b| a.checked_shr(b).unwrap_or(0)),
        Binary::RightS => w.map2(mask, d, ab, |a, b| (a as i32 >> b.min(31)) as u32),
        Binary::Add16 => w.map2(mask, d, ab, |a, b| a.wrapping_add(b) & 0xffff),
        Binary::Left16 => w.map2(mask, d, ab, |a, b| a << b.min(16) & 0xffff),
        Binary::RightU16 => w.map2(mask, d, ab, |a, b| a >> b.min(16)),
        Binary::RightS16 => w.map2(mask, d, ab, |a, b| (signed16(a) >> b.min(15)) as u32 & 0xffff),
        Binary::Product16 => w.map2(mask, d, ab, |a, b| a.wrapping_mul(b)),
        Binary::Pack16 => w.map2(mask, d, ab, |a, b| a | b << 16),
        Binary::AddF => w.map2(mask, d, ab, real2(|x, y| x + y)),
        Binary::SubtractF => w.map2(mask, d, ab, real2(|x, y| x - y)),
        Binary::MultiplyF => w.map2(mask, d, ab, real2(|x, y| x * y)),
        Binary::DivideF => w.map2(mask, d, ab, real2(|x, y| x / y)),
        Binary::MinF => w.map2(mask, d, ab, float::min),
        Binary::MaxF => w.map2(mask, d, ab, float::max),
        Binary::AddZeroF => w.map2(mask, d, ab, |a, b| float::add_zero(f32::from_bits(a), f32::from_bits(b))),
        // The first operand becomes the upper half.
        Binary::PackBf16 => {
            w.map2(mask, d, ab, |a, b| float::to_bf16(f32::from_bits(a)) << 16 | float::to_bf16(f32::from_bits(b)));
        }
    }
}

#[inline(always)]
pub(super) fn ternary(f: Ternary, w: &mut Registers, mask: u32, d: R, abc: [R; 3]) {
    match f {
        Ternary::Mad => w.map3(mask, d, abc, |a, b, c| a.wrapping_mul(b).wrapping_add(c)),
        Ternary::FusedF => {
            w.map3(mask, d, abc, |a, b, c| float::bits(f32::from_bits(a).mul_add(f32::from_bits(b), f32::from_bits(c))))
        }
        Ternary::FusedDownF => {
            w.map3(mask, d, abc, |a, b, c| float::fused_down(f32::from_bits(a), f32::from_bits(b), f32::from_bits(c)))
        }
        Ternary::Dot4 => w.map3(mask, d, abc, dot4),
        Ternary::Permute => w.map3(mask, d, abc, permute),
        // The upper word of b:a shifted to the left, by a count modulo 32.
        Ternary::FunnelLeftWrap => w.map3(mask, d, abc, |a, b, c| {
            let both = u64::from(b) << 32 | u64::from(a);
            (both << (c & 31) >> 32) as u32
        }),
    }
}

/// c + four products of signed bytes.
#[inline(always)]
pub(in super::super) fn dot4(a: u32, b: u32, c: u32) -> u32 {
    let product = |i: u32| i32::from((a >> i) as i8) * i32::from((b >> i) as i8);
    c.wrapping_add((product(0) + product(8) + product(16) + product(24)) as u32)
}

/// Bytes of b:a by the nibbles of c: three bits choose, the fourth spreads the sign.
#[inline(always)]
pub(in super::super) fn permute(a: u32, b: u32, c: u32) -> u32 {
    let bytes = u64::from(b) << 32 | u64::from(a);
    let byte = |i: u32| {
        let nibble = c >> (4 * i) & 15;
        let chosen = (bytes >> (8 * (nibble & 7))) as u32 & 0xff;
        let sign = if chosen & 0x80 != 0 { 0xff } else { 0 };
        (if nibble & 8 != 0 { sign } else { chosen }) << (8 * i)
    };
    byte(0) | byte(1) | byte(2) | byte(3)
}

/// `bfi.b32`: `length` low bits of a into b at `position`.
#[inline(always)]
pub(super) fn insert(w: &mut Registers, mask: u32, d: R, [a, b, position, length]: [R; 4]) {
    let (x, y, p, n) = (w.word(a), w.word(b), w.word(position), w.word(length));
    let value = each(|i| {
        let (p, n) = (p[i] & 0xff, n[i] & 0xff);
        let field = if n >= 32 { u32::MAX } else { (1 << n) - 1 };
        let place = field.checked_shl(p).unwrap_or(0);
        y[i] & !place | x[i].checked_shl(p).unwrap_or(0) & place
    });
    let defined = w.word_lanes(a) & w.word_lanes(b) & w.word_lanes(position) & w.word_lanes(length);
    w.set_word(d, &value, mask, defined);
}

/// `mov.b32 {low, high}, a`.
#[inline(always)]
pub(super) fn halves(w: &mut Registers, mask: u32, [low, high]: [R; 2], a: R) {
    let (x, defined) = (*w.word(a), w.word_lanes(a));
    w.set_word(low, &over(&x, |x| x & 0xffff), mask, defined);
    w.set_word(high, &over(&x, |x| x >> 16), mask, defined);
}
