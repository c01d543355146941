//! A weight matrix `[rows][cols]` in one of the formats of the table.

use std::{ops::Range, sync::Arc};

use super::{
    layout::{Line, ROWS},
    packing::{PackAllowance, Packing, TileScratch, tiles_in_memory},
    par::{self, Shared},
    tiles,
};
use crate::{Bytes, GgmlType, gguf::Tensor, simd::Isa};

/// Weights of one matrix, as in the file or repacked into tiles.
#[derive(Debug, Clone)]
pub struct Matrix {
    ty: GgmlType,
    rows: usize,
    cols: usize,
    layout: Layout,
    data: Bytes,
    /// Of rows in file layout: their tiles, as far as they are packed.
    packing: Option<Tiles>,
}

/// The tiles of a packing from `first` on.
#[derive(Debug, Clone)]
struct Tiles {
    packing: Arc<Packing>,
    first: usize,
}

/// The bytes of the rows of tiles.
pub(super) enum TileBytes<'a> {
    Packed(&'a [u8]),
    /// In file layout: the last tile may have fewer than 16.
    File(&'a [u8]),
}

/// How the bytes of a matrix are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// Row-major blocks.
    File,
    /// Tiles of 16 rows (see [`tiles`]), each of this many bytes.
    Tiles(usize),
}

impl Matrix {
    /// A matrix over bytes in file layout. Panics when the length does not fit the shape, or a row is not whole blocks: the
    /// GGUF reader has checked that already.
    pub fn new(ty: GgmlType, rows: usize, cols: usize, data: Bytes) -> Self {
        assert!(cols.is_multiple_of(ty.format().block), "rows of {cols} weights in {ty}");
        assert_eq!(data.len(), rows * ty.bytes_of(cols), "{rows} x {cols} {ty}");
        Self { ty, rows, cols, layout: Layout::File, data, packing: None }
    }

    /// The matrix of a tensor; all dimensions after the first are rows.
    pub fn from_tensor(t: &Tensor) -> Self {
        Self::new(t.ty, t.rows(), t.cols(), t.data.clone())
    }

    /// Some consecutive rows as a matrix of their own (the parts of a fused `attn_qkv`). A repacked
    /// matrix can only be cut between tiles of 16 rows: slice first, then repack.
    pub fn slice_rows(&self, rows: Range<usize>) -> Self {
        assert!(rows.start <= rows.end && rows.end <= self.rows, "rows {rows:?} of {}", self.rows);
        let bytes = match self.layout {
            Layout::File => rows.start * self.row_bytes()..rows.end * self.row_bytes(),
            Layout::Tiles(tile) => {
                assert!(self.is_whole_tiles(&rows), "rows {rows:?} of a repacked matrix are not whole tiles");
                rows.start / ROWS * tile..rows.end.div_ceil(ROWS) * tile
            }
        };
        let mut packing = self.packing.clone().filter(|_| self.is_whole_tiles(&rows));
        packing.iter_mut().for_each(|tiles| tiles.first += rows.start / ROWS);
        Self { rows: rows.len(), data: self.data.slice(bytes), packing, ..*self }
    }

    fn is_whole_tiles(&self, rows: &Range<usize>) -> bool {
        rows.start.is_multiple_of(ROWS) && (rows.end.is_multiple_of(ROWS) || rows.end == self.rows)
    }

    /// The same weights in the order in which products read them fastest, in memory of its own. Formats
    /// that are fastest as they are stay untouched.
    ///
    /// Takes [`Matrix::repacked_bytes`], lets go of the file's pages, and runs on all threads of the pool that it is
    /// called in. Where there is no memory, the file layout stays.
    pub fn repack(self) -> Self {
        let (Layout::File, Some(lines)) = (self.layout, tiles::tile_lines(self.ty, self.cols)) else { return self };
        let (tiles, tile) = (self.rows.div_ceil(ROWS), lines * size_of::<Line>());
        let Ok(mut memory) = tiles_in_memory(tiles * tile) else { return self };
        let out = Shared::new(memory.as_mut_ptr().cast::<Line>());
        par::parallel_for(tiles, (REPACK_CHUNK / tile.max(1)).max(1), |range| {
            for i in range.clone() {
                // SAFETY: tile i is inside the map, which is zeroed and begins a page; this chunk alone has it.
                let lines = unsafe { std::slice::from_raw_parts_mut(out.get().add(i * lines), lines) };
                tiles::pack(self.ty, self.tile_rows(i..i + 1), self.cols, lines);
            }
            // Chunk by chunk: both copies of a large head would not fit side by side.
            let rows = range.start * ROWS..(range.end * ROWS).min(self.rows);
            self.data.slice(rows.start * self.row_bytes()..rows.end * self.row_bytes()).release_pages();
        });
        let data = Bytes::new(memory).slice(0..tiles * tile);
        Self { layout: Layout::Tiles(tile), data, packing: None, ..self }
    }

    /// The same at once and without a wait: the products that need a tile pack it, and keep it as far as the allowance
    /// says. Until all of them are packed the file's pages stay.
    pub fn repack_as_needed(self, allowance: &Arc<PackAllowance>) -> Self {
        let (Layout::File, Some(lines)) = (self.layout, tiles::tile_lines(self.ty, self.cols)) else { return self };
        let packing = Packing::new(self.rows.div_ceil(ROWS), lines, self.data.clone(), allowance.clone());
        Self { packing: packing.ok().map(|packing| Tiles { packing: Arc::new(packing), first: 0 }), ..self }
    }

    /// Whether there are tiles of its format: all but floats.
    pub fn has_tiles(&self) -> bool {
        tiles::tile_lines(self.ty, self.cols).is_some()
    }

    /// Whether products read its rows where they lie in the file, hardly slower than tiles.
    pub fn is_multiplied_in_place(&self) -> bool {
        tiles::are_read_from_files(self.ty)
    }

    /// Whether products of one token gain from tiles on this machine. Not with AVX2 alone where they read the file as well:
    /// both come as fast as memory gives them (Zen 3, gemma-3-1b and llama-3.2-1b in Q4_K_M).
    pub fn gains_from_tiles(&self) -> bool {
        self.has_tiles() && !(self.is_multiplied_in_place() && Isa::best() == Isa::Avx2)
    }

    /// Format of the weights.
    pub fn ty(&self) -> GgmlType {
        self.ty
    }
    /// Number of rows: outputs of `W·x`.
    pub fn rows(&self) -> usize {
        self.rows
    }
    /// Number of columns: inputs of `W·x`.
    pub fn cols(&self) -> usize {
        self.cols
    }
    /// Bytes that one pass over the matrix reads.
    pub fn bytes(&self) -> usize {
        self.data.len()
    }

    /// [`Matrix::bytes`] after [`Matrix::repack`]: what the file layout takes (rows filled up to a multiple of 16), but for
    /// IQ1, IQ2 and IQ3, whose weights have 3, 3 and 4 bits in a tile and 1.6 to 3.4 in the file, and TQ1_0: 2 and 1.7.
    pub fn repacked_bytes(&self) -> usize {
        match (self.layout, tiles::tile_lines(self.ty, self.cols)) {
            (Layout::File, Some(lines)) => self.rows.div_ceil(ROWS) * lines * size_of::<Line>(),
            _ => self.bytes(),
        }
    }

    /// The blocks in file layout, row after row. Panics on a repacked matrix.
    pub fn file_bytes(&self) -> &Bytes {
        assert_eq!(self.layout, Layout::File);
        &self.data
    }

    /// Dequantizes one row into `out[cols]` (embedding lookup, exact arithmetic).
    pub fn row(&self, row: usize, out: &mut [f32]) {
        assert!(row < self.rows && out.len() == self.cols, "row {row} of {}, {} columns", self.rows, out.len());
        match self.layout {
            Layout::File => {
                match self.packing.as_ref().and_then(|tiles| tiles.packing.packed(tiles.first + row / ROWS)) {
                    Some(tile) => tiles::row(self.ty, tile, row % ROWS, out),
                    None => (self.ty.format().dequantize)(self.file_row(row), out),
                }
            }
            Layout::Tiles(tile) => tiles::row(self.ty, &self.data[row / ROWS * tile..][..tile], row % ROWS, out),
        }
    }

    fn row_bytes(&self) -> usize {
        self.ty.bytes_of(self.cols)
    }

    /// One row in file layout. Panics on a repacked matrix.
    pub(super) fn file_row(&self, row: usize) -> &[u8] {
        assert_eq!(self.layout, Layout::File);
        &self.data[row * self.row_bytes()..][..self.row_bytes()]
    }

    /// Rows in file layout. Panics on a repacked matrix.
    pub(super) fn file_rows(&self, rows: Range<usize>) -> &[u8] {
        assert_eq!(self.layout, Layout::File);
        &self.data[rows.start * self.row_bytes()..rows.end * self.row_bytes()]
    }

    /// The rows of tiles in file layout. Panics on a repacked matrix.
    pub(super) fn tile_rows(&self, tiles: Range<usize>) -> &[u8] {
        self.file_rows(tiles.start * ROWS..(tiles.end * ROWS).min(self.rows))
    }

    /// The bytes of a tile: where it lies; the rows of the file, where those are read as well; or made in `scratch`.
    pub(super) fn tile<'a>(&'a self, tile: usize, scratch: &'a mut TileScratch) -> TileBytes<'a> {
        self.tiles(tile..tile + 1, scratch).0
    }

    /// The bytes of the first of these tiles, and of those after it that lie behind it in the same way: how many they are.
    pub(super) fn tiles<'a>(&'a self, tiles: Range<usize>, scratch: &'a mut TileScratch) -> (TileBytes<'a>, usize) {
        let (tile, n) = (tiles.start, tiles.len());
        if let Layout::Tiles(bytes) = self.layout {
            return (TileBytes::Packed(&self.data[tile * bytes..tiles.end * bytes]), n);
        }
        let pack = |lines: &mut [Line]| tiles::pack(self.ty, self.tile_rows(tile..tile + 1), self.cols, lines);
        let packed = self.packing.as_ref().map(|Tiles { packing, first }| packing.tiles(first + tile, n, pack));
        match packed {
            Some((packed, n)) if n > 0 => (TileBytes::Packed(packed), n),
            Some(_) if self.is_multiplied_in_place() => (TileBytes::File(self.tile_rows(tile..tile + 1)), 1),
            None if self.is_multiplied_in_place() => (TileBytes::File(self.tile_rows(tiles)), n),
            _ => {
                let lines = tiles::tile_lines(self.ty, self.cols).expect("only quantized formats have tiles");
                (TileBytes::Packed(scratch.tile(tile, lines, pack)), 1)
            }
        }
    }
}

/// Bytes that one chunk of the parallel repacking writes.
const REPACK_CHUNK: usize = 2 << 20;
