//! Integers and bits.

use crate::isa::{
    references::{dot4, i, left, permuted, right, right_signed, u},
    sass::arithmetic::{Row, Wrong, check, holds, row, wide, word},
};

/// As a signed and as an unsigned number.
fn s(x: u64) -> i128 {
    i128::from(i(x))
}
fn n(x: u64) -> i128 {
    i128::from(u(x))
}
fn n64(x: u64) -> i128 {
    i128::from(x)
}

/// A sum, and how often it carries.
fn sum(total: i128) -> Option<u128> {
    holds(total as u64 & 0xFFFF_FFFF, [total >= 1 << 32, total >= 2 << 32])
}
fn sum_once(total: i128) -> Option<u128> {
    holds(total as u64 & 0xFFFF_FFFF, [total >= 1 << 32, false])
}
/// -x with its carry: ~x and 1.
fn negated(x: u64) -> i128 {
    (1 << 32) - n(x)
}
/// ~x of 32 bits.
fn not(x: u64) -> i128 {
    u32::MAX as i128 - n(x)
}
/// Two words as one number, the first is the lower one.
fn both(low: u64, high: u64) -> u64 {
    high << 32 | low
}

static SUMS: &[Row] = &[
    row("IADD3 R20, R10, R12, R14", "rrr", "r", |x| word(n(x[0]) + n(x[1]) + n(x[2]))),
    row("IADD3 R20, R10, R12, RZ", "rr", "r", |x| word(n(x[0]) + n(x[1]))),
    row("IADD3 R20, -R10, R12, -R14", "rrr", "r", |x| word(n(x[1]) - n(x[0]) - n(x[2]))),
    row("IADD3 R20, RZ, -R10, RZ", "r", "r", |x| word(-n(x[0]))),
    row("IADD3 R20, P4, R10, R12, RZ", "rr", "rp", |x| sum_once(n(x[0]) + n(x[1]))),
    row("IADD3 R20, P4, R10, -0x8, RZ", "r", "rp", |x| sum_once(n(x[0]) + 0xFFFF_FFF8)),
    row("IADD3 R20, P4, RZ, -R10, RZ", "r", "rp", |x| sum_once(negated(x[0]))),
    row("IADD3 R20, P4, PT, R10, -R12, RZ", "rr", "rp", |x| sum_once(n(x[0]) + negated(x[1]))),
    row("IADD3 R20, P4, P5, R10, R12, R14", "rrr", "rpp", |x| sum(n(x[0]) + n(x[1]) + n(x[2]))),
    row("IADD3 R20, P4, P5, R10, R12, -R14", "rrr", "rpp", |x| sum(n(x[0]) + n(x[1]) + negated(x[2]))),
    row("IADD3 R20, P4, P5, R10, -R12, -R14", "rrr", "rpp", |x| sum(n(x[0]) + negated(x[1]) + negated(x[2]))),
    row("IADD3 R20, P4, P5, -R10, R12, R14", "rrr", "rpp", |x| sum(negated(x[0]) + n(x[1]) + n(x[2]))),
    row("IADD3.X R20, R10, R12, R14, P1, !PT", "rrrp", "r", |x| word(n(x[0]) + n(x[1]) + n(x[2]) + n(x[3]))),
    row("IADD3.X R20, R10, R12, R14, P1, P2", "rrrpp", "r", |x| word(n(x[0]) + n(x[1]) + n(x[2]) + n(x[3]) + n(x[4]))),
    row("IADD3.X R20, R10, R12, ~R14, P1, !P2", "rrrpp", "r", |x| {
        word(n(x[0]) + n(x[1]) + not(x[2]) + n(x[3]) + 1 - n(x[4]))
    }),
    row("IADD3.X R20, PT, PT, R10, ~R12, RZ, P1, !PT", "rrp", "r", |x| word(n(x[0]) + not(x[1]) + n(x[2]))),
    row("IADD3.X R20, P4, P5, R10, R12, R14, P1, P2", "rrrpp", "rpp", |x| {
        sum(n(x[0]) + n(x[1]) + n(x[2]) + n(x[3]) + n(x[4]))
    }),
    row("IADD.64 R20, R10, R12", "ll", "l", |x| wide(n64(x[0]) + n64(x[1]))),
    row("IADD.64 R20, -R10, R12", "ll", "l", |x| wide(n64(x[1]) - n64(x[0]))),
    row("IADD.64 R20, R10, -0xd0", "l", "l", |x| wide(n64(x[0]) - 0xd0)),
    // The uniform datapath alone has it.
    row("IADD3.64 R20, PT, PT, R10, R12, R14", "lll", "l", |x| wide(n64(x[0]) + n64(x[1]) + n64(x[2]))),
    row("VIADD R20, R10, 0xfffffffe", "r", "r", |x| word(n(x[0]) - 2)),
    row("VIADD R20, R10, -R12", "rr", "r", |x| word(n(x[0]) - n(x[1]))),
    row("IABS R20, R10", "r", "r", |x| word(s(x[0]).abs())),
];

/// Pairs of instructions as the compiler writes them for 64 bits.
static LONG: &[Row] = &[
    row("IADD3 R20, P0, R10, R12, RZ\nIADD3.X R21, R11, R13, RZ, P0, !PT", "ll", "l", |x| wide(n64(x[0]) + n64(x[1]))),
    row("IADD3 R20, P0, R10, -R12, RZ\nIADD3.X R21, R11, ~R13, RZ, P0, !PT", "ll", "l", |x| {
        wide(n64(x[0]) - n64(x[1]))
    }),
    row("IADD3 R20, P0, RZ, -R10, RZ\nIMAD.X R21, RZ, RZ, ~R11, P0", "l", "l", |x| wide(-n64(x[0]))),
    row("IADD3 R20, P0, P1, R10, R12, R14\nIADD3.X R21, R11, R13, R15, P0, P1", "lll", "l", |x| {
        wide(n64(x[0]) + n64(x[1]) + n64(x[2]))
    }),
    row("IADD3 R20, P0, P1, R10, R12, -R14\nIADD3.X R21, R11, R13, ~R15, P0, P1", "lll", "l", |x| {
        wide(n64(x[0]) + n64(x[1]) - n64(x[2]))
    }),
    row("LEA R20, P0, R10, R12, 0x3\nLEA.HI.X R21, R10, R13, R11, 0x3, P0", "ll", "l", |x| {
        wide((n64(x[0]) << 3) + n64(x[1]))
    }),
    row("LEA R20, P0, R14, R10, 0x2\nLEA.HI.X.SX32 R21, R14, R11, 0x2, P0", "lrr", "l", |x| {
        wide(n64(x[0]) + (s(x[2]) << 2))
    }),
    row("SHF.L.U32 R20, R10, R12, RZ\nSHF.L.U64.HI R21, R10, R12, R11", "lr", "l", |x| {
        left(x[0], x[1], 64).map(u128::from)
    }),
    row("SHF.R.U64 R20, R10, R12, R11\nSHF.R.U32.HI R21, RZ, R12, R11", "lr", "l", |x| {
        right(x[0], x[1], 64).map(u128::from)
    }),
    // The product of two 64-bit numbers: low words, then crosswise.
    row(
        "IMAD.WIDE.U32 R20, R10, R12, RZ\nIMAD R22, R10, R13, RZ\nIMAD R22, R11, R12, R22\nIMAD.IADD R21, R21, 0x1, R22",
        "ll",
        "l",
        |x| wide(i128::from(x[0].wrapping_mul(x[1]))),
    ),
    // Its upper half.
    row(
        "IMAD.WIDE.U32 R24, R10, R13, RZ\nIMAD.WIDE.U32 R24, P0, R11, R12, R24\nIMAD.WIDE.U32 R26, R10, R12, RZ\n\
         IADD3 RZ, P1, R27, R24, RZ\nIMAD.X R29, RZ, RZ, RZ, P0\nIMAD.MOV.U32 R28, RZ, RZ, R25\n\
         IMAD.WIDE.U32.X R20, R11, R13, R28, P1",
        "ll",
        "l",
        |x| Some((u128::from(x[0]) * u128::from(x[1])) >> 64),
    ),
];

static PRODUCTS: &[Row] = &[
    row("IMAD R20, R10, R12, R14", "rrr", "r", |x| word(n(x[0]) * n(x[1]) + n(x[2]))),
    row("IMAD R20, R10, 0x70, R14", "rrr", "r", |x| word(n(x[0]) * 0x70 + n(x[2]))),
    row("IMAD R20, R10, 0x20, R14", "rrr", "r", |x| word(n(x[0]) * 0x20 + n(x[2]))),
    row("IMAD R20, R10, -0x800000, R14", "rrr", "r", |x| word(n(x[0]) * -0x80_0000 + n(x[2]))),
    row("IMAD R20, R10, R12, RZ", "rr", "r", |x| word(n(x[0]) * n(x[1]))),
    row("IMAD R20, R10, R12, 0x1234", "rr", "r", |x| word(n(x[0]) * n(x[1]) + 0x1234)),
    row("IMAD.IADD R20, R10, 0x1, -R14", "rrr", "r", |x| word(n(x[0]) - n(x[2]))),
    row("IMAD.SHL.U32 R20, R10, 0x20, RZ", "r", "r", |x| word(n(x[0]) << 5)),
    row("IMAD.U32 R20, R10, 0x10000, RZ", "r", "r", |x| word(n(x[0]) << 16)),
    row("IMAD.SHL.U32 R20, R10, -0x80000000, RZ", "r", "r", |x| word(n(x[0]) << 31)),
    row("IMAD.MOV.U32 R20, RZ, RZ, R10", "r", "r", |x| word(n(x[0]))),
    row("IMAD.MOV.U32 R20, RZ, RZ, -0x1", "r", "r", |_| word(-1)),
    row("IMAD.MOV R20, RZ, RZ, -R10", "r", "r", |x| word(-n(x[0]))),
    row("IMAD.X R20, R10, 0x1, R14, P1", "rrrp", "r", |x| word(n(x[0]) + n(x[2]) + n(x[3]))),
    row("IMAD.X R20, RZ, RZ, ~R10, P1", "rp", "r", |x| word(not(x[0]) + n(x[1]))),
    row("IMAD.X R20, RZ, RZ, -0x1, P1", "rp", "r", |x| word(n(x[1]) - 1)),
    row("IMAD.WIDE R20, R10, R12, R14", "rrl", "l", |x| wide(s(x[0]) * s(x[1]) + n64(x[2]))),
    row("IMAD.WIDE R20, R10, -0x4, R14", "rrl", "l", |x| wide(s(x[0]) * -4 + n64(x[2]))),
    row("IMAD.WIDE.U32 R20, R10, R12, R14", "rrl", "l", |x| wide(n(x[0]) * n(x[1]) + n64(x[2]))),
    row("IMAD.WIDE.U32 R20, R10, R12, RZ", "rr", "l", |x| wide(n(x[0]) * n(x[1]))),
    row("IMAD.WIDE.U32 R20, P4, R10, R12, R14", "rrl", "lp", |x| {
        let total = n(x[0]) * n(x[1]) + n64(x[2]);
        holds(total as u64, [total >= 1 << 64, false])
    }),
    row("IMAD.WIDE.U32.X R20, R10, R12, R14, P1", "rrlp", "l", |x| wide(n(x[0]) * n(x[1]) + n64(x[2]) + n(x[3]))),
    row("IMAD.HI.U32 R20, R10, R12, RZ", "rr", "r", |x| word((n(x[0]) * n(x[1])) >> 32)),
    // The third source has two words.
    row("IMAD.HI.U32 R20, R10, R12, R14", "rrl", "r", |x| word((n(x[0]) * n(x[1]) + n64(x[2])) >> 32)),
    row("IMAD.HI.U32 R20, P4, R10, R12, R14", "rrl", "rp", |x| {
        let total = n(x[0]) * n(x[1]) + n64(x[2]);
        holds((total >> 32) as u64 & 0xFFFF_FFFF, [total >= 1 << 64, false])
    }),
    row("IDP.4A.S8.S8 R20, R10, R12, R14", "rrr", "r", |x| word(dot4(u(x[0]), u(x[1]), i(x[2])))),
];

static SHIFTS: &[Row] = &[
    row("LEA R20, R10, R12, 0x5", "rr", "r", |x| word((n(x[0]) << 5) + n(x[1]))),
    row("LEA R20, -R10, R12, 0x5", "rr", "r", |x| word(n(x[1]) - (n(x[0]) << 5))),
    row("LEA R20, R10, 0xc0800000, 0x17", "r", "r", |x| word((n(x[0]) << 23) + 0xc080_0000)),
    row("LEA R20, P4, R10, R12, 0x5", "rr", "rp", |x| sum_once((n(x[0]) << 5 & 0xFFFF_FFFF) + n(x[1]))),
    row("LEA.HI R20, R10, R12, R14, 0x5", "rrr", "r", |x| word((n64(both(x[0], x[2])) << 5 >> 32) + n(x[1]))),
    row("LEA.HI R20, P4, R10, R12, RZ, 0x17", "rr", "rp", |x| sum_once((n(x[0]) >> 9) + n(x[1]))),
    row("LEA.HI.X R20, R10, R12, R14, 0x2, P1", "rrrp", "r", |x| {
        word((n64(both(x[0], x[2])) << 2 >> 32) + n(x[1]) + n(x[3]))
    }),
    row("LEA.HI.SX32 R20, R10, R12, 0x1b", "rr", "r", |x| word((s(x[0]) >> 5) + n(x[1]))),
    row("LEA.HI.SX32 R20, R10, -R12, 0x1b", "rr", "r", |x| word((s(x[0]) >> 5) - n(x[1]))),
    row("LEA.HI.X.SX32 R20, R10, R12, 0x1, P1", "rrp", "r", |x| word((s(x[0]) >> 31) + n(x[1]) + n(x[2]))),
    row("SHF.L.U32 R20, R10, 0x7, RZ", "r", "r", |x| word(n(x[0]) << 7)),
    row("SHF.L.U32 R20, R10, R12, RZ", "rr", "r", |x| left(x[0], x[1], 32).map(u128::from)),
    row("SHF.R.U32.HI R20, RZ, 0x1f, R10", "r", "r", |x| word(n(x[0]) >> 31)),
    row("SHF.R.U32.HI R20, RZ, R12, R10", "rr", "r", |x| right(x[0], x[1], 32).map(u128::from)),
    row("SHF.R.S32.HI R20, RZ, 0x1f, R10", "r", "r", |x| word(s(x[0]) >> 31)),
    row("SHF.R.S32.HI R20, RZ, R12, R10", "rr", "r", |x| right_signed(x[0], x[1], 32).map(u128::from)),
    row("SHF.L.U64.HI R20, R10, 0x2, R14", "rrr", "r", |x| word(n64(both(x[0], x[2])) << 2 >> 32)),
    row("SHF.L.U64.HI R20, R10, R12, R14", "rrr", "r", |x| {
        left(both(x[0], x[2]), x[1], 64).map(|shifted| u128::from(shifted >> 32))
    }),
    row("SHF.R.U64 R20, R10, R12, R14", "rrr", "r", |x| {
        right(both(x[0], x[2]), x[1], 64).map(|shifted| u128::from(u(shifted)))
    }),
    row("SHF.L.W.U32.HI R20, R10, R12, R14", "rrr", "r", |x| word(n64(both(x[0], x[2])) << (x[1] & 31) >> 32)),
    row("PRMT R20, R10, R12, R14", "rrr", "r", |x| word(permuted(u(x[0]), u(x[2]), u(x[1])).into())),
    row("PRMT R20, R10, 0x7531, R14", "rrr", "r", |x| word(permuted(u(x[0]), u(x[2]), 0x7531).into())),
    row("PRMT R20, R10, 0x9910, RZ", "r", "r", |x| word(permuted(u(x[0]), 0, 0x9910).into())),
    row("PRMT R20, R10, 0x3ab6, R14", "rrr", "r", |x| word(permuted(u(x[0]), u(x[2]), 0x3AB6).into())),
    row("MOV R20, R14\nPRMT R20, R10, 0x7610, R20", "rrr", "r", |x| word(permuted(u(x[0]), u(x[2]), 0x7610).into())),
    row("PRMT R20, R10, R12, 0x71594535", "rr", "r", |x| word(permuted(u(x[0]), 0x7159_4535, u(x[1])).into())),
    row("POPC R20, R10", "r", "r", |x| word((0..32).map(|bit| n(x[0]) >> bit & 1).sum())),
    row("FLO.U32 R20, R10", "r", "r", |x| word((0..32).rev().find(|bit| x[0] >> bit & 1 != 0).unwrap_or(-1).into())),
];

static EXTREMES: &[Row] = &[
    row("IMNMX R20, R10, R12, PT", "rr", "r", |x| word(s(x[0]).min(s(x[1])))),
    row("IMNMX R20, R10, R12, !PT", "rr", "r", |x| word(s(x[0]).max(s(x[1])))),
    row("IMNMX.U32 R20, R10, R12, PT", "rr", "r", |x| word(n(x[0]).min(n(x[1])))),
    row("IMNMX.U32 R20, R10, R12, !PT", "rr", "r", |x| word(n(x[0]).max(n(x[1])))),
    row("IMNMX.U64 PT, PT, R20, R10, R12, !PT, !PT", "ll", "l", |x| wide(n64(x[0]).max(n64(x[1])))),
    row("VIMNMX R20, R10, 0x180, !PT", "r", "r", |x| word(s(x[0]).max(0x180))),
    row("VIMNMX R20, PT, PT, R10, R12, PT", "rr", "r", |x| word(s(x[0]).min(s(x[1])))),
    row("VIMNMX.S32 R20, R10, R12, !PT", "rr", "r", |x| word(s(x[0]).max(s(x[1])))),
    row("VIMNMX.U32 R20, R10, R12, PT", "rr", "r", |x| word(n(x[0]).min(n(x[1])))),
    row("VIMNMX3 R20, R10, 0xfffffdff, R14, !PT", "rrr", "r", |x| word(s(x[0]).max(s(x[2])).max(-0x201))),
    row("VIMNMX3.U32 R20, R10, R12, R14, !PT", "rrr", "r", |x| word(n(x[0]).max(n(x[1])).max(n(x[2])))),
    row("VIMNMX3 R20, R10, R12, R14, PT", "rrr", "r", |x| word(s(x[0]).min(s(x[1])).min(s(x[2])))),
    // The sum wraps first.
    row("VIADDMNMX R20, R10, R12, R14, PT", "rrr", "r", |x| word(s(u(x[0]).wrapping_add(u(x[1])).into()).min(s(x[2])))),
    row("VIADDMNMX R20, R10, -R12, 0x7, !PT", "rr", "r", |x| word(s(u(x[0]).wrapping_sub(u(x[1])).into()).max(7))),
    row("VIADDMNMX.U32 R20, R10, R12, 0x2, PT", "rr", "r", |x| word(n(u(x[0]).wrapping_add(u(x[1])).into()).min(2))),
    row("VIADDMNMX.U32 R20, R10, R12, 0x2, !PT", "rr", "r", |x| word(n(u(x[0]).wrapping_add(u(x[1])).into()).max(2))),
];

#[test]
fn sums() {
    check(SUMS);
}

#[test]
fn sums_of_64_bits() {
    check(LONG);
}

#[test]
fn products() {
    check(PRODUCTS);
}

#[test]
fn shifts_and_bytes() {
    check(SHIFTS);
}

#[test]
fn extremes() {
    check(EXTREMES);
}

/// Every table of three operands, bit by bit.
#[test]
fn all_tables_of_lop3() {
    let mut wrong = Wrong::default();
    for table in 0..256u32 {
        let chosen = |x: &[u64]| {
            (0..32).fold(0, |bits, bit| {
                let index = (0..3).fold(0, |index, i| index << 1 | x[i] >> bit & 1);
                bits | u64::from(table >> index & 1) << bit
            })
        };
        let lines = format!("LOP3.LUT P4, R20, R10, R12, R14, {table:#x}, !PT");
        wrong.check(&lines, "rrr", "rp", &|x| holds(chosen(x), [chosen(x) != 0, false]));
    }
    wrong.check("LOP3.LUT P4, RZ, R10, 0x1f, RZ, 0xc0, !PT", "r", "p", &|x| holds(0, [x[0] & 31 != 0, false]));
    wrong.check("LOP3.LUT P4, RZ, R10, 0x1f, RZ, 0xc0, P1", "rp", "p", &|x| {
        holds(0, [x[0] & 31 != 0 || x[1] == 1, false])
    });
    wrong.none();
}
