//! A product that norms its column first has the bits of a norm and a product, one after the other.

use qrun_cuda::{
    Ptr,
    ops::{
        activations::QuantizedActivations,
        formats::takes_scale,
        matmul::{MatmulParams, Segment},
        norm::{NormKind, NormParams, norm as norm_rows},
        product::{Plan, norm_product, norm_product_takes, planned},
    },
};
use qrun_emulator::Config;
use qrun_quant::GgmlType::{self, *};

use crate::{
    harness::{Buffer, Device, Random, everywhere},
    operands::{Weights, formats, matrix},
};

/// What lies where nothing is to be written.
const UNTOUCHED: f32 = -77.0;

#[derive(Clone, Copy)]
struct Case<'a> {
    /// Format and rows of each segment; gated, the gate and what is gated.
    segments: &'a [(GgmlType, usize)],
    n: usize,
    add: bool,
    post: bool,
    gated: bool,
    plans: &'a [Plan],
}

const PLANS: &[Plan] = &[
    Plan { tiles: 1, warps: 4 },
    Plan { tiles: 2, warps: 7 },
    Plan { tiles: 4, warps: 5 },
    Plan { tiles: 8, warps: 8 },
];
const GATED_PLANS: &[Plan] = &[
    Plan { tiles: 4, warps: 4 },
    Plan { tiles: 4, warps: 8 },
    Plan { tiles: 8, warps: 6 },
    Plan { tiles: 8, warps: 8 },
];

impl Case<'_> {
    fn outputs(&self) -> usize {
        if self.gated { self.segments[0].1 } else { self.segments.iter().map(|s| s.1).sum() }
    }
    /// Of the next image; 0: it is not made.
    fn image(&self) -> usize {
        if self.gated && self.outputs().is_multiple_of(32) { self.outputs() } else { 0 }
    }
    /// Results of a way to make them: y, the image's q, d and s, the stream after the sum.
    fn len(&self) -> usize {
        self.outputs() + self.image() + self.image() / 32 + self.image() / 16 + self.n
    }
}

/// The addresses of an image of one column, with what holds them.
struct Image {
    at: QuantizedActivations,
    q: Buffer<i8>,
    d: Buffer<f32>,
    s: Buffer<f32>,
}

impl Image {
    fn new(device: &Device, n: usize) -> Self {
        let (q, d, s) = (device.empty(n), device.empty(n / 32), device.empty(n / 16));
        let at = if n == 0 {
            QuantizedActivations::default()
        } else {
            QuantizedActivations { q: q.ptr, d: d.ptr, s: s.ptr }
        };
        Self { at, q, d, s }
    }
    fn read(&self, device: &Device) -> Vec<f32> {
        let q = device.read(&self.q).iter().map(|&q| f32::from(q)).collect();
        [q, device.read(&self.d), device.read(&self.s)].concat()
    }
}

/// The results of the norm and the products one after the other; of both in one launch, for each plan and for the device's own;
/// then the stream as it is afterwards.
fn run(device: &Device, case: &Case<'_>) -> Vec<f32> {
    let n = case.n;
    let mut random = Random::new((n + case.outputs()) as u64);
    let vectors = [(); 4].map(|()| device.buffer(&random.normals(n)));
    let [x, add, post, weight] = vectors.each_ref().map(|v| v.ptr);
    let x_out = device.empty::<f32>(n);
    let (y, out) = (device.empty::<f32>(case.outputs()), Image::new(device, case.image()));
    let mut first = 0;
    let mut held = vec![];
    let segments = case.segments.iter().map(|&(format, rows)| {
        let w = Weights::random(&mut random, format, rows * n, 1.0);
        let (w, bias) = (matrix(device, format, &w.bytes, n), device.buffer(&random.normals(rows)));
        let scale = device.buffer(&[1.25]);
        let segment = Segment {
            w: w.ptr,
            bias: bias.ptr,
            y: y.ptr.add(first),
            rows: rows as i32,
            y_stride: rows as i32,
            format: format as i32,
            expert_rows: 0,
            scale: if takes_scale(format) { scale.ptr } else { Ptr::NULL },
        };
        held.push((w, bias, scale));
        // What is gated has no results of its own.
        first += if case.gated { 0 } else { rows };
        segment
    });
    let segments: Vec<Segment> = segments.collect();
    let norm = NormParams {
        x,
        add: if case.add { add } else { Ptr::NULL },
        post: if case.post { post } else { Ptr::NULL },
        weight,
        x_out: x_out.ptr,
        n: n as i32,
        eps: 1e-6,
        post_eps: 1e-5,
        scale: 0.5,
        x_scale: if case.add { 0.3 } else { 1.0 },
        ..NormParams::default()
    };
    let product =
        MatmulParams { k: n as i32, columns: 1, gated: case.gated.into(), out: out.at, ..MatmulParams::default() };
    let results = || [device.read(&y), out.read(device), device.read(&x_out)].concat();

    let image = Image::new(device, n);
    let normed = NormParams { image: image.at, ..norm };
    let mut all = Vec::new();
    // SAFETY: buffers of these shapes, which live until the results are read.
    unsafe {
        norm_rows(&device.stream, 1, NormKind::Rms, &normed).expect("a launch");
        for segments in segments.chunks(if case.gated { 2 } else { 1 }) {
            let product = MatmulParams { image: image.at, ..product }.with(segments);
            let plan = if case.gated { GATED_PLANS[0] } else { PLANS[0] };
            planned(&device.stream, &product, None, plan).expect("a launch");
        }
        all.extend(results());
        let product = product.with(&segments);
        for plan in case.plans {
            planned(&device.stream, &product, Some(&norm), *plan).expect("a launch");
            all.extend(results());
        }
        norm_product(&device.stream, &product, &norm).expect("a launch");
    }
    all.extend(results());
    all.extend(device.read(&vectors[0]));
    all
}

fn check(case: &Case<'_>) {
    let bits = |v: &[f32]| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    let what = format!("{:?} × {}", case.segments, case.n);
    everywhere(
        |device| run(device, case),
        |all| {
            let (found, x) = all.split_at(all.len() - case.n);
            let mut found = found.chunks(case.len());
            let apart = found.next().expect("the norm and the products");
            assert!(apart.iter().all(|v| v.is_finite()), "{what}: not finite");
            assert_eq!(bits(x) == bits(&apart[case.len() - case.n..]), !case.add, "{what}: the stream");
            let plans = case.plans.iter().map(Some).chain([None]);
            for (together, plan) in found.zip(plans) {
                assert!(bits(together) == bits(apart), "{what}: {plan:?}");
            }
            assert_eq!(bits(x), bits(&Random::new((case.n + case.outputs()) as u64).normals(case.n)), "{what}: x");
        },
    );
}

#[test]
fn every_format_has_the_bits_of_a_norm_and_a_product() {
    for (i, format) in formats().map(GgmlType::format).filter(|f| f.block > 1).enumerate() {
        let n = [1056_usize, 160, 480][i % 3].next_multiple_of(format.block);
        let (add, post) = [(true, true), (true, false), (false, false)][i % 3];
        check(&Case { segments: &[(format.ty, 37)], n, add, post, gated: false, plans: PLANS });
    }
}

#[test]
fn segments_of_several_formats() {
    let case = Case { segments: &[], n: 1152, add: true, post: true, gated: false, plans: PLANS };
    check(&Case { segments: &[(Q5_0, 64), (Q5_0, 16), (Q8_0, 16)], ..case });
    check(&Case { segments: &[(Q4_1, 40), (MXFP4, 17), (IQ4_NL, 33)], n: 1056, ..case });
    check(&Case { segments: &[(Q4_K, 48), (Q5_K, 20), (Q6_K, 1)], n: 2048, post: false, ..case });
}

#[test]
fn gates_in_blocks_of_one_and_of_two_groups() {
    let case = Case { segments: &[], n: 1152, add: true, post: true, gated: true, plans: GATED_PLANS };
    for rows in [96, 45, 16] {
        check(&Case { segments: &[(Q5_0, rows), (Q5_0, rows)], ..case });
    }
    check(&Case { segments: &[(Q8_0, 64), (Q8_0, 64)], n: 2080, post: false, ..case });
    check(&Case { segments: &[(Q4_K, 160), (Q4_K, 160)], n: 512, add: false, post: false, ..case });
}

#[test]
fn columns_of_any_length_up_to_the_most() {
    let case = Case { segments: &[(Q4_0, 16)], n: 0, add: true, post: true, gated: false, plans: &PLANS[..2] };
    for n in [32, 96, 4096, 16_384] {
        assert!(norm_product_takes(n, &[Q4_0]), "{n}");
        check(&Case { n, ..case });
    }
    assert!(!norm_product_takes(16_416, &[Q4_0]) && !norm_product_takes(1000, &[Q4_0]));
    let takes = |formats: &[GgmlType]| norm_product_takes(1024, formats);
    assert!(takes(&[IQ3_S, IQ3_S]) && !takes(&[IQ3_S, IQ2_S]) && !takes(&[Q4_0, IQ3_S]), "a grid beside its like only");
    assert!(takes(&[Q4_0, Q6_K]) && !takes(&[Q4_0, F16]), "quantized ones");
}

/// A launch for one idle row.
#[test]
fn an_idle_column_is_left_alone() {
    everywhere(
        |device| {
            let w = matrix(device, Q8_0, &Weights::random(&mut Random::new(1), Q8_0, 16 * 64, 1.0).bytes, 64);
            let (y, x_out) = (device.buffer(&[UNTOUCHED; 16]), device.buffer(&[UNTOUCHED; 64]));
            // The stream of an idle row holds anything.
            let (x, weight, seq) = (device.empty::<f32>(64), device.buffer(&[1.0; 64]), device.buffer(&[-1]));
            let segment =
                Segment { w: w.ptr, y: y.ptr, rows: 16, y_stride: 16, format: Q8_0 as i32, ..Segment::default() };
            let product = MatmulParams { k: 64, columns: 1, seq: seq.ptr, ..MatmulParams::default() };
            let norm = NormParams {
                x: x.ptr,
                weight: weight.ptr,
                x_out: x_out.ptr,
                n: 64,
                eps: 1e-6,
                ..NormParams::default()
            };
            // SAFETY: buffers of these shapes, which live until the results are read.
            unsafe { norm_product(&device.stream, &product.with(&[segment]), &norm) }.expect("a launch");
            [device.read(&y), device.read(&x_out)].concat()
        },
        |found| assert!(found.iter().all(|&v| v == UNTOUCHED)),
    );
}

/// Launches a product of 16 rows of `n` zeros with a norm that is wrong in some way.
fn refused(n: usize, wrong: impl Fn(&mut NormParams, &mut MatmulParams)) {
    let device = Device::new(Config::default());
    let [x, x_out, y] = [n, n, 16].map(|len| device.buffer(&vec![0f32; len]));
    let w = matrix(&device, Q8_0, &vec![0; 16 * n / 32 * 34], n);
    let segment = Segment { w: w.ptr, y: y.ptr, rows: 16, y_stride: 16, format: Q8_0 as i32, ..Segment::default() };
    let mut product = MatmulParams { k: n as i32, columns: 1, ..MatmulParams::default() }.with(&[segment]);
    let mut norm =
        NormParams { x: x.ptr, weight: x.ptr, x_out: x_out.ptr, n: n as i32, eps: 1e-6, ..NormParams::default() };
    wrong(&mut norm, &mut product);
    // SAFETY: buffers of these shapes, and what is wrong with them is refused before the launch.
    unsafe { norm_product(&device.stream, &product, &norm) }.expect("a launch");
}

#[test]
#[should_panic(expected = "a norm of 16416 elements")]
fn a_column_that_is_too_long_is_refused() {
    refused(16_416, |_, _| ());
}

#[test]
#[should_panic(expected = "other blocks still read the stream")]
fn a_stream_that_is_replaced_is_refused() {
    refused(64, |norm, _| norm.x_out = norm.x);
}

#[test]
#[should_panic(expected = "a norm of 64 elements")]
fn several_columns_are_refused() {
    refused(64, |_, product| product.columns = 2);
}
