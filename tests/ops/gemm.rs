//! Matrix times several columns, for every format: against f64 on the operands that the kernel has, and against f64 on what
//! they stand for; alone, in a batch and in pieces with the same bits.

use qrun_cuda::{
    Ptr,
    ops::{
        activations::{ActivationTerms, QuantizedActivations},
        gemm::{self, gemm},
        matmul::{MatmulParams, Segment},
    },
};
use qrun_quant::GgmlType;

use crate::{
    harness::{Buffer, Device, Random, UNTOUCHED, assert_close, everywhere, relative_l2},
    operands::{Activations, Weights, formats, is_dense, matrix},
};

/// Elements of a column of `y` behind the last row, which nobody may touch.
const GAP: usize = 3;

/// One launch: matrices of one format over the same activations.
struct Case {
    format: GgmlType,
    rows: Vec<usize>,
    columns: usize,
    k: usize,
    bias: bool,
    softcap: f32,
    /// Columns without a sequence.
    idle: Vec<usize>,
    /// Factors on the weights and on the activations.
    size: (f32, f32),
}

impl Case {
    fn new(format: GgmlType, rows: usize, columns: usize, k: usize) -> Self {
        Self { format, rows: vec![rows], columns, k, bias: false, softcap: 0.0, idle: vec![], size: (1.0, 1.0) }
    }

    fn dense(&self) -> bool {
        is_dense(self.format)
    }
}

/// The operands of a case.
struct Operands {
    weights: Vec<Weights>,
    bias: Vec<Vec<f32>>,
    x: Activations,
    seq: Vec<i32>,
}

impl Operands {
    fn new(case: &Case) -> Self {
        let mut random = Random::new((case.format as u64) << 32 | (case.columns * case.k) as u64);
        let scaled = |values: Vec<f32>, factor: f32| values.into_iter().map(|v| v * factor).collect();
        let weights =
            case.rows.iter().map(|&r| Weights::random(&mut random, case.format, r * case.k, case.size.0)).collect();
        let bias = case.rows.iter().map(|&r| if case.bias { random.normals(r) } else { vec![] }).collect();
        let x = Activations::new(scaled(random.normals(case.columns * case.k), case.size.1));
        let seq = (0..case.columns).map(|c| if case.idle.contains(&c) { -1 } else { c as i32 }).collect();
        Self { weights, bias, x, seq }
    }

    /// `[column][row of all segments]` in f64 over `x`, and the untouched elements.
    fn expected(&self, case: &Case, x: &[f64]) -> Vec<f64> {
        let mut y = Vec::new();
        for c in 0..case.columns {
            for (s, &rows) in case.rows.iter().enumerate() {
                for r in 0..rows {
                    let (w, x) = (&self.weights[s].values[r * case.k..][..case.k], &x[c * case.k..][..case.k]);
                    let dot: f64 = w.iter().zip(x).map(|(&w, &x)| f64::from(w) * x).sum();
                    let biased = dot + self.bias[s].get(r).map_or(0.0, |&b| f64::from(b));
                    let cap = f64::from(case.softcap);
                    let capped = if cap > 0.0 { cap * (biased / cap).tanh() } else { biased };
                    y.push(if case.idle.contains(&c) { f64::from(UNTOUCHED) } else { capped });
                }
            }
            y.extend([f64::from(UNTOUCHED); GAP]);
        }
        y
    }
}

/// The operands in device memory.
struct OnDevice {
    weights: Vec<Buffer<u8>>,
    bias: Vec<Buffer<f32>>,
    image: [Buffer<f32>; 2],
    q: Buffer<i8>,
    x: Buffer<f32>,
    /// Room for its terms.
    terms: (Buffer<u32>, Buffer<f32>),
    seq: Buffer<i32>,
}

impl OnDevice {
    fn new(device: &Device, case: &Case, operands: &Operands) -> Self {
        let columns = case.columns.next_multiple_of(16);
        Self {
            weights: operands.weights.iter().map(|w| matrix(device, case.format, &w.bytes, case.k)).collect(),
            bias: operands.bias.iter().map(|b| device.buffer(b)).collect(),
            image: [device.buffer(&operands.x.d), device.buffer(&operands.x.s)],
            q: device.buffer(&operands.x.q),
            x: device.buffer(&operands.x.values),
            terms: (device.empty(columns * case.k), device.empty(columns * case.k.div_ceil(256))),
            seq: device.buffer(&operands.seq),
        }
    }

    /// `columns` columns from `first` on.
    fn launch(&self, device: &Device, case: &Case, first: usize, columns: usize) -> Vec<f32> {
        self.launch_in(None, device, case, first, columns)
    }

    /// The same in tiles of a kind.
    fn launch_in(&self, kind: Option<usize>, device: &Device, case: &Case, first: usize, columns: usize) -> Vec<f32> {
        let stride = case.rows.iter().sum::<usize>() + GAP;
        let y = device.buffer(&vec![UNTOUCHED; columns * stride]);
        let mut at = 0;
        let mut segment = [Segment::default(); 3];
        for (s, &rows) in case.rows.iter().enumerate() {
            segment[s] = Segment {
                w: self.weights[s].ptr,
                bias: if case.bias { self.bias[s].ptr } else { Ptr::NULL },
                y: y.ptr.add(at),
                rows: rows as i32,
                y_stride: stride as i32,
                format: case.format as i32,
                ..Segment::default()
            };
            at += rows;
        }
        // What a family has no use for is not there.
        let (image, x) = match case.dense() {
            true => (QuantizedActivations::default(), self.x.ptr.add(first * case.k)),
            false => {
                let (d, s) = (self.image[0].ptr.add(first * case.k / 32), self.image[1].ptr.add(first * case.k / 16));
                (QuantizedActivations { q: self.q.ptr.add(first * case.k), d, s }, Ptr::NULL)
            }
        };
        let params = MatmulParams {
            segment,
            segments: case.rows.len() as i32,
            k: case.k as i32,
            columns: columns as i32,
            softcap: case.softcap,
            image,
            x,
            seq: if case.idle.is_empty() { Ptr::NULL } else { self.seq.ptr.add(first) },
            terms: ActivationTerms { blocks: self.terms.0.ptr, down: self.terms.1.ptr },
            ..MatmulParams::default()
        };
        // SAFETY: buffers of these shapes, which live until the results are read.
        let launched = unsafe {
            match kind {
                None => gemm(&device.stream, &params),
                Some(kind) => gemm::gemm_in_tiles(&device.stream, &params, kind),
            }
        };
        launched.expect("a launch");
        device.read(&y)
    }
}

/// Quantized kernels against the same quantized operands and against what was quantized; dense ones against the f32 inputs.
fn check(case: &Case) {
    let operands = Operands::new(case);
    let what = format!("{} {:?}×{} over {} columns", case.format, case.rows, case.k, case.columns);
    let values: Vec<f64> = operands.x.values.iter().map(|&v| f64::from(v)).collect();
    let exact = operands.expected(case, if case.dense() { &values } else { &operands.x.image });
    let meant = operands.expected(case, &values);
    everywhere(
        |device| OnDevice::new(device, case, &operands).launch(device, case, 0, case.columns),
        |y| {
            assert_close(y, &exact, if case.dense() { 1e-5 } else { 1e-6 }, &what);
            // What int8 costs a single result is not the mean of many.
            let bound = if case.rows == [1] { 2e-2 } else { 1e-2 };
            assert_close(y, &meant, bound, &format!("{what}, against f32 activations"));
        },
    );
}

fn quantized() -> impl Iterator<Item = GgmlType> {
    formats().filter(|f| f.format().block > 1)
}
fn dense() -> impl Iterator<Item = GgmlType> {
    formats().filter(|f| f.format().block == 1)
}

/// Rows, columns, k in blocks of the format (of 256) or of 32, in whole blocks: one of each thing that can be ragged.
const K_SHAPES: &[[usize; 3]] = &[[1, 2, 1], [16, 8, 9], [40, 5, 5], [23, 17, 2], [40, 40, 1], [129, 70, 2]];
const SHAPES: &[[usize; 3]] = &[[1, 2, 1], [16, 8, 73], [40, 5, 36], [23, 17, 44], [40, 40, 3], [129, 70, 9]];

#[test]
fn quantized_weights_in_all_shapes() {
    for format in quantized() {
        let block = format.format().block;
        for &[rows, columns, blocks] in if block == 256 { K_SHAPES } else { SHAPES } {
            let k = if block == 256 { blocks * block } else { (32 * blocks).next_multiple_of(block) };
            check(&Case::new(format, rows, columns, k));
        }
    }
}

#[test]
fn dense_weights_in_all_shapes() {
    for format in dense() {
        for &[rows, columns, blocks] in SHAPES {
            check(&Case::new(format, rows, columns, blocks * 32));
        }
    }
}

#[test]
fn dense_weights_of_any_size() {
    // Far beyond what f16 holds, and far below; f16 weights themselves stay within f16.
    const SIZES: &[(GgmlType, f32, f32)] = &[
        (GgmlType::BF16, 1e12, 1e9),
        (GgmlType::BF16, 1e-12, 1e-9),
        (GgmlType::BF16, 1e30, 3e-35),
        (GgmlType::F32, 1e12, 1e-9),
        (GgmlType::F32, 3e-35, 1e30),
        (GgmlType::F16, 1e-6, 1e9),
        (GgmlType::F16, 1.0, 1e-36),
    ];
    for &(format, weights, activations) in SIZES {
        for columns in [5, 40] {
            check(&Case { size: (weights, activations), ..Case::new(format, 20, columns, 320) });
        }
    }
}

#[test]
fn three_segments_bias_cap_and_idle_columns() {
    for format in [GgmlType::Q8_0, GgmlType::Q6_K, GgmlType::BF16] {
        for columns in [5, 16, 66] {
            let case = Case {
                rows: vec![70, 16, 33],
                bias: true,
                softcap: 30.0,
                idle: vec![1, columns - 1],
                ..Case::new(format, 0, columns, 256)
            };
            check(&case);
        }
    }
}

#[test]
fn a_column_has_the_same_bits_in_every_batch() {
    for format in formats() {
        let case = Case::new(format, 40, 70, 768);
        let operands = Operands::new(&case);
        let stride = 40 + GAP;
        let pieces = [(0, 70), (0, 1), (0, 2), (0, 8), (0, 17), (30, 40), (64, 6)];
        everywhere(
            |device| {
                let on_device = OnDevice::new(device, &case, &operands);
                pieces.iter().flat_map(|&(first, columns)| on_device.launch(device, &case, first, columns)).collect()
            },
            |y| {
                let (whole, mut rest) = y.split_at(70 * stride);
                for (first, columns) in &pieces[1..] {
                    let (piece, after) = rest.split_at(columns * stride);
                    let same = piece.iter().zip(&whole[first * stride..]).all(|(a, b)| a.to_bits() == b.to_bits());
                    assert!(same, "{format}: columns {first}.. in a batch of {columns} and in one of 70");
                    rest = after;
                }
            },
        );
    }
}

#[test]
fn tiles_of_each_kind_give_the_same_bits() {
    for format in formats().filter(|f| gemm::wants_terms(*f)) {
        for (columns, k) in [(33, 32), (150, 352)] {
            let case = Case { rows: vec![150, 9], idle: vec![3, 32], bias: true, ..Case::new(format, 0, columns, k) };
            let operands = Operands::new(&case);
            let values: Vec<f64> = operands.x.values.iter().map(|&v| f64::from(v)).collect();
            let expected = operands.expected(&case, &values);
            everywhere(
                |device| {
                    let kinds = if device.gpu.target().sm < 80 { 0 } else { gemm::TILE_KINDS };
                    let on_device = OnDevice::new(device, &case, &operands);
                    let kinds = std::iter::once(None).chain((0..kinds).map(Some));
                    kinds.flat_map(|kind| on_device.launch_in(kind, device, &case, 0, columns)).collect()
                },
                |y| {
                    let mut each = y.chunks_exact(expected.len());
                    let one = each.next().expect("one");
                    assert_close(one, &expected, 1e-5, &format!("{format} over {columns} columns"));
                    let bits = |y: &[f32]| y.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
                    assert!(
                        each.all(|other| bits(other) == bits(one)),
                        "{format} over {columns} columns: tiles of some kind"
                    );
                },
            );
        }
    }
}

#[test]
fn the_comparator_sees_a_wrong_result() {
    assert!(relative_l2(&[1.0, f32::NAN], &[1.0, 2.0]) > 1.0);
}
