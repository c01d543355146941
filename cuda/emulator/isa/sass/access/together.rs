//! What lanes do together: exchanges, votes, matrices.

use super::super::super::code::rows::{BIN, BIN_PREDICATE, ZERO};
use super::super::super::code::sass::Sass;
use super::super::super::code::{Mma, Op, R, Shuffle};
use super::super::super::count::Class;
use super::super::super::fragments;
use super::super::operands::{Decoding, Wrong};
use super::rows;

/// None where the name is not one of these.
pub(super) fn decode(d: &mut Decoding<'_>) -> Wrong<Option<(Op, Class)>> {
    let decoded = match d.parts[0] {
        "SHFL" => (shuffle(d)?, Class::Exchange),
        "VOTE" | "VOTEU" => (vote(d)?, Class::Exchange),
        "LDSM" => {
            d.only(&["16", "M88", "MT88", "2", "4"])?;
            d.count(2)?;
            let count = match (d.has("2"), d.has("4")) {
                (true, false) => 2,
                (false, true) => 4,
                _ => return Err("how many matrices: expected .2 or .4".to_owned()),
            };
            let first = d.destination(0, R::from(count))?;
            let (transposed, address) = (d.has("MT88"), d.address(1, false)?);
            (Op::LoadMatrix { d: rows(first), count, transposed, address }, Class::LoadMatrix)
        }
        "HMMA" | "IMMA" => (multiply(d)?, Class::Matrix),
        _ => return Ok(None),
    };
    Ok(Some(decoded))
}

/// Predicate, result, value, lane, clamp. It has no mask: every lane that is active takes part.
fn shuffle(d: &mut Decoding<'_>) -> Wrong<Op> {
    d.only(&["BFLY", "IDX"])?;
    d.count(5)?;
    let how = if d.has("BFLY") { Shuffle::Xor } else { Shuffle::Index };
    let valid = Some(d.predicate_destination(0)?);
    let (to, value) = (d.destination(1, 1)?, d.plain(2, 1)?);
    let (lane, clamp) = (d.word(3)?.row, d.word(4)?.row);
    Ok(Op::Shuffle { how, d: to, valid, value, lane, clamp, members: ZERO })
}

/// Ballot, whether any lane has it, or all, and the predicate; `VOTEU` may lack one of the first two.
fn vote(d: &mut Decoding<'_>) -> Wrong<Op> {
    d.only(&["ANY", "ALL"])?;
    let all = match (d.has("ANY"), d.has("ALL")) {
        (any, all) if any != all => all,
        _ => return Err("what it asks: expected .ANY or .ALL".to_owned()),
    };
    let uniform = d.parts[0] == "VOTEU";
    let (ballot, holds) = match (d.operands().len(), d.is_predicate(0)) {
        (3, _) => (d.destination(0, 1)?, d.predicate_destination(1)?),
        (2, true) => (BIN, d.predicate_destination(0)?),
        (2, false) => (d.destination(0, 1)?, BIN_PREDICATE),
        (found, _) => return Err(format!("{found} operands, expected 2 or 3")),
    };
    let condition = d.condition(d.operands().len() - 1)?;
    Ok(Op::Sass(Sass::Vote { ballot, holds, all, condition, uniform }))
}

/// Operands are consecutive registers, in the order of PTX.
fn multiply(d: &mut Decoding<'_>) -> Wrong<Op> {
    d.count(4)?;
    let mma = match (d.parts[0], &d.parts[1..]) {
        ("HMMA", ["1688", "F32"]) => Mma::F16M16N8K8,
        ("HMMA", ["16816", "F32"]) => Mma::F16M16N8K16,
        ("HMMA", ["16816", "F32", "BF16"]) => Mma::Bf16M16N8K16,
        ("IMMA", ["8816", "S8", "S8"]) => Mma::S8M8N8K16,
        ("IMMA", ["16816", "S8", "S8"]) => Mma::S8M16N8K16,
        ("IMMA", ["16832", "S8", "S8"]) => Mma::S8M16N8K32,
        (_, shape) => return Err(format!("products of shape .{} are not known", shape.join("."))),
    };
    let [nc, na, nb] = fragments::registers(mma);
    let mut list = Vec::with_capacity(2 * nc + na + nb);
    let first = d.destination(0, nc as R)?;
    list.extend(first..first + nc as R);
    for (at, layout, count) in [(1, ".ROW", na), (2, ".COL", nb), (3, "", nc)] {
        let text = d.operand(at)?;
        let name = if d.parts[0] == "IMMA" { text.strip_suffix(layout) } else { Some(text) };
        let first = d.register(name.ok_or_else(|| format!("{text}: expected {layout}"))?)?;
        d.read(first, count as R);
        list.extend(first..first + count as R);
    }
    Ok(Op::Mma(mma, d.keep(&list)))
}
