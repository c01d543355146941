//! Numbers with a point: one row per opcode that the shipped PTX has.

use qrun_emulator::isa::Approximation;

use crate::isa::{
    harness::Job,
    references::{
        add_towards_zero, d, double, f, float, flushed, fma_down, from_16_bits, half, i, l, larger, smaller,
        to_16_bits, truncated, u, wide, word, yes,
    },
    rows::{Judge, Row, check},
};

/// Exponent bits of the formats of 16 bits.
const F16: i32 = 5;
const BF16: i32 = 8;

const fn row(op: &'static str, form: &'static str, also: &'static str, of: fn(&[u64]) -> Option<u64>) -> Row {
    Row::new(op, form, also, of).judged(Judge::Number)
}

pub static ARITHMETIC: &[Row] = &[
    row("add.f32", "f,f,f", "f,f,#", |x| float(f(x[0]) + f(x[1]))),
    row("add.rn.f32", "f,f,f", "", |x| float(f(x[0]) + f(x[1]))),
    row("add.rz.f32", "f,f,f", "", |x| float(add_towards_zero(f(x[0]), f(x[1])))),
    row("add.rn.f64", "d,d,d", "", |x| double(d(x[0]) + d(x[1]))),
    row("sub.f32", "f,f,f", "", |x| float(f(x[0]) - f(x[1]))),
    row("mul.f32", "f,f,f", "f,f,#", |x| float(f(x[0]) * f(x[1]))),
    row("mul.rn.f32", "f,f,f", "", |x| float(f(x[0]) * f(x[1]))),
    row("mul.f64", "d,d,d", "d,d,#", |x| double(d(x[0]) * d(x[1]))),
    row("mul.rn.f64", "d,d,d", "", |x| double(d(x[0]) * d(x[1]))),
    row("fma.rn.f32", "f,f,f,f", "f,f,f,# f,f,#,f f,f,#,#", |x| float(f(x[0]).mul_add(f(x[1]), f(x[2])))),
    row("fma.rm.f32", "f,f,f,f", "", |x| float(fma_down(f(x[0]), f(x[1]), f(x[2])))),
    row("fma.rn.f64", "d,d,d,d", "d,d,#,d", |x| double(d(x[0]).mul_add(d(x[1]), d(x[2])))),
    row("div.rn.f32", "f,f,f", "f,f,#", |x| float(f(x[0]) / f(x[1]))),
    row("rcp.rn.f32", "f,f", "", |x| float(1.0 / f(x[0]))),
    row("sqrt.rn.f32", "f,f", "", |x| float(f(x[0]).sqrt())),
    row("abs.f32", "f,f", "", |x| Some(x[0] & 0x7FFF_FFFF)),
    row("neg.f32", "f,f", "", |x| Some(x[0] ^ 0x8000_0000)),
    row("neg.f64", "d,d", "", |x| Some(x[0] ^ 1 << 63)),
    row("max.f32", "f,f,f", "", |x| float(larger(f(x[0]), f(x[1])))),
    row("min.f32", "f,f,f", "", |x| float(smaller(f(x[0]), f(x[1])))),
];

pub static CONVERSIONS: &[Row] = &[
    row("cvt.f32.f16", "f,h", "", |x| float(from_16_bits(x[0], F16) as f32)),
    row("cvt.rn.f16.f32", "h,f", "", |x| half(to_16_bits(f(x[0]), F16))),
    // The first source is the upper half.
    row("cvt.rn.bf16x2.f32", "r,f,f", "", |x| Some(to_16_bits(f(x[0]), BF16) << 16 | to_16_bits(f(x[1]), BF16)))
        .judged(Judge::Bf16Pair),
    row("cvt.rn.f32.s16", "f,h", "", |x| float(f32::from(x[0] as i16))),
    row("cvt.rn.f32.s32", "f,r", "", |x| float(i(x[0]) as f32)),
    row("cvt.rn.f32.u32", "f,r", "", |x| float(u(x[0]) as f32)),
    row("cvt.rn.f64.s32", "d,r", "", |x| double(f64::from(i(x[0])))),
    row("cvt.rn.f64.s64", "d,l", "", |x| double(l(x[0]) as f64)),
    row("cvt.rn.f64.u64", "d,l", "", |x| double(x[0] as f64)),
    row("cvt.f64.f32", "d,f", "", |x| double(f64::from(f(x[0])))),
    row("cvt.rn.f32.f64", "f,d", "", |x| float(d(x[0]) as f32)),
    row("cvt.rni.f32.f32", "f,f", "", |x| float(f(x[0]).round_ties_even())),
    row("cvt.rni.f64.f64", "d,d", "", |x| double(d(x[0]).round_ties_even())),
    row("cvt.rzi.f32.f32", "f,f", "", |x| float(f(x[0]).trunc())),
    row("cvt.rzi.s32.f32", "r,f", "", |x| word(truncated(f64::from(f(x[0])), 32, false))),
    row("cvt.rzi.s32.f64", "r,d", "", |x| word(truncated(d(x[0]), 32, true))),
    row("cvt.rzi.s64.f64", "l,d", "", |x| wide(truncated(d(x[0]), 64, true))),
    // Between 0 and 1; what is not a number is +0. The sign of −0 is left open.
    row("cvt.sat.f32.f32", "f,f", "", |x| match f(x[0]) {
        v if v.is_nan() || v < 0.0 => float(0.0),
        0.0 => (x[0] == 0).then_some(0),
        v => float(v.min(1.0)),
    }),
];

/// Comparisons of what is no number are false, those with a `u` behind their name true.
pub static COMPARISONS: &[Row] = &[
    row("setp.eq.f32", "p,f,f", "p,f,#", |x| yes(f(x[0]) == f(x[1]))),
    row("setp.lt.f32", "p,f,f", "p,f,#", |x| yes(f(x[0]) < f(x[1]))),
    row("setp.le.f32", "p,f,f", "p,f,#", |x| yes(f(x[0]) <= f(x[1]))),
    row("setp.gt.f32", "p,f,f", "p,f,#", |x| yes(f(x[0]) > f(x[1]))),
    row("setp.ge.f32", "p,f,f", "p,f,#", |x| yes(f(x[0]) >= f(x[1]))),
    row("setp.neu.f32", "p,f,f", "p,f,#", |x| yes(unordered(x) || f(x[0]) != f(x[1]))),
    row("setp.ltu.f32", "p,f,f", "p,f,#", |x| yes(unordered(x) || f(x[0]) < f(x[1]))),
    row("setp.leu.f32", "p,f,f", "p,f,#", |x| yes(unordered(x) || f(x[0]) <= f(x[1]))),
    row("setp.gtu.f32", "p,f,f", "p,f,#", |x| yes(unordered(x) || f(x[0]) > f(x[1]))),
    row("setp.geu.f32", "p,f,f", "p,f,#", |x| yes(unordered(x) || f(x[0]) >= f(x[1]))),
    row("setp.nan.f32", "p,f,f", "", |x| yes(unordered(x))),
    row("setp.le.f64", "p,d,d", "", |x| yes(d(x[0]) <= d(x[1]))),
    row("setp.gtu.f64", "p,d,d", "", |x| yes(d(x[0]).is_nan() || d(x[1]).is_nan() || d(x[0]) > d(x[1]))),
];

fn unordered(x: &[u64]) -> bool {
    f(x[0]).is_nan() || f(x[1]).is_nan()
}

/// Denormals are zeros before and behind these.
pub static APPROXIMATIONS: &[Row] = &[
    row("ex2.approx.ftz.f32", "f,f", "", |x| float(flushed(f64::from(flushed(f(x[0]))).exp2() as f32)))
        .judged(Judge::Ulps(2)),
    row("rcp.approx.ftz.f32", "f,f", "", |x| float(flushed((1.0 / f64::from(flushed(f(x[0])))) as f32)))
        .judged(Judge::Ulps(1)),
    row("rsqrt.approx.ftz.f32", "f,f", "", |x| float((1.0 / f64::from(flushed(f(x[0]))).sqrt()) as f32))
        .judged(Judge::Ulps(2)),
];

#[test]
fn arithmetic() {
    check(ARITHMETIC);
}

#[test]
fn conversions() {
    check(CONVERSIONS);
}

#[test]
fn comparisons() {
    check(COMPARISONS);
}

/// Exact is the nearest number; low and high are other numbers, all within what the manual allows; 2⁰ is 1 in all.
#[test]
fn approximations() {
    let exact = |row: &Row| Row::new(row.op, row.form, row.also, row.of).judged(Judge::Number);
    let one = row("ex2.approx.ftz.f32", "f,f", "", |x| (flushed(f(x[0])) == 0.0).then_some(0x3F80_0000));
    for approximation in [Approximation::Exact, Approximation::Low, Approximation::High] {
        let differences = |row: &Row| row.check(&|job| Job { approximation, ..job });
        let wrong: Vec<String> = APPROXIMATIONS.iter().chain([&one]).flat_map(differences).collect();
        assert!(wrong.is_empty(), "{approximation:?}:\n{}", wrong.join("\n"));
        for row in APPROXIMATIONS {
            let same = differences(&exact(row)).is_empty();
            assert_eq!(same, approximation == Approximation::Exact, "{} {approximation:?}", row.op);
        }
    }
}
