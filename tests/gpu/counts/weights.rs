//! What launches do with the weights that they multiply, by part of the model and format.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    ops::Range,
};

use anyhow::Result;
use qrun_emulator::isa::{At, LaunchCounts};
use qrun_models::GpuDecoder;
use qrun_quant::GgmlType;
use serde_json::{Map, Value, json};

use crate::{
    code::{self, Executed},
    models,
};

/// A matrix in device memory.
struct Matrix {
    part: &'static str,
    format: GgmlType,
    weights: u64,
    at: Range<u64>,
}

/// The matrices of a decoder.
pub struct Matrices(Vec<Matrix>);

/// Which part of a model a matrix is.
fn part_of(tensor: &str) -> &'static str {
    let name = tensor.trim_end_matches(".weight");
    match name.rsplit('.').next().unwrap_or(name) {
        "token_embd" | "output" => "head",
        "attn_q" | "attn_k" | "attn_v" => "qkv",
        "attn_output" => "o",
        "ffn_gate" | "ffn_up" => "gate_up",
        "ffn_down" => "down",
        _ => "others",
    }
}

/// Of a part and its formats.
#[derive(Default)]
struct Sum {
    issued: f64,
    weights: f64,
    /// By the instructions that load weights.
    sectors: f64,
    ideal_sectors: f64,
}

/// Of a format: what the traced blocks asked for, and how many weights that were.
#[derive(Default)]
struct Lines {
    lines: f64,
    weights: f64,
}

fn rounded(x: f64) -> Value {
    json!((x * 1e3).round() / 1e3)
}

impl Matrices {
    /// Those of a model's decoder.
    pub fn of((name, mix): (&str, &str), decoder: &GpuDecoder) -> Result<Self> {
        let (tensors, base) = (models::matrices(name, mix)?, decoder.arena().0);
        let parts = decoder.parts().iter().filter_map(|part| {
            let tensor = part.name.strip_prefix("weights/")?;
            let (format, weights) = *tensors.get(tensor)?;
            let at = base + part.offset..base + part.offset + part.bytes;
            Some(Matrix { part: part_of(tensor), format, weights, at })
        });
        Ok(Self(parts.collect()))
    }

    /// Those that a launch multiplies: what its parameters point to, but for a table that rows are looked up in.
    fn multiplied(&self, launch: &LaunchCounts) -> Vec<&Matrix> {
        let has = |m: &&Matrix| launch.addresses.iter().any(|address| m.at.contains(address));
        self.0.iter().filter(|_| launch.kernel != "embed").filter(has).collect()
    }

    /// Part and formats of what a launch multiplies, as `("qkv", "Q5_0+Q8_0")`; None where it multiplies nothing.
    pub fn multiplies(&self, launch: &LaunchCounts) -> Option<(String, String)> {
        let matrices = self.multiplied(launch);
        let joined = |names: BTreeSet<String>| names.into_iter().collect::<Vec<_>>().join("+");
        let parts = joined(matrices.iter().map(|m| m.part.to_owned()).collect());
        let formats = joined(matrices.iter().map(|m| m.format.to_string()).collect());
        (!matrices.is_empty()).then_some((parts, formats))
    }

    /// Of a step of decoding: warp instructions times 32 over weights and ideal sectors over sectors of the loads of weights,
    /// by part and formats; and lines that 1,024 weights are asked for in, by format.
    pub fn counts(&self, executed: &Executed) -> [Value; 3] {
        let (mut sums, mut lines) = (BTreeMap::<_, Sum>::new(), BTreeMap::<String, Lines>::new());
        let products = executed.counts.launches.iter().filter_map(|launch| Some((launch, self.multiplies(launch)?)));
        for (launch, key) in products {
            let (matrices, times) = (self.multiplied(launch), executed.times(launch));
            let (sum, all) = (sums.entry(key).or_default(), launch.counts.sum(&[]));
            sum.issued += (all.executed + all.idle) as f64 * code::blocks(launch) * times;
            sum.weights += matrices.iter().map(|m| m.weights).sum::<u64>() as f64 * times;
            for matrix in matrices {
                let (loads, found) = traced(launch, matrix);
                let of_format = lines.entry(matrix.format.to_string()).or_default();
                of_format.lines += found.lines * times;
                of_format.weights += found.weights * times;
                for At { sectors, ideal_sectors, .. } in loads.into_iter().map(|pc| launch.counts.at[pc as usize]) {
                    sum.sectors += sectors as f64 * times;
                    sum.ideal_sectors += ideal_sectors as f64 * times;
                }
            }
        }
        let by_part = |value: fn(&Sum) -> f64| {
            let mut parts = json!({});
            sums.iter().for_each(|((part, formats), sum)| parts[part][formats] = rounded(value(sum)));
            parts
        };
        let lines = lines.iter().map(|(format, of)| (format.clone(), rounded(of.lines / of.weights * 1024.0)));
        [
            by_part(|sum| sum.issued * 32.0 / sum.weights),
            by_part(|sum| sum.ideal_sectors / sum.sectors),
            lines.collect::<Map<_, _>>().into(),
        ]
    }

    /// Of a prompt: instructions of the loops of its matrix products over what an `mma` of m16n8k32 multiplies, by format.
    /// What a warp issues more than once is in a loop.
    pub fn per_mma(&self, executed: &Executed) -> Map<String, Value> {
        let mut sums = BTreeMap::<String, [f64; 2]>::new();
        let many = |kernel: &str| ["gemm_", "wide_"].iter().any(|family| kernel.starts_with(family));
        let products = executed.counts.launches.iter().filter(|launch| many(&launch.kernel));
        for (launch, (_, formats)) in products.filter_map(|launch| Some((launch, self.multiplies(launch)?))) {
            let warps = launch.counts.blocks * u64::from(launch.threads.div_ceil(32));
            let issued = launch.counts.at.iter().map(|at| at.executed + at.idle);
            let looped: u64 = issued.filter(|issued| *issued > warps).sum();
            let [instructions, mma] = sums.entry(formats).or_default();
            *instructions += looped as f64 * executed.times(launch);
            // What multiplies minimums is half as large, and does not count.
            let of_one = |at: &At| at.macs.checked_div(at.executed).unwrap_or(0);
            let largest = launch.counts.at.iter().map(of_one).max();
            let macs: u64 = launch.counts.at.iter().filter(|at| Some(of_one(at)) == largest).map(|at| at.macs).sum();
            *mma += macs as f64 / 4096.0 * executed.times(launch);
        }
        sums.into_iter().map(|(format, [n, mma])| (format, rounded(n / mma))).collect()
    }
}

/// The instructions of the traced blocks that load from a matrix, and lines and weights of these loads.
fn traced(launch: &LaunchCounts, matrix: &Matrix) -> (BTreeSet<u32>, Lines) {
    let (mut loads, mut sectors, mut lines) = (BTreeSet::new(), HashSet::<u64>::new(), 0);
    for block in &launch.trace {
        for step in block.warps.iter().flatten() {
            let touched = block.of(step);
            if touched.iter().any(|sector| matrix.at.contains(&(32 * sector))) {
                loads.insert(step.pc);
                sectors.extend(touched);
                lines += u64::from(step.lines);
            }
        }
    }
    // Records hold all bytes of their weights, so the part of the bytes is that of the weights.
    let part = 32.0 * sectors.len() as f64 / (matrix.at.end - matrix.at.start) as f64;
    (loads, Lines { lines: lines as f64, weights: part * matrix.weights as f64 })
}
