//! Executes [`Compute`]: rows of 32 lanes in loops that the compiler vectorises. Sources without modifiers are read
//! where they lie.

mod pairs;
mod predicates;
mod sums;
mod words;

use super::super::Approximation;
use super::super::code::R;
use super::super::code::compute::Compute;
use super::super::code::rows::{BIN_PREDICATE, Condition, FIRST_FREE, How, Source, UNIFORM, UNIFORM_PREDICATE};
use super::super::registers::{ALL, Registers, each, lanes, over};

/// What a row holds.
type Row = [u32; 32];

#[inline(always)]
pub(in super::super) fn compute(f: Compute, w: &mut Registers, mask: u32, how: Approximation) {
    match f {
        Compute::Unary(f, d, a) => words::unary(f, w, mask, d, a, how),
        Compute::Binary(f, d, ab) => words::binary(f, w, mask, d, ab),
        Compute::Ternary(f, d, abc) => words::ternary(f, w, mask, d, abc),
        Compute::Shift(f, d, a, n) => words::shift(f, w, mask, d, a, u32::from(n)),
        Compute::Logic { table, d, any, of, or } => words::logic(w, mask, table, d, of, (any, or)),
        Compute::Sum { d, carries, of, number, plus } => sums::sum(w, mask, (d, carries), of, number, plus),
        Compute::Scale { form, shift, d, carry, of, upper, plus } => {
            sums::scale(w, mask, (form, shift), (d, carry), of, upper, plus);
        }
        Compute::Wide { form, d, carry, of, plus } => sums::wide(form, w, mask, (d, carry), of, plus),
        Compute::Pair(f, d, abc) => pairs::pair(f, w, mask, d, abc),
        Compute::Widen(f, d, a) => pairs::widen(f, w, mask, d, a),
        Compute::Narrow(f, d, a) => pairs::narrow(f, w, mask, d, a),
        Compute::Compare { test, kind, flush, d, of, with, low } => {
            predicates::compare(w, mask, (test, kind, flush), d, of, with, low);
        }
        Compute::Check(d, ab) => predicates::check(w, mask, d, ab),
        Compute::Select { d, of, by, rows } => predicates::select(w, mask, d, of, by, rows),
        Compute::Tables { d, of, tables } => predicates::tables(w, mask, d, of, tables),
        Compute::FromPredicates { d, a, mask: chosen } => predicates::to_row(w, mask, d, a, chosen),
        Compute::ToPredicates { a, mask: chosen } => predicates::from_row(w, mask, a, chosen),
        Compute::First(d, a) => {
            let lane = lanes(mask).next().unwrap_or_default();
            let (value, defined) = ([value(w, a)[lane]; 32], w.word_lanes(a.row) >> lane & 1);
            w.set_word(d, &value, ALL, if defined == 0 { 0 } else { ALL });
        }
    }
}

/// Copies so many rows.
#[inline(always)]
pub(in super::super) fn copy(w: &mut Registers, mask: u32, d: R, a: R, rows: u8) {
    for i in 0..R::from(rows) {
        w.map(scope(d, mask), d + i, a + i, |a| a);
    }
}

/// The lanes that are written: all of them of a uniform register, whatever lanes are active.
#[inline(always)]
fn scope(d: R, mask: u32) -> u32 {
    if (UNIFORM..FIRST_FREE).contains(&d) { ALL } else { mask }
}

/// Writes a predicate; of a uniform one all lanes.
#[inline(always)]
fn set(w: &mut Registers, mask: u32, d: R, value: u32, defined: u32) {
    let mask = if (UNIFORM_PREDICATE..BIN_PREDICATE).contains(&d) { ALL } else { mask };
    w.set_predicate(d, value, mask, defined);
}

/// Lanes in which a condition holds, and those in which it is defined.
#[inline(always)]
fn condition(w: &Registers, condition: Condition) -> (u32, u32) {
    let holds = w.predicate(condition.predicate);
    (if condition.not { !holds } else { holds }, w.predicate_lanes(condition.predicate))
}

/// A bit of each lane as 0 or 1.
#[inline(always)]
fn spread(lanes: u32) -> Row {
    each(|i| u32::from(lanes & 1 << i != 0))
}

/// What a source holds, with its modifier; the row itself where there is none.
#[inline(always)]
fn view<'a>(w: &'a Registers, a: Source, space: &'a mut Row) -> &'a Row {
    if a.how == How::Plain {
        return w.word(a.row);
    }
    *space = value(w, a);
    space
}

/// What a source holds, with its modifier.
fn value(w: &Registers, a: Source) -> Row {
    use super::super::float::from_half;
    let x = w.word(a.row);
    let of = |f: &dyn Fn(u32) -> u32| each(|i| f(x[i]));
    match a.how {
        How::Plain => *x,
        How::Negate => each(|i| x[i].wrapping_neg()),
        How::Not => each(|i| !x[i]),
        How::NegateF => each(|i| x[i] ^ SIGN),
        How::AbsoluteF => each(|i| x[i] & !SIGN),
        How::NegateAbsoluteF => each(|i| x[i] | SIGN),
        How::Half(n) => of(&|x| from_half(x >> (16 * n) & 0xffff).to_bits()),
        How::NegateHalf(n) => of(&|x| from_half(x >> (16 * n) & 0xffff).to_bits() ^ SIGN),
        How::Byte(n) => of(&|x| x >> (8 * n) & 0xff),
        How::Upper => of(&|x| x >> 16),
    }
}

const SIGN: u32 = 1 << 31;

/// The same of two rows.
#[inline(always)]
fn pair(w: &Registers, a: Source) -> [u64; 32] {
    let (low, high) = (w.word(a.row), w.word(a.row + 1));
    let both: [u64; 32] = each(|i| u64::from(low[i]) | u64::from(high[i]) << 32);
    let sign = u64::from(SIGN) << 32;
    match a.how {
        How::Negate => over(&both, u64::wrapping_neg),
        How::Not => over(&both, |x| !x),
        How::NegateF => over(&both, |x| x ^ sign),
        How::AbsoluteF => over(&both, |x| x & !sign),
        How::NegateAbsoluteF => over(&both, |x| x | sign),
        // Nothing else is decoded for 64 bits.
        _ => both,
    }
}

/// Lanes in which both rows are defined.
#[inline(always)]
fn pair_lanes(w: &Registers, a: Source) -> u32 {
    w.word_lanes(a.row) & w.word_lanes(a.row + 1)
}

#[inline(always)]
fn set_pair(w: &mut Registers, mask: u32, d: R, value: &[u64; 32], defined: u32) {
    let mask = scope(d, mask);
    w.set_word(d, &each(|i| value[i] as u32), mask, defined);
    w.set_word(d + 1, &each(|i| (value[i] >> 32) as u32), mask, defined);
}

/// d = f(a) in the lanes of the mask; a lane without a value in a has none in d.
#[inline(always)]
fn map(w: &mut Registers, mask: u32, d: R, a: Source, f: impl Fn(u32) -> u32) {
    let mut space = [0; 32];
    let x = view(w, a, &mut space);
    let result = each(|i| f(x[i]));
    w.set_word(d, &result, scope(d, mask), w.word_lanes(a.row));
}

/// d = f(a, b).
#[inline(always)]
fn map2(w: &mut Registers, mask: u32, d: R, [a, b]: [Source; 2], f: impl Fn(u32, u32) -> u32) {
    let mut space = [[0; 32]; 2];
    let [first, second] = &mut space;
    let (x, y) = (view(w, a, first), view(w, b, second));
    let result = each(|i| f(x[i], y[i]));
    w.set_word(d, &result, scope(d, mask), w.word_lanes(a.row) & w.word_lanes(b.row));
}

/// d = f(a, b, c).
#[inline(always)]
fn map3(w: &mut Registers, mask: u32, d: R, [a, b, c]: [Source; 3], f: impl Fn(u32, u32, u32) -> u32) {
    let mut space = [[0; 32]; 3];
    let [first, second, third] = &mut space;
    let (x, y, z) = (view(w, a, first), view(w, b, second), view(w, c, third));
    let result = each(|i| f(x[i], y[i], z[i]));
    let known = w.word_lanes(a.row) & w.word_lanes(b.row) & w.word_lanes(c.row);
    w.set_word(d, &result, scope(d, mask), known);
}
