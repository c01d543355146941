//! From one kind of number to another.

use super::super::super::code::rows::{How, Source, ZERO};
use super::super::super::count::Class;
use super::super::operands::Decoding;
use super::{Binary, Compute, Decoded, NOTHING, Narrow, Pair, Unary, Widen, found, moved};

/// `-RZ` as half: adds nothing, whatever the sign of zero.
const NEGATIVE_ZERO: Source = Source { row: ZERO, how: How::NegateHalf(0) };

pub(super) fn decode(d: &mut Decoding<'_>, name: &str) -> Decoded {
    match name {
        "F2I" => to_integer(d),
        "I2F" | "I2FP" => from_integer(d),
        "F2F" => {
            d.count(2)?;
            match &d.parts[1..] {
                ["F16", "F32"] => {
                    found(Compute::Unary(Unary::ToHalf, d.destination(0, 1)?, d.float(1)?), Class::Convert)
                }
                ["F32", "F64"] => {
                    found(Compute::Narrow(Narrow::ToSingle, d.destination(0, 1)?, d.double(1)?), Class::Convert)
                }
                ["F64", "F32"] => {
                    found(Compute::Widen(Widen::FromSingle, d.destination(0, 2)?, d.float(1)?), Class::Convert)
                }
                _ => unknown(),
            }
        }
        "F2FP" => {
            d.count(3)?;
            // On sm_80 and sm_86 the format is left out.
            let f = match &d.parts[1..] {
                ["PACK_AB"] | ["F16", "F32", "PACK_AB"] => Binary::PackHalf,
                ["BF16", "PACK_AB"] | ["BF16", "F32", "PACK_AB"] => Binary::PackBf16,
                _ => return unknown(),
            };
            found(Compute::Binary(f, d.destination(0, 1)?, [d.float(1)?, d.float(2)?]), Class::Convert)
        }
        "FRND" => {
            d.count(2)?;
            match &d.parts[1..] {
                ["TRUNC"] => found(Compute::Unary(Unary::Truncate, d.destination(0, 1)?, d.float(1)?), Class::Convert),
                ["F64"] => {
                    let of = [d.double(1)?, NOTHING, NOTHING];
                    found(Compute::Pair(Pair::RoundF, d.destination(0, 2)?, of), Class::Convert)
                }
                _ => unknown(),
            }
        }
        "HADD2" => {
            d.only(&["F32"])?;
            d.count(3)?;
            if !d.has("F32") {
                return unknown();
            }
            let (to, a, b) = (d.destination(0, 1)?, d.half(1)?, d.half(2)?);
            let (f, row) = match (a, b) {
                (NEGATIVE_ZERO, Source { how: How::Half(n), row })
                | (Source { how: How::Half(n), row }, NEGATIVE_ZERO) => {
                    (if n == 0 { Unary::FromHalf } else { Unary::FromUpperHalf }, row)
                }
                _ => return found(Compute::Binary(Binary::AddF, to, [a, b]), Class::Convert),
            };
            found(Compute::Unary(f, to, Source { row, how: How::Plain }), Class::Convert)
        }
        // Two halves as a number: the first becomes the upper one.
        "HFMA2" => {
            d.only(&["MMA"])?;
            d.count(5)?;
            if [d.operand(1)?, d.operand(2)?] != ["-RZ", "RZ"] {
                return Err("products of halves are not known".to_owned());
            }
            let bits = d.half_number(3)? << 16 | d.half_number(4)?;
            let row = d.constants.number(u64::from(bits), 1)?;
            moved(d.destination(0, 1)?, Source { row, how: How::Plain }, 1)
        }
        _ => Ok(None),
    }
}

fn unknown() -> Decoded {
    Err("not a conversion that this machine knows".to_owned())
}

/// `.NTZ`: NaN is 0, as for f32 to 32 bits; else it is the least signed number.
fn to_integer(d: &mut Decoding<'_>) -> Decoded {
    d.count(2)?;
    match &d.parts[1..] {
        ["NTZ"] => found(Compute::Unary(Unary::ToS32Nearest, d.destination(0, 1)?, d.float(1)?), Class::Convert),
        ["TRUNC", "NTZ"] => found(Compute::Unary(Unary::ToS32, d.destination(0, 1)?, d.float(1)?), Class::Convert),
        ["U32", "TRUNC", "NTZ"] | ["FTZ", "U32", "TRUNC", "NTZ"] => {
            found(Compute::Unary(Unary::ToU32Flush, d.destination(0, 1)?, d.float(1)?), Class::Convert)
        }
        ["U64", "TRUNC"] => {
            found(Compute::Widen(Widen::SingleToU64, d.destination(0, 2)?, d.float(1)?), Class::Convert)
        }
        ["F64"] => found(Compute::Narrow(Narrow::ToS32Nearest, d.destination(0, 1)?, d.double(1)?), Class::Convert),
        ["F64", "TRUNC"] => found(Compute::Narrow(Narrow::ToS32, d.destination(0, 1)?, d.double(1)?), Class::Convert),
        ["S64", "F64", "TRUNC"] => {
            let of = [d.double(1)?, NOTHING, NOTHING];
            found(Compute::Pair(Pair::ToS64, d.destination(0, 2)?, of), Class::Convert)
        }
        _ => unknown(),
    }
}

fn from_integer(d: &mut Decoding<'_>) -> Decoded {
    d.count(2)?;
    let packed = d.parts[0] == "I2FP";
    let parts = if packed { d.parts[1..].strip_prefix(&["F32"]).unwrap_or(&["?"]) } else { &d.parts[1..] };
    let f = match parts {
        [] | ["S32"] => Unary::FromS32,
        ["U32"] => Unary::FromU32,
        ["U32", "RZ"] => Unary::FromU32Down,
        ["RP"] => Unary::FromS32Up,
        ["U32", "RP"] => Unary::FromU32Up,
        ["S16"] => Unary::FromS16,
        // Every one is a number of f32.
        ["U16"] | ["U16", "RZ"] => Unary::FromU16,
        ["S8"] => Unary::FromS8,
        ["U8"] => Unary::FromU8,
        ["F64"] => return found(Compute::Widen(Widen::FromS32, d.destination(0, 2)?, d.word(1)?), Class::Convert),
        ["F64", "S64"] | ["F64", "U64"] => {
            let f = if parts[1] == "S64" { Pair::FromS64 } else { Pair::FromU64 };
            let of = [d.long(1)?, NOTHING, NOTHING];
            return found(Compute::Pair(f, d.destination(0, 2)?, of), Class::Convert);
        }
        ["U64", "RP"] => {
            return found(Compute::Narrow(Narrow::SingleFromU64Up, d.destination(0, 1)?, d.long(1)?), Class::Convert);
        }
        _ => return unknown(),
    };
    found(Compute::Unary(f, d.destination(0, 1)?, d.word(1)?), Class::Convert)
}
