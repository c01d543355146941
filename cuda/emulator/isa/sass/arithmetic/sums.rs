//! Sums with carries, and products of 64 bits.

use super::super::super::code::R;
use super::super::super::exec::ballot;
use super::super::super::registers::Registers;
use super::super::code::{Condition, How, Source};
use super::super::compute::{NEVER, Scale, Wide};
use super::super::operands::BIN_PREDICATE;
use super::{Row, condition, pair, pair_lanes, scope, set, set_pair, spread, value};

/// What carries add, and where they are defined.
#[inline(always)]
fn carried(w: &Registers, plus: Condition) -> (Row, u32) {
    if plus == NEVER {
        return ([0; 32], u32::MAX);
    }
    let (holds, defined) = condition(w, plus);
    (spread(holds), defined)
}

pub(super) fn sum(
    w: &mut Registers,
    mask: u32,
    (d, carries): (R, [R; 2]),
    of: [Source; 3],
    number: u8,
    plus: [Condition; 2],
) {
    let [x, y, z] = of.map(|source| value(w, source));
    let [(first, p), (second, q)] = plus.map(|plus| carried(w, plus));
    let known = of.iter().fold(p & q, |known, source| known & w.word_lanes(source.row));
    let number = u32::from(number);
    let added: Row = std::array::from_fn(|i| number + first[i] + second[i]);
    let result: Row = std::array::from_fn(|i| x[i].wrapping_add(y[i]).wrapping_add(z[i]).wrapping_add(added[i]));
    let to = scope(d, mask);
    w.set_word(d, &result, to, known);
    if carries == [BIN_PREDICATE; 2] {
        return;
    }
    let carried: Row = std::array::from_fn(|i| {
        let (two, first) = x[i].overflowing_add(y[i]);
        let (three, second) = two.overflowing_add(z[i]);
        let (_, third) = three.overflowing_add(added[i]);
        u32::from(first) + u32::from(second) + u32::from(third)
    });
    set(w, mask, carries[0], ballot(carried, [0; 32], |x, zero| x > zero), known);
    if carries[1] != BIN_PREDICATE {
        set(w, mask, carries[1], ballot(carried, [1; 32], |x, one| x > one), known);
    }
}

pub(super) fn scale(
    w: &mut Registers,
    mask: u32,
    (form, shift): (Scale, u8),
    (d, carry): (R, R),
    [a, b]: [Source; 2],
    upper: Source,
    plus: Condition,
) {
    let (x, y) = (w.word(a.row), value(w, b));
    let n = u32::from(shift) & 31;
    let scaled: Row = match form {
        Scale::Low => std::array::from_fn(|i| x[i] << n),
        Scale::HighSigned => std::array::from_fn(|i| (i64::from(x[i] as i32) << n >> 32) as u32),
        Scale::High => {
            let z = value(w, upper);
            std::array::from_fn(|i| ((u64::from(z[i]) << 32 | u64::from(x[i])) << n >> 32) as u32)
        }
    };
    let (added, known) = carried(w, plus);
    let known = known & w.word_lanes(a.row) & w.word_lanes(b.row) & w.word_lanes(upper.row);
    let sum: Row = std::array::from_fn(|i| scaled[i].wrapping_add(y[i]));
    let result: Row = std::array::from_fn(|i| sum[i].wrapping_add(added[i]));
    w.set_word(d, &result, scope(d, mask), known);
    if carry != BIN_PREDICATE {
        let over = ballot(sum, scaled, |sum, x| sum < x) | ballot(result, sum, |result, sum| result < sum);
        set(w, mask, carry, over, known);
    }
}

pub(super) fn wide(
    form: Wide,
    w: &mut Registers,
    mask: u32,
    (d, carry): (R, R),
    [a, b, c]: [Source; 3],
    plus: Condition,
) {
    let known = w.word_lanes(a.row) & w.word_lanes(b.row) & pair_lanes(w, c);
    let z = pair(w, c);
    let (x, y) =
        if [a.how, b.how] == [How::Plain; 2] { (*w.word(a.row), *w.word(b.row)) } else { (value(w, a), value(w, b)) };
    let product: [u64; 32] = match form {
        Wide::Signed => std::array::from_fn(|i| i64::from(x[i] as i32).wrapping_mul(i64::from(y[i] as i32)) as u64),
        _ => std::array::from_fn(|i| u64::from(x[i]) * u64::from(y[i])),
    };
    let sum: [u64; 32] = std::array::from_fn(|i| product[i].wrapping_add(z[i]));
    let (result, known) = if plus == NEVER {
        (sum, known)
    } else {
        let (added, defined) = carried(w, plus);
        (std::array::from_fn(|i| sum[i].wrapping_add(u64::from(added[i]))), known & defined)
    };
    if form == Wide::High {
        w.set_word(d, &std::array::from_fn(|i| (result[i] >> 32) as u32), scope(d, mask), known);
    } else {
        set_pair(w, mask, d, &result, known);
    }
    if carry != BIN_PREDICATE {
        let over = ballot(sum, product, |sum, x| sum < x) | ballot(result, sum, |result, sum| result < sum);
        set(w, mask, carry, over, known);
    }
}
