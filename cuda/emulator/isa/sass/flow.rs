//! Control flow: branches, convergence barriers, what only orders memory or does nothing here.

use super::super::code::Op;
use super::super::code::rows::ZERO;
use super::super::code::sass::{Branch, Sass};
use super::super::count::Class;
use super::listing::Section;
use super::operands::{Decoding, Wrong, integer};
use super::target;

/// What ptxas may say of a convergence barrier, on all of its instructions. Here each is as good as the other.
const BARRIERS: [&str; 2] = ["RECONVERGENT", "RELIABLE"];

/// None where the name is not one of these.
pub(super) fn decode(d: &mut Decoding<'_>, section: &Section<'_>) -> Wrong<Option<(Op, Class)>> {
    let branch = |branch: Branch| Ok(Some((Op::Sass(Sass::Branch(branch)), Class::Control)));
    let op = match d.parts[0] {
        "BSSY" => {
            d.only(&BARRIERS)?;
            return branch(Branch::Begin(barrier(d, 0)?));
        }
        "BSYNC" => {
            d.only(&BARRIERS)?;
            return branch(Branch::Wait(barrier(d, 0)?));
        }
        "BREAK" => {
            d.only(&BARRIERS)?;
            return branch(Branch::Leave(barrier(d, 0)?));
        }
        "BMOV" => {
            d.only(&["32", "CLEAR"])?;
            return branch(Branch::Clear(barrier(d, 1)?, d.destination(0, 1)?));
        }
        "WARPSYNC" => {
            d.only(&["ALL", "COLLECTIVE"])?;
            let members = if d.has("ALL") { d.constants.number(u64::from(u32::MAX), 1)? } else { d.word(0)?.row };
            return branch(Branch::Gather(members));
        }
        "ENDCOLLECTIVE" => return branch(Branch::EndCollective),
        "BRA" if d.has("DIV") || d.has("CONV") => {
            d.only(&["DIV", "CONV"])?;
            let to = target(d.line, section)?;
            // `~URZ` and no operand at all: every lane.
            let members = match d.operand(0)? {
                "~URZ" => None,
                text if text.starts_with('`') => None,
                _ => Some(d.plain(0, 1)?),
            };
            return branch(Branch::IfDiverged(to, members, d.has("DIV")));
        }
        "BRA" | "CALL" => {
            d.only(if d.parts[0] == "BRA" { &["U"] } else { &["REL", "NOINC"] })?;
            let to = target(d.line, section)?;
            let condition = if d.is_predicate(0) { Some(d.condition(0)?) } else { None };
            return branch(Branch::To(to, condition.map(|c| (c.predicate, c.not))));
        }
        "BRX" => {
            d.only(&[])?;
            // `BRX R6 -0x2b0`: added to the register, from behind the instruction.
            let text = d.operand(0)?;
            let (register, offset) = text.split_once(' ').ok_or("expected a register and an offset")?;
            let offset = integer(offset.trim()).ok_or_else(|| format!("{offset} is not an offset"))? as i64;
            let row = d.register(register)?;
            d.read(row, 2);
            let after = i64::from(d.line.address) + 16;
            return branch(Branch::Indirect(row, (after + offset) as i32));
        }
        "RET" => {
            d.only(&["REL", "NODEC"])?;
            let text = d.operand(0)?;
            let (register, label) = text.split_once(' ').ok_or("expected a register and a label")?;
            let label = label.trim().strip_prefix("`(").and_then(|l| l.strip_suffix(')'));
            let base = match label {
                Some(name) if name == section.name => 0,
                _ => return Err("expected the kernel's own name".to_owned()),
            };
            let row = d.register(register)?;
            d.read(row, 2);
            return branch(Branch::Indirect(row, base));
        }
        "EXIT" => {
            d.only(&[])?;
            let condition = if d.operands().is_empty() { None } else { Some(d.condition(0)?) };
            return branch(Branch::Exit(condition.map(|c| (c.predicate, c.not))));
        }
        "YIELD" => return branch(Branch::Yield),
        "BAR" => {
            d.only(&["SYNC", "RED", "OR", "DEFER_BLOCKING"])?;
            if d.operand(0)? != "0x0" {
                return Err("this machine knows barrier 0 alone".to_owned());
            }
            if d.has("RED") {
                let condition = d.condition(1)?;
                if condition.not {
                    return Err("the opposite of a predicate is not known here".to_owned());
                }
                (Op::BarrierOr(super::super::code::rows::BIN_PREDICATE, condition.predicate), Class::Barrier)
            } else {
                (Op::Barrier, Class::Barrier)
            }
        }
        "B2R" => {
            d.only(&["RESULT"])?;
            if d.destination(0, 1)? != super::super::code::rows::BIN {
                return Err("this machine knows the predicate alone".to_owned());
            }
            (Op::Sass(Sass::Result(d.predicate_destination(1)?)), Class::Barrier)
        }
        "MEMBAR" => {
            d.only(&["SC", "GPU", "SYS"])?;
            (Op::Fence(d.has("SYS")), Class::Barrier)
        }
        // Errors of earlier stores, the cache's own fence, the dependent launch, padding.
        "ERRBAR" | "CGAERRBAR" | "CCTL" | "ACQBULK" | "PREEXIT" | "NOP" => {
            (Op::Sass(Sass::Move { d: ZERO, a: ZERO, rows: 0 }), Class::Control)
        }
        _ => return Ok(None),
    };
    Ok(Some(op))
}

/// `B6`.
fn barrier(d: &Decoding<'_>, at: usize) -> Wrong<u8> {
    let text = d.operand(at)?;
    let number = text.strip_prefix('B').and_then(|n| n.parse().ok()).filter(|n| *n < 16);
    number.ok_or_else(|| format!("{text} is not a convergence barrier"))
}
