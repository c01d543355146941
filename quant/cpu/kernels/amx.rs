//! Products of many tokens on the tiles of AMX: a block of 16 rows with a panel of 16 tokens at once. Its sums are integers,
//! those that other instruction sets make, and what rounds is the same: not a bit changes.
//!
//! A block of 8,192 products takes 76 instructions with one scale, 95 with a minimum, 152 with two scales, 202 with both, of 16-bit
//! codes 151; in vector registers 6,144 products take 211 and more, of 16-bit codes 452. No machine was at hand to measure it.

use super::micro::{At, IntegerBlock, PackedPanels};
use crate::{
    cpu::{
        Activations,
        layout::{Line, ROWS, TILE},
    },
    simd::{
        Isa, LaneKernel, Lanes,
        amx::{Sums, Tiles},
    },
};

/// Runs the body for each token of a panel, a constant: what it leaves for a token stays in a register, which it would not in a
/// loop of so many.
macro_rules! each_token {
    ($T:ident => $body:expr) => { each_token!($T => $body; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15) };
    ($T:ident => $body:expr; $($t:literal)*) => {$({
        const $T: usize = $t;
        $body;
    })*};
}
pub(super) use each_token;

/// The sums of a block: of its parts with scales of their own, or of halves of 16-bit codes.
pub(super) type BlockSums = [Sums; 3];

/// Packed blocks that tiles multiply.
pub(super) trait TileBlock: IntegerBlock {
    /// Columns that a product of tiles takes.
    const COLUMNS: usize;

    /// Writes the sums of a block; of blocks that follow each other one is `EVEN`.
    ///
    /// # Safety
    /// There are [`Tiles`] for `COLUMNS`; `w` points to the packed block, `x` is the panel advanced to it.
    unsafe fn multiply_tiles<const EVEN: bool>(w: *const u8, x: Self::Activations, sums: &mut BlockSums);

    /// Adds the sums, scaled, to `y`.
    ///
    /// # Safety
    /// The machine can run `L`, of 16 lanes; `w` and `x` as for `multiply_tiles`.
    unsafe fn finish<L: Lanes>(w: *const u8, x: Self::Activations, sums: &BlockSums, y: &mut [L::F; TILE]);
}

/// Packed blocks × the same blocks of all panels of tokens, added to what is there, as [`super::micro::multiply`].
///
/// # Safety
/// There are so many blocks of each panel of `x`, the packed ones among them.
pub(super) unsafe fn multiply<B: TileBlock>(
    x: &Activations,
    weights: &PackedPanels,
    (first, in_row): (B::Activations, usize),
    sums: &mut [[f32; ROWS]],
) {
    assert!(x.isa == Isa::Amx && weights.k_blocks.end <= in_row);
    let most = x.tuning.tiles;
    assert!(weights.tiles <= most && sums.len() == x.tokens.div_ceil(TILE) * most * TILE);
    // SAFETY: the instruction set was checked when the activations were made; the rest is the caller's part.
    unsafe { x.isa.run(Gemm::<B> { weights, first, in_row, sums, of_panel: most * TILE }) };
}

struct Gemm<'a, B: TileBlock> {
    weights: &'a PackedPanels<'a>,
    /// The first panel, advanced to the first block of the weights.
    first: B::Activations,
    /// Blocks of a panel.
    in_row: usize,
    /// `[panel][tile][token]` times a tile's rows.
    sums: &'a mut [[f32; ROWS]],
    /// Sums of a panel.
    of_panel: usize,
}

impl<B: TileBlock> LaneKernel for Gemm<'_, B> {
    const ONLY_AVX512: bool = true;

    /// # Safety
    /// The panels have as many blocks as each packed panel from where they are advanced to; the machine has AMX.
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        // SAFETY: the machine has AMX, and nothing here makes tiles while there are some.
        let _tiles = unsafe { Tiles::new(B::COLUMNS) };
        for (panel, sums) in self.sums.chunks_exact_mut(self.of_panel).enumerate() {
            // SAFETY: there is such a panel.
            let x = unsafe { self.first.at(panel * self.in_row, TILE) };
            for (tile, sums) in sums.as_chunks_mut().0.iter_mut().take(self.weights.tiles).enumerate() {
                // SAFETY: the machine can run `L`; there are tiles; the panel has these blocks.
                unsafe { multiply_panel::<L, B>(self.weights.of(tile), x, sums) };
            }
        }
    }
}

/// A packed panel × the same blocks of a panel of tokens. The sums of a block are made while those of the one before are scaled.
///
/// # Safety
/// The machine can run `L`; there are [`Tiles`]; `x` has as many blocks as there are lines of.
#[inline(always)]
unsafe fn multiply_panel<L: Lanes, B: TileBlock>(lines: &[Line], x: B::Activations, sums: &mut [[f32; ROWS]; TILE]) {
    let mut products = [[Sums::ZERO; 3]; 2];
    // SAFETY: that of this function; rows of sums are 16 floats.
    unsafe {
        let mut y = [L::splat_f32(0.0); TILE];
        each_token!(T => y[T] = L::load_f32(sums[T].as_ptr()));
        let of_block = B::lines::<L>();
        let at = |b: usize| (lines.as_ptr().add(b * of_block).cast::<u8>(), x.at(b, TILE));
        let blocks = lines.len() / of_block;
        for b in 0..blocks {
            if b == 0 {
                let (w, x) = at(0);
                B::multiply_tiles::<true>(w, x, &mut products[0]);
            }
            if b + 1 < blocks {
                let (w, x) = at(b + 1);
                match b % 2 {
                    0 => B::multiply_tiles::<false>(w, x, &mut products[1]),
                    _ => B::multiply_tiles::<true>(w, x, &mut products[0]),
                }
            }
            let (w, x) = at(b);
            B::finish::<L>(w, x, &products[b % 2], &mut y);
        }
        each_token!(T => L::store_f32(y[T], sums[T].as_mut_ptr()));
    }
}
