//! Faults planted in the shipped PTX: each shows, as a report of the machine or as a wrong result, and the text as it
//! is passes. And every operand and qualifier of what ptx.cuh says in inline PTX: each swap and each loss shows, or
//! the table says why nobody can see it.

use std::collections::BTreeSet;

use crate::isa::{
    coverage::shipped,
    harness::ORDERS,
    subjects::{SUBJECTS, subject},
};

/// One change of a text.
#[derive(Clone, Copy)]
enum Edit {
    /// The first words become the second, everywhere.
    Replace(&'static str, &'static str),
    /// The nth line (from 0) that has these words goes.
    Remove(&'static str, usize),
    /// All lines that have these words go.
    RemoveAll(&'static str),
    /// Before each line that has these words come others; `@` is the last register of the line.
    Before(&'static str, &'static str),
    /// Operands i and j of the instructions that begin so change places.
    Swap(&'static str, usize, usize),
    /// The nth instruction that begins so is done only where lane < 16.
    Guard(&'static str, usize),
}

/// Splits at the commas that are not in brackets.
fn operands(text: &str) -> Vec<String> {
    let (mut depth, mut all) = (0, vec![String::new()]);
    for c in text.chars() {
        depth += i32::from("{[".contains(c)) - i32::from("}]".contains(c));
        if c == ',' && depth == 0 {
            all.push(String::new());
        } else {
            all.last_mut().expect("never empty").push(c);
        }
    }
    all.iter().map(|o| o.trim().to_owned()).collect()
}

/// Opcode and operands of a line with an instruction.
fn instruction(line: &str) -> Option<(&str, Vec<String>)> {
    let line = line.trim().strip_suffix(';')?;
    let (op, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
    Some((op, operands(rest)))
}

fn written(op: &str, operands: &[String]) -> String {
    format!("\t{op} {};", operands.join(", "))
}

impl Edit {
    /// The edited text; none where there is nothing to edit.
    fn of(&self, text: &str) -> Option<String> {
        let mut seen = 0;
        let lines = text.lines().flat_map(|line| {
            let trimmed = line.trim_start();
            let mut nth = |n: usize| {
                seen += 1;
                seen == n + 1
            };
            match *self {
                Edit::Replace(from, to) => vec![line.replace(from, to)],
                Edit::Remove(words, n) if line.contains(words) && nth(n) => vec![],
                Edit::RemoveAll(words) if line.contains(words) => vec![],
                Edit::Before(words, other) if line.contains(words) && trimmed.ends_with(';') => {
                    let (_, operands) = instruction(line).expect("an instruction");
                    let last = operands.last().expect("an operand").trim_matches(['[', ']', '{', '}']);
                    vec![other.replace('@', last), line.to_owned()]
                }
                Edit::Swap(begin, i, j) if trimmed.starts_with(begin) => {
                    let (op, mut operands) = instruction(line).expect("an instruction");
                    operands.swap(i, j);
                    vec![written(op, &operands)]
                }
                Edit::Guard(begin, n) if trimmed.starts_with(begin) && nth(n) => vec![
                    "{\n.reg .pred %p1;\n.reg .b32 %r1;\nmov.u32 %r1, %tid.x;\nand.b32 %r1, %r1, 31;".to_owned(),
                    "setp.gt.u32 %p1, %r1, 15;\n@%p1 bra $guarded;\n}".to_owned(),
                    line.to_owned(),
                    "$guarded:".to_owned(),
                ],
                _ => vec![line.to_owned()],
            }
        });
        let edited = lines.collect::<Vec<_>>().join("\n") + "\n";
        (edited != text).then_some(edited)
    }
}

// What does not show here: a missing `bar.warp.sync` (lanes go together); `volatile` and `"memory"` of an asm statement, which
// are gone in PTX (without them NVRTC 12.8 writes the same text).

/// A fault in a kernel.
struct Planted {
    kernel: &'static str,
    edit: Edit,
}

const fn row(kernel: &'static str, edit: Edit) -> Planted {
    Planted { kernel, edit }
}

static PLANTED: &[Planted] = &[
    // Operands of mma that change places: rows of A, A with B, B with the accumulators' registers.
    row("fragments", Edit::Swap("mma.sync.aligned.m8n8k16", 1, 2)),
    row("product_8_q8_0", Edit::Swap("mma.sync.aligned.m16n8k32", 1, 3)),
    row("product_16_q4_k", Edit::Swap("mma.sync.aligned.m16n8k32", 1, 3)),
    row("gemm_few_bf16", Edit::Swap("cvt.rn.bf16x2.f32", 1, 2)),
    // Asynchronous copies that nobody waits for, or not all.
    row("fragments", Edit::Remove("cp.async.wait_group", 0)),
    row("fragments", Edit::Remove("cp.async.wait_group", 1)),
    row("fragments", Edit::Replace("cp.async.wait_group 0", "cp.async.wait_group 1")),
    row("fragments", Edit::RemoveAll("cp.async.commit_group")),
    row("gemm_q8_0", Edit::RemoveAll("cp.async.wait_group")),
    row("gemm_q8_0", Edit::RemoveAll("cp.async.commit_group")),
    row("attention_rows_f16_64", Edit::Remove("cp.async.wait_group", 0)),
    row("attention_rows_f16_64", Edit::Replace("cp.async.wait_group 0", "cp.async.wait_group 1")),
    row("attention_rows_f16_64", Edit::RemoveAll("cp.async.commit_group")),
    // Rows of ldmatrix: the next one, and half of one.
    row("fragments", Edit::Before("ldmatrix", "xor.b32 @, @, 16;")),
    row("attention_rows_f16_64", Edit::Before("x4.shared", "add.s32 @, @, 144;")),
    row("attention_rows_f16_64", Edit::Before("x4.trans", "add.s32 @, @, 16;")),
    row("attention_rows_f16_64", Edit::Before("ldmatrix", "add.s32 @, @, 8;")),
    row("attention_rows_f16_64", Edit::Replace("x4.trans.shared", "x4.shared")),
    // Parameters at another place.
    row("fragments", Edit::Replace("_param_0+16]", "_param_0+8]")),
    row("fragments", Edit::Replace("_param_0+24]", "_param_0+28]")),
    row("attention_rows_f16_64", Edit::Replace("param_0+16]", "param_0+8]")),
    row("product_8_q8_0", Edit::Replace("+-24]", "+-16]")),
    row("repack_q8_0", Edit::Replace("param_0+16]", "param_0+20]")),
    row("rms_norm", Edit::Replace("param_0+88]", "param_0+92]")),
    row("rms_norm", Edit::Replace("param_0+80]", "param_0+72]")),
    row("rms_norm", Edit::Replace("param_0[120]", "param_0[112]")),
    row("product_1_q8_0", Edit::Replace("param_0[312]", "param_0[320]")),
    // Tensor cores under a lane condition.
    row("fragments", Edit::Guard("mma.sync.aligned.m16n8k16.row.col.f32.f16", 0)),
    row("fragments", Edit::Guard("ldmatrix", 0)),
    row("product_8_q8_0", Edit::Guard("mma.sync", 0)),
    row("product_1_q5_0", Edit::Guard("mma.sync", 0)),
    row("attention_rows_f16_64", Edit::Guard("mma.sync", 2)),
    row("attention_rows_f16_64", Edit::Guard("ldmatrix", 3)),
    row("gemv_f32", Edit::Guard("shfl.sync", 0)),
    // Barriers that are not there.
    // The first two are those of rows that are no whole quads.
    row("rms_norm", Edit::Remove("bar.sync", 2)),
    row("rms_norm", Edit::Remove("bar.sync", 3)),
    row("rms_norm", Edit::RemoveAll("bar.sync")),
    row("product_8_q8_0", Edit::Remove("bar.sync", 0)),
    row("product_1_mxfp4", Edit::RemoveAll("bar.sync")),
    row("gemm_q8_0", Edit::RemoveAll("bar.sync")),
    row("attention_rows_f16_64", Edit::RemoveAll("bar.sync")),
    // Fences around the ticket by which blocks meet: none; not that before it.
    row("attention_rows_f16_64", Edit::RemoveAll("membar.gl")),
    row("attention_rows_f16_64", Edit::Remove("membar.gl", 0)),
    row("sample_scan", Edit::Remove("membar.gl", 0)),
    row("sample_scan", Edit::RemoveAll("membar.gl")),
    row("sample_scan", Edit::RemoveAll("membar.sys")),
    // Shuffles: another distance, lanes outside of the mask.
    row("rms_norm", Edit::Before("shfl.sync", "mov.u32 @, 65535;")),
    row("gemv_f32", Edit::Before("shfl.sync", "mov.u32 @, 65535;")),
    row("gemv_f16", Edit::Before("shfl.sync", "mov.u32 @, -2;")),
    row("rms_norm", Edit::Replace("shfl.sync.bfly", "shfl.sync.idx")),
    row("product_8_q8_0", Edit::Replace("shfl.sync.bfly", "shfl.sync.idx")),
    // Guards that are not there, or the other way round.
    row("rms_norm", Edit::Remove("@%p", 0)),
    row("sample_scan", Edit::Remove("@%p", 0)),
    row("repack_q4_k", Edit::Remove("@%p", 0)),
    row("attention_rows_f16_64", Edit::Replace("bar.red.or.pred", "bar.red.and.pred")),
    // Numbers.
    // The start of a sum of integers that a subtraction makes a float.
    row("product_1_q8_0", Edit::Replace("1262485504", "1262485505")),
    row("product_1_mxfp4", Edit::Swap("prmt.b32", 1, 2)),
    row("rms_norm", Edit::Replace("0f4B400000", "0f4B400001")),
    row("repack_q8_0", Edit::Replace("ld.global.nc.u16", "ld.global.nc.u32")),
    row("repack_q5_0", Edit::Before("ld.global.nc.u16", "add.s64 @, @, 2;")),
    row("product_1_q5_0", Edit::Before("v2.u32", "add.s64 @, @, 8;")),
    row("attention_rows_f16_64", Edit::Replace("cvt.rn.f16.f32", "cvt.rz.f16.f32")),
];

#[test]
fn the_shipped_text_is_right() {
    let (texts, mut wrong) = (shipped(), vec![]);
    for subject in SUBJECTS {
        let text = subject.excerpt(&texts[subject.module]);
        if let Err(e) = subject.judge(&text, &ORDERS) {
            wrong.push(format!("{}: {e}", subject.kernel));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn planted_faults_show() {
    let (texts, mut missed) = (shipped(), vec![]);
    for Planted { kernel, edit } in PLANTED {
        let subject = subject(kernel);
        let text = subject.excerpt(&texts[subject.module]);
        let what = match edit {
            Edit::Replace(a, b) => format!("`{a}` becomes `{b}`"),
            Edit::Remove(a, n) => format!("line {n} with `{a}` is removed"),
            Edit::RemoveAll(a) => format!("all lines with `{a}` are removed"),
            Edit::Before(a, b) => format!("`{b}` before `{a}`"),
            Edit::Swap(a, i, j) => format!("operands {i} and {j} of `{a}` are swapped"),
            Edit::Guard(a, n) => format!("`{a}` number {n} in half of the lanes"),
        };
        match edit.of(&text) {
            None => missed.push(format!("{kernel}: {what}: there is no such text any more")),
            Some(edited) if subject.judge(&edited, &ORDERS).is_ok() => {
                missed.push(format!("{kernel}: {what}: nothing shows"));
            }
            Some(_) => (),
        }
    }
    assert!(missed.is_empty(), "{} of {}:\n{}", missed.len(), PLANTED.len(), missed.join("\n"));
}

/// Changes of a wrapper of ptx.cuh that cannot show, and why.
static UNSEEN: &[(&str, &str)] = &[
    ("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32: members 0 and 1 of operand 3 swapped", "all four are the start"),
    ("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32: members 1 and 2 of operand 3 swapped", "all four are the start"),
    ("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32: members 2 and 3 of operand 3 swapped", "all four are the start"),
    ("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32: members 0 and 1 of operand 3 swapped", "all four are the start"),
    ("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32: members 1 and 2 of operand 3 swapped", "all four are the start"),
    ("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32: members 2 and 3 of operand 3 swapped", "all four are the start"),
    ("ld.global.nc.u8 without nc", "a hint: the same bytes"),
    ("ld.global.nc.u16 without nc", "a hint: the same bytes"),
    ("ld.global.nc.u32 without nc", "a hint: the same bytes"),
    ("ld.global.nc.L1::no_allocate.v2.u32 without L1::no_allocate", "a hint for the cache"),
    ("ld.global.nc.L1::no_allocate.v4.u32 without L1::no_allocate", "a hint for the cache"),
];

/// Every pair of neighbouring operands (or members of one, or numbers of registers of two) swapped, every qualifier
/// dropped.
fn changes(op: &str, operands: &[String]) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = vec![];
    for i in 1..operands.len() {
        let mut swapped = operands.to_vec();
        swapped.swap(i - 1, i);
        all.push((format!("{op}: operands {} and {i} swapped", i - 1), written(op, &swapped)));
    }
    for (i, operand) in operands.iter().enumerate().filter(|(_, o)| o.starts_with('{')) {
        let members: Vec<&str> = operand.trim_matches(['{', '}']).split(',').map(str::trim).collect();
        for j in 1..members.len() {
            let (mut swapped, mut operands) = (members.clone(), operands.to_vec());
            swapped.swap(j - 1, j);
            operands[i] = format!("{{{}}}", swapped.join(","));
            all.push((format!("{op}: members {} and {j} of operand {i} swapped", j - 1), written(op, &operands)));
        }
    }
    let parts: Vec<&str> = op.split('.').collect();
    for i in 1..parts.len() {
        let kept = [&parts[..i], &parts[i + 1..]].concat().join(".");
        all.push((format!("{op} without {}", parts[i]), written(&kept, operands)));
    }
    all
}

/// As if the wrapper had it so: each change is made wherever a kernel has the instruction in inline PTX.
#[test]
fn every_word_of_inline_ptx_matters() {
    let (mut survivors, mut all) = (BTreeSet::new(), BTreeSet::new());
    let texts = shipped();
    let excerpts: Vec<_> = SUBJECTS.iter().map(|s| (s, s.excerpt(&texts[s.module]))).collect();
    let inline = |text: &str| -> Vec<usize> {
        let lines: Vec<&str> = text.lines().collect();
        (1..lines.len()).filter(|&i| lines[i - 1].trim() == "// begin inline asm").collect()
    };
    let mut opcodes = BTreeSet::new();
    for (_, text) in &excerpts {
        let lines: Vec<&str> = text.lines().collect();
        opcodes.extend(inline(text).into_iter().filter_map(|i| Some(instruction(lines[i])?.0.to_owned())));
    }
    for op in &opcodes {
        let having: Vec<_> = excerpts.iter().filter(|(_, text)| text.contains(&format!("\t{op}"))).collect();
        let (_, first) = having[0];
        let of_op = |line: &str| instruction(line).filter(|(found, _)| found == op).map(|(_, operands)| operands);
        let sample = first.lines().find_map(of_op).expect("it has the instruction");
        for n in 0..changes(op, &sample).len() {
            let change = |text: &str| {
                let lines = text.lines().map(|line| match of_op(line) {
                    Some(operands) => changes(op, &operands)[n].1.clone(),
                    None => line.to_owned(),
                });
                lines.collect::<Vec<_>>().join("\n") + "\n"
            };
            let name = changes(op, &sample)[n].0.clone();
            all.insert(name.clone());
            if having.iter().all(|(subject, text)| subject.judge(&change(text), &ORDERS[..1]).is_ok()) {
                survivors.insert(name);
            }
        }
    }
    let explained: BTreeSet<String> = UNSEEN.iter().map(|(name, _)| (*name).to_owned()).collect();
    let open: Vec<&String> = survivors.difference(&explained).collect();
    assert!(open.is_empty(), "{} of {} survive without a reason:\n{open:#?}", open.len(), all.len());
    let seen: Vec<&String> = explained.difference(&survivors).collect();
    assert!(seen.is_empty(), "these show after all: {seen:?}");
    // What no subject has.
    for (module, text) in &texts {
        let lines: Vec<&str> = text.lines().collect();
        for pair in lines.windows(2).filter(|pair| pair[0].trim() == "// begin inline asm") {
            let (op, _) = instruction(pair[1]).expect("an instruction");
            // That asks L2 for weights has no result; `misuse` has one that points outside of memory.
            assert!(opcodes.contains(op) || op == "prefetch.global.L2", "{op} of {module}: no subject has it");
        }
    }
}
