//! What a product of many tokens needs of its kernel, and how packed blocks of integers are multiplied.

use std::ops::Range;

use crate::{
    cpu::{
        Activations, ComputeType, Matrix,
        layout::{Line, NARROW, ROWS, WIDE},
        packing::TileScratch,
        tuning::Tuning,
    },
    simd::{Isa, LaneKernel, Lanes},
};

const TILES: usize = Tuning::TILES;

/// How weights are packed and multiplied with many tokens. A k-block is the smallest run of columns that is packed.
pub(in crate::cpu) trait MicroKernel {
    /// The type of its products, by which the activations choose how many tokens a panel has.
    const PRODUCTS: ComputeType;
    /// Lines of one k-block of a tile in a packed panel.
    fn lines(isa: Isa) -> usize;
    /// Most tiles whose packed panels lie side by side.
    fn tiles(tuning: &Tuning) -> usize;
    /// K-blocks in a row of the activations, and the most of a packed panel.
    fn k_blocks(x: &Activations) -> (usize, usize);
    /// Packs k-blocks of a tile into the lines of `to`; the scratch is for tiles of the file.
    fn pack(isa: Isa, w: &Matrix, tile: usize, k_blocks: Range<usize>, to: (&mut [Line], &mut TileScratch));
    /// Adds the products of packed panels with the same k-blocks of all panels of tokens to `sums[panel][tile][token]`, with
    /// room for the most tiles.
    fn multiply(x: &Activations, weights: &PackedPanels, sums: &mut [[f32; ROWS]]);
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

/// Activations at a block of a panel.
pub(super) trait At: Copy {
    /// Those of a panel of `width` tokens, `b` blocks further on.
    ///
    /// # Safety
    /// There are so many blocks.
    unsafe fn at(self, b: usize, width: usize) -> Self;
}

/// Packed blocks of 32 columns of integers, and their products.
pub(super) trait IntegerBlock {
    type Activations: At;
    /// Lines of a packed block.
    fn lines<L: Lanes>() -> usize;
    /// Whether registers hold sums of two tokens in turns, see [`Lanes::zip`].
    #[inline(always)]
    fn in_turns<L: Lanes>() -> bool {
        false
    }
    /// Adds the products of a block of `N` times `L::ROWS` rows with a panel of `T` tokens: each of the activations is loaded
    /// for `N` products, each of the codes for `T`.
    ///
    /// # Safety
    /// The machine can run `L`; `w` points to these rows in the lines of the block, `x` is the panel advanced to it. Where sums are
    /// in turns `T` is even.
    unsafe fn multiply<L: Lanes, const N: usize, const T: usize>(
        w: &[*const u8; N],
        x: Self::Activations,
        y: &mut [[L::F; N]; T],
    );
}

/// Packed blocks × the same blocks of all panels of tokens, added to what is there: `first` is the first panel, advanced to the
/// first of the packed blocks, and a row has `in_row` blocks.
///
/// # Safety
/// There are so many blocks of each panel of `x`, the packed ones among them.
pub(super) unsafe fn multiply<B: IntegerBlock>(
    x: &Activations,
    weights: &PackedPanels,
    (first, in_row): (B::Activations, usize),
    sums: &mut [[f32; ROWS]],
) {
    let (isa, width) = (x.isa, x.width);
    assert!(sums.len() == x.panels() * x.tuning.tiles * width && weights.k_blocks.end <= in_row);
    let (panels, most) = (Panels { first, in_row, sums }, x.tuning.tiles);
    // SAFETY: the instruction set was checked when the activations were made; a panel has as many blocks as the packed panels.
    unsafe {
        match (width, weights.tiles) {
            (WIDE, TILES) => isa.run(Gemm::<B, TILES, WIDE>::new(weights, panels, most)),
            (WIDE, _) => isa.run(Gemm::<B, 1, WIDE>::new(weights, panels, most)),
            (_, TILES) => isa.run(Gemm::<B, TILES, NARROW>::new(weights, panels, most)),
            (_, _) => isa.run(Gemm::<B, 1, NARROW>::new(weights, panels, most)),
        }
    }
}

/// All panels of activations, and the sums of each.
struct Panels<'a, A> {
    /// The first one, advanced to the first block of the weights.
    first: A,
    /// Blocks of a panel.
    in_row: usize,
    /// `[panel][tile][token]` times a tile's rows.
    sums: &'a mut [[f32; ROWS]],
}

/// Packed panels of `R` tiles × as many blocks of panels of `T` tokens. The loop over panels is in here: a call drains the
/// processor's pipeline.
struct Gemm<'a, B: IntegerBlock, const R: usize, const T: usize> {
    /// The weights, packed panels of one length.
    weights: [&'a [Line]; R],
    x: Panels<'a, B::Activations>,
    /// Sums of a panel: room for the most tiles.
    of_panel: usize,
}

impl<'a, B: IntegerBlock, const R: usize, const T: usize> Gemm<'a, B, R, T> {
    fn new(weights: &'a PackedPanels, x: Panels<'a, B::Activations>, most: usize) -> Self {
        assert!(weights.tiles == R && most >= R);
        Self { weights: std::array::from_fn(|r| weights.of(r)), x, of_panel: most * T }
    }
}

impl<B: IntegerBlock, const R: usize, const T: usize> LaneKernel for Gemm<'_, B, R, T> {
    /// # Safety
    /// The panels have as many blocks as each packed panel from where they are advanced to.
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let lines = B::lines::<L>();
        let blocks = self.weights[0].len() / lines;
        assert!(self.weights.iter().all(|w| w.len() == blocks * lines));
        // Rows of a register: of as many tiles, or of halves of one tile, whose lines are then read once.
        let of_tile = ROWS / L::ROWS;
        let at =
            |i: usize| Rows { lines: self.weights[i / of_tile], sums: i / of_tile * T, row: i % of_tile * L::ROWS };
        // In turns, one at once: two have as many sums as there are registers.
        let at_once = if B::in_turns::<L>() { 1 } else { 2 };
        for (panel, sums) in self.x.sums.chunks_exact_mut(self.of_panel).enumerate() {
            for i in (0..R * of_tile).step_by(at_once) {
                // SAFETY: the machine can run `L`; the rows are in their tile; there is such a panel, and it has these blocks.
                unsafe {
                    let x = self.x.first.at(panel * self.x.in_row, T);
                    match at_once.min(R * of_tile - i) {
                        1 => multiply_rows::<L, B, 1, T>([at(i)], blocks, x, sums),
                        _ => multiply_rows::<L, B, 2, T>([at(i), at(i + 1)], blocks, x, sums),
                    }
                }
            }
        }
    }
}

/// Rows of a register.
#[derive(Clone, Copy)]
struct Rows<'a> {
    /// The packed panel of their tile.
    lines: &'a [Line],
    /// Where the sums of the tile begin.
    sums: usize,
    /// The first row, counted in the tile.
    row: usize,
}

/// # Safety
/// The machine can run `L`; there are so many blocks of weights and activations, and `L::ROWS` rows from each `row` on.
#[inline(always)]
unsafe fn multiply_rows<L: Lanes, B: IntegerBlock, const N: usize, const T: usize>(
    rows: [Rows; N],
    blocks: usize,
    x: B::Activations,
    sums: &mut [[f32; ROWS]],
) {
    assert!(rows.iter().all(|rows| rows.sums + T <= sums.len()));
    // SAFETY: that of this function; a tile has sums of `T` tokens.
    unsafe {
        let mut y = [[L::splat_f32(0.0); N]; T];
        for t in 0..T {
            for i in 0..N {
                y[t][i] = L::load_f32(sums[rows[i].sums + t].as_ptr().add(rows[i].row));
            }
        }
        if B::in_turns::<L>() {
            turn::<L, N, T>(&mut y, true);
        }
        for b in 0..blocks {
            let w = rows.map(|rows| rows.lines.as_ptr().add(b * B::lines::<L>()).cast::<u8>().add(4 * rows.row));
            B::multiply::<L, N, T>(&w, x.at(b, T), &mut y);
        }
        if B::in_turns::<L>() {
            turn::<L, N, T>(&mut y, false);
        }
        for t in 0..T {
            for i in 0..N {
                L::store_f32(y[t][i], sums[rows[i].sums + t].as_mut_ptr().add(rows[i].row));
            }
        }
    }
}

/// Brings sums of each two tokens into turns, or out of them.
///
/// # Safety
/// The machine can run `L`, and it has [`Lanes::MATRICES`].
#[inline(always)]
unsafe fn turn<L: Lanes, const N: usize, const T: usize>(y: &mut [[L::F; N]; T], zip: bool) {
    for t in (0..T).step_by(2) {
        for i in 0..N {
            // SAFETY: that of this function.
            unsafe {
                let [a, b] = [L::f32_to_bits(y[t][i]), L::f32_to_bits(y[t + 1][i])];
                let [a, b] = if zip { L::zip(a, b) } else { L::unzip([a, b]) };
                (y[t][i], y[t + 1][i]) = (L::bits_to_f32(a), L::bits_to_f32(b));
            }
        }
    }
}
