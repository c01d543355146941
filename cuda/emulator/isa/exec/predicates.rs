//! `setp`, `selp` and the logic of predicates.

use super::super::code::{Kind, Logic, R, Test};
use super::super::registers::{Registers, each, over, put};

#[inline(always)]
pub(super) fn compare(test: Test, kind: Kind, w: &mut Registers, mask: u32, d: R, [a, b]: [R; 2]) {
    let long = matches!(kind, Kind::U64 | Kind::S64 | Kind::F64);
    let value = if long {
        let (x, y) = (w.long(a), w.long(b));
        match kind {
            Kind::S64 => whole(test, over(x, |x| x as i64), over(y, |y| y as i64)),
            Kind::F64 => real(test, over(x, f64::from_bits), over(y, f64::from_bits)),
            _ => whole(test, *x, *y),
        }
    } else {
        let (x, y) = (w.word(a), w.word(b));
        match kind {
            Kind::S16 => whole(test, over(x, |x| x as i16), over(y, |y| y as i16)),
            Kind::S32 => whole(test, over(x, |x| x as i32), over(y, |y| y as i32)),
            Kind::F32 => real(test, over(x, f32::from_bits), over(y, f32::from_bits)),
            _ => whole(test, *x, *y),
        }
    };
    let defined = if long { w.long_lanes(a) & w.long_lanes(b) } else { w.word_lanes(a) & w.word_lanes(b) };
    w.set_predicate(d, value, mask, defined);
}

/// The lanes in which something holds.
#[inline(always)]
pub(in super::super) fn ballot<T: Copy>(x: [T; 32], y: [T; 32], f: impl Fn(T, T) -> bool) -> u32 {
    let holds: [u8; 32] = each(|i| u8::from(f(x[i], y[i])));
    // Eight bytes that are 0 or 1 become the product's upper byte.
    let (eights, _) = holds.as_chunks::<8>();
    let byte = |eight: [u8; 8]| u64::from_le_bytes(eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
    (0..4).fold(0, |all, i| all | (byte(eights[i]) as u32) << (8 * i))
}

/// Of numbers that all have an order.
#[inline(always)]
pub(in super::super) fn whole<T: PartialOrd + Copy>(test: Test, x: [T; 32], y: [T; 32]) -> u32 {
    match test {
        Test::Eq | Test::EqU => ballot(x, y, |x, y| x == y),
        Test::Ne | Test::NeU => ballot(x, y, |x, y| x != y),
        Test::Lt | Test::LtU => ballot(x, y, |x, y| x < y),
        Test::Le | Test::LeU => ballot(x, y, |x, y| x <= y),
        Test::Gt | Test::GtU => ballot(x, y, |x, y| x > y),
        Test::Ge | Test::GeU => ballot(x, y, |x, y| x >= y),
        Test::Nan => 0,
        Test::Num => u32::MAX,
    }
}

/// Of floats: an ordered test fails where an operand is NaN, an unordered one holds.
#[inline(always)]
pub(in super::super) fn real<T: PartialOrd + Copy>(test: Test, x: [T; 32], y: [T; 32]) -> u32 {
    let nan = || ballot(x, y, |x, y| x.partial_cmp(&y).is_none());
    match test {
        Test::Eq => ballot(x, y, |x, y| x == y),
        Test::Ne => ballot(x, y, |x, y| x != y) & !nan(),
        Test::Lt => ballot(x, y, |x, y| x < y),
        Test::Le => ballot(x, y, |x, y| x <= y),
        Test::Gt => ballot(x, y, |x, y| x > y),
        Test::Ge => ballot(x, y, |x, y| x >= y),
        Test::EqU => ballot(x, y, |x, y| x == y) | nan(),
        Test::NeU => ballot(x, y, |x, y| x != y),
        Test::LtU => !ballot(x, y, |x, y| x >= y),
        Test::LeU => !ballot(x, y, |x, y| x > y),
        Test::GtU => !ballot(x, y, |x, y| x <= y),
        Test::GeU => !ballot(x, y, |x, y| x < y),
        Test::Nan => nan(),
        Test::Num => !nan(),
    }
}

/// An operand decides alone where it makes the result whatever the other is.
#[inline(always)]
pub(super) fn logic(f: Logic, w: &mut Registers, mask: u32, d: R, [a, b]: [R; 2]) {
    let (x, y) = (w.predicate(a), w.predicate(b));
    let (dx, dy) = (w.predicate_lanes(a), w.predicate_lanes(b));
    let (value, defined) = match f {
        Logic::And => (x & y, dx & dy | dx & !x | dy & !y),
        Logic::Or => (x | y, dx & dy | dx & x | dy & y),
        Logic::Xor => (x ^ y, dx & dy),
        Logic::Not => (!x, dx),
        Logic::Move => (x, dx),
    };
    w.set_predicate(d, value, mask, defined);
}

/// The lanes that `selp` takes from the first operand, and those that have a result.
#[inline(always)]
fn chosen(w: &Registers, predicate: R, first: u32, second: u32) -> (u32, u32) {
    let p = w.predicate(predicate);
    (p, w.predicate_lanes(predicate) & (p & first | !p & second))
}

#[inline(always)]
pub(super) fn select(w: &mut Registers, mask: u32, d: R, [a, b]: [R; 2], predicate: R) {
    let (p, defined) = chosen(w, predicate, w.word_lanes(a), w.word_lanes(b));
    let mut value = *w.word(b);
    put(&mut value, w.word(a), p);
    w.set_word(d, &value, mask, defined);
}

#[inline(always)]
pub(super) fn select_long(w: &mut Registers, mask: u32, d: R, [a, b]: [R; 2], predicate: R) {
    let (p, defined) = chosen(w, predicate, w.long_lanes(a), w.long_lanes(b));
    let mut value = *w.long(b);
    put(&mut value, w.long(a), p);
    w.set_long(d, &value, mask, defined);
}
