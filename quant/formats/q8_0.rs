//! Q8_0: 32 weights `d·q`, one f16 scale and 32 signed bytes, 8.5 bits per weight.

use super::{
    block::{Quantize, dequantize, quantize},
    codec::Codec,
    fit,
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
pub(crate) const FORMAT: Codec = Codec {
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
    #[inline(always)]
    fn quantize(x: &[f32; 32]) -> Self {
        let x = &fit::tame(x, 65504.0 * 127.0);
        let (low, high) = fit::range(x);
        let extreme = if -low >= high { low } else { high };
        let rounded = |d: f32| {
            let inverse = fit::inverse(d);
            move |x: f32| fit::round(x * inverse, -128.0, 127.0)
        };
        let (mut least, mut best) = (f32::INFINITY, Half::default());
        // Rounding errors are as good as independent of the scale and grow with it: the best scale is
        // the smallest that still reaches the extreme, give or take what f16 rounding does to it.
        for end in [127.0, 127.3, 127.6, -127.4, -127.7, -128.0, -128.2, -128.4, -128.6] {
            let stored = fit::half(extreme / end);
            let d = stored.to_f32();
            let q = rounded(d);
            let error = fit::error(x, |x| q(x) * d);
            if error < least {
                (least, best) = (error, stored);
            }
        }
        let inverse = fit::inverse(best.to_f32());
        Self { d: best, qs: x.map(|x| fit::round_to_byte(x * inverse, -128.0, 127.0) as i8) }
    }
}
