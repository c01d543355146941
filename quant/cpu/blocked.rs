//! ComputeType with many tokens: some columns of some tiles are unpacked into strips, and the strips are
//! multiplied with all panels of tokens while they are in the caches.

use std::{marker::PhantomData, ops::Range};

use super::{
    Activations, Isa, Matrix,
    activations::{BLOCK, NARROW, WIDE},
    floats::{self, Dots, Spread},
    kernels::{Expand, Gemm, Tile, strip_lines},
    tiles::{Line, ROWS, ShapeOf, TileFormat},
};

/// Memory that a thread works in.
#[derive(Default)]
pub(super) struct Scratch {
    /// A packed tile.
    pub(super) tile: Vec<Line>,
    /// An f32 row.
    pub(super) row: Vec<f32>,
    strips: Vec<Line>,
    /// `[group of tiles][panel][tile][token]`: the products with the strips that there have been.
    sums: Vec<[f32; ROWS]>,
}

/// How weights are unpacked and multiplied. A unit is what is unpacked together.
pub(super) trait Method {
    /// Lines of one unit of a tile in a strip.
    const LINES: usize;
    /// Most tiles whose strips lie side by side.
    const TILES: usize;
    /// Units in a row, and in a strip.
    fn units(cols: usize) -> (usize, usize);
    /// Unpacks units of a tile.
    fn unpack(isa: Isa, w: &Matrix, tile: usize, units: Range<usize>, to: (&mut [Line], &mut Vec<Line>));
    /// Adds the products of strips with the same units of a panel to `sums[tile][token]`.
    fn multiply(x: &Activations, panel: usize, strips: &Strips, sums: &mut [[f32; ROWS]]);
}

/// Unpacked units of some tiles.
pub(super) struct Strips<'a> {
    pub(super) units: Range<usize>,
    /// The strips of the tiles, one after the other.
    lines: &'a [Line],
    pub(super) tiles: usize,
}

impl Strips<'_> {
    /// The strip of one tile.
    pub(super) fn of(&self, tile: usize) -> &[Line] {
        let n = self.lines.len() / self.tiles;
        &self.lines[tile * n..][..n]
    }
}

/// Multiplies tiles with all tokens; `write(token, tile, sums)` takes the outputs.
pub(super) fn multiply<M: Method>(
    x: &Activations,
    w: &Matrix,
    tiles: Range<usize>,
    scratch: &mut Scratch,
    write: impl Fn(usize, usize, &[f32; ROWS]),
) {
    let (units, strip) = M::units(x.cols);
    let (at_once, panels) = (M::TILES, x.panels());
    let of_panel = at_once * x.width;
    let sums = tiles.len().div_ceil(at_once) * panels * of_panel;
    scratch.sums.resize(scratch.sums.len().max(sums), [0.0; ROWS]);
    scratch.strips.resize(scratch.strips.len().max(at_once * strip * M::LINES), Line::ZERO);
    for first in (0..units).step_by(strip) {
        let units = first..(first + strip).min(units);
        let lines = units.len() * M::LINES;
        let groups = scratch.sums.chunks_exact_mut(panels * of_panel);
        for (tile, sums) in tiles.clone().step_by(at_once).zip(groups) {
            let n = at_once.min(tiles.end - tile);
            for (i, strip) in scratch.strips.chunks_exact_mut(lines).take(n).enumerate() {
                M::unpack(x.isa, w, tile + i, units.clone(), (strip, &mut scratch.tile));
            }
            let strips = Strips { units: units.clone(), lines: &scratch.strips[..n * lines], tiles: n };
            for (panel, sums) in sums.chunks_exact_mut(of_panel).enumerate() {
                if first == 0 {
                    sums.fill([0.0; ROWS]);
                }
                M::multiply(x, panel, &strips, sums);
            }
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

/// Formats with tiles: blocks of 32 columns, integer products.
pub(super) struct Quantized<F>(PhantomData<F>);

/// Tiles that are multiplied at once: each activation is loaded once for all of them.
pub(super) const TILES: usize = 2;
/// Most blocks of a strip: two strips and the same columns of a panel fit the first-level cache.
const STRIP: usize = 32;

impl<F: TileFormat> Method for Quantized<F> {
    const LINES: usize = strip_lines::<ShapeOf<F>>();
    const TILES: usize = TILES;

    fn units(cols: usize) -> (usize, usize) {
        let blocks = cols / BLOCK;
        (blocks, blocks.div_ceil(blocks.div_ceil(STRIP)))
    }

    fn unpack(isa: Isa, w: &Matrix, tile: usize, blocks: Range<usize>, (strip, packed): (&mut [Line], &mut Vec<Line>)) {
        let tile = Tile::<F>::new(w.tile(tile, packed), w.cols());
        // SAFETY: the instruction set was checked when the activations were made.
        unsafe { isa.run(Expand { tile, blocks, strip }) };
    }

    fn multiply(x: &Activations, panel: usize, strips: &Strips, sums: &mut [[f32; ROWS]]) {
        match (x.width, strips.tiles) {
            (WIDE, TILES) => gemm::<F, TILES, WIDE>(x, panel, strips, sums),
            (WIDE, _) => gemm::<F, 1, WIDE>(x, panel, strips, sums),
            (_, TILES) => gemm::<F, TILES, NARROW>(x, panel, strips, sums),
            (_, _) => gemm::<F, 1, NARROW>(x, panel, strips, sums),
        }
    }
}

fn gemm<F: TileFormat, const R: usize, const T: usize>(
    x: &Activations,
    panel: usize,
    strips: &Strips,
    sums: &mut [[f32; ROWS]],
) {
    assert!(x.width == T && strips.tiles == R);
    // SAFETY: the instruction set was checked when the activations were made; the panel has width `T` and,
    // as the tiles, `cols` columns: the blocks of the strips are blocks of it.
    unsafe {
        let x_strip = x.ints.panel(panel, (x.cols / BLOCK, T)).at(strips.units.start, T);
        let strips = std::array::from_fn(|r| strips.of(r));
        x.isa.run(Gemm::<ShapeOf<F>, R, T> { shape: PhantomData, strips, x: x_strip, y: sums });
    }
}

/// F32: steps of 16 columns, products in f32.
pub(super) struct Floats;

/// Tiles of floats for which the activations are read again.
const FLOAT_TILES: usize = 8;

impl Method for Floats {
    const LINES: usize = ROWS;
    const TILES: usize = FLOAT_TILES;

    fn units(cols: usize) -> (usize, usize) {
        let steps = floats::steps(cols);
        (steps, floats::strip(steps))
    }

    fn unpack(isa: Isa, w: &Matrix, tile: usize, steps: Range<usize>, (strip, _): (&mut [Line], &mut Vec<Line>)) {
        let (rows, cols) = (w.tile_rows(tile), w.cols());
        // SAFETY: the instruction set was checked when the activations were made.
        unsafe {
            match isa {
                Isa::Avx512Vnni => isa.run(Spread::<4> { rows, cols, steps, strip }),
                _ => isa.run(Spread::<2> { rows, cols, steps, strip }),
            }
        }
    }

    fn multiply(x: &Activations, panel: usize, strips: &Strips, sums: &mut [[f32; ROWS]]) {
        let columns = x.floats(panel, strips.units.clone());
        for (tile, y) in sums.chunks_exact_mut(x.width).take(strips.tiles).enumerate() {
            let (w, x_strip) = (strips.of(tile), columns);
            // SAFETY: as above.
            unsafe {
                match (x.isa, x.width) {
                    (Isa::Avx512Vnni, WIDE) => x.isa.run(Dots::<4, WIDE> { w, x: x_strip, y }),
                    (Isa::Avx512Vnni, _) => x.isa.run(Dots::<4, NARROW> { w, x: x_strip, y }),
                    _ => x.isa.run(Dots::<2, NARROW> { w, x: x_strip, y }),
                }
            }
        }
    }
}
