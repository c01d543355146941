//! Machine code as it is executed: what PTX does not have. Values of 64 bits lie in two rows of words, one behind the
//! other; modifiers of an operand (`-R1`, `|R2|`, `R3.H1_H1`) are part of it.

use super::super::code::{Access, Address, Guard, R, Space};
use super::compute::Compute;

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

/// What is done. Rows that are written stand before those that are read.
#[derive(Debug, Clone, Copy)]
pub(in super::super) enum Sass {
    /// Copies so many rows; to uniform registers in every lane, active or not.
    Move {
        d: R,
        a: R,
        rows: u8,
    },
    /// Of a constant bank to uniform registers.
    LoadUniform(Space, Access),
    /// What lanes do on their own.
    Compute(Compute),
    /// `VOTE.ANY`: the lanes whose condition holds, and whether there are any; `uniform`: to every lane.
    Vote {
        ballot: R,
        any: R,
        condition: Condition,
        uniform: bool,
    },
    /// `ATOMS.CAST`: stores the value where memory holds what it is compared to. The rows of the access (and a
    /// predicate) say 1 where it did, else 0.
    CompareSwap {
        access: Access,
        swapped: R,
        compare: R,
        value: R,
    },
    /// `LDGSTS`: 16 bytes from global to shared memory; zeros where the condition does not hold.
    Copy {
        to: Address,
        from: Address,
        whole: Condition,
    },
    /// `BAR.RED.OR` leaves its result for `B2R.RESULT`, which writes it to a predicate.
    Result(R),
    Branch(Branch),
}

/// Control flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Branch {
    /// `BSSY`: the lanes that are here wait for each other at the barrier.
    Begin(u8),
    /// `BSYNC`.
    Wait(u8),
    /// `BREAK`: the lanes leave the barrier.
    Leave(u8),
    /// `BMOV.32.CLEAR`: empties the barrier; the mask goes to a row.
    Clear(u8, R),
    /// `WARPSYNC`: by a mask of lanes.
    Gather(R),
    /// `ENDCOLLECTIVE`.
    EndCollective,
    /// `BRA`, `CALL.REL`: where the condition holds, to an instruction.
    To(u32, Option<(R, bool)>),
    /// `BRA.DIV`: to an instruction where lanes of the mask are missing; `BRA.CONV`: where none is.
    IfDiverged(u32, Option<R>, bool),
    /// `BRX`, `RET.REL`: by a row that holds an address in bytes, and what is added to it.
    Indirect(R, i32),
    /// `EXIT`, where the condition holds.
    Exit(Option<(R, bool)>),
    /// `YIELD`.
    Yield,
}
