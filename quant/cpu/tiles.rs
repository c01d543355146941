//! Weights in tiles of 16 rows, made for vector registers: a 64-byte line holds four consecutive columns
//! of each row, so that one load feeds one integer dot product and a row stays in its lane.
//!
//! A tile is a plane of codes (`[block][line]`, see [`codes`]) and a plane of scales (`[group]`, see
//! [`scales`]), filled up to whole lines; a matrix is its tiles one after the other, the last one filled
//! up with zero rows. Codes and scales take as many bits as in the file, but for grids (IQ1, IQ2, IQ3): of an index into one
//! there are the codes of the entry; and of five digits in a byte (TQ1_0) the digits.

pub(super) mod codes;
pub(super) mod file;
mod formats;
pub(super) mod scales;

pub(super) use codes::{Codes, Width};
pub(super) use file::FileBlocks;
pub(super) use formats::{TileFormat, with_format};
pub(super) use scales::{Scale, Scales, Shape};

use std::marker::PhantomData;

use super::layout::{BLOCK, Line, ROWS, bytes_mut};
use crate::{
    GgmlType,
    simd::{Isa, LaneKernel, Lanes, Scalar},
};

/// What scales a format has, and the width of its codes.
pub(super) type ShapeOf<F> = <<F as TileFormat>::Scales as Scales>::Shape<<<F as TileFormat>::Codes as Codes>::Width>;

/// One block of 32 columns of some rows in registers.
#[derive(Clone, Copy)]
pub(super) struct Block<L: Lanes> {
    /// Codes, four columns per lane: left-aligned less [`Width::down`].
    pub(super) codes: [L::V; 8],
    /// Scales of its halves.
    pub(super) scale: Scale<L::F>,
}

/// Where things lie in a tile of `F` with this many columns.
pub(super) struct TileLayout {
    /// Blocks of 32 columns.
    pub(super) blocks: usize,
    /// Lines of codes; scales follow.
    pub(super) code_lines: usize,
    /// Lines of the whole tile.
    pub(super) lines: usize,
}

impl TileLayout {
    #[inline(always)]
    pub(super) fn of<F: TileFormat>(cols: usize) -> Self {
        let blocks = cols / BLOCK;
        let code_lines = blocks * F::Codes::LINES;
        let scale_bytes = blocks / F::Scales::GROUP * F::Scales::BYTES;
        Self { blocks, code_lines, lines: code_lines + scale_bytes.div_ceil(Line::BYTES) }
    }
}

/// Lines of a tile of this type; `None` for types that have no tiles.
pub(super) fn tile_lines(ty: GgmlType, cols: usize) -> Option<usize> {
    with_format!(ty, F => Some(TileLayout::of::<F>(cols).lines), None)
}

/// Whether products read rows of this type where they lie in the file.
pub(super) fn are_read_from_files(ty: GgmlType) -> bool {
    with_format!(ty, F => <F as TileFormat>::File::READ, false)
}

/// Makes the tile of up to 16 rows in file layout. Panics where the type has no tiles.
pub(super) fn pack(ty: GgmlType, rows: &[u8], cols: usize, tile: &mut [Line]) {
    let isa = Isa::best();
    // SAFETY: the best instruction set is one that the machine has.
    with_format!(ty, F => unsafe { isa.run(Pack::<F> { rows, cols, tile, format: PhantomData }) }, unreachable!("{ty} has no tiles"));
}

/// Packing is plain code, compiled for each instruction set.
struct Pack<'a, F> {
    rows: &'a [u8],
    cols: usize,
    tile: &'a mut [Line],
    format: PhantomData<F>,
}

impl<F: TileFormat> LaneKernel for Pack<'_, F> {
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        pack_tile::<F>(self.rows, self.cols, self.tile);
    }
}

#[inline(always)]
fn pack_tile<F: TileFormat>(rows: &[u8], cols: usize, tile: &mut [Line]) {
    let layout = TileLayout::of::<F>(cols);
    let (group, lines) = (F::Scales::GROUP, F::Codes::LINES);
    let (codes, scales) = tile.split_at_mut(layout.code_lines);
    let scales = bytes_mut(scales);
    let blocks = F::blocks(rows);
    let per_row = layout.blocks / group;
    if blocks.len() < ROWS * per_row {
        codes.fill(Line::ZERO);
        scales.fill(0);
    }
    // Group by group for all rows: each line is written while it is in the cache.
    for g in 0..per_row {
        let plane = &mut scales[g * F::Scales::BYTES..][..F::Scales::BYTES];
        let lines = &mut codes[g * group * lines..][..group * lines];
        for (row, block) in blocks.iter().skip(g).step_by(per_row).enumerate() {
            F::Scales::pack(&block.parts(), row, plane);
            for (j, lines) in lines.chunks_exact_mut(F::Codes::LINES).enumerate() {
                F::Codes::pack(block.quads(j), row, lines);
            }
        }
    }
}

/// Dequantizes one row of a tile: the same values as from the file, as codes times scales is exact.
pub(super) fn row(ty: GgmlType, tile: &[u8], row: usize, out: &mut [f32]) {
    with_format!(ty, F => row_of::<F>(tile, row, out), unreachable!("{ty} has no tiles"));
}

fn row_of<F: TileFormat>(tile: &[u8], row: usize, out: &mut [f32]) {
    let layout = TileLayout::of::<F>(out.len());
    let (codes, scales) = tile[..layout.lines * Line::BYTES].split_at(layout.code_lines * Line::BYTES);
    for (b, out) in out.as_chunks_mut::<BLOCK>().0.iter_mut().enumerate() {
        let codes = &codes[b * F::Codes::LINES * Line::BYTES + 4 * row..];
        let scales = &scales[b / F::Scales::GROUP * F::Scales::BYTES..];
        // SAFETY: scalar code runs everywhere; the planes hold block b for all 16 rows.
        let (quads, scale) = unsafe {
            let scale = F::Scales::load::<Scalar>(scales.as_ptr(), row, b % F::Scales::GROUP, F::Codes::UNIT);
            (F::Codes::unpack::<Scalar>(codes.as_ptr()), scale)
        };
        for (i, o) in out.iter_mut().enumerate() {
            let code = f32::from(quads[i / 4].to_le_bytes()[i % 4]);
            *o = match ShapeOf::<F>::MIN {
                true => scale.d[i / 16] * code + scale.m[i / 16],
                false => scale.d[i / 16] * (code - 128.0),
            };
        }
    }
}
