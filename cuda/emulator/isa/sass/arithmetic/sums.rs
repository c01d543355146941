//! Sums with carries, and products of 64 bits.

use super::super::super::code::R;
use super::super::super::code::compute::{Scale, Wide};
use super::super::super::code::rows::{BIN_PREDICATE, Condition, NEVER, NOTHING, Source};
use super::super::super::exec::ballot;
use super::super::super::registers::{ALL, Registers, each};
use super::{Row, condition, pair_lanes, scope, set, view};

#[inline(always)]
pub(super) fn sum(
    w: &mut Registers,
    mask: u32,
    (d, carries): (R, [R; 2]),
    of: [Source; 3],
    number: u8,
    plus: [Condition; 2],
) {
    let [(p, known_p), (q, known_q)] = plus.map(|plus| if plus == NEVER { (0, ALL) } else { condition(w, plus) });
    let known = of.iter().fold(known_p & known_q, |known, source| known & w.word_lanes(source.row));
    let [mut x, mut y, mut z] = [[0; 32]; 3];
    let rows = [view(w, of[0], &mut x), view(w, of[1], &mut y), view(w, of[2], &mut z)];
    let number = u32::from(number);
    let bit = |lanes: u32, i: usize| u32::from(lanes & 1 << i != 0);
    let carried = carries != [BIN_PREDICATE; 2];
    let (result, over) = match (p | q, of[2] == NOTHING) {
        (0, true) => total(rows[0], rows[1], None, |_| number, carried),
        (0, false) => total(rows[0], rows[1], Some(rows[2]), |_| number, carried),
        (_, true) if q == 0 => total(rows[0], rows[1], None, |i| number + bit(p, i), carried),
        _ => total(rows[0], rows[1], Some(rows[2]), |i| number + bit(p, i) + bit(q, i), carried),
    };
    w.set_word(d, &result, scope(d, mask), known);
    if carried {
        set(w, mask, carries[0], ballot(over, [0; 32], |x, zero| x > zero), known);
    }
    if carries[1] != BIN_PREDICATE {
        set(w, mask, carries[1], ballot(over, [1; 32], |x, one| x > one), known);
    }
}

/// The sum, and how often it carries where that is asked.
#[inline(always)]
fn total(x: &Row, y: &Row, z: Option<&Row>, added: impl Fn(usize) -> u32, carried: bool) -> (Row, Row) {
    let z = |i: usize| z.map_or(0, |z| z[i]);
    let result = each(|i| x[i].wrapping_add(y[i]).wrapping_add(z(i)).wrapping_add(added(i)));
    if !carried {
        return (result, [0; 32]);
    }
    let over = each(|i| {
        let (two, first) = x[i].overflowing_add(y[i]);
        let (three, second) = two.overflowing_add(z(i));
        let (_, third) = three.overflowing_add(added(i));
        u32::from(first) + u32::from(second) + u32::from(third)
    });
    (result, over)
}

#[inline(always)]
pub(super) fn scale(
    w: &mut Registers,
    mask: u32,
    (form, shift): (Scale, u8),
    (d, carry): (R, R),
    [a, b]: [Source; 2],
    upper: Source,
    plus: Condition,
) {
    let (p, known) = if plus == NEVER { (0, ALL) } else { condition(w, plus) };
    let known = known & w.word_lanes(a.row) & w.word_lanes(b.row) & w.word_lanes(upper.row);
    let [mut x, mut y, mut z] = [[0; 32]; 3];
    let (x, y, z) = (view(w, a, &mut x), view(w, b, &mut y), view(w, upper, &mut z));
    let n = u32::from(shift) & 31;
    let scaled: Row = match form {
        Scale::Low => each(|i| x[i] << n),
        Scale::HighSigned => each(|i| (x[i] as i32 >> 1 >> (31 - n)) as u32),
        Scale::High => each(|i| z[i] << n | x[i] >> 1 >> (31 - n)),
    };
    let bit = |i: usize| u32::from(p & 1 << i != 0);
    let sum: Row = each(|i| scaled[i].wrapping_add(y[i]));
    let result: Row = each(|i| sum[i].wrapping_add(bit(i)));
    w.set_word(d, &result, scope(d, mask), known);
    if carry != BIN_PREDICATE {
        let over = ballot(sum, scaled, |sum, x| sum < x) | ballot(result, sum, |result, sum| result < sum);
        set(w, mask, carry, over, known);
    }
}

#[inline(always)]
pub(super) fn wide(
    form: Wide,
    w: &mut Registers,
    mask: u32,
    (d, carry): (R, R),
    [a, b, c]: [Source; 3],
    plus: Condition,
) {
    let (p, known) = if plus == NEVER { (0, ALL) } else { condition(w, plus) };
    let known = known & w.word_lanes(a.row) & w.word_lanes(b.row) & pair_lanes(w, c);
    let [mut x, mut y] = [[0; 32]; 2];
    let (x, y) = (view(w, a, &mut x), view(w, b, &mut y));
    // Modifiers of the third source were refused.
    let (low, high) = (w.word(c.row), w.word(c.row + 1));
    let product = |i: usize| match form {
        Wide::Signed => i64::from(x[i] as i32).wrapping_mul(i64::from(y[i] as i32)) as u64,
        Wide::Unsigned | Wide::High => u64::from(x[i]) * u64::from(y[i]),
    };
    let added = |i: usize| u64::from(high[i]) << 32 | u64::from(low[i]);
    let bit = |i: usize| u64::from(p >> i & 1);
    let [mut lower, mut upper] = [[0; 32]; 2];
    for i in 0..32 {
        let result = product(i).wrapping_add(added(i)).wrapping_add(bit(i));
        (lower[i], upper[i]) = (result as u32, (result >> 32) as u32);
    }
    let over = (carry != BIN_PREDICATE).then(|| {
        let over = |i: usize| (u128::from(product(i)) + u128::from(added(i)) + u128::from(bit(i))) >> 64;
        (0..32).fold(0, |all, i| all | (over(i) as u32) << i)
    });
    let to = scope(d, mask);
    if form == Wide::High {
        w.set_word(d, &upper, to, known);
    } else {
        w.set_word(d, &lower, to, known);
        w.set_word(d + 1, &upper, to, known);
    }
    if let Some(over) = over {
        set(w, mask, carry, over, known);
    }
}
