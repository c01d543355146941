//! Embedding rows: chosen by ids, scaled, idle rows left alone, rows of any length.

use qrun_cuda::{
    Ptr,
    ops::embed::{EmbedParams, embed},
};
use qrun_quant::GgmlType;

use crate::{
    formats::random_blocks,
    harness::{Random, UNTOUCHED, everywhere},
    operands::{formats, matrix},
};

/// Tokens in the matrix.
const VOCABULARY: usize = 9;
fn check(ty: GgmlType, k: usize, scale: f32, seq: Option<&[i32]>, adds: bool) {
    let format = ty.format();
    let bytes = random_blocks(&mut Random::new(k as u64), format, VOCABULARY * k);
    let mut weights = vec![0.0_f32; VOCABULARY * k];
    (format.dequantize)(&bytes, &mut weights);
    let tokens = [8, 0, 3, 3, 7];
    let add = Random::new(1).normals(k);
    let joined = |x: f32, i: usize| if adds { x + add[i] } else { x };
    let idle = |row: usize| seq.is_some_and(|seq| seq[row] < 0);
    let expected: Vec<f32> = (0..tokens.len() * k)
        .map(|i| match idle(i / k) {
            true => UNTOUCHED,
            false => joined(weights[tokens[i / k] as usize * k + i % k] * scale, i % k),
        })
        .collect();
    everywhere(
        |device| {
            let (w, token) = (matrix(device, ty, &bytes, k), device.buffer(&tokens));
            let add = adds.then(|| device.buffer(&add));
            let (seq, y) = (seq.map(|seq| device.buffer(seq)), device.buffer(&vec![UNTOUCHED; tokens.len() * k]));
            let params = EmbedParams {
                w: w.ptr,
                token: token.ptr,
                seq: seq.as_ref().map_or(Ptr::NULL, |s| s.ptr),
                y: y.ptr,
                rows: tokens.len() as i32,
                k: k as i32,
                format: ty as i32,
                scale,
                add: add.as_ref().map_or(Ptr::NULL, |a| a.ptr),
                ..EmbedParams::default()
            };
            // SAFETY: buffers of these shapes, which live until the results are read.
            unsafe { embed(&device.stream, &params) }.expect("a launch");
            device.read(&y)
        },
        |found| assert!(found == expected, "{} rows of {k}, times {scale}", format.name),
    );
}

#[test]
fn every_format_scaled_and_with_idle_rows() {
    for format in formats().map(GgmlType::format) {
        let step = format.block.max(32);
        check(format.ty, step, 1.0, Some(&[0, -1, 1, 2, -1]), false);
        check(format.ty, 5 * step, 1152_f32.sqrt(), Some(&[-1, 4, 4, 4, 0]), true);
    }
    check(GgmlType::Q8_0, 1152, 1152_f32.sqrt(), None, false);
}

#[test]
fn dense_rows_of_any_length() {
    for ty in [GgmlType::F32, GgmlType::F16, GgmlType::BF16] {
        for k in [1, 7, 33, 1027] {
            check(ty, k, 0.5, None, k > 7);
        }
    }
}
