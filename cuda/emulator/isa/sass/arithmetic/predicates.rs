//! Comparisons, selection, and the logic of predicates.

use super::super::super::code::rows::{BIN_PREDICATE, Condition, Source, TRUE};
use super::super::super::code::{Kind, Logic, R, Test};
use super::super::super::exec::{ballot, real, whole};
use super::super::super::float;
use super::super::super::registers::{Registers, over, put};
use super::{Row, condition, pair, pair_lanes, scope, set, spread, value};

/// The result of a test, and where it is defined.
#[inline(always)]
fn tested(w: &Registers, (test, kind, flush): (Test, Kind, bool), [a, b]: [Source; 2]) -> (u32, u32) {
    if matches!(kind, Kind::S64 | Kind::U64 | Kind::F64) {
        let (x, y) = (pair(w, a), pair(w, b));
        let holds = match kind {
            Kind::S64 => whole(test, over(&x, |x| x as i64), over(&y, |y| y as i64)),
            Kind::F64 => real(test, over(&x, f64::from_bits), over(&y, f64::from_bits)),
            _ => whole(test, x, y),
        };
        return (holds, pair_lanes(w, a) & pair_lanes(w, b));
    }
    let (x, y) = (value(w, a), value(w, b));
    let holds = match kind {
        Kind::S32 => whole(test, over(&x, |x| x as i32), over(&y, |y| y as i32)),
        Kind::F32 if flush => {
            let flushed = |x: u32| float::flush(f32::from_bits(x));
            real(test, over(&x, flushed), over(&y, flushed))
        }
        Kind::F32 => real(test, over(&x, f32::from_bits), over(&y, f32::from_bits)),
        _ => whole(test, x, y),
    };
    (holds, w.word_lanes(a.row) & w.word_lanes(b.row))
}

#[inline(always)]
pub(super) fn compare(
    w: &mut Registers,
    mask: u32,
    (test, kind, flush): (Test, Kind, bool),
    d: [R; 2],
    of: [Source; 2],
    (logic, by): (Logic, Condition),
    low: Option<Condition>,
) {
    let (holds, known) = match low {
        None => tested(w, (test, kind, flush), of),
        // Upper words that are equal leave it to the lower ones.
        Some(low) => {
            let (lower, defined) = condition(w, low);
            let strict = match test {
                Test::Le => Test::Lt,
                Test::Ge => Test::Gt,
                test => test,
            };
            let (equal, known) = tested(w, (Test::Eq, kind, flush), of);
            let holds = match strict {
                Test::Eq => equal & lower,
                Test::Ne => !equal | lower,
                _ => tested(w, (strict, kind, flush), of).0 | equal & lower,
            };
            (holds, known & (defined | !equal))
        }
    };
    let (value, defined) = combined(w, logic, (holds, known), by);
    set(w, mask, d[0], value, defined);
    if d[1] != BIN_PREDICATE {
        let (value, defined) = combined(w, logic, (!holds, known), by);
        set(w, mask, d[1], value, defined);
    }
}

/// With a condition. An operand decides alone where it makes the result whatever the other is.
#[inline(always)]
pub(super) fn combined(w: &Registers, logic: Logic, (x, dx): (u32, u32), by: Condition) -> (u32, u32) {
    if logic == Logic::And && by == (Condition { predicate: TRUE, not: false }) {
        return (x, dx);
    }
    let (y, dy) = condition(w, by);
    match logic {
        Logic::Or => (x | y, dx & dy | dx & x | dy & y),
        Logic::Xor => (x ^ y, dx & dy),
        _ => (x & y, dx & dy | dx & !x | dy & !y),
    }
}

#[inline(always)]
pub(super) fn check(w: &mut Registers, mask: u32, d: R, [a, b]: [Source; 2]) {
    let known = w.word_lanes(a.row) & w.word_lanes(b.row);
    let slow = ballot(value(w, a), value(w, b), float::unsafe_division);
    set(w, mask, d, slow, known);
}

#[inline(always)]
pub(super) fn select(w: &mut Registers, mask: u32, d: R, [a, b]: [Source; 2], by: Condition, rows: u8) {
    let (p, defined) = condition(w, by);
    let to = scope(d, mask);
    for i in 0..R::from(rows) {
        let at = |source: Source| Source { row: source.row + i, ..source };
        let mut result = value(w, at(b));
        put(&mut result, &value(w, at(a)), p);
        let known = defined & (p & w.word_lanes(a.row + i) | !p & w.word_lanes(b.row + i));
        w.set_word(d + i, &result, to, known);
    }
}

#[inline(always)]
pub(super) fn tables(w: &mut Registers, mask: u32, d: [R; 2], of: [Condition; 3], tables: [u8; 2]) {
    let of = of.map(|by| condition(w, by));
    for (d, table) in d.into_iter().zip(tables).filter(|(d, _)| *d != BIN_PREDICATE) {
        // Lanes that a bit of the table may be chosen in: an unknown operand may be either.
        let (mut yes, mut clear) = (0, 0);
        for i in 0..8u8 {
            let mut may = u32::MAX;
            for ((holds, defined), weight) in of.iter().zip([4, 2, 1]) {
                may &= !defined | if i & weight != 0 { *holds } else { !holds };
            }
            *if table >> i & 1 != 0 { &mut yes } else { &mut clear } |= may;
        }
        set(w, mask, d, yes, yes ^ clear);
    }
}

#[inline(always)]
pub(super) fn to_row(w: &mut Registers, mask: u32, d: R, a: Source, chosen: u8) {
    let (mut result, mut known) = (value(w, a), w.word_lanes(a.row));
    result.iter_mut().for_each(|x| *x &= !u32::from(chosen));
    for row in (0..TRUE).filter(|row| chosen >> row & 1 != 0) {
        let bits: Row = spread(w.predicate(row));
        for i in 0..32 {
            result[i] |= bits[i] << row;
        }
        known &= w.predicate_lanes(row);
    }
    w.set_word(d, &result, scope(d, mask), known);
}

#[inline(always)]
pub(super) fn from_row(w: &mut Registers, mask: u32, a: Source, chosen: u8) {
    let (x, known) = (value(w, a), w.word_lanes(a.row));
    for row in (0..TRUE).filter(|row| chosen >> row & 1 != 0) {
        set(w, mask, row, ballot(x, [1 << row; 32], |x, bit| x & bit != 0), known);
    }
}
