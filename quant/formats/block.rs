//! What all block formats share: a struct that lies over the bytes of the file, and the loops that walk it.

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
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the CPU has AVX2.
        return unsafe { quantize_avx2(x, blocks) };
    }
    quantize_all(x, blocks);
}

#[inline(always)]
fn quantize_all<B: Quantize<N>, const N: usize>(x: &[[f32; N]], blocks: &mut [B]) {
    for (block, x) in blocks.iter_mut().zip(x) {
        *block = B::quantize(x);
    }
}

/// The same code compiled for wider vectors. The result is the same: Rust neither reorders nor contracts
/// floating-point operations.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn quantize_avx2<B: Quantize<N>, const N: usize>(x: &[[f32; N]], blocks: &mut [B]) {
    quantize_all(x, blocks);
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// Wider vectors give the same bytes, so that a file does not tell what machine made it.
    fn same<B: Quantize<N>, const N: usize>() {
        if !is_x86_feature_detected!("avx2") {
            return;
        }
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(0x9e37_79b1).wrapping_add(0x7f4a_7c15);
            ((state >> 9) as f32 - 4_194_304.0) / 1e8 * ((state >> 3 & 7) as f32)
        };
        let x: Vec<[f32; N]> = (0..64).map(|_| std::array::from_fn(|_| next())).collect();
        let (mut a, mut b) = (vec![0; 64 * size_of::<B>()], vec![1; 64 * size_of::<B>()]);
        quantize_all::<B, N>(&x, blocks_mut(&mut a));
        // SAFETY: the CPU has AVX2.
        unsafe { quantize_avx2::<B, N>(&x, blocks_mut(&mut b)) };
        assert!(a == b, "{}", std::any::type_name::<B>());
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
    }
}
