//! Q8_0: 32 weights `d·q`, one f16 scale and 32 signed bytes (8.5 bits per weight).

use half::f16;

use super::{Format, GgmlType};

/// Elements per block.
pub const BLOCK: usize = 32;

/// The block as it lies in the file.
#[repr(C)]
pub struct Block {
    d: [u8; 2],
    qs: [i8; BLOCK],
}
const _: () = assert!(size_of::<Block>() == 34);

/// Row of the format table.
pub const FORMAT: Format = Format {
    ty: GgmlType::Q8_0,
    name: "Q8_0",
    block: BLOCK,
    bytes: size_of::<Block>(),
    dequantize,
    quantize: Some(quantize),
};

fn dequantize(blocks: &[u8], out: &mut [f32]) {
    for (b, o) in blocks.chunks_exact(34).zip(out.chunks_exact_mut(BLOCK)) {
        let d = f16::from_le_bytes([b[0], b[1]]).to_f32();
        for (q, o) in b[2..].iter().zip(o) {
            *o = f32::from(*q as i8) * d;
        }
    }
}

fn quantize(x: &[f32], out: &mut [u8]) {
    for (x, b) in x.chunks_exact(BLOCK).zip(out.chunks_exact_mut(34)) {
        let amax = x.iter().fold(0f32, |m, v| m.max(v.abs()));
        let d = amax / 127.0;
        let inverse = if d > 0.0 { 1.0 / d } else { 0.0 };
        b[..2].copy_from_slice(&f16::from_f32(d).to_le_bytes());
        for (x, q) in x.iter().zip(&mut b[2..]) {
            *q = (x * inverse).round() as i8 as u8;
        }
    }
}
