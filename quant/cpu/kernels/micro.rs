//! What a product of many tokens needs of its kernel.

use std::ops::Range;

use crate::{
    cpu::{
        Activations, Matrix,
        layout::{Line, ROWS},
        packing::TileScratch,
    },
    simd::Isa,
};

/// Most tiles that integer kernels multiply at once: each activation is loaded once for all of them.
pub(super) const TILES: usize = 2;

/// How many that are: on AVX2 a product is several instructions with registers between them, and what is packed is to stay in
/// a small first-level cache.
pub(super) fn tiles_at_once(isa: Isa) -> usize {
    match isa {
        Isa::Avx2 => 1,
        _ => TILES,
    }
}

/// How weights are packed and multiplied with many tokens. A k-block is the smallest run of columns that is packed.
pub(in crate::cpu) trait MicroKernel {
    /// Lines of one k-block of a tile in a packed panel.
    const LINES: usize;
    /// Most tiles whose packed panels lie side by side.
    fn tiles(isa: Isa) -> usize;
    /// K-blocks in a row of `cols` columns, and in a packed panel.
    fn k_blocks(isa: Isa, cols: usize) -> (usize, usize);
    /// Packs k-blocks of a tile into the lines of `to`; the scratch is for tiles of the file.
    fn pack(isa: Isa, w: &Matrix, tile: usize, k_blocks: Range<usize>, to: (&mut [Line], &mut TileScratch));
    /// Adds the products of packed panels with the same k-blocks of a panel of tokens to `sums[tile][token]`.
    fn multiply(x: &Activations, panel: usize, weights: &PackedPanels, sums: &mut [[f32; ROWS]]);
}

/// Packed k-blocks of some tiles.
pub(in crate::cpu) struct PackedPanels<'a> {
    /// Which k-blocks of the rows.
    pub(in crate::cpu) k_blocks: Range<usize>,
    /// The panels of the tiles, one after the other.
    pub(in crate::cpu) lines: &'a [Line],
    pub(in crate::cpu) tiles: usize,
}

impl PackedPanels<'_> {
    /// The panel of one tile.
    pub(in crate::cpu) fn of(&self, tile: usize) -> &[Line] {
        let n = self.lines.len() / self.tiles;
        &self.lines[tile * n..][..n]
    }
}
