//! The unpacking of every format, bit by bit: an embedding row is a dequantized row. What the matmuls read goes through the
//! same code.

use half::f16;
use qrun_cuda::ops::embed::{EmbedParams, embed};
use qrun_quant::{GgmlType, formats::Format};

use crate::{
    blocks,
    harness::{Device, Random, everywhere},
    operands::{formats, matrix},
};

/// `n` weights with every bit drawn, but for scales that are finite: of either sign, of any size, subnormal ones too.
pub fn random_blocks(random: &mut Random, format: &Format, n: usize) -> Vec<u8> {
    let mut bytes = random.bytes(format.ty.bytes_of(n));
    if format.block == 1 {
        (format.quantize.expect("dense formats are written"))(&random.normals(n), &mut bytes);
        return bytes;
    }
    blocks::set_scales(format, &mut bytes, || {
        let bits = random.next() as u16;
        f16::from_bits(if f16::from_bits(bits).is_finite() { bits } else { bits & 0x83ff })
    });
    if format.ty == GgmlType::MXFP4 {
        // Exponents that f16 does not have; above 252 the weights would not be finite.
        bytes.chunks_mut(format.bytes).step_by(2).for_each(|block| block[0] = (random.next() % 253) as u8);
    }
    bytes
}

/// Embedding rows of `k` weights that lie one after the other.
fn rows(device: &Device, format: &Format, bytes: &[u8], k: usize) -> Vec<f32> {
    let rows = bytes.len() / format.ty.bytes_of(k);
    let token: Vec<i32> = (0..rows as i32).collect();
    let (w, token, y) = (matrix(device, format.ty, bytes, k), device.buffer(&token), device.empty::<f32>(rows * k));
    let (rows, k) = (rows as i32, k as i32);
    let params = EmbedParams {
        w: w.ptr,
        token: token.ptr,
        y: y.ptr,
        rows,
        k,
        format: format.ty as i32,
        scale: 1.0,
        ..Default::default()
    };
    // SAFETY: buffers of these shapes, which live until the results are read.
    unsafe { embed(&device.stream, &params) }.expect("a launch");
    device.read(&y)
}

#[test]
fn unpacked_weights_are_the_dequantized_ones() {
    for format in formats().map(GgmlType::format) {
        let k = 1280;
        let bytes = random_blocks(&mut Random::new(format.ty as u64), format, 7 * k);
        let mut expected = vec![0.0_f32; 7 * k];
        (format.dequantize)(&bytes, &mut expected);
        everywhere(
            |device| rows(device, format, &bytes, k),
            |found| {
                let wrong = found.iter().zip(&expected).position(|(f, e)| f != e && !(f.is_nan() && e.is_nan()));
                if let Some(i) = wrong {
                    panic!("{}: weight {i} is {:e}, read as {:e}", format.name, expected[i], found[i]);
                }
                assert_eq!(found.len(), expected.len());
                assert!(expected.iter().all(|e| e.is_finite()), "{}: the test has numbers to compare", format.name);
            },
        );
    }
}
