//! Quantized products: how a launch is cut is not in a result's bits.

use qrun_cuda::ops::{
    activations::QuantizedActivations,
    matmul::{MatmulParams, Segment},
    product::{Plan, planned},
};
use qrun_quant::GgmlType;

use crate::{
    harness::{Device, Random, everywhere},
    operands::{Activations, Weights, matrix},
};

/// All results of a matrix and some columns for each plan, one plan after the other.
fn by_plan(device: &Device, format: GgmlType, [rows, k, columns]: [usize; 3], plans: &[Plan]) -> Vec<f32> {
    let mut random = Random::new((rows + k) as u64);
    let weights = Weights::random(&mut random, format, rows * k, 1.0);
    let x = Activations::new(random.normals(columns * k));
    let w = matrix(device, format, &weights.bytes, k);
    let (q, d, s) = (device.buffer(&x.q), device.buffer(&x.d), device.buffer(&x.s));
    let of_plan = |plan: &Plan| {
        let y = device.empty::<f32>(rows * columns);
        let segment = Segment {
            w: w.ptr,
            y: y.ptr,
            rows: rows as i32,
            y_stride: rows as i32,
            format: format as i32,
            ..Segment::default()
        };
        let params = MatmulParams {
            k: k as i32,
            columns: columns as i32,
            image: QuantizedActivations { q: q.ptr, d: d.ptr, s: s.ptr },
            ..MatmulParams::default()
        };
        // SAFETY: buffers of these shapes, which live until the results are read.
        unsafe { planned(&device.stream, &params.with(&[segment]), None, *plan) }.expect("a launch");
        device.read(&y)
    };
    plans.iter().flat_map(of_plan).collect()
}

/// Records that divide among the warps and that do not, more warps than records, sums of several rounds, tiles past the
/// last row.
#[test]
fn tiles_and_warps_are_not_in_the_bits() {
    use GgmlType::*;
    for (format, shape) in [
        (Q4_K, [70, 1536, 1]),
        (Q8_0, [70, 1152, 1]),
        (Q5_0, [33, 160, 1]),
        (Q6_K, [16, 9728, 1]),
        (Q5_1, [70, 480, 8]),
        (Q2_K, [40, 3584, 5]),
        (Q4_K, [33, 1280, 16]),
        (IQ2_S, [40, 1280, 16]),
        (NVFP4, [33, 960, 1]),
        (IQ1_M, [40, 1280, 8]),
        (Q1_0, [70, 1152, 16]),
        (Q2_0, [33, 192, 5]),
    ] {
        let most =
            [(1, 16, 8), (8, 12, 4), (16, 8, 4)].into_iter().find(|most| shape[2] <= most.0).expect("16 columns");
        let plans = |warps: u32| [1, 2, 4, 8].map(|tiles| Plan { tiles, warps });
        let plans: Vec<Plan> = [1, 2, 3, 5, 8, 9, 12, 16].into_iter().flat_map(plans).collect();
        let plans: Vec<Plan> = plans.into_iter().filter(|p| p.warps <= most.1 && p.tiles <= most.2).collect();
        everywhere(
            |device| by_plan(device, format, shape, &plans),
            |y| {
                let (first, rest) = y.split_at(shape[0] * shape[2]);
                for (y, plan) in rest.chunks(first.len()).zip(&plans[1..]) {
                    let same = y.iter().zip(first).all(|(a, b)| a.to_bits() == b.to_bits());
                    assert!(same, "{format} {shape:?}: {plan:?} and {:?}", plans[0]);
                }
            },
        );
    }
}
