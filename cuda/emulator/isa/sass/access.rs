//! Memory: loads, stores, constant banks, special registers, atomics, asynchronous copies.
//!
//! A value of more than 32 bits is loaded and stored as several words. `.E` (addresses of 64 bits), `.NA` (no line of
//! the L1 for it), `.SYS` without `.STRONG` (every access of sm_75 has it) and `.U` of `LDS` say nothing about what is
//! loaded.

mod together;

use super::super::code::rows::{BIN, BIN_PREDICATE, ZERO};
use super::super::code::sass::Sass;
use super::super::code::{Access, Address, Atomic, File, Op, R, Space, Special};
use super::super::count::Class;
use super::operands::{Decoding, UNKNOWN, Wrong};

/// None where the name is not one of these.
pub(super) fn decode(d: &mut Decoding<'_>) -> Wrong<Option<(Op, Class)>> {
    let decoded = match d.parts[0] {
        "LDG" => {
            d.only(&["E", "NA", "SYS", "CONSTANT", "U8", "U16", "64", "128"])?;
            let space = if d.has("CONSTANT") { Space::ReadOnly } else { Space::Global };
            (Op::Load(space, load(d, true)?), Class::LoadGlobal)
        }
        "LDS" => {
            d.only(&["U", "U16", "64", "128"])?;
            (Op::Load(Space::Shared, load(d, false)?), Class::LoadShared)
        }
        "STG" => {
            d.only(&["E", "STRONG", "SYS", "U8", "U16", "64", "128"])?;
            let space = if d.has("STRONG") { Space::Volatile } else { Space::Global };
            (Op::Store(space, store(d, true)?), Class::StoreGlobal)
        }
        "STS" => {
            d.only(&["U16", "64", "128"])?;
            (Op::Store(Space::Shared, store(d, false)?), Class::StoreShared)
        }
        "LDC" | "ULDC" | "LDCU" => {
            d.only(&["64", "128"])?;
            (constant(d)?, Class::LoadParam)
        }
        "S2R" | "S2UR" => {
            d.only(&[])?;
            (special(d)?, Class::Move)
        }
        "ATOMG" => {
            d.only(&["E", "ADD", "MAX", "64", "STRONG", "GPU"])?;
            if d.predicate_destination(0)? != BIN_PREDICATE {
                return Err(format!("its predicate: {UNKNOWN}"));
            }
            (atomic(d, Some(1), 2)?, Class::Atomic)
        }
        "RED" | "REDG" => {
            d.only(&["E", "ADD", "MAX", "64", "STRONG", "GPU"])?;
            (atomic(d, None, 0)?, Class::Atomic)
        }
        "ATOMS" => (shared_atomic(d)?, Class::Atomic),
        "LDGSTS" => {
            d.only(&["E", "BYPASS", "128"])?;
            let always = d.count(2).is_ok();
            let (to, from) = (d.address(0, false)?, d.address(1, true)?);
            let whole = if always { d.condition_of("PT")? } else { d.count(3).and_then(|()| d.condition(2))? };
            (Op::Sass(Sass::Copy { to, from, whole }), Class::Copy)
        }
        "CCTL" if d.has("PF2") => {
            d.only(&["E", "PF2"])?;
            d.count(1)?;
            (Op::Prefetch(d.address(0, true)?), Class::Prefetch)
        }
        "LDGDEPBAR" => {
            d.only(&[])?;
            (Op::CopyCommit, Class::Copy)
        }
        "DEPBAR" => {
            d.only(&["LE"])?;
            (Op::CopyWait(groups(d)?), Class::Copy)
        }
        _ => return together::decode(d),
    };
    Ok(Some(decoded))
}

/// Bytes of an element and how many there are, as the name says.
fn elements(d: &Decoding<'_>) -> (u8, u8) {
    match () {
        () if d.has("U8") => (1, 1),
        () if d.has("U16") => (2, 1),
        () if d.has("64") => (4, 2),
        () if d.has("128") => (4, 4),
        () => (4, 1),
    }
}

/// Consecutive rows.
fn rows(first: R) -> [R; 4] {
    std::array::from_fn(|i| first + i as R)
}

fn access(first: R, (width, count): (u8, u8), address: Address) -> Access {
    Access { rows: rows(first), count, width, signed: false, file: File::Word, address }
}

fn load(d: &mut Decoding<'_>, wide: bool) -> Wrong<Access> {
    d.count(2)?;
    let elements = elements(d);
    let first = d.destination(0, R::from(elements.1))?;
    Ok(access(first, elements, d.address(1, wide)?))
}

fn store(d: &mut Decoding<'_>, wide: bool) -> Wrong<Access> {
    d.count(2)?;
    let elements = elements(d);
    let address = d.address(0, wide)?;
    Ok(access(d.plain(1, R::from(elements.1))?, elements, address))
}

/// A constant bank: at an offset that is known it is a copy, by a register a load.
fn constant(d: &mut Decoding<'_>) -> Wrong<Op> {
    d.count(2)?;
    let elements @ (_, words) = elements(d);
    let to = d.destination(0, R::from(words))?;
    if let Some((bank, offset)) = d.constant(1)? {
        let a = d.constants.bank(bank, offset, usize::from(words))?;
        return Ok(Op::Sass(Sass::Move { d: to, a, rows: words }));
    }
    let (bank, base, offset) = d.indexed(1)?;
    let (space, begin) = match bank {
        0 => (Space::Param, d.constants.params.0),
        2 => (Space::Table, 0),
        _ => return Err(format!("constant bank {bank} is not known")),
    };
    let offset = i32::try_from(offset - begin as i64).map_err(|_| format!("{offset:#x} is not an offset"))?;
    let address = Address { base, long: false, pair: true, scale: 0, plus: None, offset };
    let access = access(to, elements, address);
    let uniform = d.parts[0] != "LDC";
    Ok(if uniform { Op::Sass(Sass::LoadUniform(space, access)) } else { Op::Load(space, access) })
}

fn special(d: &mut Decoding<'_>) -> Wrong<Op> {
    d.count(2)?;
    let axis = |name: &str| ["X", "Y", "Z"].iter().position(|axis| *axis == name);
    let name = d.operand(1)?;
    let special = match (name, name.rsplit_once('.')) {
        ("SR_LANEID", _) => Some(Special::Lane),
        ("SR_LTMASK", _) => Some(Special::LanesBelow),
        // The block's number in its cluster: a launch without clusters has one block in each.
        ("SR_CgaCtaId", _) => None,
        (_, Some(("SR_TID", of))) if let Some(axis) = axis(of) => Some(Special::Thread(axis)),
        (_, Some(("SR_CTAID", of))) if let Some(axis) = axis(of) => Some(Special::Block(axis)),
        _ => return Err(format!("{name} is not a special register that this machine knows")),
    };
    let a = special.map_or(Ok(ZERO), |special| d.constants.special(special))?;
    Ok(Op::Sass(Sass::Move { d: d.destination(0, 1)?, a, rows: 1 }))
}

/// `.64` is two registers; operands: where the old value goes, the address, and behind it the value.
fn atomic(d: &mut Decoding<'_>, old: Option<usize>, address: usize) -> Wrong<Op> {
    d.count(address + 2)?;
    let f = match (d.has("ADD"), d.has("MAX")) {
        (true, false) => Atomic::Add,
        // Without `.S32` and the like it is unsigned.
        (false, true) => Atomic::MaxU,
        _ => return Err(UNKNOWN.to_owned()),
    };
    let (width, words) = elements(d);
    let old = old.map_or(Ok(BIN), |at| d.destination(at, R::from(words)))?;
    let access = access(old, (width, words), d.address(address, true)?);
    Ok(Op::Atomic(Space::Global, f, access, d.plain(address + 1, R::from(words))?))
}

fn shared_atomic(d: &mut Decoding<'_>) -> Wrong<Op> {
    match d.parts[1..] {
        ["ADD"] => {
            d.count(3)?;
            let access = access(d.destination(0, 1)?, (4, 1), d.address(1, false)?);
            Ok(Op::Atomic(Space::Shared, Atomic::Add, access, d.plain(2, 1)?))
        }
        // Adds the number of lanes that have the address.
        ["POPC", "INC", "32"] => {
            d.count(2)?;
            if d.destination(0, 1)? != BIN {
                return Err("what it returns is not known".to_owned());
            }
            let (one, access) = (d.constants.number(1, 1)?, access(BIN, (4, 1), d.address(1, false)?));
            Ok(Op::Atomic(Space::Shared, Atomic::Add, access, one))
        }
        ["CAST", "SPIN", "64"] => {
            d.count(4)?;
            // 1 or 0 in two registers, from sm_100 on a predicate.
            let (old, swapped) = if d.is_predicate(0) {
                (BIN, d.predicate_destination(0)?)
            } else {
                (d.destination(0, 2)?, BIN_PREDICATE)
            };
            let access = access(old, (4, 2), d.address(1, false)?);
            Ok(Op::Sass(Sass::CompareSwap { access, swapped, compare: d.plain(2, 2)?, value: d.plain(3, 2)? }))
        }
        _ => Err(UNKNOWN.to_owned()),
    }
}

/// `DEPBAR.LE SB0, 0x1`: ptxas has `LDGDEPBAR` count groups with barrier 0, and no other with it.
fn groups(d: &Decoding<'_>) -> Wrong<u32> {
    d.count(2)?;
    let number = super::operands::integer(d.operand(1)?).and_then(|n| u32::try_from(n).ok());
    number.filter(|_| d.operand(0) == Ok("SB0")).ok_or_else(|| format!("its barrier and number: {UNKNOWN}"))
}
