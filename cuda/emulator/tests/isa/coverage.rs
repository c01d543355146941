//! Every instruction of the shipped PTX, with its kinds of operands, has a test in this folder.

use std::collections::{BTreeMap, BTreeSet};

use qrun_cuda::image::{self, Kind, Target};

use crate::isa::{collectives, floats, fragments, integers, memory, params, rows::Row};

/// The PTX texts that are shipped, by name of their module.
pub fn shipped() -> BTreeMap<String, String> {
    let modules = image::modules(Target { kind: Kind::Ptx, sm: image::PTX }).expect("an archive with this part");
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text").trim_end_matches('\0').to_owned();
    modules.iter().map(|module| (module.name.clone(), text(&module.bytes))).collect()
}

/// What a word of an operand is: a letter as in rows.rs, `#` a number, `L` a label, `P` the parameter, `S` shared
/// memory.
fn class(word: &str) -> &str {
    let numbered = |prefix: &str| word.strip_prefix(prefix).is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()));
    let registers = [("%p", "p"), ("%rs", "h"), ("%r", "r"), ("%rd", "l"), ("%f", "f"), ("%fd", "d")];
    match registers.iter().find(|(prefix, _)| numbered(prefix)) {
        Some((_, letter)) => letter,
        None if word.starts_with('%') => word,
        None if word.starts_with('$') => "L",
        None if word.starts_with(|c: char| c.is_ascii_digit() || c == '-') => "#",
        None if word.contains("_param_") => "P",
        None => "S",
    }
}

/// The instruction of a line without its guard, as opcode and kinds of operands; none where the line has none.
fn shape(line: &str) -> Option<String> {
    let line = line.split("//").next().unwrap_or_default().trim().strip_suffix(';')?;
    let line = match line.strip_prefix('@') {
        Some(guarded) => guarded.split_once(char::is_whitespace)?.1.trim(),
        None => line,
    };
    if line.starts_with('.') {
        return None;
    }
    let (op, operands) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let mut shape = format!("{op} ");
    let mut word = String::new();
    for c in operands.chars().chain([' ']) {
        if c.is_alphanumeric() || "%$_.-".contains(c) {
            word.push(c);
            continue;
        }
        if !word.is_empty() {
            shape += class(&std::mem::take(&mut word));
        }
        if !c.is_whitespace() {
            shape.push(c);
        }
    }
    Some(shape.trim_end().to_owned())
}

#[test]
fn every_instruction_that_is_shipped_is_tested() {
    let tables = [
        integers::ARITHMETIC,
        integers::BITS,
        integers::MOVES,
        integers::PREDICATES,
        floats::ARITHMETIC,
        floats::CONVERSIONS,
        floats::COMPARISONS,
        floats::APPROXIMATIONS,
    ];
    let tested: BTreeSet<String> = tables
        .into_iter()
        .flatten()
        .flat_map(Row::shapes)
        .chain(memory::LOADS.iter().chain(memory::STORES).flat_map(memory::Access::shapes))
        .chain(params::shapes())
        .chain(fragments::shapes())
        .chain(collectives::SHAPES.iter().map(|s| (*s).to_owned()))
        .collect();
    let mut missing: BTreeMap<String, String> = BTreeMap::new();
    let mut opcodes = BTreeSet::new();
    for (module, text) in shipped() {
        let lines = text.lines().enumerate();
        for (i, line, shape) in lines.filter_map(|(i, line)| Some((i, line, shape(line)?))) {
            opcodes.insert(shape.split(' ').next().expect("an opcode").to_owned());
            if !tested.contains(&shape) {
                missing.entry(shape).or_insert_with(|| format!("{module}, line {}: {}", i + 1, line.trim()));
            }
        }
    }
    let list: Vec<String> = missing.iter().map(|(shape, place)| format!("{shape}   ({place})")).collect();
    assert!(list.is_empty(), "no row tests\n{}", list.join("\n"));
    assert!(opcodes.len() > 200, "only {} opcodes were found", opcodes.len());
}

#[test]
fn shapes_of_lines() {
    for (line, expected) in [
        ("\tadd.s64 \t%rd11, %rd7, -10;", "add.s64 l,l,#"),
        ("\t@!%p1 bra \t$L__BB0_24;", "bra L"),
        ("\tld.param.v2.u32 \t{%r66, %r67}, [fragments_param_0+8];", "ld.param.v2.u32 {r,r},[P+#]"),
        ("shfl.sync.bfly.b32 \t%r4|%p2, %r1, %r1, %r2, %r3; ", "shfl.sync.bfly.b32 r|p,r,r,r,r"),
        ("\tmov.u64 \t%rd32, _ZZ9fragmentsE4rows;", "mov.u64 l,S"),
        ("\tcp.async.wait_group 1; // one", "cp.async.wait_group #"),
        ("\tret;", "ret"),
    ] {
        assert_eq!(shape(line).as_deref(), Some(expected));
    }
    for line in ["\t.reg .pred \t%p<22>;", "$L__BB0_24:", "{", "// begin inline asm", ""] {
        assert_eq!(shape(line), None, "{line}");
    }
}
