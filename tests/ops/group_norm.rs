//! RMSNorm of the groups of a row: against f64, into numbers and into an image.

use qrun_cuda::{
    Ptr,
    ops::{
        activations::QuantizedActivations,
        mamba::{GroupNorm, group_norm},
    },
};

use crate::{
    harness::{Random, UNTOUCHED, assert_close, everywhere},
    operands::Activations,
};

const EPS: f32 = 1e-3;

/// Three rows, the second idle, of so many groups of `n` elements.
fn check(groups: usize, n: usize, [numbers, image]: [bool; 2]) {
    let (rows, width) = (3, groups * n);
    let mut random = Random::new(5);
    let (x, weight) = (random.normals(rows * width), random.normals(width));
    let expected: Vec<f64> = x
        .chunks_exact(n)
        .enumerate()
        .flat_map(|(i, x)| {
            let squares: f64 = x.iter().map(|&x| f64::from(x).powi(2)).sum();
            let rms = (squares / n as f64 + f64::from(EPS)).sqrt();
            let weight = &weight[i % groups * n..][..n];
            x.iter().zip(weight).map(move |(&x, &w)| f64::from(x) / rms * f64::from(w)).collect::<Vec<_>>()
        })
        .collect();
    let blocks = if image { rows * width / 32 } else { 0 };
    everywhere(
        |device| {
            let (x, weight, seq) = (device.buffer(&x), device.buffer(&weight), device.buffer(&[0, -1, 1]));
            let y = device.buffer(&vec![UNTOUCHED; rows * width]);
            let q = device.buffer(&vec![0_i8; 32 * blocks.max(1)]);
            let (d, s) = (device.buffer(&vec![0_f32; blocks.max(1)]), device.buffer(&vec![0_f32; 2 * blocks.max(1)]));
            let params = GroupNorm {
                x: x.ptr,
                weight: weight.ptr,
                seq: seq.ptr,
                y: if numbers { y.ptr } else { Ptr::NULL },
                image: match image {
                    true => QuantizedActivations { q: q.ptr, d: d.ptr, s: s.ptr },
                    false => QuantizedActivations::default(),
                },
                n: n as i32,
                eps: EPS,
            };
            // SAFETY: buffers of these shapes, which live until the results are read.
            unsafe { group_norm(&device.stream, [rows, groups], &params) }.expect("a launch");
            let mut all = device.read(&y);
            all.extend(device.read(&q).iter().take(32 * blocks).map(|&q| f32::from(q)));
            all.extend(&device.read(&d)[..blocks]);
            all.extend(&device.read(&s)[..2 * blocks]);
            all
        },
        |all| {
            let (y, written) = all.split_at(rows * width);
            for row in [0, 2].iter().filter(|_| numbers) {
                let row = row * width..(row + 1) * width;
                assert_close(&y[row.clone()], &expected[row], 1e-6, &format!("{groups} groups of {n}"));
            }
            let idle = if numbers { width..2 * width } else { 0..rows * width };
            assert!(y[idle].iter().all(|&y| y == UNTOUCHED), "what is idle or not asked for is left alone");
            if image {
                let live = expected.iter().enumerate();
                let live = live.map(|(i, &y)| if i / width == 1 { 0.0 } else { y as f32 }).collect();
                let x = Activations::new(if numbers {
                    y.iter().map(|&y| if y == UNTOUCHED { 0.0 } else { y }).collect()
                } else {
                    live
                });
                let (q, scales) = written.split_at(32 * blocks);
                if numbers {
                    assert_eq!(q, x.q.iter().map(|&q| f32::from(q)).collect::<Vec<_>>(), "the image's bytes");
                    assert_eq!(scales, [x.d, x.s].concat(), "the image's scales and sums");
                } else {
                    let of = x.q.iter().map(|&q| f64::from(q)).collect::<Vec<_>>();
                    assert_close(q, &of, 1e-2, "the image alone");
                }
            }
        },
    );
}

#[test]
fn each_group_has_a_norm_of_its_own() {
    check(1, 192, [true, true]);
    check(2, 96, [false, true]);
    check(3, 44, [true, false]);
    // More than the threads of a block take at once.
    check(2, 2080, [true, true]);
}
