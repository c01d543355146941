//! What lanes compute on their own: lines of machine code, what they are given, and what they have to leave.

mod floats;
mod integers;
mod operands;
mod predicates;

use std::panic::{AssertUnwindSafe, catch_unwind};

use qrun_emulator::{Order, isa::Approximation};

use crate::isa::{
    harness::{Memory, Random},
    rows::{any, combinations, nasty},
    sass::harness::{Code, Lanes},
};

/// Registers of the sources (pairs for 64 bits), of the predicates among them, of the result.
const SOURCES: [usize; 4] = [10, 12, 14, 16];
const BITS: usize = 18;
const RESULT: usize = 20;
const PREDICATES: usize = 22;

/// Most cases of a line; where all combinations are more, random ones are taken.
const CASES: usize = 960;
/// And so many of any bits.
const MORE: usize = 320;

/// Lines with what they have to leave.
///
/// Sources are letters as in rows.rs: the first that is not a predicate is in R10 (or R10, R11), the next in R12, R14,
/// R16; predicates are P1, P2, P3. Results are in R20 (or R20, R21), P4 and P5; in the expected bits the predicates
/// follow on 64 bits for the register.
pub struct Row {
    pub lines: &'static str,
    pub from: &'static str,
    pub to: &'static str,
    pub of: fn(&[u64]) -> Option<u128>,
}

const fn row(lines: &'static str, from: &'static str, to: &'static str, of: fn(&[u64]) -> Option<u128>) -> Row {
    Row { lines, from, to, of }
}

/// 32 bits of a number.
fn word(value: i128) -> Option<u128> {
    Some(value as u128 & 0xFFFF_FFFF)
}

/// 64 bits of a number.
fn wide(value: i128) -> Option<u128> {
    Some(value as u128 & u128::from(u64::MAX))
}

/// Predicates alone, or beside a register.
fn holds(register: u64, predicates: [bool; 2]) -> Option<u128> {
    Some(u128::from(register) | u128::from(predicates[0]) << 64 | u128::from(predicates[1]) << 65)
}

/// An f32; every NaN is the same one.
fn single(value: f32) -> Option<u128> {
    Some(if value.is_nan() { 0x7FFF_FFFF } else { u128::from(value.to_bits()) })
}

/// An f64; any NaN for a NaN.
fn double(value: f64) -> Option<u128> {
    Some(if value.is_nan() { u128::from(u64::MAX >> 1) } else { u128::from(value.to_bits()) })
}

/// All combinations of nasty bits, or some, and then any bits; a multiple of 32.
fn cases(from: &str) -> Vec<Vec<u64>> {
    let mut random = Random(from.len() as u64);
    let lists: Vec<Vec<u64>> = from.chars().map(nasty).collect();
    let mut cases = combinations(&lists, CASES, &mut random);
    let bits: Vec<Vec<u64>> = (0..MORE).map(|_| from.chars().map(|class| any(class, &mut random)).collect()).collect();
    cases.extend(bits);
    while !cases.len().is_multiple_of(32) {
        cases.push(cases[0].clone());
    }
    cases
}

/// The registers that 32 cases are given.
fn given(from: &str, cases: &[Vec<u64>]) -> Vec<(usize, Lanes)> {
    let lanes = |of: &dyn Fn(&[u64]) -> u64| -> Lanes { std::array::from_fn(|lane| of(&cases[lane]) as u32) };
    let mut given = vec![];
    let (mut registers, mut predicates) = (SOURCES.iter(), vec![]);
    for (i, class) in from.chars().enumerate() {
        if class == 'p' {
            predicates.push(i);
            continue;
        }
        let register = *registers.next().expect("four sources at most");
        given.push((register, lanes(&|case| case[i])));
        if "ld".contains(class) {
            given.push((register + 1, lanes(&|case| case[i] >> 32)));
        }
    }
    let bits = |case: &[u64]| predicates.iter().enumerate().fold(0, |bits, (n, i)| bits | case[*i] << (n + 1));
    given.push((BITS, lanes(&bits)));
    given
}

/// What the lines leave of 32 cases.
fn left(lines: &str, from: &str, to: &str, cases: &[Vec<u64>], how: Approximation) -> Result<Vec<u128>, String> {
    let read = (0..from.matches('p').count()).fold(0, |mask, n| mask | 2 << n);
    let written = (0..to.matches('p').count()).fold(0, |mask, n| mask | 0x10 << n);
    let mut text = if read == 0 { String::new() } else { format!("R2P PR, R{BITS}, {read:#x}\n") };
    text += lines;
    text += &if written == 0 { String::new() } else { format!("\nP2R R{PREDICATES}, PR, RZ, {written:#x}") };
    let given = given(from, cases);
    let code = Code { approximation: how, ..Code::new(&text, &given) };
    let mut memory = Memory::default();
    // What the lines do not leave is read from a source.
    let has = |class: &[char], register: usize| if to.contains(class) { register } else { BITS };
    let wanted = [has(&['r', 'f', 'l', 'd'], RESULT), has(&['l', 'd'], RESULT + 1), has(&['p'], PREDICATES)];
    let done = catch_unwind(AssertUnwindSafe(|| code.attempt(&mut memory, wanted, Order::Forward)));
    let [low, high, predicates] = done.map_err(|_| "the machine panics")?.map_err(|fault| fault.report)?;
    let of = |class: &[char], value: u32| if to.contains(class) { u128::from(value) } else { 0 };
    let one = |lane: usize| {
        let register = of(&['r', 'f', 'l', 'd'], low[lane]) | of(&['l', 'd'], high[lane]) << 32;
        register | of(&['p'], predicates[lane] >> 4) << 64
    };
    Ok((0..32).map(one).collect())
}

/// What is wrong with the lines, in a few cases.
fn differences(lines: &str, from: &str, to: &str, of: &dyn Fn(&[u64]) -> Option<u128>) -> Vec<String> {
    let mut wrong = vec![];
    for cases in cases(from).chunks(32) {
        let found = match left(lines, from, to, cases, Approximation::Exact) {
            Ok(found) => found,
            Err(why) => return vec![format!("`{lines}`: {why}")],
        };
        for (case, found) in cases.iter().zip(found) {
            let found = if to.contains('d') { double(f64::from_bits(found as u64)).expect("bits") } else { found };
            if let Some(expected) = of(case).filter(|expected| *expected != found) {
                wrong.push(format!("`{lines}` of {case:x?}: expected {expected:#x}, found {found:#x}"));
            }
        }
    }
    wrong.truncate(3);
    wrong
}

/// Checks lines that are not in a table.
#[derive(Default)]
struct Wrong(Vec<String>);

impl Wrong {
    fn check(&mut self, lines: &str, from: &str, to: &str, of: &dyn Fn(&[u64]) -> Option<u128>) {
        self.0.extend(differences(lines, from, to, of));
    }

    #[track_caller]
    fn none(self) {
        assert!(self.0.is_empty(), "{} differences:\n{}", self.0.len(), self.0.join("\n"));
    }
}

/// Checks a table; all rows that are wrong are named at once.
#[track_caller]
fn check(rows: &[Row]) {
    let mut wrong = Wrong::default();
    rows.iter().for_each(|row| wrong.check(row.lines, row.from, row.to, &row.of));
    wrong.none();
}
