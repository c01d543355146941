//! Products with many tokens: some k-blocks of some tiles are packed, and the packed panels are multiplied with all
//! panels of tokens while they are in the caches.

use std::ops::Range;

use super::{
    Activations, Matrix,
    kernels::micro::{MicroKernel, PackedPanels},
    layout::{Line, ROWS},
    packing::TileScratch,
};

/// Memory that a thread works in.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) tiles: TileScratch,
    /// A row in floats and its products, or outputs of some tokens.
    pub(super) rows: [Vec<f32>; 2],
    /// Rows of exact arithmetic.
    pub(super) exact: Vec<f64>,
    packed: Vec<Line>,
    /// The products of tiles with all tokens, as [`Sums`] says.
    pub(super) sums: Vec<[f32; ROWS]>,
}

/// Where the products of some tiles with all tokens lie among the sums of a thread: `[group of tiles][panel][tile][token]`.
#[derive(Clone, Copy)]
pub(super) struct Sums {
    start: usize,
    pub(super) end: usize,
    /// Tiles of a group.
    at_once: usize,
    panels: usize,
    /// Tokens of a panel.
    width: usize,
}

impl Sums {
    /// The place of those of the `i`-th tile with a token.
    pub(super) fn at(&self, token: usize, i: usize) -> usize {
        let group = i / self.at_once * self.panels + token / self.width;
        self.start + (group * self.at_once + i % self.at_once) * self.width + token % self.width
    }
}

/// Multiplies tiles with all tokens; the products are among the scratch's sums, from place `start` on.
pub(super) fn multiply<M: MicroKernel>(
    x: &Activations,
    w: &Matrix,
    tiles: Range<usize>,
    scratch: &mut Scratch,
    start: usize,
) -> Sums {
    let (k_blocks, most) = M::k_blocks(x);
    // As even as may be.
    let per_panel = k_blocks.div_ceil(k_blocks.div_ceil(most));
    let (at_once, width) = (M::tiles(x.tuning), x.width_of(M::PRODUCTS));
    let panels = x.tokens.div_ceil(width);
    let (of_panel, lines_of_block) = (at_once * width, M::lines(x.isa));
    let end = start + tiles.len().div_ceil(at_once) * panels * of_panel;
    scratch.sums.resize(scratch.sums.len().max(end), [0.0; ROWS]);
    scratch.packed.resize(scratch.packed.len().max(at_once * per_panel * lines_of_block), Line::ZERO);
    scratch.tiles.begin(tiles.start);
    for first in (0..k_blocks).step_by(per_panel) {
        let range = first..(first + per_panel).min(k_blocks);
        let lines = range.len() * lines_of_block;
        let groups = scratch.sums[start..end].chunks_exact_mut(panels * of_panel);
        for (tile, sums) in tiles.clone().step_by(at_once).zip(groups) {
            let n = at_once.min(tiles.end - tile);
            for (i, packed) in scratch.packed.chunks_exact_mut(lines).take(n).enumerate() {
                M::pack(x.isa, w, tile + i, range.clone(), (packed, &mut scratch.tiles));
            }
            let weights = PackedPanels { k_blocks: range.clone(), lines: &scratch.packed[..n * lines], tiles: n };
            if first == 0 {
                sums.fill([0.0; ROWS]);
            }
            M::multiply(x, &weights, sums);
        }
    }
    Sums { start, end, at_once, panels, width }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, marker::PhantomData};

    use super::*;
    use crate::{
        Bytes, GgmlType,
        cpu::{
            Arithmetic, ComputeType,
            kernels::{f32::Bf16, int8_gemm::Int8, int16_gemm::Int16},
            tiles::with_format,
            tuning::Tuning,
        },
        simd::Isa,
    };

    thread_local! {
        /// What this thread has packed: a tile, and k-blocks of it.
        static PACKED: RefCell<Vec<(usize, Range<usize>)>> = const { RefCell::new(Vec::new()) };
    }

    /// A kernel of the same shape that only notes what it is to pack, which is all that is read of weights. The kernels that it stands
    /// for are not compiled a second time for it.
    struct Noting<M>(PhantomData<M>);

    impl<M: MicroKernel> MicroKernel for Noting<M> {
        const PRODUCTS: ComputeType = M::PRODUCTS;
        fn lines(isa: Isa) -> usize {
            M::lines(isa)
        }
        fn tiles(tuning: &Tuning) -> usize {
            M::tiles(tuning)
        }
        fn k_blocks(x: &Activations) -> (usize, usize) {
            M::k_blocks(x)
        }
        fn pack(_: Isa, _: &Matrix, tile: usize, k_blocks: Range<usize>, _: (&mut [Line], &mut TileScratch)) {
            PACKED.with_borrow_mut(|packed| packed.push((tile, k_blocks)));
        }
        fn multiply(_: &Activations, _: &PackedPanels, _: &mut [[f32; ROWS]]) {}
    }

    /// Times that each k-block of each of `n` tiles is read for so many tokens.
    fn reads<M: MicroKernel>(ty: GgmlType, tokens: usize, n: usize) -> Vec<usize> {
        let cols = 1536;
        let w = Matrix::new(ty, n * ROWS, cols, Bytes::new(vec![0; n * ROWS * ty.bytes_of(cols)]));
        let mut x = Activations::new(Arithmetic::Fast);
        x.set(&vec![1.0; tokens * cols], cols, [ty].into_iter());
        multiply::<Noting<M>>(&x, &w, 0..n, &mut Scratch::default(), 0);
        let (k_blocks, _) = M::k_blocks(&x);
        let mut times = vec![0; n * k_blocks];
        for (tile, blocks) in PACKED.take() {
            blocks.for_each(|block| times[tile * k_blocks + block] += 1);
        }
        times
    }

    #[test]
    fn weights_are_read_once_for_any_number_of_tokens() {
        use GgmlType::{BF16, MXFP4, Q4_K, Q6_K, Q8_0};
        for tokens in [64, 200, 512] {
            for ty in [Q4_K, Q6_K, Q8_0, MXFP4] {
                let times = with_format!(ty, F => reads::<Int8<F>>(ty, tokens, 5), unreachable!());
                assert!(times.iter().all(|&n| n == 1), "{ty}, {tokens} tokens: {times:?}");
            }
            let times = reads::<Int16<Bf16>>(BF16, tokens, 5);
            assert!(times.iter().all(|&n| n == 1), "BF16, {tokens} tokens: {times:?}");
        }
    }
}
