//! Every instruction of the machine code that is shipped can be read.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use qrun_emulator::isa::Module;

use crate::isa::sass::shipped::{Cubin, SMS, cubins};

/// The instruction of a line, without its guard: what stands between address and encoding.
fn code(line: &str) -> Option<&str> {
    let (_, rest) = line.trim_start().strip_prefix("/*")?.split_once("*/")?;
    let code = rest.rsplit_once("/* 0x")?.0.trim().trim_end_matches(';').trim().trim_matches(['{', '}']).trim();
    Some(code.strip_prefix('@').and_then(|guarded| guarded.split_once(' ')).map_or(code, |(_, code)| code.trim()))
}

/// The same with all numbers as `#` and without hints: `LDG.E R#, [R#.#+#]`.
fn shape(code: &str) -> String {
    let (name, operands) = code.split_once(' ').unwrap_or((code, ""));
    let mut shape = format!("{name} ");
    let (mut before, mut hexadecimal) = (' ', false);
    for c in operands.replace(".reuse", "").chars() {
        hexadecimal = c.is_ascii_hexdigit() && hexadecimal || before == '0' && c == 'x';
        match hexadecimal || c.is_ascii_digit() {
            true if shape.ends_with('#') => (),
            true => shape.push('#'),
            false => shape.push(c),
        }
        before = c;
    }
    shape
}

/// What is not read of a cubin: by shape, why. How many instructions it has.
fn refused(cubin: &Cubin) -> (BTreeMap<String, String>, usize) {
    let mut listing = Cow::Borrowed(cubin.listing());
    let mut refused = BTreeMap::new();
    loop {
        let error = match Module::disassembled(&cubin.image, &listing) {
            Ok(module) => return (refused, module.kernels().map(|kernel| kernel.listing().count()).sum()),
            Err(error) => error,
        };
        let line = error.line.checked_sub(1).and_then(|n| listing.lines().nth(n));
        let code_of = |line| code(line).unwrap_or_else(|| panic!("{error}"));
        let wrong = shape(code_of(line.unwrap_or_else(|| panic!("{error}"))));
        // The rest is read as though it did nothing.
        let read = |line: &str| match code(line).filter(|code| shape(code) == wrong) {
            Some(code) => line.replacen(code, "NOP", 1),
            None => line.to_owned(),
        };
        listing = listing.lines().map(|line| read(line) + "\n").collect();
        assert!(refused.insert(wrong, error.to_string()).is_none(), "{error}");
    }
}

#[test]
#[ignore = "reads machine code with nvdisasm: `cargo run -p qrun-kernels -- check --install` puts it into target/nvrtc"]
fn every_shipped_instruction_is_read() {
    let of = |sm| {
        let (mut all, mut count) = (Vec::new(), 0);
        for (name, cubin) in cubins(sm) {
            let (refused, instructions) = refused(cubin);
            count += instructions;
            all.extend(refused.into_iter().map(|(shape, why)| (shape, format!("{name}: {why}"))));
        }
        assert!(count > 100_000, "sm_{sm}: only {count} instructions were found");
        all
    };
    // nvdisasm takes most of the time, on one processor.
    let found = std::thread::scope(|scope| {
        let threads = SMS.map(|sm| scope.spawn(move || of(sm)));
        threads.map(|thread| thread.join().expect("told above"))
    });
    let mut all: BTreeMap<String, (BTreeSet<u32>, String)> = BTreeMap::new();
    for (sm, refused) in SMS.into_iter().zip(found) {
        for (shape, why) in refused {
            all.entry(shape).or_insert_with(|| (BTreeSet::new(), why)).0.insert(sm);
        }
    }
    let list: Vec<String> = all.iter().map(|(shape, (sms, why))| format!("{shape}   {sms:?} {why}")).collect();
    assert!(list.is_empty(), "{} shapes are refused\n{}", list.len(), list.join("\n"));
}

#[test]
fn shapes_of_lines() {
    for (line, expected) in [
        (
            "        /*00a0*/              @!P0 LDC R2, c[0x0][R2+0x160] ;      /* 0x0000580002027b82 */",
            "LDC R#, c[#][R#+#]",
        ),
        ("        /*0010*/  { LDG.E.64 R2, desc[UR4][R8.64+-0x1f0] ;  /* 0x00 */", "LDG.E.64 R#, desc[UR#][R#.#+-#]"),
        (
            "        /*0010*/                   FFMA R2, R3.reuse, -1.5e-05, RZ ;  /* 0x00 */",
            "FFMA R#, R#, -#.#e-#, RZ",
        ),
        ("        /*0010*/                   EXIT ;  /* 0x00 */", "EXIT "),
    ] {
        assert_eq!(code(line).map(shape).as_deref(), Some(expected));
    }
    assert_eq!(code(".L_x_1:"), None);
}
