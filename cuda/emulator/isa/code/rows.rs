//! The register files of machine code, and how an instruction names its sources.
//!
//! | row of words | holds |
//! |---|---|
//! | 0 – 254 | `R0` – `R254` |
//! | [`ZERO`] and three more | `RZ`, `URZ`: zeros, for operands of up to 128 bits |
//! | [`BIN`] and three more | what is written to `RZ` |
//! | [`UNIFORM`] and 63 more | `UR0` – `UR62`; every lane holds the same |
//! | the rest | numbers, words of the constant banks, special registers |
//!
//! Predicates: `P0` – `P6`, `PT`, `UP0` – `UP6`, `UPT`, and a bin.

use super::{Guard, R};

pub(in super::super) const ZERO: R = 255;
pub(in super::super) const BIN: R = 259;
pub(in super::super) const UNIFORM: R = 263;
pub(in super::super) const FIRST_FREE: R = UNIFORM + 64;

/// `PT`.
pub(in super::super) const TRUE: R = 7;
pub(in super::super) const UNIFORM_PREDICATE: R = 8;
/// What is written to `PT`.
pub(in super::super) const BIN_PREDICATE: R = 16;
pub(in super::super) const PREDICATES: usize = 17;

/// Rows that an instruction reads and writes, for the checks of its control word: predicates count from [`Uses::PREDICATES`].
#[derive(Debug, Clone, Default)]
pub(in super::super) struct Uses {
    pub reads: Vec<R>,
    pub writes: Vec<R>,
    /// The same as bits: read or written, and written.
    pub rows: [Rows; 2],
    /// Of the instruction, as `sass/scoreboard.rs` has it.
    pub pipe: u8,
}

impl Uses {
    /// What a row is called.
    pub fn name(row: R) -> String {
        match row {
            Self::PREDICATES.. => match row - Self::PREDICATES {
                n @ ..UNIFORM_PREDICATE => format!("P{n}"),
                n => format!("UP{}", n - UNIFORM_PREDICATE),
            },
            UNIFORM.. => format!("UR{}", row - UNIFORM),
            _ => format!("R{row}"),
        }
    }

    /// Where predicates begin among the rows of the checks.
    pub const PREDICATES: R = UNIFORM + 64;
    /// How many rows there are: registers and predicates.
    pub const ROWS: usize = Self::PREDICATES as usize + PREDICATES;
}

/// A bit for each row.
pub(in super::super) type Rows = [u64; Uses::ROWS.div_ceil(64)];

/// A row (the first of two for 64 bits), and what is made of it before it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Source {
    pub row: R,
    pub how: How,
}

/// Modifiers of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum How {
    Plain,
    /// `-R1` of an integer, of 32 or 64 bits.
    Negate,
    /// `~R1`.
    Not,
    /// `-R1`, `|R1|`, `-|R1|` of a float, of 32 or 64 bits.
    NegateF,
    AbsoluteF,
    NegateAbsoluteF,
    /// `R1.H0_H0`, `R1.H1_H1`: a half as f32; negated.
    Half(u8),
    NegateHalf(u8),
    /// `R1.B2`, `R1.H1`: a byte or a half (of 16 bits), zero-extended.
    Byte(u8),
    Upper,
}

/// The predicate that an instruction takes as an operand: a row, or its opposite.
pub(in super::super) type Condition = Guard;

/// `!PT`: adds nothing.
pub(in super::super) const NEVER: Condition = Condition { predicate: TRUE, not: true };

/// `RZ`.
pub(in super::super) const NOTHING: Source = Source { row: ZERO, how: How::Plain };
