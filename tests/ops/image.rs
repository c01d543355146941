//! The int8 image of activations, against plain scalar code.

use qrun_cuda::ops::{activations::quantize, matmul::QuantizedActivations};

use crate::{
    harness::{Device, Random, everywhere},
    operands::Activations,
};

/// q, d and s of `x`, as numbers.
fn image(device: &Device, x: &[f32], [columns, k]: [usize; 2]) -> Vec<f32> {
    let n = columns * k;
    let (x, q, d, s) = (device.buffer(x), device.empty(n), device.empty(n / 32), device.empty(n / 16));
    let image = QuantizedActivations { q: q.ptr, d: d.ptr, s: s.ptr };
    // SAFETY: buffers of these shapes, which live until the results are read.
    unsafe { quantize(&device.stream, x.ptr, image, [columns, k]) }.expect("a launch");
    let q: Vec<f32> = device.read::<i8>(&q).iter().map(|&q| f32::from(q)).collect();
    [q, device.read(&d), device.read(&s)].concat()
}

#[test]
fn quantized_activations_are_those_of_the_scalar_code() {
    for [columns, k] in [[1, 32], [3, 96], [2, 1152], [5, 160]] {
        let mut x = Random::new(k as u64).normals(columns * k);
        // A block of zeros, one with an outlier, a tiny one.
        x[..32].fill(0.0);
        if x.len() > 96 {
            x[40] = 1e30;
            x[64..96].iter_mut().for_each(|x| *x *= 1e-30);
        }
        let scalar = Activations::new(x.clone());
        let expected = [scalar.q.iter().map(|&q| f32::from(q)).collect(), scalar.d, scalar.s].concat();
        everywhere(
            |device| image(device, &x, [columns, k]),
            |found| assert!(found == expected, "{columns} columns of {k}"),
        );
    }
}

#[test]
fn a_block_that_is_not_finite_cannot_pass_unnoticed() {
    for (bad, at) in [(f32::NAN, 0), (f32::NAN, 31), (f32::INFINITY, 40), (f32::NEG_INFINITY, 63)] {
        let mut x = Random::new(1).normals(96);
        x[at] = bad;
        everywhere(
            |device| image(device, &x, [1, 96]),
            |found| {
                let (d, s) = (&found[96..99], &found[99..]);
                for block in 0..3 {
                    let finite = d[block].is_finite() && s[2 * block].is_finite() && s[2 * block + 1].is_finite();
                    assert_eq!(finite, block != at / 32, "{bad} at {at}, block {block}: {d:?} {s:?}");
                }
            },
        );
    }
}
