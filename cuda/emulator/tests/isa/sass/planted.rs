//! Faults planted in the machine code that is shipped: each shows, as a report of the machine or as a wrong result. (The
//! code as it is passes: see `shipped`.)

use qrun_emulator::isa::Module;

use crate::isa::{
    sass::shipped::{Cubin, cubins, judge},
    subjects::subject,
};

/// One change of a listing.
#[derive(Clone, Copy, Debug)]
enum Edit {
    /// The nth instruction (from 0) that has these words becomes a `NOP`.
    Remove(&'static str, usize),
    /// All of them do.
    RemoveAll(&'static str),
    /// It waits for no barrier.
    NoWait(&'static str, usize),
    /// No instruction waits for a barrier.
    NeverWait,
    /// The first words become the second, everywhere.
    Replace(&'static str, &'static str),
    /// Operands i and j of the instructions that begin so change places.
    Swap(&'static str, usize, usize),
    /// It is done where this predicate holds.
    Guard(&'static str, usize, &'static str),
}

/// Bits of the second half of an encoding that say what is waited for.
const WAIT: u64 = 0x3f << (116 - 64);

/// Whether a line has an instruction with these words.
fn has(line: &str, words: &str) -> bool {
    line.trim_start().starts_with("/*") && line.split("*/").nth(1).is_some_and(|code| code.contains(words))
}

/// A line with another instruction in the place of its own.
fn with(line: &str, of: impl Fn(&str) -> String) -> String {
    let (address, rest) = line.split_once("*/").expect("an address");
    let (code, encoding) = rest.rsplit_once("/* 0x").expect("an encoding");
    format!("{address}*/ {} /* 0x{encoding}", of(code.trim()))
}

/// Clears what the second half of an instruction waits for.
fn waitless(line: &str) -> String {
    let (before, digits) = line.rsplit_once("/* 0x").expect("an encoding");
    let bits = u64::from_str_radix(digits.trim_end().trim_end_matches("*/").trim(), 16).expect("an encoding");
    format!("{before}/* {:#018x} */", bits & !WAIT)
}

impl Edit {
    /// The edited listing; none where there is nothing to edit.
    fn of(&self, listing: &str) -> Option<String> {
        let mut seen = 0;
        let mut second_half = false;
        let mut lines = Vec::new();
        for line in listing.lines() {
            let mut nth = |words: &str, n: usize| {
                let found = has(line, words);
                seen += usize::from(found);
                found && seen == n + 1
            };
            let edited = match *self {
                _ if second_half => waitless(line),
                Edit::Remove(words, n) if nth(words, n) => with(line, |_| "NOP ;".to_owned()),
                Edit::RemoveAll(words) if has(line, words) => with(line, |_| "NOP ;".to_owned()),
                Edit::Replace(from, to) => line.replace(from, to),
                Edit::Guard(words, n, guard) if nth(words, n) => with(line, |code| format!("@{guard} {code}")),
                Edit::Swap(words, i, j) if has(line, words) => with(line, |code| {
                    let (name, rest) = code.trim_end_matches([';', ' ']).split_once(' ').expect("operands");
                    let mut operands: Vec<&str> = rest.split(',').map(str::trim).collect();
                    operands.swap(i, j);
                    format!("{name} {} ;", operands.join(", "))
                }),
                _ => line.to_owned(),
            };
            second_half = match *self {
                Edit::NoWait(words, n) => !second_half && nth(words, n),
                Edit::NeverWait => !second_half && has(line, " "),
                _ => false,
            };
            lines.push(edited);
        }
        let edited = lines.join("\n") + "\n";
        (edited != listing).then_some(edited)
    }
}

/// A fault in a kernel of an architecture.
struct Planted {
    sm: u32,
    kernel: &'static str,
    edit: Edit,
}

const fn row(sm: u32, kernel: &'static str, edit: Edit) -> Planted {
    Planted { sm, kernel, edit }
}

static PLANTED: &[Planted] = &[
    // Convergence that is lost: before a shuffle, before a barrier of the block, in a loop with tensor cores.
    row(75, "gemv_f32", Edit::Remove("BSYNC", 3)),
    row(90, "gemv_f32", Edit::RemoveAll("BSYNC")),
    row(120, "gemv_f32", Edit::RemoveAll("BSYNC")),
    row(75, "attention_rows_f16_64", Edit::RemoveAll("BSYNC")),
    row(120, "attention_rows_f16_64", Edit::RemoveAll("BSYNC")),
    row(75, "sample_scan", Edit::RemoveAll("BSYNC")),
    row(120, "sample_scan", Edit::RemoveAll("BSYNC")),
    row(120, "gemm_q8_0", Edit::Remove("BSYNC", 1)),
    row(120, "gemm_q8_0", Edit::RemoveAll("BSYNC")),
    row(100, "gemv_f32", Edit::RemoveAll("BSYNC")),
    // A barrier that no BSSY began.
    row(89, "product_1_q8_0", Edit::RemoveAll("BSSY")),
    // Fences around the ticket by which blocks meet: none; not that before it.
    row(75, "attention_rows_f16_64", Edit::RemoveAll("MEMBAR")),
    row(120, "attention_rows_f16_64", Edit::Remove("MEMBAR", 0)),
    row(90, "sample_scan", Edit::Remove("MEMBAR", 0)),
    // Registers that are used before they are there.
    row(75, "product_1_q5_0", Edit::NoWait("IMMA", 0)),
    row(80, "gemm_q8_0", Edit::NoWait("IMMA", 0)),
    row(86, "product_1_q8_0", Edit::NeverWait),
    row(90, "rms_norm", Edit::NeverWait),
    row(89, "product_8_q8_0", Edit::NeverWait),
    row(75, "repack_q5_0", Edit::NeverWait),
    row(100, "gemv_f16", Edit::NeverWait),
    row(120, "gemv_f32", Edit::NeverWait),
    row(120, "gemm_few_bf16", Edit::NeverWait),
    // Copies that nobody waits for, or that belong to no group; a block's barrier that is missing.
    row(80, "gemm_q8_0", Edit::RemoveAll("DEPBAR.LE")),
    row(90, "gemm_q8_0", Edit::RemoveAll("LDGDEPBAR")),
    row(120, "gemm_q8_0", Edit::RemoveAll("BAR.SYNC")),
    row(120, "product_8_q8_0", Edit::Remove("BAR.SYNC", 0)),
    row(86, "attention_rows_f16_64", Edit::Remove("DEPBAR.LE", 0)),
    row(80, "fragments", Edit::RemoveAll("DEPBAR.LE")),
    // Tensor cores: operands that change places, another matrix, some of the lanes.
    row(75, "product_8_q8_0", Edit::Swap("IMMA", 1, 2)),
    row(86, "product_8_q8_0", Edit::Swap("IMMA", 0, 3)),
    row(80, "gemm_few_bf16", Edit::Swap("F2FP", 1, 2)),
    row(120, "gemm_few_bf16", Edit::Swap("F2FP", 1, 2)),
    row(75, "attention_rows_f16_64", Edit::Replace("LDSM.16.MT88", "LDSM.16.M88")),
    row(120, "attention_rows_f16_64", Edit::Replace("LDSM.16.M88.4 ", "LDSM.16.MT88.4 ")),
    row(75, "product_8_q8_0", Edit::Guard("IMMA", 0, "P0")),
    // Parameters at another place.
    row(75, "product_1_q8_0", Edit::Replace("+0x160]", "+0x168]")),
    row(80, "rms_norm", Edit::Replace("c[0x0][0x160]", "c[0x0][0x168]")),
    row(89, "product_1_q5_0", Edit::Replace("+0x160]", "+0x168]")),
    row(120, "product_8_q8_0", Edit::Replace("+0x380]", "+0x388]")),
    // Arithmetic: a carry, a rounding, a byte, a shuffle's distance, the wrong half.
    row(75, "product_1_q8_0", Edit::Replace("IADD3.X", "IADD3")),
    row(80, "gemv_f32", Edit::Replace(", 0x10, 0x1f", ", 0x8, 0x1f")),
    row(90, "gemv_f16", Edit::Replace(".H1_H1", ".H0_H0")),
    row(86, "product_1_mxfp4", Edit::Replace("0x6420", "0x4206")),
    row(89, "product_8_q8_0", Edit::Swap("SHFL.BFLY", 1, 2)),
    row(90, "repack_q8_0", Edit::Replace("0x5410", "0x1054")),
];

/// The listing of one kernel.
fn listing(cubin: &Cubin, kernel: &str) -> String {
    let head = format!(".text.{kernel}:");
    let mut inside = false;
    let kept = cubin.listing().lines().filter(|line| {
        if line.starts_with(".text.") {
            inside = *line == head;
        }
        inside
    });
    kept.collect::<Vec<_>>().join("\n") + "\n"
}

#[test]
#[ignore = "reads machine code with nvdisasm: `cargo run -p qrun-kernels -- check --install` puts it into target/nvrtc"]
fn planted_faults_show() {
    let mut hidden = Vec::new();
    for Planted { sm, kernel, edit } in PLANTED {
        let subject = subject(kernel);
        let cubin = &cubins(*sm)[subject.module];
        let text = listing(cubin, kernel);
        let Some(text) = edit.of(&text) else {
            hidden.push(format!("sm_{sm} {kernel}: nothing to edit for {edit:?}"));
            continue;
        };
        let module = Module::disassembled(&cubin.image, &text).map_err(|error| error.to_string());
        if module.and_then(|module| judge(subject, &module)).is_ok() {
            hidden.push(format!("sm_{sm} {kernel}: {edit:?} does not show"));
        }
    }
    assert!(hidden.is_empty(), "{}", hidden.join("\n"));
}
