//! What a file under `formats/` says of its format.

/// How values become bytes and bytes values.
#[derive(Clone, Copy)]
pub(crate) struct Codec {
    /// Elements per block; rows are multiples of it.
    pub(crate) block: usize,
    /// Bytes per block.
    pub(crate) bytes: usize,
    /// See [`Format::dequantize`](crate::Format::dequantize).
    pub(crate) dequantize: fn(&[u8], &mut [f32]),
    /// See [`Format::quantize`](crate::Format::quantize).
    pub(crate) quantize: Option<Quantizer>,
}

/// f32 to whole blocks: `(values, out)`.
///
/// Total and deterministic: any values give a block, and the same values give the same bytes on every
/// machine. In the block formats a NaN counts as 0 and what the block cannot reach (infinities too)
/// becomes the nearest value that it can; F32, F16 and BF16 keep NaN and infinities.
pub type Quantizer = fn(&[f32], &mut [u8]);
