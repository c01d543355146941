//! Machine code as it is executed: what PTX does not have. Values of 64 bits lie in two rows of words, one behind the
//! other; modifiers of an operand (`-R1`, `|R2|`, `R3.H1_H1`) are part of it.

use super::super::Launch;
use super::compute::Compute;
use super::rows::Condition;
use super::{Access, Address, R, Space};

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
    /// `VOTE`: the lanes whose condition holds, and whether there are any, or all; `uniform`: to every lane.
    Vote {
        ballot: R,
        holds: R,
        all: bool,
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
    /// `BSYNC`: the lanes wait for all that passed `BSSY` with them and have neither left nor returned.
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

/// Where the driver writes the shape of a launch and its parameters in constant bank 0.
#[derive(Debug, Clone, Copy, Default)]
pub(in super::super) struct Bank {
    pub block: usize,
    pub grid: usize,
    pub params: usize,
}

impl Bank {
    pub fn new(sm: u32, params: usize) -> Self {
        let (block, grid) = if sm < 100 { (0, 0xc) } else { (0x360, 0x370) };
        Self { block, grid, params }
    }

    /// The four bytes at `offset` of the bank: parameters, else sizes of block and grid, else 0.
    pub fn word(&self, offset: usize, launch: &Launch<'_>) -> u32 {
        let of = |begin: usize, words: [u32; 3]| words.get(offset.wrapping_sub(begin) / 4).copied();
        let param = launch.params.get(offset.wrapping_sub(self.params)..).and_then(|rest| rest.get(..4));
        match param {
            Some(bytes) => bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte)),
            None => of(self.block, launch.block).or_else(|| of(self.grid, launch.grid)).unwrap_or_default(),
        }
    }
}

/// Bytes at the begin of shared memory that belong to the driver.
pub(in super::super) const fn reserved_shared(sm: u32) -> usize {
    if sm < 90 { 0 } else { 0x400 }
}

/// How an instruction is issued: what the compiler wrote beside it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Control {
    /// Clocks before the warp's next instruction.
    pub stall: u8,
    /// The compiler's hint that another warp may go first.
    pub yields: u8,
    /// The barrier (0 – 5) that is raised until the result is there; 7: none.
    pub write: u8,
    /// The barrier that is raised until the sources were read; 7: none.
    pub read: u8,
    /// Bits of the barriers that have to be down before it is issued.
    pub wait: u8,
}
