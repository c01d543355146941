//! Matrix times one vector, or few, in every format: against f64 on the operands that the kernel has, and against f64 on
//! what they stand for.

use qrun_cuda::ops::{
    formats::takes_scale,
    matmul::{MatmulParams, QuantizedActivations, Segment, gemv},
};
use qrun_quant::GgmlType;

use crate::{
    harness::{Buffer, Device, Random, UNTOUCHED, assert_close_for, everywhere},
    operands::{Activations, Weights, formats, matrix},
};

/// Elements of a column of `y` behind the last row, which nobody may touch.
const GAP: usize = 5;

/// One launch: matrices over the same activations.
#[derive(Clone)]
struct Case {
    /// Formats and rows.
    segments: Vec<(GgmlType, usize)>,
    k: usize,
    columns: usize,
    bias: bool,
    softcap: f32,
    /// Columns without a sequence.
    idle: Vec<usize>,
    /// Every 97th activation is 50 times as large.
    outliers: bool,
}

impl Case {
    fn new(format: GgmlType, rows: usize, k: usize) -> Self {
        let segments = vec![(format, rows)];
        Self { segments, k, columns: 1, bias: false, softcap: 0.0, idle: vec![], outliers: false }
    }
    fn rows(&self) -> usize {
        self.segments.iter().map(|s| s.1).sum()
    }
}

/// The operands of a case.
struct Operands {
    weights: Vec<Weights>,
    /// Beside each matrix whose format has room for it.
    scales: Vec<f32>,
    bias: Vec<f32>,
    x: Activations,
    seq: Vec<i32>,
}

impl Operands {
    fn new(case: &Case) -> Self {
        let mut random = Random::new((case.k * 1000 + case.rows()) as u64);
        let weights =
            case.segments.iter().map(|&(f, rows)| Weights::random(&mut random, f, rows * case.k, 1.0)).collect();
        let scales = case.segments.iter().enumerate();
        let scales = scales.map(|(i, s)| if takes_scale(s.0) { 0.75 + 0.5 * i as f32 } else { 1.0 }).collect();
        let bias = if case.bias { random.normals(case.rows()) } else { vec![0.0; case.rows()] };
        let mut x = random.normals(case.columns * case.k);
        if case.outliers {
            x.iter_mut().step_by(97).for_each(|x| *x *= 50.0);
        }
        let seq = (0..case.columns).map(|c| if case.idle.contains(&c) { -1 } else { c as i32 }).collect();
        Self { weights, scales, bias, x: Activations::new(x), seq }
    }

    /// `[column][row of all segments, gap]` in f64. `as_held`: quantized weights multiply the image, else what it stands for.
    fn expected(&self, case: &Case, as_held: bool) -> Vec<f64> {
        let (k, cap) = (case.k, f64::from(case.softcap));
        let values: Vec<f64> = self.x.values.iter().map(|&v| f64::from(v)).collect();
        let mut y = Vec::new();
        for c in 0..case.columns {
            for ((w, &scale), &(format, rows)) in self.weights.iter().zip(&self.scales).zip(&case.segments) {
                let x = if as_held && format.format().block > 1 { &self.x.image } else { &values };
                for r in 0..rows {
                    let dot: f64 =
                        w.values[r * k..][..k].iter().zip(&x[c * k..]).map(|(&w, &x)| f64::from(w) * x).sum();
                    let biased = f64::from(scale) * dot + f64::from(self.bias[y.len() % (case.rows() + GAP)]);
                    let capped = if cap > 0.0 { cap * (biased / cap).tanh() } else { biased };
                    y.push(if case.idle.contains(&c) { f64::from(UNTOUCHED) } else { capped });
                }
            }
            y.extend([f64::from(UNTOUCHED); GAP]);
        }
        y
    }

    /// L2 norm of all products of a weight and an activation that results are sums of.
    fn size_of_terms(&self, case: &Case) -> f64 {
        let square = |x: &f32| f64::from(*x).powi(2);
        let of_column = |x: &[f32]| {
            let rows = self.weights.iter().flat_map(|w| w.values.chunks_exact(case.k));
            rows.map(|w| w.iter().zip(x).map(|(w, x)| square(w) * square(x)).sum::<f64>()).sum::<f64>()
        };
        let columns = self.x.values.chunks_exact(case.k).enumerate().filter(|(c, _)| !case.idle.contains(c));
        columns.map(|(_, x)| of_column(x)).sum::<f64>().sqrt()
    }

    /// One launch over `columns` columns from `first` on.
    fn launch(&self, device: &Device, case: &Case, first: usize, columns: usize) -> Vec<f32> {
        let of = |(w, s): (&Weights, &(GgmlType, usize))| matrix(device, s.0, &w.bytes, case.k);
        let weights: Vec<Buffer<u8>> = self.weights.iter().zip(&case.segments).map(of).collect();
        let (bias, x, seq) = (device.buffer(&self.bias), device.buffer(&self.x.values), device.buffer(&self.seq));
        let (q, d, s) = (device.buffer(&self.x.q), device.buffer(&self.x.d), device.buffer(&self.x.s));
        let scales = device.buffer(&self.scales);
        let (k, stride) = (case.k, case.rows() + GAP);
        let y = device.buffer(&vec![UNTOUCHED; columns * stride]);
        let mut params = MatmulParams {
            segments: weights.len() as i32,
            k: k as i32,
            columns: columns as i32,
            softcap: case.softcap,
            image: QuantizedActivations {
                q: q.ptr.add(first * k),
                d: d.ptr.add(first * k / 32),
                s: s.ptr.add(first * k / 16),
            },
            x: x.ptr.add(first * k),
            ..MatmulParams::default()
        };
        if !case.idle.is_empty() {
            params.seq = seq.ptr.add(first);
        }
        let mut row = 0;
        for (i, (w, &(format, rows))) in weights.iter().zip(&case.segments).enumerate() {
            params.segment[i] = Segment {
                w: w.ptr,
                y: y.ptr.add(row),
                rows: rows as i32,
                y_stride: stride as i32,
                format: format as i32,
                ..Segment::default()
            };
            if case.bias {
                params.segment[i].bias = bias.ptr.add(row);
            }
            if takes_scale(format) {
                params.segment[i].scale = scales.ptr.add(i);
            }
            row += rows;
        }
        // SAFETY: buffers of these shapes, which live until the results are read.
        unsafe { gemv(&device.stream, &params) }.expect("a launch");
        device.read(&y)
    }
}

fn check(case: &Case) {
    let operands = Operands::new(case);
    let what = format!("{:?}×{} over {} columns", case.segments, case.k, case.columns);
    let (exact, meant) = (operands.expected(case, true), operands.expected(case, false));
    let terms = operands.size_of_terms(case);
    everywhere(
        |device| operands.launch(device, case, 0, case.columns),
        |y| {
            assert_close_for(terms, y, &exact, 1e-6, &what);
            // What int8 costs a single result is not the mean of many.
            let bound = if case.outliers || case.rows() == 1 { 2e-2 } else { 1e-2 };
            assert_close_for(terms, y, &meant, bound, &format!("{what}, against f32 activations"));
        },
    );
}

/// Rows and k of every kind of raggedness that the block of a format allows.
fn shapes(block: usize) -> &'static [(usize, usize)] {
    match block {
        256 => &[(1, 256), (7, 512), (33, 1280), (100, 768)],
        128 => &[(1, 128), (7, 256), (33, 1152), (100, 1408)],
        64 => &[(1, 64), (7, 320), (33, 1152), (100, 960)],
        _ => &[(1, 32), (7, 256), (33, 1152), (100, 1408)],
    }
}

#[test]
fn one_column_in_all_shapes() {
    for format in formats().map(GgmlType::format) {
        for &(rows, k) in shapes(format.block) {
            check(&Case::new(format.ty, rows, k));
        }
    }
}

#[test]
fn activations_with_outliers() {
    for format in formats().map(GgmlType::format) {
        check(&Case { outliers: true, ..Case::new(format.ty, 33, 1280) });
    }
}

#[test]
fn dense_rows_of_any_length() {
    for ty in [GgmlType::F32, GgmlType::F16, GgmlType::BF16] {
        for k in [1, 31, 100, 130, 1153] {
            check(&Case { bias: true, ..Case::new(ty, 9, k) });
            check(&Case { columns: 3, ..Case::new(ty, 9, k) });
        }
    }
}

#[test]
fn few_columns_some_idle() {
    for format in formats().map(GgmlType::format) {
        for columns in [2, 4, 5] {
            check(&Case { columns, idle: vec![1], ..Case::new(format.ty, 19, 768) });
        }
    }
}

#[test]
fn three_segments_of_any_formats() {
    use GgmlType::*;
    for segments in [
        vec![(Q5_0, 50), (Q5_0, 8), (Q8_0, 9)],
        vec![(Q4_K, 16), (Q6_K, 1)],
        vec![(BF16, 17), (Q3_K, 8), (IQ4_XS, 7)],
        vec![(F16, 3), (F32, 12), (Q2_K, 16)],
        vec![(Q4_0, 9), (Q4_1, 2), (Q5_1, 30)],
        vec![(Q5_K, 11), (IQ4_NL, 24), (Q5_K, 8)],
        vec![(IQ3_S, 18), (IQ2_XXS, 5), (Q4_K, 9)],
        vec![(Q4_K, 24), (Q4_K, 7), (Q4_K, 8)],
        vec![(NVFP4, 17), (NVFP4, 16), (TQ2_0, 9)],
    ] {
        let one = Case { segments, bias: true, softcap: 30.0, ..Case::new(F32, 0, 512) };
        check(&Case { columns: 6, idle: vec![0, 4], ..one.clone() });
        check(&one);
    }
}

#[test]
fn a_column_has_the_same_bits_alone_and_among_others() {
    for format in formats().map(GgmlType::format) {
        let case = Case { columns: 5, ..Case::new(format.ty, 12, 1280) };
        let operands = Operands::new(&case);
        let stride = 12 + GAP;
        everywhere(
            |device| {
                let mut y = operands.launch(device, &case, 0, 5);
                for c in 0..5 {
                    y.extend(operands.launch(device, &case, c, 1));
                }
                y
            },
            |y| {
                let (together, alone) = y.split_at(5 * stride);
                let same = together.iter().zip(alone).all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(same, "{}: in a batch and alone", format.name);
            },
        );
    }
}
