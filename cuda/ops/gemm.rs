//! Matrix times several columns on tensor cores: prefill, and batches of sequences that decode.

use qrun_quant::GgmlType;

use super::{
    activations::QuantizedActivations,
    formats::{self, Layout},
    grids,
    params::{GELU, MatmulParams, RELU_SQUARED, Segment},
    product,
};
use crate::{Grid, Params, Ptr, Result, Stream};

/// Up to so many columns `product` or `gemm_few` is launched, whose blocks share the weights through the L2 cache; beyond, `gemm`.
const FEW: i32 = 32;
/// Rows, columns and threads of a block of `gemm_few`, and of `gemm`.
const FEW_BLOCK: [u32; 3] = [16, 16, 256];
const WIDE_BLOCK: [u32; 3] = [64, 64, 128];
/// Kinds of tiles: large, medium, small.
pub const TILE_KINDS: usize = 3;
/// Their blocks (`TileShape` in kernels/gemm_half.cuh).
const TILES: [Tile; TILE_KINDS] = [
    Tile { rows: 128, columns: 128, threads: 256, shared: 96 << 10, time: 8 },
    Tile { rows: 128, columns: 64, threads: 128, shared: 64 << 10, time: 5 },
    Tile { rows: 64, columns: 64, threads: 128, shared: 48 << 10, time: 3 },
];
/// Columns, and blocks of 32 of k, whose terms a block makes; a warp each.
const SPLIT_COLUMNS: u32 = 16;
const SPLIT_BLOCKS: u32 = 8;
/// Threads of a block of `glu_act`, and rows that each of them takes.
const GLU_ACT_THREADS: u32 = 256;
const GLU_ACT_ROWS: u32 = 4;

/// A kind of block.
struct Tile {
    rows: u32,
    columns: u32,
    threads: u32,
    /// Bytes of shared memory.
    shared: u32,
    /// That it takes, relative to the others: a smaller one moves more bytes for a product.
    time: u32,
}

impl Tile {
    /// Blocks of a launch.
    fn blocks(&self, segments: &[Segment], columns: i32) -> [u32; 2] {
        let rows = segments.iter().map(|s| (s.rows as u32).div_ceil(self.rows)).sum();
        [rows, (columns as u32).div_ceil(self.columns)]
    }
}

/// Whether [`gemm`] multiplies these: it works in blocks of 32, and dense matrices of experts take [`super::matmul::gemv`], as others do.
pub fn takes(p: &MatmulParams) -> bool {
    let dense = |s: &Segment| formats::kernels(s.format).layout == Layout::File;
    p.k % 32 == 0 && (p.experts.is_null() || !p.segment[..p.segments as usize].iter().any(dense))
}

/// Whether products of many columns with weights in this format make terms of the activations, on SM 8.0+.
pub fn wants_terms(format: GgmlType) -> bool {
    matches!(format, GgmlType::F16 | GgmlType::BF16)
}

/// `y[column][row] = Σ_k w[row][k] · x[column][k] (+ bias[row])` for each segment; all segments in the same format. Quantized
/// weights multiply `image`, dense ones `x`: with `terms` to work in, if they have 16 bits. Or gated, of quantized weights. A column's
/// bits do not depend on the other columns of the launch.
///
/// # Errors
/// The driver refuses the launch, or an earlier launch has failed.
///
/// # Safety
/// The contract of [`ops`](crate::ops): the addresses in `p` and its segments have the sizes that their fields name.
pub unsafe fn gemm(stream: &Stream, p: &MatmulParams) -> Result<()> {
    let segments = &p.segment[..p.segments as usize];
    let number = segments[0].format;
    let kernels = formats::kernels(number);
    let format = kernels.format;
    assert!(segments.iter().all(|s| s.format == number), "segments of one gemm have one format");
    let k = p.k as usize;
    assert!(takes(p) && k.is_multiple_of(format.format().block), "rows of {k} weights in {format}");
    p.check_gated();
    assert!(p.gated == 0 || kernels.layout != Layout::File, "products with {format} are gated afterwards");
    let missing = if format.format().block == 1 { p.x.is_null() } else { p.image.q.is_null() };
    assert!(!missing, "{format} weights have activations to multiply");
    if p.columns <= FEW && kernels.layout != Layout::File {
        // SAFETY: the caller keeps the same contract.
        return unsafe { product::product(stream, p) };
    }
    // What kernels can do depends on what the card runs, not on the card alone.
    if p.columns > FEW && wants_terms(format) && stream.gpu().target().sm >= 80 {
        let multiprocessors = stream.gpu().properties().multiprocessors as u32;
        // SAFETY: the caller keeps the same contract.
        return unsafe { gemm_in_tiles(stream, p, best(segments, p.columns, multiprocessors)) };
    }
    let (name, [rows, columns, threads]) =
        if p.columns <= FEW { (kernels.gemm_few, FEW_BLOCK) } else { (kernels.gemm, WIDE_BLOCK) };
    // A gated block has half as many rows of both.
    let tiles_of = |s: &Segment, rows: u32| (s.rows as u32).div_ceil(rows);
    let tiles =
        if p.gated == 0 { segments.iter().map(|s| tiles_of(s, rows)).sum() } else { tiles_of(&segments[0], rows / 2) };
    let params = MatmulParams { weight_grid: grids::of(stream.gpu(), kernels.records)?, ..*p };
    // SAFETY: the kernel takes these parameters (compared by a test of `params`); the caller answers for the rest.
    unsafe { stream.launch(name, Grid::plane(tiles, p.column_tiles(columns), threads), &params) }
}

/// As [`gemm`] of many columns with weights of 16 bits on SM 8.0+, in tiles of one kind, below [`TILE_KINDS`]: the terms of `x`, and
/// products of them. The same bits in each.
///
/// # Errors
/// The driver refuses a launch, or an earlier one has failed.
///
/// # Safety
/// As for [`gemm`].
pub unsafe fn gemm_in_tiles(stream: &Stream, p: &MatmulParams, kind: usize) -> Result<()> {
    let segments = &p.segment[..p.segments as usize];
    let kernels = formats::kernels(segments[0].format);
    assert!(!p.terms.blocks.is_null(), "{} weights have room for terms of activations", kernels.format);
    let (chunks, groups) = ((p.k as u32 / 32).div_ceil(SPLIT_BLOCKS), (p.columns as u32).div_ceil(SPLIT_COLUMNS));
    // SAFETY: the kernel takes these parameters (compared by a test of `params`); the caller answers for the rest.
    unsafe { stream.launch(kernels.gemm_split, Grid::plane(chunks, groups, 32 * SPLIT_BLOCKS), p)? };
    let tile = &TILES[kind];
    let [x, y] = tile.blocks(segments, p.columns);
    let grid = Grid { shared: tile.shared, ..Grid::plane(x, y, tile.threads) };
    // SAFETY: as above.
    unsafe { stream.launch(kernels.gemm_tiles[kind], grid, p) }
}

/// The tiles that are done first, in turns of one per multiprocessor.
fn best(segments: &[Segment], columns: i32, multiprocessors: u32) -> usize {
    let time = |tile: &Tile| {
        let [x, y] = tile.blocks(segments, columns);
        (x * y).div_ceil(multiprocessors) * tile.time
    };
    (0..TILES.len()).min_by_key(|&i| time(&TILES[i])).unwrap_or(0)
}

/// Parameters of [`glu_act`].
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct GluActParams {
    /// `[columns][stride]`: the gate before its activation.
    pub gate: Ptr<f32>,
    /// `[columns][up_stride]`: what is gated; null: the activation of `gate` alone, [`RELU_SQUARED`] or [`GELU`].
    pub up: Ptr<f32>,
    /// Elements from column to column of the gate.
    pub stride: i32,
    /// Elements of a column.
    pub rows: i32,
    /// Columns: tokens of the batch.
    pub columns: i32,
    /// Number of the activation, as in [`MatmulParams`].
    pub activation: i32,
    /// `[columns][y_stride]`, or null.
    pub y: Ptr<f32>,
    /// Elements from column to column of `y`.
    pub y_stride: i32,
    /// Elements from column to column of what is gated.
    pub up_stride: i32,
    /// The same as an image of k = `rows` (a multiple of 32), or null.
    pub out: QuantizedActivations,
    /// `[columns]`: columns with a negative number are left as they are; null: none is.
    pub seq: Ptr<i32>,
}
// SAFETY: GluActParams in kernels/glu_act.cu; the test below compares size and offsets.
unsafe impl Params for GluActParams {}

/// `activation(gate) · up` of what products have written, or an activation without a gate.
///
/// # Errors
/// The driver refuses the launch, or an earlier launch has failed.
///
/// # Safety
/// The contract of [`ops`](crate::ops): the addresses in `p` have the sizes that its fields name.
pub unsafe fn glu_act(stream: &Stream, p: &GluActParams) -> Result<()> {
    assert!(p.out.q.is_null() || p.rows % 32 == 0, "an image of {} elements", p.rows);
    assert!(p.activation == GELU || p.up.is_null() == (p.activation == RELU_SQUARED), "activation {}", p.activation);
    let blocks = (p.rows as u32).div_ceil(GLU_ACT_THREADS * GLU_ACT_ROWS);
    // SAFETY: the kernel takes these parameters (compared by the test below); the caller answers for the rest.
    unsafe { stream.launch("glu_act", Grid::plane(blocks, p.columns as u32, GLU_ACT_THREADS), p) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::twin;

    #[test]
    fn the_kernels_have_the_same() {
        twin::fields!(GluActParams as "glu_act::GluActParams" {
            gate, up, stride, rows, columns, activation, y, y_stride, up_stride, out, seq,
        });
        let [few, wide] = [FEW_BLOCK, WIDE_BLOCK].map(|block| block.map(|n| n as usize));
        twin::constants([
            ("gemm::FEW_COLUMNS", few[1]),
            ("32 * gemm::FEW_WARPS", few[2]),
            ("16 * gemm::WIDE_WARPS", wide[0]),
            ("gemm::WIDE_COLUMNS", wide[1]),
            ("32 * gemm::WIDE_WARPS", wide[2]),
            ("32 * glu_act::WARPS", GLU_ACT_THREADS as usize),
            ("gemm::CHUNK_BLOCKS", SPLIT_BLOCKS as usize),
        ]);
        for (name, tile) in ["Large", "Medium", "Small"].iter().zip(TILES) {
            twin::constants([
                (&*format!("gemm::{name}Tile::ROWS"), tile.rows as usize),
                (&*format!("gemm::{name}Tile::COLUMNS"), tile.columns as usize),
                (&*format!("gemm::{name}Tile::THREADS"), tile.threads as usize),
                (&*format!("gemm::{name}Tile::SHARED_BYTES"), tile.shared as usize),
            ]);
        }
    }

    #[test]
    fn tiles_are_as_large_as_the_card_has_work_for() {
        // Down, o, gate and up of gemma-3-1b, then larger matrices, on an H100 and on a small card.
        let shapes: [(&[i32], i32); 6] = [
            (&[1152], 512),
            (&[1024, 256, 256], 512),
            (&[6912, 6912], 512),
            (&[8192], 512),
            (&[4096], 512),
            (&[1152], 40),
        ];
        let found = shapes.map(|(rows, columns)| {
            let segments: Vec<_> = rows.iter().map(|&rows| Segment { rows, ..Segment::default() }).collect();
            [132, 24].map(|multiprocessors| best(&segments, columns, multiprocessors))
        });
        assert_eq!(found, [[1, 1], [1, 0], [0, 0], [0, 0], [0, 0], [2, 2]]);
    }
}
