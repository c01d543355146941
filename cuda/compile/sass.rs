//! Machine instructions per weight, counted in what nvdisasm prints.
//!
//! Counted on each SM, for `product_1_<format>` where weights are quantized and for `gemv_<format>` where they are dense: the
//! instructions of the hot loop, divided by the weights that one turn of it multiplies per lane. On tensor cores an instruction
//! multiplies its matrix of weights, 4, 8 or 16 of them per lane; an FFMA of a dense kernel multiplies one. Of the loops (a
//! backward branch and what it jumps over) that multiply, the innermost ones are looked at. The loops for one column load
//! the most bytes of weights per multiplication, as each further column uses what is loaded once more: those with less than half
//! of the most are left out. Of the rest, which are one loop for several cases, it is the one with the fewest instructions per
//! weight. The fixed costs of a row, the reduction and the epilogue stay outside; predicated instructions count whole.

use std::collections::HashMap;

use anyhow::{Context, Result};

/// A kernel's instructions, and where its labels point.
#[derive(Debug, Default)]
pub struct Kernel {
    pub name: String,
    /// Opcode and the label that it jumps to, one per instruction.
    instructions: Vec<(String, Option<String>)>,
    labels: HashMap<String, usize>,
}

/// The kernels of a listing.
pub fn kernels(text: &str) -> Vec<Kernel> {
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
    /// First and last instruction of each innermost one of the loops that multiply.
    fn innermost(&self) -> Vec<(usize, usize)> {
        let mut loops = Vec::new();
        for (at, (opcode, target)) in self.instructions.iter().enumerate() {
            let start = target.as_ref().and_then(|t| self.labels.get(t));
            // A branch to itself is the padding after the end.
            if let Some(start) = start.filter(|s| opcode.starts_with("BRA") && **s < at) {
                loops.push((*start, at));
            }
        }
        loops.retain(|(from, to)| self.multiplied(*from, *to) > 0);
        let inside = |a: &(usize, usize), b: &(usize, usize)| a != b && b.0 <= a.0 && a.1 <= b.1;
        loops.iter().filter(|b| !loops.iter().any(|a| inside(a, b))).copied().collect()
    }

    /// Weights per lane that these instructions multiply.
    fn multiplied(&self, from: usize, to: usize) -> usize {
        let tensor_cores = self.instructions.iter().any(|(o, _)| o.starts_with("IMMA"));
        let weights = |opcode: &str| match opcode {
            o if o.starts_with("IMMA.8816") => 4,
            o if o.starts_with("IMMA.16816") => 8,
            o if o.starts_with("IMMA.16832") => 16,
            o if o.starts_with("FFMA") && !tensor_cores => 1,
            _ => 0,
        };
        self.instructions[from..=to].iter().map(|(opcode, _)| weights(opcode)).sum()
    }

    /// Instructions per weight in the hot loop.
    ///
    /// # Errors
    /// No loop of the kernel multiplies weights.
    pub fn per_weight(&self) -> Result<f64> {
        let loops = self.innermost().into_iter().map(|(from, to)| {
            let (body, multiplied) = (&self.instructions[from..=to], self.multiplied(from, to));
            let loaded: usize = body.iter().map(|(o, _)| weight_bytes(o)).sum();
            (body.len() as f64 / multiplied as f64, loaded as f64 / multiplied as f64)
        });
        let loops: Vec<(f64, f64)> = loops.collect();
        let most = loops.iter().map(|l| l.1).fold(0.0, f64::max);
        let one_column = loops.iter().filter(|l| l.1 * 2.0 > most).map(|l| l.0);
        one_column.min_by(f64::total_cmp).with_context(|| format!("{}: no loop that multiplies weights", self.name))
    }
}

/// Bytes that an instruction loads through the read-only path, which only weights take.
fn weight_bytes(opcode: &str) -> usize {
    let is = |part: &str| opcode.split('.').any(|p| p == part);
    match () {
        () if !(is("LDG") && is("CONSTANT")) => 0,
        () if is("128") => 16,
        () if is("64") => 8,
        () if is("U16") || is("S16") => 2,
        () if is("U8") || is("S8") => 1,
        () => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
product_1_q8_0:
.text.product_1_q8_0:
        /*0000*/                   MOV R1, c[0x0][0x28] ;
.L_x_0:
        /*0010*/              @!P0 BRA `(.L_x_2) ;
.L_x_1:
        /*0020*/                   LDG.E.128.CONSTANT.SYS R6, [R2] ;
        /*0030*/                   IMMA.8816.S8.S8 R14, R7.ROW, R6.COL, R14 ;
        /*0040*/                   IMMA.8816.S8.S8 R15, R7.ROW, R6.COL, R15 ;
.L_x_7:
        /*0048*/                   IADD3 R2, R2, 1, RZ ;
        /*004c*/               @P0 BRA `(.L_x_7) ;
        /*0050*/               @P0 BRA `(.L_x_1) ;
.L_x_2:
        /*0060*/                   IADD3 R2, R2, 1, RZ ;
        /*0070*/               @P1 BRA `(.L_x_0) ;
.L_x_3:
        /*0080*/                   LDG.E.128.CONSTANT.SYS R6, [R2] ;
        /*0090*/                   IMMA.16832.S8.S8 R14, R7.ROW, R6.COL, R14 ;
        /*00a0*/                   FFMA R15, R7, R6, R15 ;
        /*00b0*/               @P0 BRA `(.L_x_3) ;
        /*00c0*/                   EXIT ;
.L_x_4:
        /*00d0*/                   BRA `(.L_x_4);
.text.gemv_f32:
.L_x_5:
        /*0000*/                   LDG.E.CONSTANT R2, [R2] ;
        /*0010*/                   FFMA R1, R1, R2, R3 ;
        /*0020*/                   FADD R1, R1, R2 ;
        /*0030*/               @P0 BRA `(.L_x_5) ;
.L_x_6:
        /*0040*/                   LDG.E.64.CONSTANT R2, [R2] ;
        /*0050*/                   FFMA R1, R1, R2, R3 ;
        /*0060*/                   FFMA R1, R1, R2, R3 ;
        /*0070*/               @P0 BRA `(.L_x_6) ;
";

    #[test]
    fn the_hot_loop_is_counted() {
        let found = kernels(TEXT);
        assert_eq!(found.iter().map(|k| k.name.as_str()).collect::<Vec<_>>(), ["product_1_q8_0", "gemv_f32"]);
        assert_eq!(found[0].innermost(), [(2, 7), (10, 13)]);
        assert_eq!(found[0].per_weight().expect("a loop"), 6.0 / 8.0);
        assert_eq!(found[1].per_weight().expect("a loop"), 2.0);
        Kernel { name: "empty".into(), ..Kernel::default() }.per_weight().expect_err("no loop");
    }
}
