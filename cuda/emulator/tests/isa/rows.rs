//! Rows of tables: one instruction that computes, its operands, and what the manual says that it gives.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::isa::harness::{Job, Memory, Random, module, words};

/// How a result is compared.
#[derive(Clone, Copy, PartialEq)]
pub enum Judge {
    /// Bit by bit.
    Bits,
    /// Any NaN for a NaN.
    Number,
    /// The same in both 16-bit halves, which are bf16.
    Bf16Pair,
    /// At most so many units in the last place beside the reference, which is rounded to f32.
    Ulps(u32),
}

/// An instruction. Operands are letters, the destination first: `r` 32 bits, `l` 64, `h` 16, `f` f32, `d` f64, `p` a
/// predicate, `{h,h}` two of them as one operand, `#` a number in the place of a register.
pub struct Row {
    pub op: &'static str,
    /// With registers.
    pub form: &'static str,
    /// Other forms, with numbers for some of the registers; separated by blanks.
    pub also: &'static str,
    pub judge: Judge,
    /// The result's bits from those of the sources; none where the manual leaves the result open.
    pub of: fn(&[u64]) -> Option<u64>,
}

/// An operand: what it is, and the number that stands in its place.
#[derive(Clone, Copy)]
struct Operand {
    class: char,
    number: Option<u64>,
}

/// Most cases of one kernel; where all combinations are more, random ones are taken.
const CASES: usize = 4000;
/// Most kernels per form with numbers.
const NUMBERS: usize = 48;

/// 16 bits: ends of bytes and words; zeros, ones, denormals, infinities and NaNs of f16.
const HALF: &str =
    "0 1 2 7 f 10 42 7f 80 81 ff 100 3c00 7bff 7c00 7c01 7fff 8000 8001 83ff 400 fc00 fe00 ffff 1234 ff80";
/// 32 bits: shifts up to and beyond the width, ends of bytes, halves and words, selectors.
const WORD: &str = "0 1 2 3 4 7 8 f 10 17 18 1f 20 21 3f 40 41 7f 80 ff 100 7fff 8000 ffff 10000 7fffffff 80000000 \
    80000001 ffffffe0 fffffffe ffffffff 80ff7f01 7f8081fe 1020384 12345678 deadbeef 3210 fedc 5410 ffff80";
/// 64 bits: the same, and what f32 or f64 cannot hold exactly.
const WIDE: &str = "0 1 2 5 1f 20 21 3f 40 41 ff 7fffffff 80000000 ffffffff 100000000 8000000000000000 \
    7fffffffffffffff 8000000000000001 ffffffffffffffff ffffffff00000000 ffffffff80000000 123456789abcdef \
    20000000000001 8000000000000400 ffffffffffffffe0 1000001 ffffffff80";
/// f32: zeros, ones, halves and what is halfway, ends of the integers and of 16-bit formats, denormals, infinities,
/// NaNs.
const SINGLE: &str = "0 80000000 3f800000 bf800000 3f000000 bf000000 3fc00000 40200000 c0200000 3effffff 3f7fffff \
    4b000001 4affffff 4effffff 4f000000 cf000000 cf000001 4f800000 5f000000 df000000 df000001 1 80000001 7fffff \
    800000 1000000 7f7fffff ff7fffff 7f800000 ff800000 7fc00000 ffc01234 7f800001 7f000001 33800000 33800001 \
    33000000 33000001 477fefff 477ff000 38801000 38803000 3f808000 3f818000 3f808001 7f7f8000 40490fdb c2aeac50 \
    3dcccccd 33ffffff";
/// f64: the same.
const DOUBLE: &str = "0 8000000000000000 3ff0000000000000 bff0000000000000 3fe0000000000000 bfe0000000000000 \
    3ff8000000000000 c004000000000000 41dfffffffe00000 41dfffffffc00000 41e0000000000000 c1e0000000000000 \
    c1e0000000200000 43e0000000000000 c3e0000000000000 43dfffffffffffff 4330000000000001 3ff0000010000000 \
    3ff0000030000000 3ff0000010000001 47effffff0000000 47efffffefffffff 3690000000000000 3690000000000001 1 \
    7fefffffffffffff 7ff0000000000000 fff0000000000000 7ff8000000000000 fff8000000001234 3fd5555555555555 \
    c059000000000000";

/// One of each list in all ways, or, where those are more than `most`, so many at random.
pub fn combinations(lists: &[Vec<u64>], most: usize, random: &mut Random) -> Vec<Vec<u64>> {
    let all: usize = lists.iter().map(Vec::len).product();
    let case = |case: usize| {
        let mut rest = case;
        let digit = |list: &Vec<u64>| {
            let at = if all > most { random.below(list.len()) } else { rest % list.len() };
            rest /= list.len();
            list[at]
        };
        lists.iter().map(digit).collect()
    };
    (0..all.min(most)).map(case).collect()
}

/// Bits that are worth trying.
pub fn nasty(class: char) -> Vec<u64> {
    let text = match class {
        'p' => "0 1",
        'h' => HALF,
        'r' => WORD,
        'l' => WIDE,
        'f' => SINGLE,
        'd' => DOUBLE,
        _ => panic!("no operand is called {class}"),
    };
    text.split_whitespace().map(|bits| u64::from_str_radix(bits, 16).expect("hexadecimal")).collect()
}

/// Bits of this class that are nothing in particular.
pub fn any(class: char, random: &mut Random) -> u64 {
    let bits = random.next();
    match class {
        'p' => bits & 1,
        'h' => bits & 0xFFFF,
        'r' => bits & 0xFFFF_FFFF,
        // Of a size that meets others; every fourth of any size.
        'f' if bits >> 62 > 0 => (bits & 0x81FF_FFFF) + 0x3E00_0000,
        'f' => bits & 0xFFFF_FFFF,
        'd' if bits >> 62 > 0 => (bits & 0x801F_FFFF_FFFF_FFFF) + 0x3FE0_0000_0000_0000,
        _ => bits,
    }
}

/// A number as PTX writes it.
fn literal(op: &str, class: char, bits: u64) -> String {
    match class {
        'f' => format!("0f{bits:08X}"),
        'd' => format!("0d{bits:016X}"),
        'p' => if bits == 1 { "-1" } else { "0" }.to_string(),
        'h' => (bits as u16 as i16).to_string(),
        // Both signs are found in what the compiler writes.
        'r' if op.contains(".u32") => (bits as u32).to_string(),
        'r' => (bits as u32 as i32).to_string(),
        _ => (bits as i64).to_string(),
    }
}

/// The operands of a form, with braces around those that are one.
fn operands(form: &str) -> Vec<Vec<char>> {
    let mut all: Vec<Vec<char>> = vec![vec![]];
    let mut inside = false;
    for c in form.chars() {
        match c {
            '{' | '}' => inside = c == '{',
            ',' if !inside => all.push(vec![]),
            ',' => (),
            class => all.last_mut().expect("never empty").push(class),
        }
    }
    all
}

fn register(class: char, index: usize) -> String {
    let name = match class {
        'p' => "p",
        'h' => "rs",
        'r' => "r",
        'l' => "rd",
        'f' => "f",
        'd' => "fd",
        _ => panic!("no operand is called {class}"),
    };
    format!("%{name}{index}")
}

/// First registers of sources and destinations.
const SOURCE: usize = 10;
const DESTINATION: usize = 20;

impl Row {
    pub const fn new(op: &'static str, form: &'static str, also: &'static str, of: fn(&[u64]) -> Option<u64>) -> Self {
        Self { op, form, also, judge: Judge::Bits, of }
    }

    pub const fn judged(self, judge: Judge) -> Self {
        Self { judge, ..self }
    }

    /// Every form that the row is a test of, as coverage.rs writes shapes.
    pub fn shapes(&self) -> impl Iterator<Item = String> {
        std::iter::once(self.form).chain(self.also.split_whitespace()).map(|form| format!("{} {form}", self.op))
    }

    /// Lines that load the sources from 8-byte places behind %rd0, compute, and store the result behind %rd1.
    fn body(&self, sources: &[Operand]) -> String {
        let mut text = String::from(
            "mov.u32 %r1, %ctaid.x; shl.b32 %r1, %r1, 5; add.s32 %r0, %r0, %r1; mul.wide.u32 %rd2, %r0, 32; \
             add.s64 %rd0, %rd0, %rd2; mul.wide.u32 %rd3, %r0, 8; add.s64 %rd1, %rd1, %rd3; ",
        );
        let mut names = vec![];
        for (i, source) in sources.iter().enumerate() {
            let (name, at) = (register(source.class, SOURCE + i), format!("[%rd0+{}]", 8 * i));
            match (source.number, source.class) {
                (Some(bits), class) => {
                    names.push(literal(self.op, class, bits));
                    continue;
                }
                (_, 'p') => text += &format!("ld.global.u32 %r30, {at}; setp.ne.s32 {name}, %r30, 0; "),
                (_, 'h') => text += &format!("ld.global.u16 {name}, {at};\n"),
                (_, 'r') => text += &format!("ld.global.u32 {name}, {at};\n"),
                (_, 'l') => text += &format!("ld.global.u64 {name}, {at};\n"),
                (_, 'f') => text += &format!("ld.global.f32 {name}, {at};\n"),
                _ => text += &format!("ld.global.f64 {name}, {at};\n"),
            }
            names.push(name);
        }
        let all = operands(self.form);
        let results: Vec<String> =
            all[0].iter().enumerate().map(|(i, &class)| register(class, DESTINATION + i)).collect();
        let mut names = names.into_iter();
        let mut written = vec![];
        for (i, operand) in all.iter().enumerate() {
            let parts: Vec<String> =
                if i == 0 { results.clone() } else { names.by_ref().take(operand.len()).collect() };
            written.push(if parts.len() > 1 { format!("{{{}}}", parts.join(", ")) } else { parts.concat() });
        }
        text += &format!("{} {};\n", self.op, written.join(", "));
        for (i, (result, class)) in results.iter().zip(&all[0]).enumerate() {
            let at = format!("[%rd1+{}]", 4 * i);
            text += &match class {
                'p' => format!("selp.u32 %r31, 1, 0, {result}; st.global.u32 {at}, %r31; "),
                'h' => format!("st.global.u16 {at}, {result};\n"),
                'r' => format!("st.global.u32 {at}, {result};\n"),
                'l' => format!("st.global.u64 {at}, {result};\n"),
                'f' => format!("st.global.f32 {at}, {result};\n"),
                _ => format!("mov.b64 %rd30, {result}; st.global.u64 {at}, %rd30; "),
            };
        }
        text
    }

    /// The sources of the row; for the `#` of a form the nth numbers.
    fn sources(&self, form: &str, nth: usize, random: &mut Random) -> Vec<Operand> {
        let (classes, given) = (operands(self.form), operands(form));
        let mut first = true;
        let mut source = |(&class, &c): (&char, &char)| {
            let list = nasty(class);
            let is_number = c == '#';
            let at = if is_number && std::mem::take(&mut first) { nth } else { random.next() as usize };
            Operand { class, number: is_number.then(|| list[at % list.len()]) }
        };
        classes[1..].iter().flatten().zip(given[1..].iter().flatten()).map(&mut source).collect()
    }

    /// All combinations of nasty bits, or some, and then any bits.
    fn cases(sources: &[Operand], random: &mut Random) -> Vec<Vec<u64>> {
        let lists: Vec<Vec<u64>> =
            sources.iter().map(|s| if s.number.is_some() { vec![0] } else { nasty(s.class) }).collect();
        let mut cases = combinations(&lists, CASES, random);
        let more = if cases.len() < 100 { 64 } else { 500 };
        cases.extend((0..more).map(|_| sources.iter().map(|s| any(s.class, random)).collect::<Vec<_>>()));
        while !cases.len().is_multiple_of(32) {
            cases.push(cases[0].clone());
        }
        for case in &mut cases {
            for (value, source) in case.iter_mut().zip(sources) {
                *value = source.number.unwrap_or(*value);
            }
        }
        cases
    }

    /// Same value as the judge sees it.
    fn seen(&self, bits: u64) -> u64 {
        let nan = |bits: u64, infinity: u64, sign: u64, canonical: u64| {
            if bits & !sign > infinity { canonical } else { bits }
        };
        let class = operands(self.form)[0][0];
        match (self.judge, class) {
            (Judge::Bits, _) => bits,
            (Judge::Bf16Pair, _) => {
                let half = |bits| nan(bits, 0x7F80, 0x8000, 0x7FFF);
                half(bits & 0xFFFF) | half(bits >> 16) << 16
            }
            (_, 'h') => nan(bits, 0x7C00, 0x8000, 0x7FFF),
            (_, 'd') => nan(bits, 0x7FF0 << 48, 1 << 63, u64::MAX >> 1),
            _ => nan(bits, 0x7F80_0000, 0x8000_0000, 0x7FFF_FFFF),
        }
    }

    fn same(&self, found: u64, expected: u64) -> bool {
        let Judge::Ulps(most) = self.judge else { return self.seen(found) == self.seen(expected) };
        let (found, expected) = (self.seen(found) as u32, self.seen(expected) as u32);
        // Zeros, infinities and NaNs are exact.
        let exact = |bits: u32| bits << 1 == 0 || bits & 0x7F80_0000 == 0x7F80_0000;
        found == expected || !exact(found) && !exact(expected) && found.abs_diff(expected) <= most
    }

    /// One kernel with these sources; what differs.
    fn differences(&self, sources: &[Operand], job: &dyn Fn(Job<'_>) -> Job<'_>, random: &mut Random) -> Vec<String> {
        let cases = Self::cases(sources, random);
        let input: Vec<u64> = cases.iter().flat_map(|c| (0..4).map(|i| c.get(i).copied().unwrap_or(0))).collect();
        let mut memory = Memory::default();
        let (from, to) = (memory.put(&input), memory.put(&vec![0u64; cases.len()]));
        let (body, params) = (self.body(sources), words(&[from, to]));
        let text = module(32, 2, "", &body);
        let line = text.lines().find(|l| l.starts_with(&format!("{} ", self.op))).unwrap_or(self.op);
        let blocks = (cases.len() / 32) as u32;
        let done = catch_unwind(AssertUnwindSafe(|| {
            job(Job { grid: [blocks, 1, 1], ..Job::new(&text, 32, &params) }).run(&memory)
        }));
        match done {
            Err(_) => return vec![format!("`{line}`: the machine panics")],
            Ok(Err(fault)) => return vec![format!("`{line}`: {}", fault.report)],
            Ok(Ok(_)) => (),
        }
        let found = memory.get::<u64>(to);
        let wrong = cases.iter().zip(&found).filter_map(|(case, &found)| {
            let expected = (self.of)(case)?;
            let what = || format!("`{line}` of {case:x?}: expected {expected:#x}, found {found:#x}");
            (!self.same(found, expected)).then(what)
        });
        wrong.collect()
    }

    /// What differs in any form, a few per form.
    pub fn check(&self, job: &dyn Fn(Job<'_>) -> Job<'_>) -> Vec<String> {
        let mut random = Random(self.op.len() as u64);
        let registers = self.sources(self.form, 0, &mut random);
        let mut wrong = self.differences(&registers, job, &mut random);
        wrong.truncate(4);
        for form in self.also.split_whitespace() {
            let mut of_form = vec![];
            for nth in 0..NUMBERS {
                let sources = self.sources(form, nth, &mut random);
                of_form.extend(self.differences(&sources, job, &mut random));
            }
            of_form.truncate(3);
            wrong.extend(of_form);
        }
        wrong
    }
}

/// Checks a table; all rows that are wrong are named at once.
#[track_caller]
pub fn check(rows: &[Row]) {
    let wrong: Vec<String> = rows.iter().flat_map(|row| row.check(&|job| job)).collect();
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}
