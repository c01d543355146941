//! Arithmetic: names and operands to [`Compute`].
//!
//! ```text
//! integers     IADD3, IMAD, LEA, LOP3, SHF, PRMT …;  floats  FADD, FFMA, MUFU, DADD …
//! conversions  F2I, I2F, F2F, F2FP …;                predicates  ISETP, FSETP, PLOP3, SEL, P2R …
//! ```
//!
//! The uniform datapath has the same instructions, with a `U` before the name: who executes sees it by the row that is
//! written.

mod conversions;
mod floats;
mod integers;
mod predicates;

use super::super::code::compute::{Binary, Compute, Narrow, Pair, Scale, Ternary, Unary, Wide, Widen};
use super::super::code::rows::{Condition, How, NEVER, NOTHING, Source, TRUE};
use super::super::code::sass::Sass;
use super::super::code::{Op, R};
use super::super::count::Class;
use super::operands::{Decoding, Wrong};

/// Names that the uniform datapath has as well, with a `U` before.
const UNIFORM: [&str; 13] =
    ["F2I", "FFMA", "I2F", "IADD3", "IMAD", "ISETP", "LEA", "LOP3", "MOV", "PLOP3", "SEL", "SHF", "VIMNMX"];

/// None where the name is not one of these.
pub(super) fn decode(d: &mut Decoding<'_>) -> Wrong<Option<(Op, Class)>> {
    let name = d.parts[0];
    let name = name.strip_prefix('U').filter(|name| UNIFORM.contains(name)).unwrap_or(name);
    for family in [integers::decode, floats::decode, conversions::decode, predicates::decode] {
        if let Some(found) = family(d, name)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// What one family of names is decoded to.
type Decoded = Wrong<Option<(Op, Class)>>;

fn found(compute: Compute, class: Class) -> Decoded {
    Ok(Some((Op::Sass(Sass::Compute(compute)), class)))
}

/// Copies so many rows; a source with modifiers is computed.
fn moved(d: R, a: Source, rows: u8) -> Decoded {
    match a.how {
        How::Plain => Ok(Some((Op::Sass(Sass::Move { d, a: a.row, rows }), Class::Move))),
        _ if rows == 1 => found(Compute::Unary(Unary::Move, d, a), Class::Move),
        _ => Err("modifiers of 64 bits are not known here".to_owned()),
    }
}

impl Decoding<'_> {
    /// A number that is written in the instruction.
    fn known(&self, at: usize) -> Wrong<u64> {
        let text = self.operand(at)?;
        super::operands::integer(text).ok_or_else(|| format!("{text} is not a number"))
    }

    /// `PT` or `!PT`: whether the lesser is taken.
    fn least(&mut self, at: usize) -> Wrong<bool> {
        match self.condition(at)? {
            Condition { predicate, not } if predicate % 8 == TRUE && predicate < 16 => Ok(!not),
            _ => Err(format!("{}: expected PT or !PT", self.operand(at)?)),
        }
    }
}
