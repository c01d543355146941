//! Arithmetic of machine code.

use super::rows::{Condition, Source};
use super::{Kind, Logic, R, Shift, Test};

/// What lanes do on their own.
#[derive(Debug, Clone, Copy)]
pub(in super::super) enum Compute {
    /// 32 bits from one, two and three of 32.
    Unary(Unary, R, Source),
    Binary(Binary, R, [Source; 2]),
    Ternary(Ternary, R, [Source; 3]),
    /// By a number of bits that is known.
    Shift(Shift, R, Source, u8),
    /// `LOP3`: bit `4a + 2b + c` of the table for the bits of the sources. The predicate says whether the result has a
    /// bit, or the condition holds.
    Logic {
        table: u8,
        d: R,
        any: R,
        of: [Source; 3],
        or: Condition,
    },
    /// `IADD3` with carries: the sum of the sources, a number and the conditions. The first predicate holds where the
    /// sum carries once or twice, the second where it carries twice.
    Sum {
        d: R,
        carries: [R; 2],
        of: [Source; 3],
        number: u8,
        plus: [Condition; 2],
    },
    /// `LEA`: the source, shifted, and another one; with the sum's carry.
    Scale {
        form: Scale,
        shift: u8,
        d: R,
        carry: R,
        of: [Source; 2],
        upper: Source,
        plus: Condition,
    },
    /// `IMAD.WIDE`, `IMAD.HI`: a·b + c in 64 bits, with its carry; c has two rows.
    Wide {
        form: Wide,
        d: R,
        carry: R,
        of: [Source; 3],
        plus: Condition,
    },
    /// 64 bits, in two rows, from up to three of 64.
    Pair(Pair, R, [Source; 3]),
    /// 64 bits from 32.
    Widen(Widen, R, Source),
    /// 32 bits from 64.
    Narrow(Narrow, R, Source),
    /// `ISETP`, `FSETP`, `DSETP`: the test and the condition, then the opposite of the test and the condition. `low` is
    /// what the same test of the lower words gave.
    Compare {
        test: Test,
        kind: Kind,
        flush: bool,
        d: [R; 2],
        of: [Source; 2],
        with: (Logic, Condition),
        low: Low,
    },
    /// `FCHK`: whether a fast division of the first by the second is not safe.
    Check(R, [Source; 2]),
    /// The first where the condition holds, of so many rows.
    Select {
        d: R,
        of: [Source; 2],
        by: Condition,
        rows: u8,
    },
    /// `PLOP3`: bit `4a + 2b + c` of the first table, then of the second one.
    Tables {
        d: [R; 2],
        of: [Condition; 3],
        tables: [u8; 2],
    },
    /// `P2R`: `P0` … `P6` in the bits of the mask, the source in the others.
    FromPredicates {
        d: R,
        a: Source,
        mask: u8,
    },
    /// `R2P`: the opposite way, the predicates of the mask alone.
    ToPredicates {
        a: Source,
        mask: u8,
    },
    /// `R2UR`: what the first lane holds.
    First(R, Source),
}

// Instructions lie one behind the other.
const _: () = assert!(size_of::<Compute>() <= 40);

/// Of `.EX`.
type Low = Option<Condition>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Unary {
    Move,
    Absolute,
    Ones,
    /// The place of the highest bit; -1 where there is none.
    Leading,
    Truncate,
    Exp2,
    Reciprocal,
    ReciprocalSqrt,
    FromS32,
    FromU32,
    FromS32Up,
    FromU32Up,
    FromU32Down,
    FromS16,
    FromU16,
    FromS8,
    FromU8,
    FromHalf,
    FromUpperHalf,
    ToHalf,
    ToS32,
    ToS32Nearest,
    ToU32Flush,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Binary {
    Add,
    Multiply,
    Left,
    RightU,
    RightS,
    MinS,
    MaxS,
    MinU,
    MaxU,
    AddF,
    AddFlushF,
    AddZeroF,
    MultiplyF,
    MultiplyFlushF,
    MinF,
    MaxF,
    /// A NaN is the result, not what is left out.
    MinNanF,
    MaxNanF,
    /// The first becomes the upper half.
    PackHalf,
    PackBf16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Ternary {
    Add,
    Mad,
    Dot4,
    /// Bytes of the first and the third, by the second.
    Permute,
    /// The same, where the upper half may be without a value.
    PermuteLow,
    /// The upper word of third:first shifted to the left by the second; of 64 and more nothing is left.
    LeftUpper,
    /// The same by the count modulo 32.
    LeftWrapUpper,
    /// The lower word of third:first shifted to the right.
    RightLower,
    /// The lesser or the greater of the first two's sum and the third.
    AddMinS,
    AddMaxS,
    AddMinU,
    AddMaxU,
    MinS,
    MaxS,
    MaxU,
    FusedF,
    FusedSaturateF,
    FusedDownF,
    FusedUpF,
    FusedZeroF,
    MinF,
    MaxF,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Scale {
    /// The low word of the source, shifted to the left.
    Low,
    /// The high word of upper:source, shifted to the left.
    High,
    /// The same, where the upper word is the source's sign.
    HighSigned,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Wide {
    Signed,
    Unsigned,
    /// The upper word of the unsigned one.
    High,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Pair {
    Add,
    MaxU,
    RoundF,
    FromS64,
    FromU64,
    ToS64,
    AddF,
    MultiplyF,
    FusedF,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Widen {
    FromSingle,
    FromS32,
    SingleToU64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Narrow {
    ToSingle,
    ToS32,
    ToS32Nearest,
    SingleFromU64Up,
}
