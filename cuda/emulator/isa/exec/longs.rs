//! Instructions that write or read 64-bit rows.

use super::super::code::{BinaryLong, Narrow, R, Shift, TernaryLong, UnaryLong, Widen, WidenTwo};
use super::super::float;
use super::super::registers::{Registers, each, over};

#[inline(always)]
fn real(x: u64) -> f64 {
    f64::from_bits(x)
}

#[inline(always)]
pub(super) fn unary(f: UnaryLong, w: &mut Registers, mask: u32, d: R, a: R) {
    match f {
        UnaryLong::Move => w.map_long(mask, d, a, |a| a),
        UnaryLong::Not => w.map_long(mask, d, a, |a| !a),
        UnaryLong::Negate => w.map_long(mask, d, a, u64::wrapping_neg),
        UnaryLong::NegateF => w.map_long(mask, d, a, |a| a ^ 1 << 63),
        UnaryLong::RoundF => w.map_long(mask, d, a, |a| real(a).round_ties_even().to_bits()),
        UnaryLong::ExtendLow => w.map_long(mask, d, a, |a| a as i32 as i64 as u64),
        UnaryLong::FromS64 => w.map_long(mask, d, a, |a| (a as i64 as f64).to_bits()),
        UnaryLong::FromU64 => w.map_long(mask, d, a, |a| (a as f64).to_bits()),
        UnaryLong::ToS64 => w.map_long(mask, d, a, |a| float::double_to_s64(real(a)) as u64),
    }
}

#[inline(always)]
pub(super) fn binary(f: BinaryLong, w: &mut Registers, mask: u32, d: R, ab: [R; 2]) {
    match f {
        BinaryLong::Add => w.map2_long(mask, d, ab, u64::wrapping_add),
        BinaryLong::Subtract => w.map2_long(mask, d, ab, u64::wrapping_sub),
        BinaryLong::Multiply => w.map2_long(mask, d, ab, u64::wrapping_mul),
        BinaryLong::MultiplyHigh => {
            w.map2_long(mask, d, ab, |a, b| ((u128::from(a) * u128::from(b)) >> 64) as u64);
        }
        // By zero: what the manual leaves open.
        BinaryLong::RemainderU => w.map2_long(mask, d, ab, |a, b| a.checked_rem(b).unwrap_or(a)),
        BinaryLong::And => w.map2_long(mask, d, ab, |a, b| a & b),
        BinaryLong::Or => w.map2_long(mask, d, ab, |a, b| a | b),
        BinaryLong::Xor => w.map2_long(mask, d, ab, |a, b| a ^ b),
        BinaryLong::MaxU => w.map2_long(mask, d, ab, u64::max),
        BinaryLong::AddF => w.map2_long(mask, d, ab, |a, b| (real(a) + real(b)).to_bits()),
        BinaryLong::MultiplyF => w.map2_long(mask, d, ab, |a, b| (real(a) * real(b)).to_bits()),
    }
}

#[inline(always)]
pub(super) fn ternary(f: TernaryLong, w: &mut Registers, mask: u32, d: R, [a, b, c]: [R; 3]) {
    let (x, y, z) = (w.long(a), w.long(b), w.long(c));
    let value = each(|i| match f {
        TernaryLong::FusedF => real(x[i]).mul_add(real(y[i]), real(z[i])).to_bits(),
    });
    w.set_long(d, &value, mask, w.long_lanes(a) & w.long_lanes(b) & w.long_lanes(c));
}

/// Counts beyond the width clamp to it.
#[inline(always)]
pub(super) fn shift(f: Shift, w: &mut Registers, mask: u32, d: R, a: R, count: R) {
    let (x, n) = (w.long(a), w.word(count));
    let value = match f {
        Shift::Left => each(|i| x[i].checked_shl(n[i]).unwrap_or(0)),
        Shift::RightU => each(|i| x[i].checked_shr(n[i]).unwrap_or(0)),
        Shift::RightS => each(|i| (x[i] as i64 >> n[i].min(63)) as u64),
    };
    w.set_long(d, &value, mask, w.long_lanes(a) & w.word_lanes(count));
}

#[inline(always)]
pub(super) fn widen(f: Widen, w: &mut Registers, mask: u32, d: R, a: R) {
    let x = w.word(a);
    let value = match f {
        Widen::Unsigned => over(x, u64::from),
        Widen::Signed => over(x, |x| i64::from(x as i32) as u64),
        Widen::FloatToDouble => over(x, |x| f64::from(f32::from_bits(x)).to_bits()),
        Widen::DoubleFromS32 => over(x, |x| f64::from(x as i32).to_bits()),
    };
    w.set_long(d, &value, mask, w.word_lanes(a));
}

#[inline(always)]
pub(super) fn widen_two(f: WidenTwo, w: &mut Registers, mask: u32, d: R, [a, b]: [R; 2]) {
    let (x, y) = (w.word(a), w.word(b));
    let value = match f {
        WidenTwo::ProductS => each(|i| (i64::from(x[i] as i32) * i64::from(y[i] as i32)) as u64),
        WidenTwo::ProductU => each(|i| u64::from(x[i]) * u64::from(y[i])),
        WidenTwo::Pack => each(|i| u64::from(y[i]) << 32 | u64::from(x[i])),
    };
    w.set_long(d, &value, mask, w.word_lanes(a) & w.word_lanes(b));
}

#[inline(always)]
pub(super) fn narrow(f: Narrow, w: &mut Registers, mask: u32, d: R, a: R) {
    let x = w.long(a);
    let value = match f {
        Narrow::Low => over(x, |x| x as u32),
        Narrow::DoubleToFloat => over(x, |x| float::bits(real(x) as f32)),
        Narrow::DoubleToS32 => over(x, |x| float::double_to_s32(real(x)) as u32),
    };
    w.set_word(d, &value, mask, w.long_lanes(a));
}

/// `mov.b64 {low, high}, a`.
#[inline(always)]
pub(super) fn words(w: &mut Registers, mask: u32, [low, high]: [R; 2], a: R) {
    let (x, defined) = (*w.long(a), w.long_lanes(a));
    w.set_word(low, &over(&x, |x| x as u32), mask, defined);
    w.set_word(high, &over(&x, |x| (x >> 32) as u32), mask, defined);
}
