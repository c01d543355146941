//! The gated half of a feed-forward layer, in every format, as f32 and as the image that the next product reads.

use qrun_cuda::{
    Ptr,
    ops::formats::takes_scale,
    ops::matmul::{GluParams, QuantizedActivations, Segment, glu, glu_takes},
    ops::params::{CLAMPED_SWIGLU, GELU, GELU_TANH, RELU_SQUARED, SILU},
};
use qrun_quant::GgmlType;

use crate::{
    harness::{Device, Random, UNTOUCHED, assert_close, everywhere},
    operands::{Activations, Weights, formats, matrix},
};

#[derive(Clone, Copy)]
struct Case {
    formats: [GgmlType; 2],
    rows: usize,
    k: usize,
    columns: usize,
    activation: i32,
    bias: bool,
    /// The last column is idle.
    idle: bool,
}

impl Case {
    fn new(format: GgmlType, rows: usize, k: usize) -> Self {
        Self { formats: [format, format], rows, k, columns: 1, activation: 0, bias: false, idle: false }
    }
    fn stride(&self) -> usize {
        self.rows + 3
    }
}

/// The error function in f64: `2/√π · e^(−x²) · Σ 2ⁿ x^(2n+1) / (2n+1)!!`, whose terms have one sign.
fn erf(x: f64) -> f64 {
    let (mut term, mut sum, mut n) = (x, 0.0, 1.0);
    while f64::abs(term) > 1e-17 * f64::abs(sum) && n < 2000.0 {
        sum += term;
        n += 2.0;
        term *= 2.0 * x * x / n;
    }
    2.0 / std::f64::consts::PI.sqrt() * (-x * x).exp() * sum
}

/// `activation(gate) · up` in f64.
pub fn gated(gate: f64, up: f64, activation: i32) -> f64 {
    match activation {
        SILU => gate / (1.0 + (-gate).exp()) * up,
        GELU_TANH => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (gate + 0.044_715 * gate.powi(3));
            0.5 * gate * (1.0 + inner.tanh()) * up
        }
        CLAMPED_SWIGLU => {
            let gate = gate.min(7.0);
            gate / (1.0 + (-1.702 * gate).exp()) * (up.clamp(-7.0, 7.0) + 1.0)
        }
        GELU => 0.5 * gate * (1.0 + erf(gate / std::f64::consts::SQRT_2)) * up,
        // Nothing is gated.
        RELU_SQUARED => gate.max(0.0).powi(2),
        other => panic!("activation {other}"),
    }
}

struct Operands {
    weights: [Weights; 2],
    bias: [Vec<f32>; 2],
    x: Activations,
    seq: Vec<i32>,
}

impl Operands {
    fn new(case: &Case) -> Self {
        let mut random = Random::new((case.k * 1000 + case.rows) as u64);
        // ComputeType of about one, where the activations bend.
        let factor = 1.0 / (case.k as f32).sqrt();
        let weights = case.formats.map(|f| Weights::random(&mut random, f, case.rows * case.k, factor));
        let bias = [0, 1].map(|_| random.normals(case.rows));
        let x = Activations::new(random.normals(case.columns * case.k));
        let mut seq: Vec<i32> = (0..case.columns as i32).collect();
        if case.idle {
            seq[case.columns - 1] = -1;
        }
        Self { weights, bias, x, seq }
    }

    /// `[column][row]` in f64, idle columns too.
    fn expected(&self, case: &Case) -> Vec<f64> {
        let values: Vec<f64> = self.x.values.iter().map(|&v| f64::from(v)).collect();
        let product = |m: usize, c: usize, r: usize| {
            let x = if case.formats[m].format().block > 1 { &self.x.image } else { &values };
            let w = &self.weights[m].values[r * case.k..][..case.k];
            let dot: f64 = w.iter().zip(&x[c * case.k..]).map(|(&w, &x)| f64::from(w) * x).sum();
            f64::from(scale(case.formats[m], m)) * dot + if case.bias { f64::from(self.bias[m][r]) } else { 0.0 }
        };
        (0..case.columns * case.rows)
            .map(|i| {
                let (c, r) = (i / case.rows, i % case.rows);
                let (g, u) = (product(0, c, r), product(1, c, r));
                gated(g, u, case.activation)
            })
            .collect()
    }

    /// y with its gaps, then q, d, s of the image where the rows are whole blocks.
    fn launch(&self, device: &Device, case: &Case) -> Vec<f32> {
        let weights = [0, 1].map(|m| matrix(device, case.formats[m], &self.weights[m].bytes, case.k));
        let bias = [0, 1].map(|m| device.buffer(&self.bias[m]));
        let scales = device.buffer(&[0, 1].map(|m| scale(case.formats[m], m)));
        let (x, seq) = (device.buffer(&self.x.values), device.buffer(&self.seq));
        let (q, d, s) = (device.buffer(&self.x.q), device.buffer(&self.x.d), device.buffer(&self.x.s));
        let n = case.columns * case.rows;
        let y = device.buffer(&vec![UNTOUCHED; case.columns * case.stride()]);
        let (out_q, out_d, out_s) =
            (device.buffer(&vec![0_i8; n]), device.buffer(&vec![0.0; n / 32]), device.buffer(&vec![0.0; n / 16]));
        let whole = case.rows.is_multiple_of(32);
        let segment = |m: usize| Segment {
            w: weights[m].ptr,
            bias: if case.bias { bias[m].ptr } else { Ptr::NULL },
            rows: case.rows as i32,
            format: case.formats[m] as i32,
            scale: if takes_scale(case.formats[m]) { scales.ptr.add(m) } else { Ptr::NULL },
            ..Segment::default()
        };
        let params = GluParams {
            gate: segment(0),
            up: segment(1),
            k: case.k as i32,
            columns: case.columns as i32,
            activation: case.activation,
            y_stride: case.stride() as i32,
            image: QuantizedActivations { q: q.ptr, d: d.ptr, s: s.ptr },
            x: x.ptr,
            seq: seq.ptr,
            y: y.ptr,
            out: if whole {
                QuantizedActivations { q: out_q.ptr, d: out_d.ptr, s: out_s.ptr }
            } else {
                QuantizedActivations::default()
            },
        };
        // SAFETY: buffers of these shapes, which live until the results are read.
        unsafe { glu(&device.stream, &params) }.expect("a launch");
        let mut all = device.read(&y);
        if whole {
            // The image alone has the same bits.
            // SAFETY: as above.
            unsafe { glu(&device.stream, &GluParams { y: Ptr::NULL, ..params }) }.expect("a launch");
            all.extend(device.read::<i8>(&out_q).iter().map(|&q| f32::from(q)));
            all.extend(device.read(&out_d));
            all.extend(device.read(&out_s));
        }
        all
    }
}

/// Beside the gate, or what is gated, where their format has room for it.
fn scale(format: GgmlType, m: usize) -> f32 {
    if takes_scale(format) { [0.75, 1.25][m] } else { 1.0 }
}

fn check(case: &Case) {
    let operands = Operands::new(case);
    let what = format!(
        "{:?} {}×{}, {} columns, activation {}",
        case.formats, case.rows, case.k, case.columns, case.activation
    );
    let expected = operands.expected(case);
    let live = case.columns - usize::from(case.idle);
    everywhere(
        |device| operands.launch(device, case),
        |all| {
            let (y, image) = all.split_at(case.columns * case.stride());
            let (mut values, mut rest): (Vec<f32>, Vec<f32>) = (vec![], vec![]);
            for (c, y) in y.chunks(case.stride()).enumerate() {
                let written = if c < live { case.rows } else { 0 };
                values.extend(&y[..written]);
                rest.extend(&y[written..]);
            }
            assert_close(&values, &expected[..live * case.rows], 2e-6, &what);
            assert!(rest.iter().all(|&y| y == UNTOUCHED), "{what}: outside of its rows");
            if !image.is_empty() {
                values.resize(case.columns * case.rows, 0.0);
                let x = Activations::new(values);
                let q: Vec<f32> = x.q.iter().map(|&q| f32::from(q)).collect();
                assert!(image == [q, x.d, x.s].concat(), "{what}: the image");
            }
        },
    );
}

#[test]
fn every_format_and_every_activation() {
    for format in formats().map(GgmlType::format) {
        let step = format.block.max(32);
        for activation in [SILU, GELU_TANH, CLAMPED_SWIGLU] {
            check(&Case { activation, ..Case::new(format.ty, 32, step) });
            check(&Case { activation, bias: true, ..Case::new(format.ty, 96, 3 * step) });
        }
        check(&Case { columns: 5, idle: true, ..Case::new(format.ty, 64, 768) });
        // In blocks of 32 rows and 64 columns.
        if format.block > 1 {
            check(&Case { columns: 67, idle: true, bias: true, ..Case::new(format.ty, 96, 2 * step) });
        }
    }
    check(&Case { activation: 1, ..Case::new(GgmlType::Q5_0, 160, 1152) });
}

#[test]
fn gate_and_up_in_different_dense_formats() {
    use GgmlType::*;
    for (i, formats) in [[BF16, F32], [F16, BF16], [F32, F16]].into_iter().enumerate() {
        let columns = 1 + i;
        check(&Case { formats, columns, activation: i as i32 % 2, idle: columns > 1, ..Case::new(F32, 64, 512) });
    }
    assert!(!glu_takes(Q4_K, Q6_K) && !glu_takes(BF16, Q4_0) && glu_takes(BF16, F16) && glu_takes(Q4_K, Q4_K));
}

#[test]
fn quantized_layers_of_any_width_and_number_of_columns() {
    for ty in [GgmlType::Q5_0, GgmlType::Q4_K, GgmlType::Q8_0] {
        for (rows, columns) in [(1, 1), (45, 9), (96, 16), (64, 17), (160, 8), (33, 33), (1, 64), (160, 129)] {
            check(&Case { columns, bias: true, ..Case::new(ty, rows, 768) });
        }
        for activation in [SILU, GELU_TANH, CLAMPED_SWIGLU] {
            check(&Case { columns: 40, activation, ..Case::new(ty, 45, 768) });
        }
    }
}

#[test]
fn dense_layers_of_any_width() {
    for ty in [GgmlType::F32, GgmlType::F16, GgmlType::BF16] {
        for (rows, k) in [(1, 40), (33, 101), (70, 256)] {
            check(&Case::new(ty, rows, k));
            check(&Case { columns: 2, activation: 1, ..Case::new(ty, rows, k) });
        }
    }
}
