//! Q8_0: 32 weights `d·q`, one f16 scale and 32 signed bytes, 8.5 bits per weight.

use super::{
    Format, GgmlType,
    block::{Quantize, dequantize, quantize},
    scalar::Half,
};

/// The block as it lies in the file.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Block {
    /// Scale.
    pub(crate) d: Half,
    /// Values, −128…127.
    pub(crate) qs: [i8; 32],
}
const _: () = assert!(size_of::<Block>() == 34);

/// Row of the format table.
pub const FORMAT: Format = Format {
    ty: GgmlType::Q8_0,
    name: "Q8_0",
    block: 32,
    bytes: size_of::<Block>(),
    dequantize: dequantize::<Block, 32>,
    quantize: Some(quantize::<Block, 32>),
};

// SAFETY: `repr(C)` of byte arrays only.
unsafe impl super::block::Block<32> for Block {
    #[inline]
    fn dequantize(&self, out: &mut [f32; 32]) {
        let d = self.d.to_f32();
        for (o, q) in out.iter_mut().zip(&self.qs) {
            *o = f32::from(*q) * d;
        }
    }
}

impl Quantize<32> for Block {
    fn quantize(x: &[f32; 32]) -> Self {
        let amax = x.iter().fold(0f32, |m, v| m.max(v.abs()));
        let d = amax / 127.0;
        let inverse = if d > 0.0 { 1.0 / d } else { 0.0 };
        Self { d: Half::from_f32(d), qs: x.map(|x| (x * inverse).round() as i8) }
    }
}
