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

use self::{
    codes::moved,
    file::{Place, each_block},
};
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

/// Whether products of many tokens with weights of this type are made of pairs of 16-bit integers.
pub(super) fn multiplies_pairs(isa: Isa, ty: GgmlType) -> bool {
    with_format!(ty, F => is_wide::<ShapeOf<F>>(isa), false)
}

/// [`Shape::is_wide`] for an instruction set. Panics where the machine lacks it.
pub(super) fn is_wide<S: Shape>(isa: Isa) -> bool {
    struct IsWide<'a, S>(&'a mut bool, PhantomData<S>);
    impl<S: Shape> LaneKernel for IsWide<'_, S> {
        #[inline(always)]
        unsafe fn run<L: Lanes>(self) {
            *self.0 = S::is_wide::<L>();
        }
    }
    let mut is_wide = false;
    // SAFETY: the machine has the instruction set.
    unsafe { isa.checked().run(IsWide::<S>(&mut is_wide, PhantomData)) };
    is_wide
}

/// Makes the tile of up to 16 rows in file layout. Panics where the type has no tiles.
pub(super) fn pack(ty: GgmlType, rows: &[u8], cols: usize, tile: &mut [Line]) {
    let isa = Isa::best();
    // SAFETY: the best instruction set is one that the machine has.
    with_format!(ty, F => unsafe { isa.run(Pack::<F> { rows, cols, tile, format: PhantomData }) }, unreachable!("{ty} has no tiles"));
}

struct Pack<'a, F> {
    rows: &'a [u8],
    cols: usize,
    tile: &'a mut [Line],
    format: PhantomData<F>,
}

impl<F: TileFormat> LaneKernel for Pack<'_, F> {
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let layout = TileLayout::of::<F>(self.cols);
        let (group, of_group) = (F::Scales::GROUP, F::Scales::GROUP * F::Codes::LINES);
        let (codes, scales) = self.tile.split_at_mut(layout.code_lines);
        let scales = bytes_mut(scales);
        let blocks = F::blocks(self.rows);
        let per_row = layout.blocks / group;
        let is_whole = blocks.len() == ROWS * per_row;
        let by_lanes = F::File::READ && is_whole;
        if !is_whole {
            codes.fill(Line::ZERO);
            scales.fill(0);
        }
        let (planes, lines) = (scales.chunks_exact_mut(F::Scales::BYTES), codes.chunks_exact_mut(of_group));
        // Group by group for all rows: each line is written while it is in the cache.
        for (g, (plane, lines)) in planes.zip(lines).enumerate() {
            let lines = bytes_mut(lines).as_mut_ptr();
            for (row, block) in blocks.iter().skip(g).step_by(per_row).enumerate() {
                F::Scales::pack(&block.parts(), row, plane);
                if !by_lanes {
                    for j in 0..group {
                        let quads = block.quads(j).map(|quad| quad as i32);
                        // SAFETY: scalar code runs everywhere; block j of the group has lines, and 16 rows in them.
                        unsafe {
                            F::Codes::pack::<Scalar>(quads, lines.add(j * F::Codes::LINES * Line::BYTES + 4 * row))
                        };
                    }
                }
            }
            if by_lanes {
                let rows: [*const u8; ROWS] = std::array::from_fn(|row| (&raw const blocks[row * per_row + g]).cast());
                for row in (0..ROWS).step_by(L::ROWS) {
                    // SAFETY: the machine can run `L`; there is a file block of each row, and lines for the group.
                    unsafe { pack_codes::<L, F>(Place::new(rows[row..].as_ptr(), 0), lines.add(4 * row)) };
                }
            }
        }
    }
}

/// Packs the codes of a group of `L::ROWS` rows.
///
/// # Safety
/// The machine can run `L`; the place has a file block of each row; `to` points to these rows in the lines of a group.
#[inline(always)]
unsafe fn pack_codes<L: Lanes, F: TileFormat>(from: Place, to: *mut u8) {
    let (bits, down) = (<F::Codes as Codes>::Width::BITS, <F::Codes as Codes>::Width::down::<L>());
    // SAFETY: that of this function.
    unsafe {
        let header = F::File::header::<L>(from);
        for run in 0..F::Scales::GROUP / F::File::RUN {
            let words = F::File::words::<L>(from, run);
            each_block!(F::File::RUN, B => {
                let mut quads = F::File::block::<L, B>(&header, &words, run).codes;
                for quad in &mut quads {
                    *quad = moved::<L>(*quad, 8 - bits - down, 0, u8::MAX >> (8 - bits));
                }
                F::Codes::pack::<L>(quads, to.add((run * F::File::RUN + B) * F::Codes::LINES * Line::BYTES));
            });
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
            let header = F::Scales::header::<Scalar>(scales.as_ptr(), row, F::Codes::UNIT);
            let scale = F::Scales::of::<Scalar>(&header, b % F::Scales::GROUP);
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
