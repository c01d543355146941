//! 64 bits, in two rows.

use super::super::super::code::R;
use super::super::super::code::compute::{Narrow, Pair, Widen};
use super::super::super::code::rows::Source;
use super::super::super::float;
use super::super::super::registers::{Registers, each, over};
use super::{pair as both, pair_lanes, scope, set_pair, value};

#[inline(always)]
fn real(x: u64) -> f64 {
    f64::from_bits(x)
}

#[inline(always)]
pub(super) fn pair(f: Pair, w: &mut Registers, mask: u32, d: R, abc: [Source; 3]) {
    let [x, y, z] = abc.map(|source| both(w, source));
    let known = abc.iter().fold(u32::MAX, |known, source| known & pair_lanes(w, *source));
    let result: [u64; 32] = match f {
        Pair::Add => each(|i| x[i].wrapping_add(y[i]).wrapping_add(z[i])),
        Pair::MaxU => each(|i| x[i].max(y[i])),
        Pair::RoundF => over(&x, |x| bits(real(x).round_ties_even())),
        Pair::FromS64 => over(&x, |x| (x as i64 as f64).to_bits()),
        Pair::FromU64 => over(&x, |x| (x as f64).to_bits()),
        Pair::ToS64 => over(&x, |x| float::double_to_s64(real(x)) as u64),
        Pair::AddF => each(|i| bits(real(x[i]) + real(y[i]))),
        Pair::MultiplyF => each(|i| bits(real(x[i]) * real(y[i]))),
        Pair::FusedF => each(|i| bits(real(x[i]).mul_add(real(y[i]), real(z[i])))),
    };
    set_pair(w, mask, d, &result, known);
}

/// Every NaN of f64 is the same one.
#[inline(always)]
fn bits(x: f64) -> u64 {
    if x.is_nan() { 0xfff8_0000_0000_0000 } else { x.to_bits() }
}

#[inline(always)]
pub(super) fn widen(f: Widen, w: &mut Registers, mask: u32, d: R, a: Source) {
    let (x, known) = (value(w, a), w.word_lanes(a.row));
    let result = match f {
        Widen::FromSingle => over(&x, |x| bits(f64::from(f32::from_bits(x)))),
        Widen::FromS32 => over(&x, |x| f64::from(x as i32).to_bits()),
        Widen::SingleToU64 => over(&x, |x| float::single_to_u64(f32::from_bits(x))),
    };
    set_pair(w, mask, d, &result, known);
}

#[inline(always)]
pub(super) fn narrow(f: Narrow, w: &mut Registers, mask: u32, d: R, a: Source) {
    let (x, known) = (both(w, a), pair_lanes(w, a));
    let result = match f {
        Narrow::ToSingle => over(&x, |x| float::bits(real(x) as f32)),
        Narrow::ToS32 => over(&x, |x| float::double_to_s32(real(x)) as u32),
        Narrow::ToS32Nearest => over(&x, |x| float::double_to_s32(real(x).round_ties_even()) as u32),
        Narrow::SingleFromU64Up => over(&x, |x| float::up(i128::from(x)).to_bits()),
    };
    w.set_word(d, &result, scope(d, mask), known);
}
