//! Integers and bits.

use super::super::super::code::Shift;
use super::super::super::code::rows::{BIN_PREDICATE, Condition, How, Source};
use super::super::super::count::Class;
use super::super::operands::{Decoding, Wrong};
use super::{Binary, Compute, Decoded, NEVER, NOTHING, Pair, Scale, Ternary, Unary, Wide, found, moved};

pub(super) fn decode(d: &mut Decoding<'_>, name: &str) -> Decoded {
    match name {
        "MOV" => {
            d.only(&["64"])?;
            d.count(2)?;
            let (rows, long) = if d.has("64") { (2, true) } else { (1, false) };
            let to = d.destination(0, rows)?;
            let a = if long { d.long(1)? } else { d.word(1)? };
            moved(to, a, rows as u8)
        }
        "CS2R" => {
            d.only(&[])?;
            d.count(2)?;
            match d.operand(1)? {
                "SRZ" => moved(d.destination(0, 2)?, NOTHING, 2),
                other => Err(format!("{other} is not a special register that this machine knows")),
            }
        }
        "R2UR" => {
            d.only(&[])?;
            d.count(2)?;
            found(Compute::First(d.destination(0, 1)?, d.word(1)?), Class::Move)
        }
        "IADD3" if d.has("64") => {
            // Its carries are not known.
            d.only(&["64"])?;
            let (to, carries, at) = sum_destinations(d, 2)?;
            d.count(at + 3)?;
            if carries != [BIN_PREDICATE; 2] {
                return Err("carries of 64 bits are not known".to_owned());
            }
            found(Compute::Pair(Pair::Add, to, [d.long(at)?, d.long(at + 1)?, d.long(at + 2)?]), Class::Wide)
        }
        "IADD3" => sum(d),
        "IADD" => {
            d.only(&["64"])?;
            d.count(3)?;
            if !d.has("64") {
                return Ok(None);
            }
            let to = d.destination(0, 2)?;
            found(Compute::Pair(Pair::Add, to, [d.long(1)?, d.long(2)?, NOTHING]), Class::Wide)
        }
        "VIADD" => {
            d.only(&[])?;
            d.count(3)?;
            found(Compute::Binary(Binary::Add, d.destination(0, 1)?, [d.word(1)?, d.word(2)?]), Class::Integer)
        }
        "IMAD" => product(d),
        "IDP" => {
            d.only(&["4A", "S8"])?;
            d.count(4)?;
            if d.parts != ["IDP", "4A", "S8", "S8"] {
                return Err("expected signed bytes in both sources".to_owned());
            }
            found(Compute::Ternary(Ternary::Dot4, d.destination(0, 1)?, words(d, 1)?), Class::Dot)
        }
        "LEA" => scale(d),
        "LOP3" => logic(d),
        "SHF" => shift(d),
        "PRMT" => {
            d.only(&[])?;
            d.count(4)?;
            permute(d)
        }
        "IABS" | "POPC" | "FLO" => {
            let (f, parts): (_, &[&str]) = match name {
                "IABS" => (Unary::Absolute, &[]),
                "POPC" => (Unary::Ones, &[]),
                _ => (Unary::Leading, &["U32"]),
            };
            d.only(parts)?;
            d.count(2)?;
            if d.parts.len() != parts.len() + 1 {
                return Err("signed numbers are not known here".to_owned());
            }
            found(Compute::Unary(f, d.destination(0, 1)?, d.word(1)?), Class::Integer)
        }
        "IMNMX" | "VIMNMX" | "VIMNMX3" | "VIADDMNMX" => extremum(d, name),
        _ => Ok(None),
    }
}

/// A source that a known selector does not ask for is not read.
fn permute(d: &mut Decoding<'_>) -> Decoded {
    let to = d.destination(0, 1)?;
    let mut of = words(d, 1)?;
    let Ok(selector) = d.known(2) else { return found(Compute::Ternary(Ternary::Permute, to, of), Class::Integer) };
    // By byte of the result: whether it comes from the third source.
    let from_third: [bool; 4] = std::array::from_fn(|byte| selector >> (4 * byte) & 4 != 0);
    // Bytes come to the lower half, and the upper one stays, a value or not: nobody asks for that.
    let stays = selector >> 8 & 0xFF == 0x76 && of[2].row == to;
    if stays && from_third == [false, false, true, true] {
        return found(Compute::Ternary(Ternary::PermuteLow, to, of), Class::Integer);
    }
    for (source, third) in [(0, false), (2, true)] {
        if !from_third.contains(&third) {
            of[source] = NOTHING;
        }
    }
    found(Compute::Ternary(Ternary::Permute, to, of), Class::Integer)
}

/// Three sources from a place on.
fn words(d: &mut Decoding<'_>, at: usize) -> Wrong<[Source; 3]> {
    Ok([d.word(at)?, d.word(at + 1)?, d.word(at + 2)?])
}

/// The result and up to two carries; where the sources begin.
fn sum_destinations(d: &mut Decoding<'_>, rows: u16) -> Wrong<(u16, [u16; 2], usize)> {
    let to = d.destination(0, rows)?;
    let (mut carries, mut at) = ([BIN_PREDICATE; 2], 1);
    while at < 3 && d.is_predicate(at) {
        carries[at - 1] = d.predicate_destination(at)?;
        at += 1;
    }
    Ok((to, carries, at))
}

fn sum(d: &mut Decoding<'_>) -> Decoded {
    d.only(&["X"])?;
    let extended = d.has("X");
    let (to, carries, at) = sum_destinations(d, 1)?;
    d.count(at + if extended { 5 } else { 3 })?;
    let mut of = words(d, at)?;
    let plus = if extended { [d.condition(at + 3)?, d.condition(at + 4)?].map(simple) } else { [NEVER; 2] };
    if extended && of.iter().any(|s| s.how == How::Negate) {
        return Err("expected ~, not -, beside a carry".to_owned());
    }
    // A zero goes last.
    of.sort_by_key(|s| *s == NOTHING);
    if carries == [BIN_PREDICATE; 2] && !extended {
        return match of {
            [a, b, NOTHING] => found(Compute::Binary(Binary::Add, to, [a, b]), Class::Integer),
            _ => found(Compute::Ternary(Ternary::Add, to, of), Class::Integer),
        };
    }
    if !of.contains(&NOTHING) && carries[1] == BIN_PREDICATE && carries[0] != BIN_PREDICATE {
        return Err("one carry of three numbers is not known".to_owned());
    }
    // With its carry -x is ~x + 1.
    let mut number = 0;
    for source in of.iter_mut().filter(|s| s.how == How::Negate) {
        (source.how, number) = (How::Not, number + 1);
    }
    found(Compute::Sum { d: to, carries, of, number, plus }, Class::Integer)
}

fn product(d: &mut Decoding<'_>) -> Decoded {
    if d.has("WIDE") || d.has("HI") {
        d.only(&["WIDE", "HI", "U32", "X"])?;
        let form = match (d.has("HI"), d.has("U32")) {
            (false, false) => Wide::Signed,
            (false, true) => Wide::Unsigned,
            (true, true) => Wide::High,
            (true, false) => return Err("the upper word of a signed product is not known".to_owned()),
        };
        let to = d.destination(0, if form == Wide::High { 1 } else { 2 })?;
        let has_carry = d.is_predicate(1);
        let carry = if has_carry { d.predicate_destination(1)? } else { BIN_PREDICATE };
        let at = if has_carry { 2 } else { 1 };
        d.count(at + if d.has("X") { 4 } else { 3 })?;
        let of = [d.word(at)?, d.word(at + 1)?, d.long(at + 2)?];
        let plus = if d.has("X") { simple(d.condition(at + 3)?) } else { NEVER };
        if of[2].how != How::Plain {
            return Err("modifiers of the third source are not known here".to_owned());
        }
        if form == Wide::Signed && (carry != BIN_PREDICATE || plus != NEVER) {
            return Err("carries of a signed product are not known".to_owned());
        }
        return found(Compute::Wide { form, d: to, carry, of, plus }, Class::Wide);
    }
    // MOV, SHL and IADD say what the compiler uses it for.
    d.only(&["MOV", "SHL", "IADD", "U32", "X"])?;
    d.count(if d.has("X") { 5 } else { 4 })?;
    let to = d.destination(0, 1)?;
    let of = words(d, 1)?;
    let [a, b, c] = of;
    let factor = d.known(2).map_or(0, |factor| factor as u32);
    if d.has("X") {
        let plus = [simple(d.condition(4)?), NEVER];
        let first = match () {
            () if a == NOTHING || b == NOTHING => NOTHING,
            () if factor == 1 => a,
            () => return Err("a product with a carry is not known".to_owned()),
        };
        let of = [first, c, NOTHING];
        return found(Compute::Sum { d: to, carries: [BIN_PREDICATE; 2], of, number: 0, plus }, Class::Integer);
    }
    if a == NOTHING || b == NOTHING {
        return moved(to, c, 1);
    }
    match factor.count_ones() {
        1 if factor == 1 => found(Compute::Binary(Binary::Add, to, [a, c]), Class::Integer),
        1 if c == NOTHING => found(Compute::Shift(Shift::Left, to, a, factor.trailing_zeros() as u8), Class::Integer),
        _ if c == NOTHING => found(Compute::Binary(Binary::Multiply, to, [a, b]), Class::Integer),
        _ => found(Compute::Ternary(Ternary::Mad, to, of), Class::Integer),
    }
}

fn scale(d: &mut Decoding<'_>) -> Decoded {
    d.only(&["HI", "X", "SX32"])?;
    let form = match (d.has("HI"), d.has("SX32")) {
        (false, false) => Scale::Low,
        (true, false) => Scale::High,
        (true, true) => Scale::HighSigned,
        (false, true) => return Err("the low word of a signed one is not known".to_owned()),
    };
    let to = d.destination(0, 1)?;
    let has_carry = d.is_predicate(1);
    let carry = if has_carry { d.predicate_destination(1)? } else { BIN_PREDICATE };
    let at = if has_carry { 2 } else { 1 };
    let after = at + if form == Scale::High { 3 } else { 2 };
    d.count(after + if d.has("X") { 2 } else { 1 })?;
    let of = [d.word(at)?, d.word(at + 1)?];
    let upper = if form == Scale::High { d.word(at + 2)? } else { NOTHING };
    let shift = (d.known(after)? & 31) as u8;
    let plus = if d.has("X") { simple(d.condition(after + 1)?) } else { NEVER };
    let alone = carry == BIN_PREDICATE && plus == NEVER;
    let shifted = of[0].how == How::Plain || of[0].how == How::Negate && form == Scale::Low && alone;
    if !shifted || of[1].how != How::Plain && !alone {
        return Err("modifiers of these sources are not known".to_owned());
    }
    found(Compute::Scale { form, shift, d: to, carry, of, upper, plus }, Class::Integer)
}

/// Whether a table asks for the source with this weight in its index.
fn asks(table: u8, weight: u8) -> bool {
    (0..8).any(|i| table >> i & 1 != table >> (i ^ weight) & 1)
}

fn logic(d: &mut Decoding<'_>) -> Decoded {
    d.only(&["LUT"])?;
    let any = if d.is_predicate(0) { d.predicate_destination(0)? } else { BIN_PREDICATE };
    let at = if d.is_predicate(0) { 1 } else { 0 };
    d.count(at + 6)?;
    let to = d.destination(at, 1)?;
    let mut of = words(d, at + 1)?;
    let table = d.known(at + 4)? as u8;
    let or = d.condition(at + 5)?;
    for (source, weight) in of.iter_mut().zip([4, 2, 1]) {
        if !asks(table, weight) {
            *source = NOTHING;
        }
    }
    found(Compute::Logic { table, d: to, any, of, or: simple(or) }, Class::Integer)
}

/// `!UPT` is `!PT`.
pub(super) fn simple(condition: Condition) -> Condition {
    Condition { predicate: if condition.predicate == 15 { 7 } else { condition.predicate }, ..condition }
}

fn shift(d: &mut Decoding<'_>) -> Decoded {
    d.count(4)?;
    let to = d.destination(0, 1)?;
    let of = words(d, 1)?;
    let [low, count, high] = of;
    let known = d.known(2).ok();
    let (shift, binary, source) = match d.parts[1..] {
        ["L", "U32"] => (Shift::Left, Binary::Left, low),
        ["R", "U32", "HI"] => (Shift::RightU, Binary::RightU, high),
        ["R", "S32", "HI"] => (Shift::RightS, Binary::RightS, high),
        _ => {
            let f = match d.parts[1..] {
                ["L", "U64", "HI"] => Ternary::LeftUpper,
                ["L", "W", "U32", "HI"] => Ternary::LeftWrapUpper,
                ["R", "U64"] => Ternary::RightLower,
                _ => return Err("not a form of the shift that this machine knows".to_owned()),
            };
            return found(Compute::Ternary(f, to, of), Class::Integer);
        }
    };
    // A funnel that takes bits of the other word is not among these.
    let other = if shift == Shift::Left { high } else { low };
    if other != NOTHING {
        return Err("expected RZ as the other word".to_owned());
    }
    match known {
        Some(count @ 0..32) => found(Compute::Shift(shift, to, source, count as u8), Class::Integer),
        _ => found(Compute::Binary(binary, to, [source, count]), Class::Integer),
    }
}

fn extremum(d: &mut Decoding<'_>, name: &str) -> Decoded {
    let signed = !d.has("U32");
    if d.has("U64") {
        // Which of the two conditions chooses is open where they differ.
        d.only(&["U64"])?;
        d.count(7)?;
        let bins = [d.predicate_destination(0)?, d.predicate_destination(1)?];
        if name != "IMNMX" || bins != [BIN_PREDICATE; 2] || d.least(5)? || d.least(6)? {
            return Err("expected the greater one, and no predicates".to_owned());
        }
        let to = d.destination(2, 2)?;
        return found(Compute::Pair(Pair::MaxU, to, [d.long(3)?, d.long(4)?, NOTHING]), Class::Wide);
    }
    d.only(&["S32", "U32"])?;
    let to = d.destination(0, 1)?;
    let mut at = 1;
    while d.is_predicate(at) {
        if d.predicate_destination(at)? != BIN_PREDICATE {
            return Err("a predicate beside the extremum is not known".to_owned());
        }
        at += 1;
    }
    let three = matches!(name, "VIMNMX3" | "VIADDMNMX");
    let last = at + if three { 3 } else { 2 };
    d.count(last + 1)?;
    let least = d.least(last)?;
    if three {
        let f = match (name, signed, least) {
            ("VIADDMNMX", true, true) => Ternary::AddMinS,
            ("VIADDMNMX", true, false) => Ternary::AddMaxS,
            ("VIADDMNMX", false, true) => Ternary::AddMinU,
            ("VIADDMNMX", false, false) => Ternary::AddMaxU,
            (_, true, true) => Ternary::MinS,
            (_, true, false) => Ternary::MaxS,
            (_, false, false) => Ternary::MaxU,
            _ => return Err("the least of three unsigned numbers is not known".to_owned()),
        };
        return found(Compute::Ternary(f, to, words(d, at)?), Class::Integer);
    }
    let f = match (signed, least) {
        (true, true) => Binary::MinS,
        (true, false) => Binary::MaxS,
        (false, true) => Binary::MinU,
        (false, false) => Binary::MaxU,
    };
    found(Compute::Binary(f, to, [d.word(at)?, d.word(at + 1)?]), Class::Integer)
}
