//! Comparisons, selection, and the logic of predicates.

use super::super::super::code::rows::{Condition, TRUE};
use super::super::super::code::{Kind, Logic, Test};
use super::super::super::count::Class;
use super::super::operands::{Decoding, Wrong};
use super::integers::simple;
use super::{Compute, Decoded, found};

pub(super) fn decode(d: &mut Decoding<'_>, name: &str) -> Decoded {
    match name {
        "ISETP" => {
            let kind = match (d.has("S64"), d.has("U64"), d.has("U32")) {
                (true, false, false) => Kind::S64,
                (false, true, false) => Kind::U64,
                (false, false, true) => Kind::U32,
                (false, false, false) => Kind::S32,
                _ => return Err("two kinds of numbers".to_owned()),
            };
            compare(d, kind)
        }
        "FSETP" => compare(d, Kind::F32),
        "DSETP" => compare(d, Kind::F64),
        "SEL" | "FSEL" => {
            d.only(if name == "SEL" { &["64"] } else { &[] })?;
            d.count(4)?;
            let rows = if d.has("64") { 2 } else { 1 };
            let to = d.destination(0, rows)?;
            let of = match (name, rows) {
                ("FSEL", _) => [d.float(1)?, d.float(2)?],
                (_, 2) => [d.long(1)?, d.long(2)?],
                _ => [d.word(1)?, d.word(2)?],
            };
            let by = simple(d.condition(3)?);
            found(Compute::Select { d: to, of, by, rows: rows as u8 }, Class::Move)
        }
        "PLOP3" => {
            d.only(&["LUT"])?;
            d.count(7)?;
            let to = [d.predicate_destination(0)?, d.predicate_destination(1)?];
            let of = [d.condition(2)?, d.condition(3)?, d.condition(4)?].map(simple);
            let tables = [d.known(5)? as u8, d.known(6)? as u8];
            found(Compute::Tables { d: to, of, tables }, Class::Predicate)
        }
        "P2R" => {
            d.only(&[])?;
            d.count(4)?;
            let mask = mask(d, 1, 3)?;
            reads(d, mask);
            found(Compute::FromPredicates { d: d.destination(0, 1)?, a: d.word(2)?, mask }, Class::Predicate)
        }
        "R2P" => {
            d.only(&[])?;
            d.count(3)?;
            let mask = mask(d, 0, 2)?;
            for row in 0..TRUE {
                if mask >> row & 1 != 0 {
                    d.uses.writes.push(super::super::Uses::PREDICATES + row);
                }
            }
            found(Compute::ToPredicates { a: d.word(1)?, mask }, Class::Predicate)
        }
        _ => Ok(None),
    }
}

/// `PR` and the mask of its predicates.
fn mask(d: &Decoding<'_>, predicates: usize, at: usize) -> Wrong<u8> {
    if d.operand(predicates)? != "PR" {
        return Err(format!("{} is not PR", d.operand(predicates)?));
    }
    u8::try_from(d.known(at)?)
        .ok()
        .filter(|mask| *mask < 0x80)
        .ok_or_else(|| "a mask of P0 – P6 is expected".to_owned())
}

fn reads(d: &mut Decoding<'_>, mask: u8) {
    for row in 0..TRUE {
        if mask >> row & 1 != 0 {
            d.uses.reads.push(super::super::Uses::PREDICATES + row);
        }
    }
}

fn compare(d: &mut Decoding<'_>, kind: Kind) -> Decoded {
    let parts = d.parts[1..].to_vec();
    let (mut test, mut with, mut flush, mut extended) = (None, None, false, false);
    let float = matches!(kind, Kind::F32 | Kind::F64);
    for part in parts {
        match part {
            "EQ" => test = Some(Test::Eq),
            "NE" => test = Some(Test::Ne),
            "LT" => test = Some(Test::Lt),
            "LE" => test = Some(Test::Le),
            "GT" => test = Some(Test::Gt),
            "GE" => test = Some(Test::Ge),
            "EQU" if float => test = Some(Test::EqU),
            "NEU" if float => test = Some(Test::NeU),
            "LTU" if float => test = Some(Test::LtU),
            "LEU" if float => test = Some(Test::LeU),
            "GTU" if float => test = Some(Test::GtU),
            "GEU" if float => test = Some(Test::GeU),
            "NAN" if float => test = Some(Test::Nan),
            "NUM" if float => test = Some(Test::Num),
            "AND" => with = Some(Logic::And),
            "OR" => with = Some(Logic::Or),
            "XOR" => with = Some(Logic::Xor),
            "FTZ" if kind == Kind::F32 => flush = true,
            "EX" if matches!(kind, Kind::S32 | Kind::U32) => extended = true,
            "U32" | "S64" | "U64" if !float => (),
            _ => return Err(format!(".{part} is not known here")),
        }
    }
    let (Some(test), Some(with)) = (test, with) else { return Err("it has no test or no logic".to_owned()) };
    d.count(if extended { 6 } else { 5 })?;
    let to = [d.predicate_destination(0)?, d.predicate_destination(1)?];
    let of = match kind {
        Kind::F32 => [d.float(2)?, d.float(3)?],
        Kind::F64 => [d.double(2)?, d.double(3)?],
        Kind::S64 | Kind::U64 => [d.long(2)?, d.long(3)?],
        _ => [d.word(2)?, d.word(3)?],
    };
    let condition: Condition = simple(d.condition(4)?);
    let low = if extended { Some(d.condition(5)?) } else { None };
    found(Compute::Compare { test, kind, flush, d: to, of, with: (with, condition), low }, Class::Predicate)
}
