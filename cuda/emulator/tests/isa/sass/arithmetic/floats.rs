//! f32, f64, halves, and conversions between them and integers.

use qrun_emulator::isa::Approximation;

use crate::isa::{
    references::{
        add_towards_zero, d, f, flushed, fma_down, from_16_bits, i, l, larger, smaller, to_16_bits, truncated, u,
    },
    sass::arithmetic::{Row, Wrong, cases, check, double, left, row, single, wide, word},
};

fn fma_up(a: f32, b: f32, c: f32) -> f32 {
    -fma_down(-a, b, -c)
}

fn fma_towards_zero(a: f32, b: f32, c: f32) -> f32 {
    let (below, above) = (fma_down(a, b, c), fma_up(a, b, c));
    match () {
        // Zero itself: the nearest one's sign.
        () if below == 0.0 && above == 0.0 => a.mul_add(b, c),
        () if below.abs() < above.abs() => below,
        () => above,
    }
}

/// Exact in f64 but for products that are below every f32.
fn product_towards_zero(a: f32, b: f32) -> f32 {
    let (exact, nearest) = (f64::from(a) * f64::from(b), a * b);
    match () {
        () if f64::from(nearest).abs() <= exact.abs() || nearest.is_nan() || exact.is_infinite() => nearest,
        () if nearest > 0.0 => nearest.next_down(),
        () => nearest.next_up(),
    }
}

/// A NaN where one of two operands is one.
fn nan_or(x: &[u64], otherwise: fn(f32, f32) -> f32) -> f32 {
    let (a, b) = (f(x[0]), f(x[1]));
    if a.is_nan() || b.is_nan() { f32::NAN } else { otherwise(a, b) }
}

fn fused(x: &[u64]) -> (f32, f32, f32) {
    (f(x[0]), f(x[1]), f(x[2]))
}

/// The least f32 that is not below.
fn above(value: i128) -> f32 {
    let nearest = value as f32;
    if (nearest as i128) < value { nearest.next_up() } else { nearest }
}

fn half(bits: u64) -> f32 {
    from_16_bits(bits & 0xFFFF, 5) as f32
}

static ARITHMETIC: &[Row] = &[
    row("FADD R20, R10, R12", "ff", "f", |x| single(f(x[0]) + f(x[1]))),
    row("FADD R20, -R10, R12", "ff", "f", |x| single(f(x[1]) - f(x[0]))),
    row("FADD R20, |R10|, -R12", "ff", "f", |x| single(f(x[0]).abs() - f(x[1]))),
    row("FADD R20, -|R10|, -R12", "ff", "f", |x| single(-f(x[0]).abs() - f(x[1]))),
    row("FADD R20, R10, -12582912", "f", "f", |x| single(f(x[0]) - 12_582_912.0)),
    row("FADD.FTZ R20, R10, R12", "ff", "f", |x| single(flushed(flushed(f(x[0])) + flushed(f(x[1]))))),
    row("FADD.FTZ R20, -R10, -RZ", "f", "f", |x| single(flushed(-flushed(f(x[0])) - 0.0))),
    row("FADD.RZ R20, R10, R12", "ff", "f", |x| single(add_towards_zero(f(x[0]), f(x[1])))),
    row("FMUL R20, R10, R12", "ff", "f", |x| single(f(x[0]) * f(x[1]))),
    row("FMUL R20, |R10|, 0.5", "f", "f", |x| single(f(x[0]).abs() * 0.5)),
    row("FMUL.RZ R20, R10, R12", "ff", "f", |x| single(product_towards_zero(f(x[0]), f(x[1])))),
    row("FMUL.FTZ R20, R10, R12", "ff", "f", |x| single(flushed(flushed(f(x[0])) * flushed(f(x[1]))))),
    row("FFMA R20, R10, R12, R14", "fff", "f", |x| single(f(x[0]).mul_add(f(x[1]), f(x[2])))),
    row("FFMA R20, R10, -R12, R14", "fff", "f", |x| single((-f(x[0])).mul_add(f(x[1]), f(x[2])))),
    row("FFMA R20, R10, R12, -R14", "fff", "f", |x| single(f(x[0]).mul_add(f(x[1]), -f(x[2])))),
    row("FFMA R20, R10, 1.5, -0.25", "f", "f", |x| single(f(x[0]).mul_add(1.5, -0.25))),
    row("FFMA.SAT R20, R10, R12, R14", "fff", "f", |x| {
        let value = f(x[0]).mul_add(f(x[1]), f(x[2]));
        single(if value > 0.0 { value.min(1.0) } else { 0.0 })
    }),
    row("FFMA.RM R20, R10, R12, R14", "fff", "f", |x| single(fma_down(fused(x).0, fused(x).1, fused(x).2))),
    row("FFMA.RP R20, R10, R12, R14", "fff", "f", |x| single(fma_up(fused(x).0, fused(x).1, fused(x).2))),
    row("FFMA.RZ R20, R10, R12, R14", "fff", "f", |x| single(fma_towards_zero(fused(x).0, fused(x).1, fused(x).2))),
    row("FMNMX R20, R10, R12, PT", "ff", "f", |x| single(smaller(f(x[0]), f(x[1])))),
    row("FMNMX R20, R10, R12, !PT", "ff", "f", |x| single(larger(f(x[0]), f(x[1])))),
    row("FMNMX R20, |R10|, |R12|, !PT", "ff", "f", |x| single(larger(f(x[0]).abs(), f(x[1]).abs()))),
    row("FMNMX.NAN R20, R10, R12, PT", "ff", "f", |x| single(nan_or(x, smaller))),
    row("FMNMX.NAN R20, R10, -7, !PT", "f", "f", |x| single(nan_or(&[x[0], (-7.0_f32).to_bits().into()], larger))),
    row("FMNMX3 R20, R10, R12, R14, PT", "fff", "f", |x| single(smaller(smaller(f(x[0]), f(x[1])), f(x[2])))),
    row("FMNMX3 R20, R10, |R12|, |R14|, !PT", "fff", "f", |x| {
        single(larger(larger(f(x[0]), f(x[1]).abs()), f(x[2]).abs()))
    }),
    row("DADD R20, R10, R12", "dd", "d", |x| double(d(x[0]) + d(x[1]))),
    row("DADD R20, R10, -R12", "dd", "d", |x| double(d(x[0]) - d(x[1]))),
    row("DADD R20, R10, 0.5", "d", "d", |x| double(d(x[0]) + 0.5)),
    row("DMUL R20, R10, R12", "dd", "d", |x| double(d(x[0]) * d(x[1]))),
    row("DFMA R20, R10, -R12, R14", "ddd", "d", |x| double((-d(x[0])).mul_add(d(x[1]), d(x[2])))),
    row("MUFU.EX2 R20, R10", "f", "f", |x| single(flushed(f64::from(flushed(f(x[0]))).exp2() as f32))),
    row("MUFU.RCP R20, R10", "f", "f", |x| single(flushed((1.0 / f64::from(flushed(f(x[0])))) as f32))),
    row("MUFU.RSQ R20, R10", "f", "f", |x| single((1.0 / f64::from(flushed(f(x[0]))).sqrt()) as f32)),
    row("MUFU.RSQ R20, -QNAN ", "f", "f", |_| single(f32::NAN)),
];

static CONVERSIONS: &[Row] = &[
    row("F2F.F16.F32 R20, R10", "f", "r", |x| word(to_16_bits(f(x[0]), 5).into())),
    row("F2F.F32.F64 R20, R10", "d", "f", |x| single(d(x[0]) as f32)),
    row("F2F.F64.F32 R20, R10", "f", "d", |x| double(f(x[0]).into())),
    row("F2FP.F16.F32.PACK_AB R20, R10, R12", "ff", "r", |x| {
        word((to_16_bits(f(x[0]), 5) << 16 | to_16_bits(f(x[1]), 5)).into())
    }),
    row("F2FP.PACK_AB R20, RZ, R10", "f", "r", |x| word(to_16_bits(f(x[0]), 5).into())),
    row("F2FP.BF16.F32.PACK_AB R20, R10, R12", "ff", "r", |x| {
        word((to_16_bits(f(x[0]), 8) << 16 | to_16_bits(f(x[1]), 8)).into())
    }),
    row("F2FP.BF16.PACK_AB R20, R10, RZ", "f", "r", |x| word((to_16_bits(f(x[0]), 8) << 16).into())),
    row("HADD2.F32 R20, -RZ, R10.H0_H0", "r", "f", |x| single(half(x[0]))),
    row("HADD2.F32 R20, -RZ, R10.H1_H1", "r", "f", |x| single(half(x[0] >> 16))),
    row("HADD2.F32 R20, R10.H0_H0, -RZ.H0_H0", "h", "f", |x| single(half(x[0]))),
    row("HADD2.F32 R20, R10.H1_H1, -RZ.H0_H0", "r", "f", |x| single(half(x[0] >> 16))),
    row("HADD2.F32 R20, R10.H0_H0, -R12.H0_H0", "hh", "f", |x| single(half(x[0]) - half(x[1]))),
    row("HFMA2.MMA R20, -RZ, RZ, 1.875, 0", "r", "r", |_| word(0x3F80_0000)),
    row("HFMA2 R20, -RZ, RZ, 0, 5.9604644775390625e-08", "r", "r", |_| word(1)),
    row("HFMA2 R20, -RZ, RZ, -0, -2", "r", "r", |_| word(0x8000_C000)),
    row("FRND.TRUNC R20, R10", "f", "f", |x| single(f(x[0]).trunc())),
    row("FRND.F64 R20, R10", "d", "d", |x| double(d(x[0]).round_ties_even())),
    row("F2I.NTZ R20, R10", "f", "r", |x| word(truncated(f64::from(f(x[0])).round_ties_even(), 32, false))),
    row("F2I.TRUNC.NTZ R20, R10", "f", "r", |x| word(truncated(f(x[0]).into(), 32, false))),
    row("F2I.U32.TRUNC.NTZ R20, R10", "f", "r", |x| word((f(x[0]) as i128).clamp(0, u32::MAX.into()))),
    row("F2I.FTZ.U32.TRUNC.NTZ R20, R10", "f", "r", |x| word((f(x[0]) as i128).clamp(0, u32::MAX.into()))),
    row("F2I.F64 R20, R10", "d", "r", |x| word(truncated(d(x[0]).round_ties_even(), 32, true))),
    row("F2I.F64.TRUNC R20, R10", "d", "r", |x| word(truncated(d(x[0]), 32, true))),
    row("F2I.S64.F64.TRUNC R20, R10", "d", "l", |x| wide(truncated(d(x[0]), 64, true))),
    row("F2I.U64.TRUNC R20, R10", "f", "l", |x| match f(x[0]) {
        value if value.is_nan() => wide(1 << 63),
        value => wide((value as i128).clamp(0, u64::MAX.into())),
    }),
    row("I2F R20, R10", "r", "f", |x| single(i(x[0]) as f32)),
    row("I2FP.F32.S32 R20, R10", "r", "f", |x| single(i(x[0]) as f32)),
    row("I2F.U32 R20, R10", "r", "f", |x| single(u(x[0]) as f32)),
    row("I2FP.F32.U32 R20, R10", "r", "f", |x| single(u(x[0]) as f32)),
    row("I2F.RP R20, R10", "r", "f", |x| single(above(i(x[0]).into()))),
    row("I2F.U32.RP R20, R10", "r", "f", |x| single(above(u(x[0]).into()))),
    row("I2F.U64.RP R20, R10", "l", "f", |x| single(above(x[0].into()))),
    row("I2F.S16 R20, R10", "r", "f", |x| single((x[0] as i16).into())),
    row("I2F.U16 R20, R10", "r", "f", |x| single((x[0] as u16).into())),
    row("I2F.U16.RZ R20, R10", "r", "f", |x| single((x[0] as u16).into())),
    row("I2FP.F32.U32.RZ R20, R10", "r", "f", |x| single(-above(-i128::from(u(x[0]))))),
    row("I2F.S8 R20, R10", "r", "f", |x| single((x[0] as i8).into())),
    row("I2F.S8 R20, R10.B2", "r", "f", |x| single(((x[0] >> 16) as i8).into())),
    row("I2F.U8 R20, R10.B3", "r", "f", |x| single(((x[0] >> 24) as u8).into())),
    row("I2F.F64 R20, R10", "r", "d", |x| double(i(x[0]).into())),
    row("I2F.F64.S64 R20, R10", "l", "d", |x| double(l(x[0]) as f64)),
    row("I2F.F64.U64 R20, R10", "l", "d", |x| double(x[0] as f64)),
];

#[test]
fn arithmetic() {
    check(ARITHMETIC);
}

#[test]
fn conversions() {
    check(CONVERSIONS);
}

const APPROXIMATIONS: [Approximation; 3] = [Approximation::Exact, Approximation::Low, Approximation::High];

/// What the compiler makes of an approximation is exact, however inexact that is.
fn refined(lines: &str, from: &str, to: &str, expected: impl Fn(&[u64], u128) -> Option<u128>) {
    let mut wrong = Wrong::default();
    for how in APPROXIMATIONS {
        for cases in cases(from).chunks(32) {
            let found = left(lines, from, to, cases, how).unwrap_or_else(|why| panic!("{why}"));
            for (case, found) in cases.iter().zip(found) {
                let expected = expected(case, found >> 64);
                if expected.is_some_and(|expected| expected != found & u128::from(u64::MAX)) {
                    wrong.0.push(format!("{how:?} {case:x?}: expected {expected:x?}, found {found:#x}"));
                }
            }
        }
    }
    wrong.0.truncate(8);
    wrong.none();
}

/// Division where `FCHK` does not ask for the slow one; it does not where all is near 1.
#[test]
fn division_is_exact() {
    let lines = "MUFU.RCP R22, R12\nFFMA R23, R22, -R12, 1\nFFMA R22, R22, R23, R22\nFFMA R23, R10, R22, RZ\n\
        FFMA R24, R23, -R12, R10\nFFMA R20, R22, R24, R23\nFCHK P4, R10, R12";
    refined(lines, "ff", "fp", |x, slow| {
        let near = |x: u64| (0x3000_0000..0x4F00_0000).contains(&(x & 0x7FFF_FFFF));
        assert!(slow == 0 || !(near(x[0]) && near(x[1])), "{x:x?} need no slow division");
        if slow == 1 { None } else { single(f(x[0]) / f(x[1])) }
    });
}

/// The square root of what the compiler does not send elsewhere.
#[test]
fn square_root_is_exact() {
    let lines = "MUFU.RSQ R22, R10\nIADD3 R25, R10, -0xd000000, RZ\nISETP.GT.U32.AND P4, PT, R25, 0x727fffff, PT\n\
        FMUL.FTZ R23, R10, R22\nFMUL.FTZ R22, R22, 0.5\nFFMA R24, -R23, R23, R10\nFFMA R20, R24, R22, R23";
    refined(lines, "f", "fp", |x, slow| if slow == 1 { None } else { single(f(x[0]).sqrt()) });
}

/// Unsigned division by a reciprocal.
#[test]
fn integer_division_is_exact() {
    let lines = "I2F.U32.RP R22, R12\nMUFU.RCP R22, R22\nIADD3 R23, R22, 0xffffffe, RZ\n\
        F2I.FTZ.U32.TRUNC.NTZ R25, R23\nIMAD.MOV.U32 R24, RZ, RZ, RZ\nIADD3 R26, RZ, -R25, RZ\n\
        IMAD R26, R26, R12, RZ\nIMAD.HI.U32 R25, R25, R26, R24\nIMAD.HI.U32 R20, R25, R10, RZ\n\
        IMAD.MOV R27, RZ, RZ, -R20\nIMAD R27, R12, R27, R10\nISETP.GE.U32.AND P0, PT, R27, R12, PT\n\
        @P0 IMAD.IADD R27, R27, 0x1, -R12\n@P0 IADD3 R20, R20, 0x1, RZ\n\
        ISETP.GE.U32.AND P0, PT, R27, R12, PT\n@P0 IADD3 R20, R20, 0x1, RZ";
    refined(lines, "rr", "r", |x, _| u(x[0]).checked_div(u(x[1])).map(u128::from));
}
