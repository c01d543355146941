//! One instruction: its name and operands to an [`Op`], by the table or by what reads its brackets and braces.

use super::super::ParseError;
use super::super::code::*;
use super::super::count::Class;
use super::super::table;
use super::Result;
use super::decode::{Decoder, Decoding, UNKNOWN, Variables, Wrong, address, list, split};
use super::names::Width;
use super::warp;

/// Decodes `@%p1 name a, b` as its scope sees it.
///
/// # Errors
/// An instruction, an operand or a guard that this machine does not know, with the line and the text.
pub(super) fn decode(
    decoder: &mut Decoder,
    line: usize,
    text: &str,
    scope: usize,
    shared: &Variables,
) -> Result<(Instruction, Class)> {
    let wrong = |what: String| ParseError { line, what: format!("`{text}`: {what}") };
    let mut rest = text;
    let mut guard = None;
    if let Some(guarded) = text.strip_prefix('@') {
        let (name, behind) = guarded.split_once(' ').ok_or_else(|| wrong("no instruction behind its guard".into()))?;
        let not = name.starts_with('!');
        match decoder.names.find(scope, name.trim_start_matches('!')) {
            Some((Width::Predicate, predicate)) => guard = Some(Guard { predicate, not }),
            _ => return Err(wrong(format!("{name} is not a predicate"))),
        }
        rest = behind.trim_start();
    }
    // `mov.b64{%r1,%r2}, %rd1` stands without a space.
    let end = rest.find([' ', '{', '[']).unwrap_or(rest.len());
    let (name, operands) = rest.split_at(end);
    let parts = name.split('.').collect();
    let mut decoding = Decoding { decoder, scope, shared, parts, operands: split(operands) };
    let (op, class) = op(&mut decoding, name).map_err(wrong)?;
    Ok((Instruction { op, guard }, class))
}

fn op(d: &mut Decoding<'_>, name: &str) -> Wrong<(Op, Class)> {
    let braces = d.operands.iter().any(|o| o.starts_with('{'));
    let parts = d.parts.clone();
    // A source may be wider than the instruction takes.
    if let ["cvt", "s64", "s32"] = *parts.as_slice()
        && let [to, from] = d.exactly()?
        && let Ok((Width::Long, row)) = d.any_register(from)
    {
        return Ok((Op::UnaryLong(UnaryLong::ExtendLow, d.register(to, Width::Long)?, row), Class::Convert));
    }
    if let Some((_, operands, form, class)) = table::find(name).filter(|_| !braces) {
        return Ok((d.form(operands, *form)?, *class));
    }
    match *parts.as_slice() {
        ["mov", "b32" | "b64"] => Ok((d.packed()?, Class::Move)),
        ["setp", test, kind] => Ok((d.compare(test, kind)?, Class::Predicate)),
        ["bra"] | ["bra", "uni"] => {
            let [target] = d.exactly()?;
            d.decoder.targets.push(target.to_owned());
            Ok((Op::Branch(d.decoder.targets.len() as u32 - 1), Class::Control))
        }
        ["ret"] | ["exit"] => d.exactly::<0>().map(|_| (Op::Return, Class::Control)),
        ["ld", "volatile", "global", ref rest @ ..] => load(d, Space::Volatile, rest),
        ["ld", "volatile", "shared", ref rest @ ..] => load(d, Space::Shared, rest),
        ["ld", "param", ref rest @ ..] => load(d, Space::Param, rest),
        ["ld", "shared", ref rest @ ..] => load(d, Space::Shared, rest),
        ["ld", "global", "nc", "L1::no_allocate", ref rest @ ..] => load(d, Space::ReadOnly, rest),
        ["ld", "global", "nc", ref rest @ ..] => load(d, Space::ReadOnly, rest),
        ["ld", "global", ref rest @ ..] => load(d, Space::Global, rest),
        ["st", "volatile", "global", ref rest @ ..] => store(d, Space::Volatile, rest),
        ["st", "volatile", "shared", ref rest @ ..] => store(d, Space::Shared, rest),
        ["st", "shared", ref rest @ ..] => store(d, Space::Shared, rest),
        ["st", "global", ref rest @ ..] => store(d, Space::Global, rest),
        ["atom", space, what, kind] => atomic(d, space, what, kind),
        _ => warp::op(d, &parts),
    }
}

/// `v4.f32` as count, bytes of an element and whether it is signed.
fn shape(parts: &[&str]) -> Wrong<(u8, u8, bool)> {
    let (count, kind) = match *parts {
        [kind] => (1, kind),
        ["v2", kind] => (2, kind),
        ["v4", kind] => (4, kind),
        _ => return Err(UNKNOWN.to_owned()),
    };
    let (width, signed) = match kind {
        "u8" | "b8" => (1, false),
        "s8" => (1, true),
        "u16" | "b16" => (2, false),
        "s16" => (2, true),
        "u32" | "b32" | "f32" => (4, false),
        "s32" => (4, true),
        "u64" | "b64" | "s64" | "f64" => (8, false),
        _ => return Err(UNKNOWN.to_owned()),
    };
    if count * width > 16 { Err(UNKNOWN.to_owned()) } else { Ok((count, width, signed)) }
}

fn load(d: &mut Decoding<'_>, space: Space, parts: &[&str]) -> Wrong<(Op, Class)> {
    let (count, width, signed) = shape(parts)?;
    let [to, from] = d.exactly()?;
    let to = list(to);
    let mut access = Access { rows: [0; 4], count, width, signed, file: File::Word, address: address(d, space, from)? };
    if to.len() != usize::from(count) {
        return Err(format!("{} registers, the instruction loads {count}", to.len()));
    }
    for (i, name) in to.iter().enumerate() {
        let (found, row) = d.any_register(name)?;
        let (file, bytes) = match found {
            Width::Half => (File::Half, 2),
            Width::Word => (File::Word, 4),
            Width::Long => (File::Long, 8),
            Width::Predicate => return Err(format!("{name} is a predicate")),
        };
        if bytes < width || i > 0 && file != access.file {
            return Err(format!("{name} is {}, the instruction loads {width} bytes", found.name()));
        }
        (access.file, access.rows[i]) = (file, row);
    }
    let class = match space {
        Space::Param => Class::LoadParam,
        Space::Shared => Class::LoadShared,
        _ => Class::LoadGlobal,
    };
    Ok((Op::Load(space, access), class))
}

fn store(d: &mut Decoding<'_>, space: Space, parts: &[&str]) -> Wrong<(Op, Class)> {
    let (count, width, signed) = shape(parts)?;
    let [to, from] = d.exactly()?;
    let from = list(from);
    let mut access = Access { rows: [0; 4], count, width, signed, file: File::Word, address: address(d, space, to)? };
    if from.len() != usize::from(count) {
        return Err(format!("{} values, the instruction stores {count}", from.len()));
    }
    for (i, name) in from.iter().enumerate() {
        let constant = if width == 8 { Width::Long } else { Width::Word };
        let found = d.any_register(name).map_or(constant, |found| found.0);
        let (file, bytes) = match found {
            Width::Half => (File::Half, 2),
            Width::Word => (File::Word, 4),
            Width::Long => (File::Long, 8),
            Width::Predicate => return Err(format!("{name} is a predicate")),
        };
        if bytes < width || i > 0 && (file == File::Long) != (access.file == File::Long) {
            return Err(format!("{name} is {}, the instruction stores {width} bytes", found.name()));
        }
        (access.file, access.rows[i]) = (file, d.value(name, found)?);
    }
    Ok((Op::Store(space, access), if space == Space::Shared { Class::StoreShared } else { Class::StoreGlobal }))
}

fn atomic(d: &mut Decoding<'_>, space: &str, what: &str, kind: &str) -> Wrong<(Op, Class)> {
    let unknown = || UNKNOWN.to_owned();
    let space = match space {
        "global" => Space::Global,
        "shared" => Space::Shared,
        _ => return Err(unknown()),
    };
    let (width, signed, bits) = match kind {
        "u32" => (Width::Word, false, false),
        "s32" => (Width::Word, true, false),
        "b32" => (Width::Word, false, true),
        "u64" => (Width::Long, false, false),
        "b64" => (Width::Long, false, true),
        _ => return Err(unknown()),
    };
    let f = match (what, bits) {
        ("add", false) => Atomic::Add,
        ("min", false) if signed => Atomic::MinS,
        ("max", false) if signed => Atomic::MaxS,
        ("min", false) => Atomic::MinU,
        ("max", false) => Atomic::MaxU,
        ("and", true) => Atomic::And,
        ("or", true) => Atomic::Or,
        ("xor", true) => Atomic::Xor,
        ("exch", true) => Atomic::Exchange,
        _ => return Err(unknown()),
    };
    let [to, at, value] = d.exactly()?;
    let (to, address) = (d.register(to, width)?, address(d, space, at)?);
    let (file, bytes) = if width == Width::Long { (File::Long, 8) } else { (File::Word, 4) };
    let access = Access { rows: [to; 4], count: 1, width: bytes, signed, file, address };
    Ok((Op::Atomic(space, f, access, d.value(value, width)?), Class::Atomic))
}
