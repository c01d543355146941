//! Where kernels read weights: blocks of 32 columns of 16 rows, from a tile, or from rows as they lie in a file.

use std::marker::PhantomData;

use crate::{
    cpu::{
        layout::{BLOCK, Line, ROWS},
        prefetch::{Ahead, prefetch, prefetch_far},
        tiles::{
            Block, Codes, Scales, TileFormat, TileLayout,
            file::{FileBlocks, Place},
        },
    },
    simd::Lanes,
};

/// Sixteen rows that kernels read block by block: a tile, or rows as they lie in a file.
///
/// # Safety
/// All functions: the machine can run `L`; the rows have the group, and `row + L::ROWS ≤ 16`.
#[allow(clippy::missing_safety_doc)] // Stated once, here above.
pub(in crate::cpu) trait Source: Copy {
    type Format: TileFormat;
    /// Whether a line of the cache holds bytes of all rows.
    const LINES: bool;
    /// Blocks of a group, which share a header.
    const GROUP: usize;
    /// Blocks of a run, which share bytes of codes.
    const RUN: usize;
    type Header<L: Lanes>: Copy;
    type Words<L: Lanes>: Copy;
    /// Blocks of 32 columns.
    fn blocks(&self) -> usize;
    /// The 16 rows so many tiles further on.
    fn after(self, tiles: usize) -> Self;
    /// Prefetches what is read some time after block `b` of rows `row … row + n`.
    fn prefetch(&self, b: usize, row: usize, n: usize);
    /// What the blocks of a group share, of rows `row … row + L::ROWS`.
    unsafe fn header<L: Lanes>(&self, group: usize, row: usize) -> Self::Header<L>;
    /// The bytes of a run of a group.
    unsafe fn words<L: Lanes>(&self, group: usize, run: usize, row: usize) -> Self::Words<L>;
    /// Block `B` of a run.
    unsafe fn block<L: Lanes, const B: usize>(header: &Self::Header<L>, words: &Self::Words<L>, run: usize)
    -> Block<L>;
}

/// A packed tile of `cols` columns, and those that follow it.
#[derive(Clone, Copy)]
pub(in crate::cpu) struct Tile<F> {
    bytes: *const u8,
    blocks: usize,
    ahead: Ahead,
    format: PhantomData<F>,
}

impl<F: TileFormat> Tile<F> {
    /// The first of `n` tiles in these lines.
    pub(in crate::cpu) fn new(bytes: &[u8], cols: usize, n: usize, ahead: Ahead) -> Self {
        assert!(bytes.len() >= n * TileLayout::of::<F>(cols).lines * Line::BYTES);
        Self { bytes: bytes.as_ptr(), blocks: cols / BLOCK, ahead, format: PhantomData }
    }

    /// Where the scales of block `b` are.
    #[inline(always)]
    fn scales(&self, b: usize) -> *const u8 {
        let codes = self.blocks * F::Codes::LINES * Line::BYTES;
        self.bytes.wrapping_add(codes + b / F::Scales::GROUP * F::Scales::BYTES)
    }
}

impl<F: TileFormat> Source for Tile<F> {
    type Format = F;
    const LINES: bool = true;
    const GROUP: usize = F::Scales::GROUP;
    const RUN: usize = 1;
    type Header<L: Lanes> = <F::Scales as Scales>::Header<L>;
    type Words<L: Lanes> = [L::V; 8];

    fn blocks(&self) -> usize {
        self.blocks
    }

    #[inline(always)]
    fn after(self, tiles: usize) -> Self {
        let bytes = TileLayout::of::<F>(self.blocks * BLOCK).lines * Line::BYTES;
        Self { bytes: self.bytes.wrapping_add(tiles * bytes), ..self }
    }

    /// The tiles that follow, and the scales of the next one: they are used long before the codes in front of them.
    #[inline(always)]
    fn prefetch(&self, b: usize, row: usize, _: usize) {
        if row > 0 {
            return; // The lines were asked for with the first rows.
        }
        // What a block takes of its tile, on the average.
        let bytes = const { F::Codes::LINES * Line::BYTES + F::Scales::BYTES / F::Scales::GROUP };
        self.ahead.stream(self.bytes.wrapping_add(b * bytes), bytes.div_ceil(Line::BYTES));
        prefetch(self.scales(b).wrapping_add(self.blocks * bytes + b % F::Scales::GROUP * Line::BYTES));
    }

    #[inline(always)]
    unsafe fn header<L: Lanes>(&self, group: usize, row: usize) -> Self::Header<L> {
        // SAFETY: the trait's contract; `new` checked the length of the tile.
        unsafe { F::Scales::header::<L>(self.scales(group * F::Scales::GROUP), row, F::Codes::UNIT) }
    }

    #[inline(always)]
    unsafe fn words<L: Lanes>(&self, group: usize, run: usize, row: usize) -> [L::V; 8] {
        let b = group * F::Scales::GROUP + run;
        // SAFETY: the trait's contract; `new` checked the length of the tile.
        unsafe { F::Codes::unpack::<L>(self.bytes.add(b * F::Codes::LINES * Line::BYTES + 4 * row)) }
    }

    #[inline(always)]
    unsafe fn block<L: Lanes, const B: usize>(header: &Self::Header<L>, codes: &[L::V; 8], run: usize) -> Block<L> {
        // SAFETY: the trait's contract.
        unsafe { Block { codes: *codes, scale: F::Scales::of::<L>(header, run) } }
    }
}

/// Rows of so many bytes in all and those that follow them are in the first-level cache together, and prefetched into that one
/// alone (Zen 3, eight rows at once). Not so sixteen at once: they come at half the speed (Zen 4, 1,024 columns of Q4_K, Q4_0, Q5_0).
const SHORT: usize = 12 << 10;
/// How much earlier than in step with the rows that are read those that follow them are prefetched: a step is too late for
/// the first of them. Measured on Zen 3; without, rows of 1,024 columns are read half as fast as tiles.
const MARGIN: usize = 2048;
/// How far ahead of their use bytes of a row are prefetched into the first-level cache.
const AHEAD: usize = 512;

/// Up to 16 rows as they lie in a file, and those that follow them. Shuffles and shifts bound them: on Zen 4 one thread unpacks 20 GB/s
/// of Q5_0 from its cache, 24 of Q4_K and Q6_K, 33 of Q8_0, half of what it reads of tiles.
#[derive(Clone, Copy)]
pub(in crate::cpu) struct FileRows<F> {
    /// Beyond the end the last row once more.
    rows: [*const u8; ROWS],
    row_bytes: usize,
    last: *const u8,
    blocks: usize,
    format: PhantomData<F>,
}

/// Where 16 rows of so many bytes begin; beyond the end the last one once more.
#[inline(always)]
fn rows_from(first: *const u8, row_bytes: usize, last: *const u8) -> [*const u8; ROWS] {
    std::array::from_fn(|row| first.wrapping_add(row * row_bytes).min(last))
}

impl<F: TileFormat> FileRows<F> {
    /// The rows in these bytes.
    pub(in crate::cpu) fn new(bytes: &[u8], cols: usize) -> Self {
        let blocks = cols / BLOCK;
        let row_bytes = blocks / F::Scales::GROUP * size_of::<F>();
        assert!(
            !bytes.is_empty() && bytes.len().is_multiple_of(row_bytes),
            "{} bytes of rows of {row_bytes}",
            bytes.len()
        );
        let last = bytes[bytes.len() - row_bytes..].as_ptr();
        Self { rows: rows_from(bytes.as_ptr(), row_bytes, last), row_bytes, last, blocks, format: PhantomData }
    }

    /// The file blocks of a group.
    #[inline(always)]
    fn place(&self, group: usize, row: usize) -> Place {
        Place::new(self.rows[row..].as_ptr(), group * size_of::<F>())
    }
}

impl<F: TileFormat> Source for FileRows<F> {
    type Format = F;
    const LINES: bool = false;
    const GROUP: usize = F::Scales::GROUP;
    const RUN: usize = F::File::RUN;
    type Header<L: Lanes> = <F::File as FileBlocks>::Header<L>;
    type Words<L: Lanes> = <F::File as FileBlocks>::Words<L>;

    fn blocks(&self) -> usize {
        self.blocks
    }

    #[inline(always)]
    fn after(self, tiles: usize) -> Self {
        let first = self.rows[0].wrapping_add(tiles * ROWS * self.row_bytes);
        Self { rows: rows_from(first, self.row_bytes, self.last), ..self }
    }

    /// As many bytes of the rows that follow, which lie behind each other: into the first-level cache where they are short, else
    /// into the second, and into the first what comes next in the rows.
    #[inline(always)]
    fn prefetch(&self, b: usize, row: usize, n: usize) {
        let group = const { F::Scales::GROUP };
        let (of_rows, bytes) = (n * self.row_bytes, n * size_of::<F>() / group);
        let is_short = n < ROWS && of_rows <= SHORT;
        let next = self.rows[row].wrapping_add(of_rows + MARGIN + b * bytes);
        for line in 0..bytes.div_ceil(Line::BYTES) {
            let p = next.wrapping_add(line * Line::BYTES);
            if is_short { prefetch(p) } else { prefetch_far(p) }
        }
        if !is_short {
            let some = n.div_ceil(group);
            for p in &self.rows[row + b * some % n..][..some] {
                for line in 0..size_of::<F>().div_ceil(Line::BYTES) {
                    prefetch(p.wrapping_add(b / group * size_of::<F>() + AHEAD + line * Line::BYTES));
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn header<L: Lanes>(&self, group: usize, row: usize) -> Self::Header<L> {
        // SAFETY: the trait's contract.
        unsafe { F::File::header(self.place(group, row)) }
    }

    #[inline(always)]
    unsafe fn words<L: Lanes>(&self, group: usize, run: usize, row: usize) -> Self::Words<L> {
        // SAFETY: the trait's contract.
        unsafe { F::File::words(self.place(group, row), run) }
    }

    #[inline(always)]
    unsafe fn block<L: Lanes, const B: usize>(
        header: &Self::Header<L>,
        words: &Self::Words<L>,
        run: usize,
    ) -> Block<L> {
        // SAFETY: the trait's contract.
        unsafe { F::File::block::<L, B>(header, words, run) }
    }
}
