//! f32 and f64.

use super::super::super::code::rows::{How, Source};
use super::super::super::count::Class;
use super::super::operands::{Decoding, Wrong};
use super::{Binary, Compute, Decoded, NOTHING, Pair, Ternary, Unary, found};

pub(super) fn decode(d: &mut Decoding<'_>, name: &str) -> Decoded {
    match name {
        "FMUL" if d.parts[1..] == ["RZ"] => {
            d.count(3)?;
            // With −0 added the sign of a product that is zero stays.
            let (to, a, b) = (d.destination(0, 1)?, d.float(1)?, d.float(2)?);
            let zero = Source { row: d.constants.number(1 << 31, 1)?, how: How::Plain };
            found(Compute::Ternary(Ternary::FusedZeroF, to, [a, b, zero]), Class::Float)
        }
        "FADD" | "FMUL" => {
            let f = match (name, &d.parts[1..]) {
                ("FADD", []) => Binary::AddF,
                ("FADD", ["FTZ"]) => Binary::AddFlushF,
                ("FADD", ["RZ"]) => Binary::AddZeroF,
                ("FMUL", []) => Binary::MultiplyF,
                ("FMUL", ["FTZ"]) => Binary::MultiplyFlushF,
                _ => return Err("not a rounding that this machine knows".to_owned()),
            };
            d.count(3)?;
            found(Compute::Binary(f, d.destination(0, 1)?, [d.float(1)?, d.float(2)?]), Class::Float)
        }
        "FFMA" => {
            let f = match &d.parts[1..] {
                [] => Ternary::FusedF,
                ["SAT"] => Ternary::FusedSaturateF,
                ["RM"] => Ternary::FusedDownF,
                ["RP"] => Ternary::FusedUpF,
                ["RZ"] => Ternary::FusedZeroF,
                _ => return Err("not a rounding that this machine knows".to_owned()),
            };
            d.count(4)?;
            found(Compute::Ternary(f, d.destination(0, 1)?, floats(d, 1)?), Class::Float)
        }
        "FMNMX" => {
            d.only(&["NAN"])?;
            d.count(4)?;
            let f = match (d.least(3)?, d.parts.len() > 1) {
                (true, false) => Binary::MinF,
                (false, false) => Binary::MaxF,
                (true, true) => Binary::MinNanF,
                (false, true) => Binary::MaxNanF,
            };
            found(Compute::Binary(f, d.destination(0, 1)?, [d.float(1)?, d.float(2)?]), Class::Float)
        }
        "FMNMX3" => {
            d.only(&[])?;
            d.count(5)?;
            let f = if d.least(4)? { Ternary::MinF } else { Ternary::MaxF };
            found(Compute::Ternary(f, d.destination(0, 1)?, floats(d, 1)?), Class::Float)
        }
        "FCHK" => {
            d.only(&[])?;
            d.count(3)?;
            found(Compute::Check(d.predicate_destination(0)?, [d.float(1)?, d.float(2)?]), Class::Special)
        }
        "MUFU" => {
            let f = match &d.parts[1..] {
                ["EX2"] => Unary::Exp2,
                ["RCP"] => Unary::Reciprocal,
                ["RSQ"] => Unary::ReciprocalSqrt,
                _ => return Err("not an approximation that this machine knows".to_owned()),
            };
            d.count(2)?;
            found(Compute::Unary(f, d.destination(0, 1)?, d.float(1)?), Class::Special)
        }
        "DADD" | "DMUL" | "DFMA" => {
            d.only(&[])?;
            let f = match name {
                "DADD" => Pair::AddF,
                "DMUL" => Pair::MultiplyF,
                _ => Pair::FusedF,
            };
            d.count(if f == Pair::FusedF { 4 } else { 3 })?;
            let to = d.destination(0, 2)?;
            let of = [d.double(1)?, d.double(2)?, if f == Pair::FusedF { d.double(3)? } else { NOTHING }];
            found(Compute::Pair(f, to, of), Class::Double)
        }
        _ => Ok(None),
    }
}

fn floats(d: &mut Decoding<'_>, at: usize) -> Wrong<[Source; 3]> {
    Ok([d.float(at)?, d.float(at + 1)?, d.float(at + 2)?])
}
