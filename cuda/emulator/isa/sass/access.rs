//! Memory, and what lanes do together: names and operands to what PTX has as well.

use super::super::code::Op;
use super::super::count::Class;
use super::operands::{Decoding, Wrong};

/// None where the name is not one of these.
pub(super) fn decode(d: &mut Decoding<'_>) -> Wrong<Option<(Op, Class)>> {
    let _ = d;
    Ok(None)
}
