//! F32, F16 and BF16: one element per block, row-major. Quantizing rounds to nearest, ties to even, and
//! keeps NaN a NaN.

use super::{
    codec::Codec,
    scalar::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16},
};

/// IEEE single precision.
pub(crate) const F32: Codec = Codec {
    block: 1,
    bytes: 4,
    dequantize: |bytes, out| {
        for (b, o) in exact(bytes.as_chunks().0, bytes, out) {
            *o = f32::from_le_bytes(*b);
        }
    },
    quantize: Some(|x, out| {
        for (o, x) in exact_mut(out.as_chunks_mut().0, x) {
            *o = x.to_le_bytes();
        }
    }),
};

/// IEEE half precision.
pub(crate) const F16: Codec = Codec {
    block: 1,
    bytes: 2,
    dequantize: |bytes, out| {
        for (b, o) in exact(bytes.as_chunks().0, bytes, out) {
            *o = f16_to_f32(u16::from_le_bytes(*b));
        }
    },
    quantize: Some(|x, out| {
        for (o, x) in exact_mut(out.as_chunks_mut().0, x) {
            *o = f32_to_f16(*x).to_le_bytes();
        }
    }),
};

/// The upper half of an IEEE single.
pub(crate) const BF16: Codec = Codec {
    block: 1,
    bytes: 2,
    dequantize: |bytes, out| {
        for (b, o) in exact(bytes.as_chunks().0, bytes, out) {
            *o = bf16_to_f32(u16::from_le_bytes(*b));
        }
    },
    quantize: Some(|x, out| {
        for (o, x) in exact_mut(out.as_chunks_mut().0, x) {
            *o = f32_to_bf16(*x).to_le_bytes();
        }
    }),
};

/// Elements and their places, after a check that there are as many of one as of the other.
fn exact<'a, const N: usize>(
    elements: &'a [[u8; N]],
    bytes: &[u8],
    out: &'a mut [f32],
) -> impl Iterator<Item = (&'a [u8; N], &'a mut f32)> {
    assert!(bytes.len() == N * out.len(), "{} bytes into {} values of {N} bytes", bytes.len(), out.len());
    elements.iter().zip(out)
}

/// [`exact`] in the other direction.
fn exact_mut<'a, const N: usize>(
    elements: &'a mut [[u8; N]],
    x: &'a [f32],
) -> impl Iterator<Item = (&'a mut [u8; N], &'a f32)> {
    assert!(elements.len() == x.len(), "{} values into {} places", x.len(), elements.len());
    elements.iter_mut().zip(x)
}
