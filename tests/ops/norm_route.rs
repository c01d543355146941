//! The norm, the logits and the choice of experts of one row in one launch: the bits of three.

use qrun_cuda::{
    Arena, Pinned, Ptr,
    ops::{
        activations::QuantizedActivations,
        experts::{Choices, Route, SIGMOID, SOFTMAX, norm_route, norm_route_takes, route},
        matmul::{MatmulParams, Segment, gemv},
        norm::{NormKind, NormParams, norm},
    },
};
use qrun_quant::GgmlType::{self, BF16, F16, F32};

use crate::{
    harness::{Device, Random, everywhere},
    operands::{Weights, matrix},
};

#[derive(Clone, Copy)]
struct Case {
    n: usize,
    format: GgmlType,
    n_expert: usize,
    n_used: usize,
    gating: i32,
    /// Whether a shared expert's gate has the same input.
    beside: bool,
    /// Whether something joins the stream, and is normed before.
    add: bool,
    post: bool,
    bias: bool,
    groups: i32,
    idle: bool,
}

const CASE: Case = Case {
    n: 256,
    format: F32,
    n_expert: 32,
    n_used: 4,
    gating: SOFTMAX,
    beside: false,
    add: true,
    post: false,
    bias: false,
    groups: 0,
    idle: false,
};

const CASES: &[Case] = &[
    CASE,
    Case { n: 2048, n_expert: 64, n_used: 6, gating: SIGMOID, beside: true, bias: true, groups: 8, ..CASE },
    Case { n: 2880, n_expert: 12, format: BF16, bias: true, post: true, ..CASE },
    // A row whose last chunk is not whole, and no image of it.
    Case { n: 516, n_expert: 9, format: F16, beside: true, add: false, ..CASE },
    Case { n: 64, n_expert: 4, n_used: 1, ..CASE },
    Case { idle: true, ..CASE },
];

/// Everything that is written, of three launches or of one.
fn run(device: &Device, c: &Case, at_once: bool) -> Vec<f32> {
    let mut random = Random::new(c.n as u64);
    let vectors = [(); 4].map(|()| device.buffer(&random.normals(c.n)));
    let [x, add, post, weight] = vectors.each_ref().map(|v| v.ptr);
    let or_null = |wanted: bool, at: Ptr<f32>| if wanted { at } else { Ptr::NULL };
    let image_of = if c.n.is_multiple_of(32) { c.n } else { 0 };
    let (q, d, s) =
        (device.empty::<i8>(image_of), device.empty::<f32>(image_of / 32), device.empty::<f32>(image_of / 16));
    let image = match image_of {
        0 => QuantizedActivations::default(),
        _ => QuantizedActivations { q: q.ptr, d: d.ptr, s: s.ptr },
    };
    let [x_out, y] = [(); 2].map(|()| device.buffer(&vec![-7.0f32; c.n]));
    let seq = device.buffer(&[if c.idle { -1 } else { 3 }]);
    let params = NormParams {
        x,
        add: or_null(c.add, add),
        post: or_null(c.post, post),
        weight,
        x_out: x_out.ptr,
        seq: seq.ptr,
        y: y.ptr,
        image,
        n: c.n as i32,
        eps: 1e-6,
        post_eps: 1e-5,
        scale: 0.5,
        ..NormParams::default()
    };
    let w = Weights::random(&mut random, c.format, c.n_expert * c.n, 0.1);
    let (w, gate) = (matrix(device, c.format, &w.bytes, c.n), Weights::random(&mut random, F32, c.n, 0.1));
    let gate = matrix(device, F32, &gate.bytes, c.n);
    let [bias, choice_bias] = [(); 2].map(|()| device.buffer(&random.normals(c.n_expert)));
    let (logits, passes) = (device.buffer(&vec![-7.0f32; c.n_expert]), device.buffer(&[-7.0f32]));
    let router = Segment {
        w: w.ptr,
        bias: or_null(c.bias, bias.ptr),
        y: logits.ptr,
        rows: c.n_expert as i32,
        y_stride: c.n_expert as i32,
        format: c.format as i32,
        ..Segment::default()
    };
    let beside = Segment { w: gate.ptr, y: passes.ptr, rows: 1, y_stride: 1, format: F32 as i32, ..Segment::default() };
    let segments = &[router, beside][..if c.beside { 2 } else { 1 }];
    let shape = [1, c.n_expert, c.n_used];
    let (_arena, choices) = Arena::new(&device.gpu, |layout| Choices::take(layout, "test", shape)).expect("memory");
    let routed = Route {
        logits: logits.ptr,
        bias: or_null(c.bias, choice_bias.ptr),
        seq: seq.ptr,
        choices,
        rows: 1,
        n_expert: c.n_expert as i32,
        n_used: c.n_used as i32,
        gating: c.gating,
        norm: 1,
        scale: 1.5,
        groups: c.groups,
        groups_used: c.groups / 2,
        best_of_group: 2,
        ..Route::default()
    };
    let ticket = device.buffer(&[0u32]);
    assert!(norm_route_takes(c.n, c.format));
    // Twice: the ticket is as it was.
    for _ in 0..2 {
        // SAFETY: buffers of these shapes, which live until the results are read.
        unsafe {
            if at_once {
                norm_route(&device.stream, &params, segments, &routed, ticket.ptr).expect("a launch");
            } else {
                norm(&device.stream, 1, NormKind::Rms, &params).expect("a launch");
                let product =
                    MatmulParams { k: c.n as i32, columns: 1, x: y.ptr, seq: seq.ptr, ..MatmulParams::default() };
                gemv(&device.stream, &product.with(segments)).expect("a launch");
                route(&device.stream, &routed).expect("a launch");
            }
        }
    }
    assert_eq!(device.read(&ticket), [0]);
    let mut all = [&x_out, &y, &logits, &passes, &d, &s].map(|values| device.read(values)).concat();
    all.extend(device.read(&q).iter().map(|&q| f32::from(q)));
    let mut of_choices = Pinned::new(&device.gpu, c.n_used).expect("pinned memory");
    let mut weights = Pinned::new(&device.gpu, c.n_used).expect("pinned memory");
    // SAFETY: parts of the arena with so many numbers, which lives until the copies were waited for.
    unsafe {
        device.stream.copy_out(&mut of_choices, choices.chosen, c.n_used).expect("a copy");
        if !c.idle {
            device.stream.copy_out(&mut weights, choices.weights, c.n_used).expect("a copy");
        }
    }
    device.stream.synchronize().expect("a stream");
    all.extend(of_choices.iter().map(|&expert| expert as f32));
    all.extend(weights.iter());
    all
}

#[test]
fn norm_logits_and_choice_at_once_have_the_bits_of_three_launches() {
    for (i, case) in CASES.iter().enumerate() {
        everywhere(
            |device| [run(device, case, true), run(device, case, false)].concat(),
            |found| {
                let (at_once, apart) = found.split_at(found.len() / 2);
                let differ = (0..apart.len()).filter(|&i| at_once[i].to_bits() != apart[i].to_bits()).count();
                assert!(differ == 0, "case {i}: {differ} of {} values", apart.len());
            },
        );
    }
}
