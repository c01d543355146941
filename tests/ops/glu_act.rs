//! The gate of a feed-forward layer over many columns, or an activation without one: against f64, into numbers and into an image.

use qrun_cuda::{
    Ptr,
    ops::{
        activations::QuantizedActivations,
        gemm::{GluActParams, glu_act},
        params::{CLAMPED_SWIGLU, GELU, GELU_TANH, RELU_SQUARED, SILU},
    },
};

use crate::{
    glu::gated,
    harness::{Random, UNTOUCHED, assert_close, everywhere},
    operands::Activations,
};

/// `glu_act` over three columns, the second idle, into numbers, an image, or both.
fn check_gate(rows: usize, (activation, gates): (i32, bool), [numbers, image]: [bool; 2]) {
    // Without an image the columns are packed: what is read past the last row is past the buffer.
    let (columns, stride) = (3, if image { 300 } else { rows });
    let mut random = Random::new(7);
    let up_stride = stride + rows / 32 * 17;
    // Some beyond where they are clamped.
    let mut normals = |n| random.normals(n).iter().map(|x| 4.0 * x).collect::<Vec<f32>>();
    let (gate, up) = (normals(columns * stride), normals(columns * up_stride));
    let seq = [0, -1, 1];
    let expected: Vec<f64> = (0..columns * rows)
        .map(|i| {
            let (g, u) =
                (f64::from(gate[i / rows * stride + i % rows]), f64::from(up[i / rows * up_stride + i % rows]));
            gated(g, if gates { u } else { 1.0 }, activation)
        })
        .collect();
    let blocks = if image { columns * rows / 32 } else { 0 };
    everywhere(
        |device| {
            let (gate, up, seq) = (device.buffer(&gate), device.buffer(&up), device.buffer(&seq));
            let y = device.buffer(&vec![UNTOUCHED; columns * rows]);
            let q = device.buffer(&vec![0_i8; 32 * blocks.max(1)]);
            let (d, s) = (device.buffer(&vec![0_f32; blocks.max(1)]), device.buffer(&vec![0_f32; 2 * blocks.max(1)]));
            let params = GluActParams {
                gate: gate.ptr,
                up: if gates { up.ptr } else { Ptr::NULL },
                stride: stride as i32,
                rows: rows as i32,
                columns: columns as i32,
                activation,
                y: if numbers { y.ptr } else { Ptr::NULL },
                y_stride: rows as i32,
                up_stride: up_stride as i32,
                out: if image {
                    QuantizedActivations { q: q.ptr, d: d.ptr, s: s.ptr }
                } else {
                    QuantizedActivations::default()
                },
                seq: seq.ptr,
            };
            // SAFETY: buffers of these shapes, which live until the results are read.
            unsafe { glu_act(&device.stream, &params) }.expect("a launch");
            let mut all = device.read(&y);
            all.extend(device.read(&q).iter().take(32 * blocks).map(|&q| f32::from(q)));
            all.extend(&device.read(&d)[..blocks]);
            all.extend(&device.read(&s)[..2 * blocks]);
            all
        },
        |all| {
            let (y, written) = all.split_at(columns * rows);
            let (q, scales) = written.split_at(32 * blocks);
            for c in [0, 2] {
                let expected = &expected[c * rows..][..rows];
                if numbers {
                    assert_close(&y[c * rows..][..rows], expected, 1e-6, "activation(gate)·up");
                }
                if image {
                    let of = |e: usize| {
                        q[c * rows + e / 32 * 32 + e % 16 / 4 * 8 + e % 32 / 16 * 4 + e % 4]
                            * scales[(c * rows + e) / 32]
                    };
                    let found: Vec<f32> = (0..rows).map(of).collect();
                    assert_close(&found, expected, 1e-2, "the image of activation(gate)·up");
                }
            }
            let idle = if numbers { rows..2 * rows } else { 0..columns * rows };
            assert!(y[idle].iter().all(|&y| y == UNTOUCHED), "what is idle or not asked for is left alone");
            if numbers && image {
                let mut live = y.to_vec();
                live[rows..2 * rows].fill(0.0);
                let x = Activations::new(live);
                assert_eq!(q, x.q.iter().map(|&q| f32::from(q)).collect::<Vec<_>>(), "the image's bytes");
                assert_eq!(scales, [x.d, x.s].concat(), "the image's scales and sums");
            }
        },
    );
}

#[test]
fn the_gate_of_many_columns() {
    let gates = [SILU, GELU_TANH, CLAMPED_SWIGLU, GELU].map(|activation| (activation, true));
    for activation in gates.into_iter().chain([(RELU_SQUARED, false), (GELU, false)]) {
        check_gate(288, activation, [true, true]);
        check_gate(45, activation, [true, false]);
        check_gate(28, activation, [true, false]);
        check_gate(64, activation, [false, true]);
    }
}
