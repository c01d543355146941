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
    for (block, x) in blocks.iter_mut().zip(x) {
        *block = B::quantize(x);
    }
}
