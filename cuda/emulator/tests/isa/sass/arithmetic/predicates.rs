//! Comparisons, selection, and predicates as bits.

use crate::isa::{
    references::{d, f, flushed, i, l, u},
    sass::arithmetic::{Row, Wrong, check, holds, row},
};

/// How two numbers stand to each other; None where one is not a number.
type Order = Option<std::cmp::Ordering>;

/// A test by its name, of numbers that have this order.
fn passes(test: &str, order: Order) -> bool {
    let (name, unordered) = match test.strip_suffix('U').filter(|rest| rest.len() == 2) {
        Some(rest) => (rest, true),
        None => (test, false),
    };
    match (name, order) {
        ("NAN", _) => order.is_none(),
        (_, None) => unordered,
        ("EQ", Some(order)) => order.is_eq(),
        ("NE", Some(order)) => order.is_ne(),
        ("LT", Some(order)) => order.is_lt(),
        ("LE", Some(order)) => order.is_le(),
        ("GT", Some(order)) => order.is_gt(),
        ("GE", Some(order)) => order.is_ge(),
        _ => panic!("no test is called {test}"),
    }
}

const WHOLE: [&str; 6] = ["EQ", "NE", "LT", "LE", "GT", "GE"];
const REAL: [&str; 13] = ["EQ", "NE", "LT", "LE", "GT", "GE", "EQU", "NEU", "LTU", "LEU", "GTU", "GEU", "NAN"];

fn logic(name: &str, x: bool, y: bool) -> bool {
    match name {
        "AND" => x && y,
        "OR" => x || y,
        "XOR" => x != y,
        _ => panic!("no logic is called {name}"),
    }
}

/// All tests of one instruction, with all logic, and both results.
fn comparisons(before: &str, after: &str, from: &str, tests: &[&str], order: &dyn Fn(&[u64]) -> Order) {
    let mut wrong = Wrong::default();
    for test in tests {
        for with in ["AND", "OR", "XOR"] {
            // A condition, where P1 does not hold and where it does.
            for (condition, of) in
                [("P1", [false, true]), ("!P1", [true, false]), ("PT", [true; 2]), ("!PT", [false; 2])]
            {
                let lines = format!("{before}.{test}{after}.{with} P4, P5, R10, R12, {condition}");
                wrong.check(&lines, &format!("{from}p"), "pp", &|x| {
                    let (passed, other) = (passes(test, order(x)), of[x[2] as usize]);
                    holds(0, [logic(with, passed, other), logic(with, !passed, other)])
                });
            }
        }
    }
    wrong.none();
}

#[test]
fn comparisons_of_integers() {
    comparisons("ISETP", "", "rr", &WHOLE, &|x| Some(i(x[0]).cmp(&i(x[1]))));
    comparisons("ISETP", ".U32", "rr", &WHOLE, &|x| Some(u(x[0]).cmp(&u(x[1]))));
    comparisons("ISETP", ".S64", "ll", &WHOLE, &|x| Some(l(x[0]).cmp(&l(x[1]))));
    comparisons("ISETP", ".U64", "ll", &WHOLE, &|x| Some(x[0].cmp(&x[1])));
}

#[test]
fn comparisons_of_floats() {
    comparisons("FSETP", "", "ff", &REAL, &|x| f(x[0]).partial_cmp(&f(x[1])));
    comparisons("FSETP", ".FTZ", "ff", &REAL, &|x| flushed(f(x[0])).partial_cmp(&flushed(f(x[1]))));
    comparisons("DSETP", "", "dd", &REAL, &|x| d(x[0]).partial_cmp(&d(x[1])));
}

/// The lower words without a sign, then the upper ones with what that gave.
#[test]
fn comparisons_of_two_words() {
    let mut wrong = Wrong::default();
    for test in WHOLE {
        for (signed, upper) in [(true, ""), (false, ".U32")] {
            let lines = format!(
                "ISETP.{test}.U32.AND P2, PT, R10, R12, PT\nISETP.{test}{upper}.OR.EX P4, P5, R11, R13, !P1, P2"
            );
            wrong.check(&lines, "llp", "pp", &|x| {
                let order = if signed { l(x[0]).cmp(&l(x[1])) } else { x[0].cmp(&x[1]) };
                let passed = passes(test, Some(order));
                holds(0, [passed || x[2] == 0, !passed || x[2] == 0])
            });
        }
    }
    wrong.none();
}

/// Every table of three predicates, for both results.
#[test]
fn all_tables_of_plop3() {
    let mut wrong = Wrong::default();
    for table in 0..256usize {
        let other = table * 37 % 256;
        let lines = format!("PLOP3.LUT P4, P5, P1, !P2, P3, {table:#x}, {other:#x}");
        wrong.check(&lines, "ppp", "pp", &|x| {
            let index = x[0] << 2 | (1 - x[1]) << 1 | x[2];
            holds(0, [table >> index & 1 != 0, other >> index & 1 != 0])
        });
    }
    wrong.none();
}

fn chosen(x: &[u64]) -> u64 {
    if x[2] == 1 { x[0] } else { x[1] }
}

static OTHERS: &[Row] = &[
    row("SEL R20, R10, R12, P1", "rrp", "r", |x| holds(chosen(x), [false; 2])),
    row("SEL R20, R12, R10, !P1", "rrp", "r", |x| holds(chosen(x), [false; 2])),
    row("SEL R20, R10, 0x7, P1", "rrp", "r", |x| holds(if x[2] == 1 { x[0] } else { 7 }, [false; 2])),
    row("SEL.64 R20, R10, R12, P1", "llp", "l", |x| holds(chosen(x), [false; 2])),
    row("SEL.64 R20, R10, 0x28, !P1", "lp", "l", |x| holds(if x[1] == 0 { x[0] } else { 0x28 }, [false; 2])),
    // The bits of NaN stay.
    row("FSEL R20, R10, R12, P1", "ffp", "f", |x| holds(chosen(x), [false; 2])),
    row("FSEL R20, R10, -R12, P1", "ffp", "f", |x| {
        holds(if x[2] == 1 { x[0] } else { x[1] ^ 0x8000_0000 }, [false; 2])
    }),
    row("FSEL R20, |R10|, -INF , P1", "fp", "f", |x| {
        holds(if x[1] == 1 { x[0] & 0x7FFF_FFFF } else { 0xFF80_0000 }, [false; 2])
    }),
    row("FSEL R20, R10, +QNAN , P1", "fp", "f", |x| holds(if x[1] == 1 { x[0] } else { 0x7FFF_FFFF }, [false; 2])),
    row("P2R R20, PR, R10, 0xa", "rppp", "r", |x| holds(x[0] & !0xA | x[1] << 1 | x[3] << 3, [false; 2])),
    row("R2P PR, R10, 0x30", "r", "pp", |x| holds(0, [x[0] & 0x10 != 0, x[0] & 0x20 != 0])),
    row("MOV R20, R10", "r", "r", |x| holds(x[0], [false; 2])),
    row("MOV.64 R20, R10", "l", "l", |x| holds(x[0], [false; 2])),
    row("MOV.64 R20, 0x3ff71547652b82fe", "l", "l", |_| holds(0x3FF7_1547_652B_82FE, [false; 2])),
    row("CS2R R20, SRZ", "r", "l", |_| holds(0, [false; 2])),
];

#[test]
fn selection_and_bits() {
    check(OTHERS);
}
