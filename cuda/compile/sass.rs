//! Machine instructions per weight, counted in what nvdisasm prints.
//!
//! Counted for `gemv_<format>` on each SM: the instructions of the hot loop, divided by the weights that one turn
//! of it multiplies per lane. The hot loop is, of the innermost loops (a backward branch and what it jumps
//! over, with no other such loop inside), the one with the most multiplications; one IDP.4A multiplies 4
//! weights, and a kernel without any (dense formats) has one weight in each FFMA. All in one column:
//! the fixed costs of a row, the reduction and the epilogue stay outside, predicated instructions count whole.

use std::{collections::HashMap, path::Path, process::Command};

use anyhow::{Context, Result, ensure};

use crate::tools;

/// Disassembles machine code, into the instructions of each kernel.
pub fn disassemble(nvdisasm: &Path, cubin: &Path) -> Result<Vec<Kernel>> {
    let text = tools::run(Command::new(nvdisasm).arg("-c").arg(cubin))?;
    Ok(kernels(&text))
}

/// A kernel's instructions, and where its labels point.
#[derive(Debug, Default)]
pub struct Kernel {
    pub name: String,
    /// Opcode and the label that it jumps to, one per instruction.
    instructions: Vec<(String, Option<String>)>,
    labels: HashMap<String, usize>,
}

fn kernels(text: &str) -> Vec<Kernel> {
    let mut all: Vec<Kernel> = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix(".text.").and_then(|l| l.strip_suffix(':')) {
            all.push(Kernel { name: name.into(), ..Kernel::default() });
        }
        let Some(kernel) = all.last_mut() else { continue };
        if let Some(label) = line.strip_suffix(':').filter(|l| l.starts_with(".L")) {
            kernel.labels.insert(label.into(), kernel.instructions.len());
        } else if let Some((_, code)) = line.trim_start().strip_prefix("/*").and_then(|l| l.split_once("*/")) {
            let words: Vec<&str> = code.split_whitespace().filter(|w| !w.starts_with('@') && *w != "{").collect();
            let Some(opcode) = words.first() else { continue };
            let target = code.split("`(").nth(1).and_then(|t| t.split(')').next());
            kernel.instructions.push((opcode.trim_end_matches(';').into(), target.map(str::to_owned)));
        }
    }
    all
}

impl Kernel {
    /// First and last instruction of each innermost loop.
    fn innermost(&self) -> Vec<(usize, usize)> {
        let mut loops = Vec::new();
        for (at, (opcode, target)) in self.instructions.iter().enumerate() {
            let start = target.as_ref().and_then(|t| self.labels.get(t));
            // A branch to itself is the padding after the end.
            if let Some(start) = start.filter(|s| opcode.starts_with("BRA") && **s < at) {
                loops.push((*start, at));
            }
        }
        let inside = |a: &(usize, usize), b: &(usize, usize)| a != b && b.0 <= a.0 && a.1 <= b.1;
        loops.iter().filter(|b| !loops.iter().any(|a| inside(a, b))).copied().collect()
    }

    /// Instructions per weight in the hot loop.
    pub fn per_weight(&self) -> Result<f64> {
        let count = |(from, to): (usize, usize), opcode: &str| {
            self.instructions[from..=to].iter().filter(|(o, _)| o.starts_with(opcode)).count()
        };
        let loops = self.innermost();
        let quantized = self.instructions.iter().any(|(o, _)| o.starts_with("IDP.4A"));
        let (opcode, weights) = if quantized { ("IDP.4A", 4) } else { ("FFMA", 1) };
        // Of equals the first, so that the choice is one.
        let hot = loops.into_iter().rev().max_by_key(|l| count(*l, opcode));
        let hot = hot.with_context(|| format!("{}: no loop in its machine code", self.name))?;
        let multiplied = weights * count(hot, opcode);
        ensure!(multiplied > 0, "{}: no loop with {opcode}", self.name);
        Ok((hot.1 - hot.0 + 1) as f64 / multiplied as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
gemv_q8_0:
.text.gemv_q8_0:
        /*0000*/                   MOV R1, c[0x0][0x28] ;
.L_x_0:
        /*0010*/              @!P0 BRA `(.L_x_2) ;
.L_x_1:
        /*0020*/                   LDG.E.SYS R6, [R2] ;
        /*0030*/                   IDP.4A.S8.S8 R14, R7, R6, R14 ;
        /*0040*/                   IDP.4A.S8.S8 R15, R7, R6, R15 ;
        /*0050*/               @P0 BRA `(.L_x_1) ;
.L_x_2:
        /*0060*/                   IADD3 R2, R2, 1, RZ ;
        /*0070*/               @P1 BRA `(.L_x_0) ;
        /*0080*/                   EXIT ;
.L_x_3:
        /*0090*/                   BRA `(.L_x_3);
.text.gemv_f32:
.L_x_4:
        /*0000*/                   FFMA R1, R1, R2, R3 ;
        /*0010*/                   FADD R1, R1, R2 ;
        /*0020*/               @P0 BRA `(.L_x_4) ;
";

    #[test]
    fn the_hot_loop_is_counted() {
        let found = kernels(TEXT);
        assert_eq!(found.iter().map(|k| k.name.as_str()).collect::<Vec<_>>(), ["gemv_q8_0", "gemv_f32"]);
        assert_eq!(found[0].innermost(), [(2, 5)]);
        assert_eq!(found[0].per_weight().expect("a loop"), 4.0 / 8.0);
        assert_eq!(found[1].per_weight().expect("a loop"), 3.0);
        Kernel { name: "empty".into(), ..Kernel::default() }.per_weight().expect_err("no loop");
    }
}
