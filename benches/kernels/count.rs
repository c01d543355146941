//! Instructions of a product of one token, as valgrind counts them: the same number every time.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use qrun_quant::{
    Bytes, GgmlType,
    cpu::{Activations, Arithmetic, Isa, Job, Matrix, matmul, par::Pool},
};
use serde_json::{Map, Value, json};

use super::measure::{random_bytes, vectors};

/// Rows and columns of what is counted.
const SHAPE: (usize, usize) = (2048, 2048);

/// Instructions over the number of weights for each of the formats, repacked or as they lie in the file: the kernel,
/// preparing the activations, handing out the work; and the instruction set, the best that the counting machine knows.
pub fn count(formats: &[GgmlType], in_place: bool) -> Result<Value> {
    let ((rows, cols), mut chosen, mut counts) = (SHAPE, String::new(), Map::new());
    for &ty in formats {
        let (instructions, isa) = run(ty, in_place)?;
        let per_weight = instructions as f64 / (rows * cols) as f64;
        println!("{:7} {per_weight:.4} instructions per weight, {isa}", ty.name());
        counts.insert(ty.name().into(), per_weight.into());
        chosen = isa;
    }
    Ok(json!({ "isa": chosen, "rows": rows, "cols": cols, "formats": counts }))
}

/// Instructions inside [`counted`] when this program is started for one product, and the instruction set that it chose.
fn run(ty: GgmlType, in_place: bool) -> Result<(u64, String)> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*count::counted*"]);
    command.arg(std::env::current_exe()?).args([ty.name(), "--product"]).args(in_place.then_some("--no-repack"));
    let out = command.output().context("valgrind")?;
    let (isa, said) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    ensure!(out.status.success(), "valgrind: {}: {said}", out.status);
    let collected = said.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
    let found = collected.filter(|n| *n > 0);
    Ok((found.with_context(|| format!("expected valgrind's `Collected : N`, found {said}"))?, isa.trim().into()))
}

/// What valgrind runs: a product on one thread; prints the instruction set.
pub fn product(ty: GgmlType, in_place: bool) -> Result<()> {
    let (rows, cols) = SHAPE;
    Pool::new(1)?.install(|| {
        let w = Matrix::new(ty, rows, cols, Bytes::new(random_bytes(ty, rows, cols)));
        let w = if in_place { w } else { w.repack() };
        let (x, mut y, mut activations) = (vectors(1, cols), vec![0.0; rows], Activations::new(Arithmetic::Fast));
        // The first one takes memory.
        matmul(&mut activations, &x, &mut [Job { w: &w, y: &mut y }]);
        counted(&mut activations, &x, Job { w: &w, y: &mut y });
    });
    println!("{:?}", Isa::best());
    Ok(())
}

/// A function of its own, which valgrind finds by its name.
#[inline(never)]
fn counted(activations: &mut Activations, x: &[f32], job: Job) {
    matmul(activations, x, &mut [job]);
}
