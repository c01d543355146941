//! A row per instruction: its names, the widths of its operands, what it decodes to, what it counts as.
//!
//! Loads, stores, comparisons, tensor cores and what else has brackets or braces are read by `ptx/decode.rs`.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::code::{Binary, BinaryLong, Logic, Narrow, Shift, Ternary, TernaryLong, Unary, UnaryLong, Widen, WidenTwo};
use super::count::Class;

/// What the operands of an instruction decode to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Form {
    Unary(Unary),
    Binary(Binary),
    Ternary(Ternary),
    Insert,
    UnaryLong(UnaryLong),
    BinaryLong(BinaryLong),
    TernaryLong(TernaryLong),
    ShiftLong(Shift),
    Widen(Widen),
    WidenTwo(WidenTwo),
    Narrow(Narrow),
    Select,
    SelectLong,
    Logic(Logic),
}

/// Names, operands (the first is written: `h` 16, `w` 32, `l` 64 bits, `p` a predicate), form, class.
type Row = (&'static str, &'static str, Form, Class);

use Class::{Convert, Divide, Dot, Double, Float, Integer, Move, Predicate, Special, Wide};

const TABLE: &[Row] = &[
    // Words.
    ("add.s32 add.u32", "www", Form::Binary(Binary::Add), Integer),
    ("sub.s32 sub.u32", "www", Form::Binary(Binary::Subtract), Integer),
    ("mul.lo.s32 mul.lo.u32", "www", Form::Binary(Binary::Multiply), Integer),
    ("mad.lo.s32 mad.lo.u32", "wwww", Form::Ternary(Ternary::Mad), Integer),
    ("mul.wide.u16", "whh", Form::Binary(Binary::Product16), Integer),
    ("div.s32", "www", Form::Binary(Binary::DivideS), Divide),
    ("div.u32", "www", Form::Binary(Binary::DivideU), Divide),
    ("rem.s32", "www", Form::Binary(Binary::RemainderS), Divide),
    ("rem.u32", "www", Form::Binary(Binary::RemainderU), Divide),
    ("min.s32", "www", Form::Binary(Binary::MinS), Integer),
    ("max.s32", "www", Form::Binary(Binary::MaxS), Integer),
    ("min.u32", "www", Form::Binary(Binary::MinU), Integer),
    ("max.u32", "www", Form::Binary(Binary::MaxU), Integer),
    ("and.b32", "www", Form::Binary(Binary::And), Integer),
    ("or.b32", "www", Form::Binary(Binary::Or), Integer),
    ("xor.b32", "www", Form::Binary(Binary::Xor), Integer),
    ("not.b32", "ww", Form::Unary(Unary::Not), Integer),
    ("neg.s32", "ww", Form::Unary(Unary::Negate), Integer),
    ("shl.b32", "www", Form::Binary(Binary::Left), Integer),
    ("shr.u32 shr.b32", "www", Form::Binary(Binary::RightU), Integer),
    ("shr.s32", "www", Form::Binary(Binary::RightS), Integer),
    ("shf.l.wrap.b32", "wwww", Form::Ternary(Ternary::FunnelLeftWrap), Integer),
    ("bfi.b32", "wwwww", Form::Insert, Integer),
    ("prmt.b32", "wwww", Form::Ternary(Ternary::Permute), Integer),
    ("dp4a.s32.s32", "wwww", Form::Ternary(Ternary::Dot4), Dot),
    // Halves.
    ("and.b16", "hhh", Form::Binary(Binary::And), Integer),
    ("or.b16", "hhh", Form::Binary(Binary::Or), Integer),
    ("xor.b16", "hhh", Form::Binary(Binary::Xor), Integer),
    ("not.b16", "hh", Form::Unary(Unary::Not16), Integer),
    ("add.s16 add.u16", "hhh", Form::Binary(Binary::Add16), Integer),
    ("shl.b16", "hhw", Form::Binary(Binary::Left16), Integer),
    ("shr.u16 shr.b16", "hhw", Form::Binary(Binary::RightU16), Integer),
    ("shr.s16", "hhw", Form::Binary(Binary::RightS16), Integer),
    // 64 bits.
    ("add.s64 add.u64", "lll", Form::BinaryLong(BinaryLong::Add), Wide),
    ("sub.s64 sub.u64", "lll", Form::BinaryLong(BinaryLong::Subtract), Wide),
    ("mul.lo.s64 mul.lo.u64", "lll", Form::BinaryLong(BinaryLong::Multiply), Wide),
    ("mul.hi.u64", "lll", Form::BinaryLong(BinaryLong::MultiplyHigh), Wide),
    ("mul.wide.s32", "lww", Form::WidenTwo(WidenTwo::ProductS), Wide),
    ("mul.wide.u32", "lww", Form::WidenTwo(WidenTwo::ProductU), Wide),
    ("rem.u64", "lll", Form::BinaryLong(BinaryLong::RemainderU), Divide),
    ("max.u64", "lll", Form::BinaryLong(BinaryLong::MaxU), Wide),
    ("and.b64", "lll", Form::BinaryLong(BinaryLong::And), Wide),
    ("or.b64", "lll", Form::BinaryLong(BinaryLong::Or), Wide),
    ("xor.b64", "lll", Form::BinaryLong(BinaryLong::Xor), Wide),
    ("not.b64", "ll", Form::UnaryLong(UnaryLong::Not), Wide),
    ("neg.s64", "ll", Form::UnaryLong(UnaryLong::Negate), Wide),
    ("shl.b64", "llw", Form::ShiftLong(Shift::Left), Wide),
    ("shr.u64 shr.b64", "llw", Form::ShiftLong(Shift::RightU), Wide),
    ("shr.s64", "llw", Form::ShiftLong(Shift::RightS), Wide),
    // f32.
    ("add.f32 add.rn.f32", "www", Form::Binary(Binary::AddF), Float),
    ("sub.f32 sub.rn.f32", "www", Form::Binary(Binary::SubtractF), Float),
    ("mul.f32 mul.rn.f32", "www", Form::Binary(Binary::MultiplyF), Float),
    ("add.rz.f32", "www", Form::Binary(Binary::AddZeroF), Float),
    ("fma.rn.f32", "wwww", Form::Ternary(Ternary::FusedF), Float),
    ("fma.rm.f32", "wwww", Form::Ternary(Ternary::FusedDownF), Float),
    ("min.f32", "www", Form::Binary(Binary::MinF), Float),
    ("max.f32", "www", Form::Binary(Binary::MaxF), Float),
    ("abs.f32", "ww", Form::Unary(Unary::AbsoluteF), Float),
    ("neg.f32", "ww", Form::Unary(Unary::NegateF), Float),
    ("div.rn.f32", "www", Form::Binary(Binary::DivideF), Special),
    ("sqrt.rn.f32", "ww", Form::Unary(Unary::Sqrt), Special),
    ("rcp.rn.f32", "ww", Form::Unary(Unary::ReciprocalExact), Special),
    ("ex2.approx.ftz.f32", "ww", Form::Unary(Unary::Exp2), Special),
    ("rcp.approx.ftz.f32", "ww", Form::Unary(Unary::Reciprocal), Special),
    ("rsqrt.approx.ftz.f32", "ww", Form::Unary(Unary::ReciprocalSqrt), Special),
    // f64.
    ("add.f64 add.rn.f64", "lll", Form::BinaryLong(BinaryLong::AddF), Double),
    ("mul.f64 mul.rn.f64", "lll", Form::BinaryLong(BinaryLong::MultiplyF), Double),
    ("fma.rn.f64", "llll", Form::TernaryLong(TernaryLong::FusedF), Double),
    ("neg.f64", "ll", Form::UnaryLong(UnaryLong::NegateF), Double),
    // Conversions.
    ("cvt.u16.u32", "hw", Form::Unary(Unary::Low16), Convert),
    ("cvt.u32.u16", "wh", Form::Unary(Unary::Move), Convert),
    ("cvt.s16.s8", "hh", Form::Unary(Unary::Signed8To16), Convert),
    ("cvt.s32.s8", "ww", Form::Unary(Unary::Signed8To32), Convert),
    ("cvt.u64.u32", "lw", Form::Widen(Widen::Unsigned), Convert),
    ("cvt.s64.s32", "lw", Form::Widen(Widen::Signed), Convert),
    ("cvt.u32.u64", "wl", Form::Narrow(Narrow::Low), Convert),
    ("cvt.rn.f32.s32", "ww", Form::Unary(Unary::FromS32), Convert),
    ("cvt.rn.f32.u32", "ww", Form::Unary(Unary::FromU32), Convert),
    ("cvt.rn.f32.s16", "wh", Form::Unary(Unary::FromS16), Convert),
    ("cvt.rzi.s32.f32", "ww", Form::Unary(Unary::ToS32), Convert),
    ("cvt.rni.f32.f32", "ww", Form::Unary(Unary::RoundF), Convert),
    ("cvt.rzi.f32.f32", "ww", Form::Unary(Unary::TruncateF), Convert),
    ("cvt.sat.f32.f32", "ww", Form::Unary(Unary::SaturateF), Convert),
    ("cvt.f32.f16", "wh", Form::Unary(Unary::FromHalf), Convert),
    ("cvt.rn.f16.f32", "hw", Form::Unary(Unary::ToHalf), Convert),
    ("cvt.rn.bf16x2.f32", "www", Form::Binary(Binary::PackBf16), Convert),
    ("cvt.f64.f32", "lw", Form::Widen(Widen::FloatToDouble), Convert),
    ("cvt.rn.f64.s32", "lw", Form::Widen(Widen::DoubleFromS32), Convert),
    ("cvt.rn.f64.s64", "ll", Form::UnaryLong(UnaryLong::FromS64), Convert),
    ("cvt.rn.f64.u64", "ll", Form::UnaryLong(UnaryLong::FromU64), Convert),
    ("cvt.rni.f64.f64", "ll", Form::UnaryLong(UnaryLong::RoundF), Convert),
    ("cvt.rzi.s64.f64", "ll", Form::UnaryLong(UnaryLong::ToS64), Convert),
    ("cvt.rzi.s32.f64", "wl", Form::Narrow(Narrow::DoubleToS32), Convert),
    ("cvt.rn.f32.f64", "wl", Form::Narrow(Narrow::DoubleToFloat), Convert),
    // Moves.
    ("mov.u16 mov.b16 mov.s16", "hh", Form::Unary(Unary::Move), Move),
    ("mov.u32 mov.b32 mov.s32 mov.f32", "ww", Form::Unary(Unary::Move), Move),
    ("mov.u64 mov.b64 mov.s64 mov.f64 cvta.to.global.u64", "ll", Form::UnaryLong(UnaryLong::Move), Move),
    ("selp.b32 selp.u32 selp.s32 selp.f32", "wwwp", Form::Select, Move),
    ("selp.b16 selp.u16 selp.s16", "hhhp", Form::Select, Move),
    ("selp.b64 selp.u64 selp.s64 selp.f64", "lllp", Form::SelectLong, Move),
    // Predicates.
    ("mov.pred", "pp", Form::Logic(Logic::Move), Predicate),
    ("not.pred", "pp", Form::Logic(Logic::Not), Predicate),
    ("and.pred", "ppp", Form::Logic(Logic::And), Predicate),
    ("or.pred", "ppp", Form::Logic(Logic::Or), Predicate),
    ("xor.pred", "ppp", Form::Logic(Logic::Xor), Predicate),
];

/// The row of an instruction, or None.
pub(super) fn find(name: &str) -> Option<&'static Row> {
    static BY_NAME: OnceLock<HashMap<&'static str, &'static Row>> = OnceLock::new();
    let by_name =
        BY_NAME.get_or_init(|| TABLE.iter().flat_map(|row| row.0.split(' ').map(move |n| (n, row))).collect());
    by_name.get(name).copied()
}
