//! Arithmetic: names and operands to [`Compute`].

use super::super::code::Op;
use super::super::count::Class;
use super::operands::{Decoding, Wrong};

/// What lanes do on their own.
#[derive(Debug, Clone, Copy)]
pub(in super::super) enum Compute {}

/// None where the name is not one of these.
pub(super) fn decode(d: &mut Decoding<'_>) -> Wrong<Option<(Op, Class)>> {
    let _ = d;
    Ok(None)
}
