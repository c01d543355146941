//! F32, F16 and BF16: one element per block, row-major.

use half::{bf16, f16, slice::HalfFloatSliceExt};

use super::{Format, GgmlType};

/// IEEE single precision.
pub const F32: Format = Format {
    ty: GgmlType::F32,
    name: "F32",
    block: 1,
    bytes: 4,
    dequantize: |blocks, out| {
        for (b, o) in blocks.chunks_exact(4).zip(out) {
            *o = f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        }
    },
    quantize: Some(|x, out| {
        for (x, o) in x.iter().zip(out.chunks_exact_mut(4)) {
            o.copy_from_slice(&x.to_le_bytes());
        }
    }),
};

/// IEEE half precision.
pub const F16: Format = Format {
    ty: GgmlType::F16,
    name: "F16",
    block: 1,
    bytes: 2,
    dequantize: |blocks, out| {
        // Converted a slice at a time: the scalar conversion of `half` detects the CPU at each call.
        let mut halves = [f16::ZERO; 64];
        for (b, o) in blocks.chunks(128).zip(out.chunks_mut(64)) {
            for (h, b) in halves.iter_mut().zip(b.chunks_exact(2)) {
                *h = f16::from_le_bytes([b[0], b[1]]);
            }
            halves[..o.len()].convert_to_f32_slice(o);
        }
    },
    quantize: Some(|x, out| {
        for (x, o) in x.iter().zip(out.chunks_exact_mut(2)) {
            o.copy_from_slice(&f16::from_f32(*x).to_le_bytes());
        }
    }),
};

/// The upper half of an IEEE single.
pub const BF16: Format = Format {
    ty: GgmlType::BF16,
    name: "BF16",
    block: 1,
    bytes: 2,
    dequantize: |blocks, out| {
        for (b, o) in blocks.chunks_exact(2).zip(out) {
            *o = f32::from_bits(u32::from(u16::from_le_bytes([b[0], b[1]])) << 16);
        }
    },
    quantize: Some(|x, out| {
        for (x, o) in x.iter().zip(out.chunks_exact_mut(2)) {
            o.copy_from_slice(&bf16::from_f32(*x).to_le_bytes());
        }
    }),
};
