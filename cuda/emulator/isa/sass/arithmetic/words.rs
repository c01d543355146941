//! 32 bits from 32 bits.

use super::super::super::Approximation;
use super::super::super::code::compute::{Binary, Ternary, Unary};
use super::super::super::code::rows::{BIN_PREDICATE, Condition, How, Source, UNIFORM_PREDICATE};
use super::super::super::code::{Logic, R, Shift};
use super::super::super::exec::{ballot, dot4, permute, real2, signed};
use super::super::super::float;
use super::super::super::registers::{ALL, Registers, each};
use super::predicates::combined;
use super::{Row, map, map2, map3, scope, set, view};

#[inline(always)]
fn real3(f: impl Fn(f32, f32, f32) -> u32) -> impl Fn(u32, u32, u32) -> u32 {
    move |a, b, c| f(f32::from_bits(a), f32::from_bits(b), f32::from_bits(c))
}

/// `.FTZ`: subnormal numbers are zeros, before and behind.
#[inline(always)]
fn flushed(f: impl Fn(f32, f32) -> f32) -> impl Fn(f32, f32) -> f32 {
    move |a, b| float::flush(f(float::flush(a), float::flush(b)))
}

#[inline(always)]
pub(super) fn unary(f: Unary, w: &mut Registers, mask: u32, d: R, a: Source, how: Approximation) {
    let real = f32::from_bits;
    match f {
        Unary::Move => map(w, mask, d, a, |a| a),
        Unary::Absolute => map(w, mask, d, a, |a| (a as i32).unsigned_abs()),
        Unary::Ones => map(w, mask, d, a, u32::count_ones),
        Unary::Leading => map(w, mask, d, a, |a| 31u32.wrapping_sub(a.leading_zeros())),
        Unary::Truncate => map(w, mask, d, a, |a| float::bits(real(a).trunc())),
        Unary::Exp2 => map(w, mask, d, a, |a| float::exp2(real(a), how)),
        // The compiler's division is exact only if the reciprocal of a number whose digits are all ones is the nearest.
        Unary::Reciprocal => map(w, mask, d, a, |a| {
            let how = if a & 0x7f_ffff == 0x7f_ffff { Approximation::Exact } else { how };
            float::reciprocal(real(a), how)
        }),
        Unary::ReciprocalSqrt => map(w, mask, d, a, |a| float::reciprocal_sqrt(real(a), how)),
        Unary::FromS32 => map(w, mask, d, a, |a| (a as i32 as f32).to_bits()),
        Unary::FromU32 => map(w, mask, d, a, |a| (a as f32).to_bits()),
        Unary::FromS32Up => map(w, mask, d, a, |a| float::up(i128::from(a as i32)).to_bits()),
        Unary::FromU32Down => map(w, mask, d, a, |a| (-float::up(-i128::from(a))).to_bits()),
        Unary::FromU32Up => map(w, mask, d, a, |a| float::up(i128::from(a)).to_bits()),
        Unary::FromS16 => map(w, mask, d, a, |a| f32::from(a as i16).to_bits()),
        Unary::FromU16 => map(w, mask, d, a, |a| f32::from(a as u16).to_bits()),
        Unary::FromS8 => map(w, mask, d, a, |a| f32::from(a as i8).to_bits()),
        Unary::FromU8 => map(w, mask, d, a, |a| f32::from(a as u8).to_bits()),
        Unary::FromHalf => map(w, mask, d, a, |a| float::from_half(a & 0xffff).to_bits()),
        Unary::FromUpperHalf => map(w, mask, d, a, |a| float::from_half(a >> 16).to_bits()),
        Unary::ToHalf => map(w, mask, d, a, |a| float::to_half(real(a))),
        // Saturates; NaN is 0.
        Unary::ToS32 => map(w, mask, d, a, |a| real(a) as i32 as u32),
        Unary::ToS32Nearest => map(w, mask, d, a, |a| real(a).round_ties_even() as i32 as u32),
        Unary::ToU32Flush => map(w, mask, d, a, |a| real(a) as u32),
    }
}

#[inline(always)]
pub(super) fn binary(f: Binary, w: &mut Registers, mask: u32, d: R, ab: [Source; 2]) {
    match f {
        Binary::Add => map2(w, mask, d, ab, u32::wrapping_add),
        Binary::Multiply => map2(w, mask, d, ab, u32::wrapping_mul),
        // Counts beyond the width clamp to it.
        Binary::Left => map2(w, mask, d, ab, |a, b| a.checked_shl(b).unwrap_or(0)),
        Binary::RightU => map2(w, mask, d, ab, |a, b| a.checked_shr(b).unwrap_or(0)),
        Binary::RightS => map2(w, mask, d, ab, |a, b| (a as i32 >> b.min(31)) as u32),
        Binary::MinS => map2(w, mask, d, ab, signed(i32::min)),
        Binary::MaxS => map2(w, mask, d, ab, signed(i32::max)),
        Binary::MinU => map2(w, mask, d, ab, u32::min),
        Binary::MaxU => map2(w, mask, d, ab, u32::max),
        Binary::AddF => map2(w, mask, d, ab, real2(|a, b| a + b)),
        Binary::AddFlushF => map2(w, mask, d, ab, real2(flushed(|a, b| a + b))),
        Binary::AddZeroF => map2(w, mask, d, ab, |a, b| float::add_zero(f32::from_bits(a), f32::from_bits(b))),
        Binary::MultiplyF => map2(w, mask, d, ab, real2(|a, b| a * b)),
        Binary::MultiplyFlushF => map2(w, mask, d, ab, real2(flushed(|a, b| a * b))),
        Binary::MinF => map2(w, mask, d, ab, float::min),
        Binary::MaxF => map2(w, mask, d, ab, float::max),
        Binary::MinNanF => map2(w, mask, d, ab, |a, b| float::nan_of(a, b).unwrap_or_else(|| float::min(a, b))),
        Binary::MaxNanF => map2(w, mask, d, ab, |a, b| float::nan_of(a, b).unwrap_or_else(|| float::max(a, b))),
        Binary::PackHalf => {
            map2(w, mask, d, ab, |a, b| float::to_half(f32::from_bits(a)) << 16 | float::to_half(f32::from_bits(b)));
        }
        Binary::PackBf16 => {
            map2(w, mask, d, ab, |a, b| float::to_bf16(f32::from_bits(a)) << 16 | float::to_bf16(f32::from_bits(b)));
        }
    }
}

/// Two words as one number.
#[inline(always)]
fn both(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

#[inline(always)]
pub(super) fn ternary(f: Ternary, w: &mut Registers, mask: u32, d: R, abc: [Source; 3]) {
    let [a, b, c] = abc;
    match f {
        Ternary::Add => map3(w, mask, d, abc, |a, b, c| a.wrapping_add(b).wrapping_add(c)),
        Ternary::Mad => map3(w, mask, d, abc, |a, b, c| a.wrapping_mul(b).wrapping_add(c)),
        Ternary::Dot4 => map3(w, mask, d, abc, dot4),
        Ternary::Permute | Ternary::PermuteLow => {
            let [mut x, mut y, mut z] = [[0; 32]; 3];
            let result = permuted(view(w, a, &mut x), view(w, b, &mut y), view(w, c, &mut z));
            let upper = if f == Ternary::PermuteLow { ALL } else { w.word_lanes(c.row) };
            w.set_word(d, &result, scope(d, mask), w.word_lanes(a.row) & w.word_lanes(b.row) & upper);
        }
        Ternary::LeftUpper => {
            map3(w, mask, d, abc, |a, n, c| (both(a, c).checked_shl(n).unwrap_or(0) >> 32) as u32);
        }
        Ternary::LeftWrapUpper => map3(w, mask, d, abc, |a, n, c| (both(a, c) << (n & 31) >> 32) as u32),
        Ternary::RightLower => map3(w, mask, d, abc, |a, n, c| both(a, c).checked_shr(n).unwrap_or(0) as u32),
        Ternary::AddMinS => map3(w, mask, d, abc, |a, b, c| signed(i32::min)(a.wrapping_add(b), c)),
        Ternary::AddMaxS => map3(w, mask, d, abc, |a, b, c| signed(i32::max)(a.wrapping_add(b), c)),
        Ternary::AddMinU => map3(w, mask, d, abc, |a, b, c| a.wrapping_add(b).min(c)),
        Ternary::AddMaxU => map3(w, mask, d, abc, |a, b, c| a.wrapping_add(b).max(c)),
        Ternary::MinS => map3(w, mask, d, abc, |a, b, c| signed(i32::min)(signed(i32::min)(a, b), c)),
        Ternary::MaxS => map3(w, mask, d, abc, |a, b, c| signed(i32::max)(signed(i32::max)(a, b), c)),
        Ternary::MaxU => map3(w, mask, d, abc, |a, b, c| a.max(b).max(c)),
        Ternary::FusedF => map3(w, mask, d, abc, real3(|a, b, c| float::bits(a.mul_add(b, c)))),
        Ternary::FusedSaturateF => {
            map3(w, mask, d, abc, real3(|a, b, c| float::saturate(a.mul_add(b, c).to_bits())));
        }
        Ternary::FusedDownF => map3(w, mask, d, abc, real3(float::fused_down)),
        Ternary::FusedUpF => map3(w, mask, d, abc, real3(float::fused_up)),
        Ternary::FusedZeroF => map3(w, mask, d, abc, real3(float::fused_zero)),
        Ternary::MinF => map3(w, mask, d, abc, |a, b, c| float::min(float::min(a, b), c)),
        Ternary::MaxF => map3(w, mask, d, abc, |a, b, c| float::max(float::max(a, b), c)),
    }
}

/// `PRMT`: byte by byte for all lanes where the selector is one number.
#[inline(always)]
fn permuted(x: &Row, selector: &Row, z: &Row) -> Row {
    let all = selector[0];
    if selector.iter().fold(0, |other, one| other | one ^ all) != 0 {
        return each(|i| permute(x[i], z[i], selector[i]));
    }
    let mut result = [0; 32];
    for byte in 0..4 {
        let nibble = all >> (4 * byte) & 15;
        let (from, shift) = (if nibble & 4 == 0 { x } else { z }, 8 * (nibble & 3));
        for i in 0..32 {
            let chosen = from[i] >> shift;
            let value = if nibble & 8 == 0 { chosen } else { (chosen >> 7 & 1).wrapping_neg() };
            result[i] |= (value & 0xff) << (8 * byte);
        }
    }
    result
}

/// By less than 32 bits.
#[inline(always)]
pub(super) fn shift(f: Shift, w: &mut Registers, mask: u32, d: R, a: Source, n: u32) {
    let n = n & 31;
    match f {
        Shift::Left => map(w, mask, d, a, |a| a << n),
        Shift::RightU => map(w, mask, d, a, |a| a >> n),
        Shift::RightS => map(w, mask, d, a, |a| (a as i32 >> n) as u32),
    }
}

/// `LOP3`: the tables that the compiler writes most, and all others.
#[inline(always)]
pub(super) fn logic(w: &mut Registers, mask: u32, table: u8, d: R, of: [Source; 3], (any, or): (R, Condition)) {
    // What is written to `URZ` is asked in all lanes where it is the predicate that is uniform.
    let mask = if (UNIFORM_PREDICATE..BIN_PREDICATE).contains(&any) { ALL } else { mask };
    match table {
        // Predicates that the compiler keeps as bits of a register begin so, bit by bit: nobody wrote the register before.
        0xc0 if of[0] == (Source { row: d, how: How::Plain }) && w.word(of[1].row)[0].count_zeros() == 1 => {
            let row: Row = each(|i| w.word(d)[i] & w.word(of[1].row)[i]);
            w.set_word(d, &row, scope(d, mask), ALL);
        }
        0xc0 => map2(w, mask, d, [of[0], of[1]], |a, b| a & b),
        0xfc => map2(w, mask, d, [of[0], of[1]], |a, b| a | b),
        0x3c => map2(w, mask, d, [of[0], of[1]], |a, b| a ^ b),
        0x33 => map(w, mask, d, of[1], |b| !b),
        0xf8 => map3(w, mask, d, of, |a, b, c| a | b & c),
        0xc8 => map3(w, mask, d, of, |a, b, c| b & (a | c)),
        0x48 => map3(w, mask, d, of, |a, b, c| b & (a ^ c)),
        0xe2 => map3(w, mask, d, of, |a, b, c| b & a | !b & c),
        0xfe => map3(w, mask, d, of, |a, b, c| a | b | c),
        0x96 => map3(w, mask, d, of, |a, b, c| a ^ b ^ c),
        _ => {
            let bit = |i: u32| if table >> i & 1 != 0 { u32::MAX } else { 0 };
            let of_c = |pair: u32, c: u32| bit(2 * pair) & !c | bit(2 * pair + 1) & c;
            map3(w, mask, d, of, |a, b, c| {
                !a & (!b & of_c(0, c) | b & of_c(1, c)) | a & (!b & of_c(2, c) | b & of_c(3, c))
            });
        }
    }
    if any != BIN_PREDICATE {
        let bits = ballot(*w.word(d), [0; 32], |x, zero| x != zero);
        let (holds, defined) = combined(w, Logic::Or, (bits, w.word_lanes(d)), or);
        set(w, mask, any, holds, defined);
    }
}
