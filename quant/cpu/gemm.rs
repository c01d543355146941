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
    pub(super) row: Vec<f32>,
    packed: Vec<Line>,
    /// `[group of tiles][panel][tile][token]`: the products with the packed panels that there have been.
    sums: Vec<[f32; ROWS]>,
}

/// Multiplies tiles with all tokens; `write(token, tile, sums)` takes the outputs.
pub(super) fn multiply<M: MicroKernel>(
    x: &Activations,
    w: &Matrix,
    tiles: Range<usize>,
    scratch: &mut Scratch,
    write: impl Fn(usize, usize, &[f32; ROWS]),
) {
    let (k_blocks, per_panel) = M::k_blocks(x.isa, x.cols);
    let (at_once, panels) = (M::tiles(x.isa), x.panels());
    let (of_panel, lines_of_block) = (at_once * x.width, M::lines(x.isa));
    let sums = tiles.len().div_ceil(at_once) * panels * of_panel;
    scratch.sums.resize(scratch.sums.len().max(sums), [0.0; ROWS]);
    scratch.packed.resize(scratch.packed.len().max(at_once * per_panel * lines_of_block), Line::ZERO);
    scratch.tiles.begin(tiles.start);
    for first in (0..k_blocks).step_by(per_panel) {
        let range = first..(first + per_panel).min(k_blocks);
        let lines = range.len() * lines_of_block;
        let groups = scratch.sums.chunks_exact_mut(panels * of_panel);
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
    // All tiles of one token after the other: long runs, as the outputs of tokens are far apart.
    for token in 0..x.tokens {
        let (panel, t) = (token / x.width, token % x.width);
        for (i, tile) in tiles.clone().enumerate() {
            let group = (i / at_once * panels + panel) * of_panel;
            write(token, tile, &scratch.sums[group + i % at_once * x.width + t]);
        }
    }
}
