//! Integers, bits and predicates: one row per opcode that the shipped PTX has.

use crate::isa::{
    references::{dot4, i, inserted, l, left, permuted, right, right_signed, u, wide, word, yes},
    rows::{Row, check},
};

const fn row(op: &'static str, form: &'static str, also: &'static str, of: fn(&[u64]) -> Option<u64>) -> Row {
    Row::new(op, form, also, of)
}

/// As a signed number of 32 or 64 bits, as an unsigned one.
fn s32(x: u64) -> i128 {
    i128::from(i(x))
}
fn u32_(x: u64) -> i128 {
    i128::from(u(x))
}
fn s64(x: u64) -> i128 {
    i128::from(l(x))
}
fn u64_(x: u64) -> i128 {
    i128::from(x)
}
/// Division by zero, and of the least number by −1, are left open.
fn open(dividend: i128, divisor: i128, bits: u32) -> bool {
    divisor == 0 || divisor == -1 && dividend == -(1 << (bits - 1))
}
fn high(x: u64, y: u64) -> u64 {
    ((u128::from(x) * u128::from(y)) >> 64) as u64
}

pub static ARITHMETIC: &[Row] = &[
    row("add.s32", "r,r,r", "r,r,#", |x| word(s32(x[0]) + s32(x[1]))),
    row("add.s16", "h,h,h", "h,h,#", |x| Some((x[0] + x[1]) & 0xFFFF)),
    row("add.s64", "l,l,l", "l,l,#", |x| wide(s64(x[0]) + s64(x[1]))),
    row("sub.s32", "r,r,r", "", |x| word(s32(x[0]) - s32(x[1]))),
    row("sub.s64", "l,l,l", "", |x| wide(s64(x[0]) - s64(x[1]))),
    row("neg.s32", "r,r", "", |x| word(-s32(x[0]))),
    row("neg.s64", "l,l", "", |x| wide(-s64(x[0]))),
    row("mul.lo.s32", "r,r,r", "r,r,#", |x| word(s32(x[0]) * s32(x[1]))),
    row("mul.lo.s64", "l,l,l", "l,l,#", |x| wide(s64(x[0]).wrapping_mul(s64(x[1])))),
    row("mul.hi.u64", "l,l,l", "", |x| Some(high(x[0], x[1]))),
    row("mul.wide.s32", "l,r,r", "l,r,#", |x| wide(s32(x[0]) * s32(x[1]))),
    row("mul.wide.u32", "l,r,r", "l,r,#", |x| wide(u32_(x[0]) * u32_(x[1]))),
    row("mul.wide.u16", "r,h,h", "r,h,#", |x| word(u64_(x[0]) * u64_(x[1]))),
    row("mad.lo.s32", "r,r,r,r", "r,r,#,r r,r,#,# r,r,r,#", |x| word(s32(x[0]) * s32(x[1]) + s32(x[2]))),
    row("div.s32", "r,r,r", "", |x| match open(s32(x[0]), s32(x[1]), 32) {
        true => None,
        false => word(s32(x[0]) / s32(x[1])),
    }),
    row("rem.s32", "r,r,r", "", |x| match open(s32(x[0]), s32(x[1]), 32) {
        true => None,
        false => word(s32(x[0]) % s32(x[1])),
    }),
    row("div.u32", "r,r,r", "", |x| u(x[0]).checked_div(u(x[1])).map(u64::from)),
    row("rem.u32", "r,r,r", "", |x| u(x[0]).checked_rem(u(x[1])).map(u64::from)),
    row("rem.u64", "l,l,l", "", |x| x[0].checked_rem(x[1])),
    row("min.s32", "r,r,r", "r,r,#", |x| word(s32(x[0]).min(s32(x[1])))),
    row("max.s32", "r,r,r", "r,r,#", |x| word(s32(x[0]).max(s32(x[1])))),
    row("min.u32", "r,r,r", "r,r,#", |x| word(u32_(x[0]).min(u32_(x[1])))),
    row("max.u32", "r,r,r", "r,r,#", |x| word(u32_(x[0]).max(u32_(x[1])))),
    row("max.u64", "l,l,l", "", |x| Some(x[0].max(x[1]))),
    row("dp4a.s32.s32", "r,r,r,r", "", |x| word(dot4(u(x[0]), u(x[1]), i(x[2])))),
];

pub static BITS: &[Row] = &[
    row("and.b16", "h,h,h", "h,h,#", |x| Some(x[0] & x[1])),
    row("or.b16", "h,h,h", "", |x| Some(x[0] | x[1])),
    row("xor.b16", "h,h,h", "h,h,#", |x| Some(x[0] ^ x[1])),
    row("and.b32", "r,r,r", "r,r,#", |x| Some(x[0] & x[1])),
    row("or.b32", "r,r,r", "r,r,#", |x| Some(x[0] | x[1])),
    row("xor.b32", "r,r,r", "r,r,#", |x| Some(x[0] ^ x[1])),
    row("not.b32", "r,r", "", |x| Some(!x[0] & 0xFFFF_FFFF)),
    row("and.b64", "l,l,l", "l,l,#", |x| Some(x[0] & x[1])),
    row("or.b64", "l,l,l", "l,l,#", |x| Some(x[0] | x[1])),
    row("xor.b64", "l,l,l", "l,l,#", |x| Some(x[0] ^ x[1])),
    row("not.b64", "l,l", "", |x| Some(!x[0])),
    row("shl.b16", "h,h,r", "h,h,#", |x| left(x[0], x[1], 16)),
    row("shl.b32", "r,r,r", "r,r,#", |x| left(x[0], x[1], 32)),
    row("shl.b64", "l,l,r", "l,l,#", |x| left(x[0], x[1], 64)),
    row("shr.u16", "h,h,r", "h,h,#", |x| right(x[0], x[1], 16)),
    row("shr.u32", "r,r,r", "r,r,#", |x| right(x[0], x[1], 32)),
    row("shr.u64", "l,l,r", "l,l,#", |x| right(x[0], x[1], 64)),
    row("shr.s16", "h,h,r", "h,h,#", |x| right_signed(x[0], x[1], 16)),
    row("shr.s32", "r,r,r", "r,r,#", |x| right_signed(x[0], x[1], 32)),
    // The high word of b:a shifted to the left by the low five bits of the count.
    row("shf.l.wrap.b32", "r,r,r,r", "", |x| Some(((x[1] << 32 | x[0]) << (x[2] & 31)) >> 32)),
    row("bfi.b32", "r,r,r,r,r", "r,r,r,#,#", |x| Some(inserted(u(x[0]), u(x[1]), u(x[2]), u(x[3])).into())),
    row("prmt.b32", "r,r,r,r", "r,r,r,#", |x| Some(permuted(u(x[0]), u(x[1]), u(x[2])).into())),
];

pub static MOVES: &[Row] = &[
    row("mov.u16", "h,h", "h,#", |x| Some(x[0])),
    row("mov.u32", "r,r", "r,#", |x| Some(x[0])),
    row("mov.u64", "l,l", "l,#", |x| Some(x[0])),
    row("mov.pred", "p,p", "p,#", |x| Some(x[0])),
    row("mov.b32", "r,{h,h}", "", |x| Some(x[0] | x[1] << 16)),
    row("mov.b32", "r,f", "", |x| Some(x[0])),
    row("mov.b32", "f,r", "", |x| Some(x[0])),
    row("mov.b64", "l,{r,r}", "", |x| Some(x[0] | x[1] << 32)),
    row("mov.b64", "{r,r},l", "", |x| Some(x[0])),
    row("mov.f32", "f,f", "f,#", |x| Some(x[0])),
    row("mov.f64", "d,d", "d,#", |x| Some(x[0])),
    row("cvta.to.global.u64", "l,l", "", |x| Some(x[0])),
    row("selp.u16", "h,h,h,p", "h,#,#,p", |x| Some(x[if x[2] == 1 { 0 } else { 1 }])),
    row("selp.b32", "r,r,r,p", "r,#,r,p r,r,#,p r,#,#,p", |x| Some(x[if x[2] == 1 { 0 } else { 1 }])),
    row("selp.u32", "r,r,r,p", "r,#,#,p", |x| Some(x[if x[2] == 1 { 0 } else { 1 }])),
    row("selp.b64", "l,l,l,p", "l,#,l,p l,l,#,p", |x| Some(x[if x[2] == 1 { 0 } else { 1 }])),
    row("selp.u64", "l,l,l,p", "l,#,#,p", |x| Some(x[if x[2] == 1 { 0 } else { 1 }])),
    row("selp.f32", "f,f,f,p", "f,#,f,p f,f,#,p f,#,#,p", |x| Some(x[if x[2] == 1 { 0 } else { 1 }])),
    row("cvt.s16.s8", "h,h", "", |x| Some(x[0] as i8 as u16 as u64)),
    row("cvt.s32.s8", "r,r", "", |x| word((x[0] as i8).into())),
    row("cvt.u16.u32", "h,r", "", |x| Some(x[0] & 0xFFFF)),
    row("cvt.u32.u16", "r,h", "", |x| Some(x[0])),
    row("cvt.u32.u64", "r,l", "", |x| Some(x[0] & 0xFFFF_FFFF)),
    row("cvt.u64.u32", "l,r", "", |x| Some(x[0])),
    row("cvt.s64.s32", "l,r", "l,l", |x| wide(s32(x[0] & 0xFFFF_FFFF))),
];

pub static PREDICATES: &[Row] = &[
    row("and.pred", "p,p,p", "", |x| Some(x[0] & x[1])),
    row("or.pred", "p,p,p", "", |x| Some(x[0] | x[1])),
    row("xor.pred", "p,p,p", "", |x| Some(x[0] ^ x[1])),
    row("not.pred", "p,p", "", |x| Some(1 - x[0])),
    row("setp.gt.s16", "p,h,h", "p,h,#", |x| yes(x[0] as i16 > x[1] as i16)),
    row("setp.eq.b32", "p,r,r", "p,r,#", |x| yes(x[0] == x[1])),
    row("setp.eq.s32", "p,r,r", "p,r,#", |x| yes(x[0] == x[1])),
    row("setp.ne.s32", "p,r,r", "p,r,#", |x| yes(x[0] != x[1])),
    row("setp.lt.s32", "p,r,r", "p,r,#", |x| yes(s32(x[0]) < s32(x[1]))),
    row("setp.le.s32", "p,r,r", "p,r,#", |x| yes(s32(x[0]) <= s32(x[1]))),
    row("setp.gt.s32", "p,r,r", "p,r,#", |x| yes(s32(x[0]) > s32(x[1]))),
    row("setp.ge.s32", "p,r,r", "p,r,#", |x| yes(s32(x[0]) >= s32(x[1]))),
    row("setp.ne.u32", "p,r,r", "p,r,#", |x| yes(x[0] != x[1])),
    row("setp.lt.u32", "p,r,r", "p,r,#", |x| yes(u32_(x[0]) < u32_(x[1]))),
    row("setp.gt.u32", "p,r,r", "p,r,#", |x| yes(u32_(x[0]) > u32_(x[1]))),
    row("setp.ge.u32", "p,r,r", "p,r,#", |x| yes(u32_(x[0]) >= u32_(x[1]))),
    row("setp.eq.s64", "p,l,l", "p,l,#", |x| yes(x[0] == x[1])),
    row("setp.ne.s64", "p,l,l", "p,l,#", |x| yes(x[0] != x[1])),
    row("setp.lt.s64", "p,l,l", "p,l,#", |x| yes(s64(x[0]) < s64(x[1]))),
    row("setp.gt.s64", "p,l,l", "p,l,#", |x| yes(s64(x[0]) > s64(x[1]))),
    row("setp.lt.u64", "p,l,l", "", |x| yes(x[0] < x[1])),
    row("setp.le.u64", "p,l,l", "", |x| yes(x[0] <= x[1])),
    row("setp.gt.u64", "p,l,l", "", |x| yes(x[0] > x[1])),
    row("setp.ge.u64", "p,l,l", "", |x| yes(x[0] >= x[1])),
];

#[test]
fn arithmetic() {
    check(ARITHMETIC);
}

#[test]
fn bits() {
    check(BITS);
}

#[test]
fn moves_and_widths() {
    check(MOVES);
}

#[test]
fn comparisons_and_predicates() {
    check(PREDICATES);
}
