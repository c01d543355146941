//! What all block formats share: a struct that lies over the bytes of the file, and the loops that walk it.

use crate::simd::{SimdKernel, VectorWidth};

/// A quantized block of `N` weights, laid out as in the file.
///
/// # Safety
/// The type is `repr(C)`, made of bytes only (alignment 1, so no padding), and every bit pattern is a
/// valid value: slices of it may lie over any bytes.
pub(crate) unsafe trait Block<const N: usize>: Copy {
    /// The `N` weights.
    fn dequantize(&self, out: &mut [f32; N]);
}

/// A block format that qrun can also write.
pub(crate) trait Quantize<const N: usize>: Block<N> {
    /// The block nearest to `x` that the format's search finds. Total: any input gives a block.
    fn quantize(x: &[f32; N]) -> Self;
}

/// The blocks in these bytes. Panics where the bytes are not whole blocks.
pub(crate) fn blocks<B: Block<N>, const N: usize>(bytes: &[u8]) -> &[B] {
    const { assert!(align_of::<B>() == 1) };
    assert!(bytes.len().is_multiple_of(size_of::<B>()), "{} bytes are not whole blocks", bytes.len());
    // SAFETY: alignment is 1, every bit pattern is a `B` (`Block`'s contract), and the new slice covers
    // the same bytes as the old one.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / size_of::<B>()) }
}

/// [`blocks`], writable.
pub(crate) fn blocks_mut<B: Block<N>, const N: usize>(bytes: &mut [u8]) -> &mut [B] {
    const { assert!(align_of::<B>() == 1) };
    assert!(bytes.len().is_multiple_of(size_of::<B>()), "{} bytes are not whole blocks", bytes.len());
    // SAFETY: as in `blocks`; and a `B` has no padding, so that whatever is written leaves all bytes
    // initialized. The borrow of `bytes` is handed on, so nobody else sees them meanwhile.
    unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len() / size_of::<B>()) }
}

/// `Format::dequantize` of a block format.
pub(crate) fn dequantize<B: Block<N>, const N: usize>(bytes: &[u8], out: &mut [f32]) {
    let (blocks, (out, rest)) = (blocks::<B, N>(bytes), out.as_chunks_mut::<N>());
    assert!(rest.is_empty() && out.len() == blocks.len(), "{} blocks into {} x {N} values", blocks.len(), out.len());
    for (block, out) in blocks.iter().zip(out) {
        block.dequantize(out);
    }
}

/// `Format::quantize` of a block format.
pub(crate) fn quantize<B: Quantize<N>, const N: usize>(x: &[f32], bytes: &mut [u8]) {
    let (blocks, (x, rest)) = (blocks_mut::<B, N>(bytes), x.as_chunks::<N>());
    assert!(rest.is_empty() && x.len() == blocks.len(), "{} x {N} values into {} blocks", x.len(), blocks.len());
    // Blocks of 32 in wider registers are no faster.
    VectorWidth::best().min(VectorWidth::Avx2).run_loop(QuantizeBlocks { x, blocks });
}

/// Quantizes `x` into as many blocks.
struct QuantizeBlocks<'a, B, const N: usize> {
    x: &'a [[f32; N]],
    blocks: &'a mut [B],
}

impl<B: Quantize<N>, const N: usize> SimdKernel for QuantizeBlocks<'_, B, N> {
    #[inline(always)]
    fn run(self) {
        for (block, x) in self.blocks.iter_mut().zip(self.x) {
            *block = B::quantize(x);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wider vectors give the same bytes, so that a file does not tell what machine made it.
    fn same<B: Quantize<N>, const N: usize>() {
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(0x9e37_79b1).wrapping_add(0x7f4a_7c15);
            ((state >> 9) as f32 - 4_194_304.0) / 1e8 * ((state >> 3 & 7) as f32)
        };
        let x: Vec<[f32; N]> = (0..64).map(|_| std::array::from_fn(|_| next())).collect();
        let bytes = |width: VectorWidth| {
            let mut bytes = vec![0; 64 * size_of::<B>()];
            width.run_loop(QuantizeBlocks::<B, N> { x: &x, blocks: blocks_mut(&mut bytes) });
            bytes
        };
        let scalar = bytes(VectorWidth::Scalar);
        for width in VectorWidth::available() {
            assert!(bytes(width) == scalar, "{} {width:?}", std::any::type_name::<B>());
        }
    }

    #[test]
    fn vector_width_does_not_change_the_bytes() {
        use crate::formats::*;
        same::<q4_0::Block, 32>();
        same::<q4_1::Block, 32>();
        same::<q5_0::Block, 32>();
        same::<q5_1::Block, 32>();
        same::<q8_0::Block, 32>();
        same::<q4_k::Block, 256>();
        same::<q5_k::Block, 256>();
        same::<q6_k::Block, 256>();
        same::<mxfp4::Block, 32>();
        same::<tq1_0::Block, 256>();
        same::<tq2_0::Block, 256>();
        same::<q1_0::Block, 128>();
        same::<q2_0::Block, 64>();
    }
}
