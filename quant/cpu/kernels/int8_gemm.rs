//! Int8 products of many tokens, for quantized formats: tiles are unpacked once into packed panels of codes and f32
//! scales, which are multiplied with all panels of tokens. Codes are bytes, or integers of 16 bits where that is faster.

use std::{marker::PhantomData, ops::Range};

#[cfg(target_arch = "x86_64")]
use super::amx::{self, BlockSums, TileBlock, each_token};
use super::{
    int8::{add_quad, add_short, finish, offset, start},
    int8_matrices,
    micro::{self, At, IntegerBlock, MicroKernel, PackedPanels},
    source::{FileRows, Source, Tile},
};
#[cfg(target_arch = "x86_64")]
use crate::{
    cpu::layout::{OFFSET, TILE},
    simd::amx as tile,
};
use crate::{
    cpu::{
        Activations, ComputeType, Matrix,
        activations::int8::Panel,
        layout::{BLOCK, Line, ROWS},
        matrix::TileBytes,
        packing::TileScratch,
        tiles::{Block, FileBlocks, Scale, Shape, ShapeOf, TileFormat, file::each_block, is_wide},
        tuning::Tuning,
    },
    simd::{Isa, LaneKernel, Lanes},
};

/// Formats with tiles: blocks of 32 columns, integer products.
pub(in crate::cpu) struct Int8<F>(PhantomData<F>);

impl<F: TileFormat> MicroKernel for Int8<F> {
    const PRODUCTS: ComputeType = ComputeType::Int8;

    fn lines(isa: Isa) -> usize {
        struct Lines<'a, S>(&'a mut usize, PhantomData<S>);
        impl<S: Shape> LaneKernel for Lines<'_, S> {
            #[inline(always)]
            unsafe fn run<L: Lanes>(self) {
                *self.0 = packed_lines::<L, S>();
            }
        }
        let mut lines = 0;
        // SAFETY: the instruction set was checked when the activations were made.
        unsafe { isa.run(Lines::<ShapeOf<F>>(&mut lines, PhantomData)) };
        lines
    }

    fn tiles(tuning: &Tuning) -> usize {
        tuning.tiles
    }

    fn k_blocks(x: &Activations) -> (usize, usize) {
        let pairs = is_wide::<ShapeOf<F>>(x.isa);
        (x.cols / BLOCK, if pairs { x.tuning.pair_blocks } else { x.tuning.byte_blocks })
    }

    fn pack(
        isa: Isa,
        w: &Matrix,
        tile: usize,
        blocks: Range<usize>,
        (packed, unpacked): (&mut [Line], &mut TileScratch),
    ) {
        match w.tile(tile, unpacked) {
            TileBytes::Packed(bytes) => {
                expand(isa, Tile::<F>::new(bytes, w.cols(), 1, Tuning::of(isa).ahead(w.ty())), blocks, packed)
            }
            TileBytes::File(rows) if F::File::READ => expand(isa, FileRows::<F>::new(rows, w.cols()), blocks, packed),
            TileBytes::File(_) => unreachable!("{} is packed first", w.ty()),
        }
    }

    fn multiply(x: &Activations, weights: &PackedPanels, sums: &mut [[f32; ROWS]]) {
        let in_row = x.cols / BLOCK;
        let width = x.width_of(ComputeType::Int8);
        // SAFETY: the panels have, as the rows, `cols` columns: the blocks of the weights are blocks of them. `Activations::set` has
        // made `q` for many tokens, and for weights of a type that multiplies pairs these.
        unsafe {
            let first = x.int8.panel(0, (in_row, width)).at(weights.k_blocks.start, width);
            match x.isa {
                #[cfg(target_arch = "x86_64")]
                Isa::Amx => amx::multiply::<Products<ShapeOf<F>>>(x, weights, (first, in_row), sums),
                _ => micro::multiply::<Products<ShapeOf<F>>>(x, weights, (first, in_row), sums),
            }
        }
    }
}

fn expand(isa: Isa, w: impl Source, blocks: Range<usize>, packed: &mut [Line]) {
    // SAFETY: the instruction set was checked when the activations were made.
    unsafe { isa.run(Expand { w, blocks, packed, signed: isa == Isa::Amx }) };
}

/// Unpacks some blocks of 16 rows into packed lines.
struct Expand<'a, S> {
    w: S,
    blocks: Range<usize>,
    /// [`packed_lines`] per block.
    packed: &'a mut [Line],
    /// Whether codes without minimums are signed, as tiles of AMX multiply them, not offset by 128.
    signed: bool,
}

/// Lines of one packed block: codes, then f32 scales, then minimums.
fn packed_lines<L: Lanes, S: Shape>() -> usize {
    if L::MATRICES {
        return int8_matrices::packed_lines::<S>();
    }
    code_lines(S::is_wide::<L>()) + S::PARTS * if S::MIN { 2 } else { 1 }
}

/// Of four columns or, where codes are wide, of two.
fn code_lines(is_wide: bool) -> usize {
    if is_wide { 16 } else { 8 }
}

/// The even columns of a quad, in the lower halves of words.
const EVEN: u32 = 0x00ff_00ff;

impl<S: Source> LaneKernel for Expand<'_, S> {
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let lines = packed_lines::<L, ShapeOf<S::Format>>();
        assert!(self.packed.len() >= self.blocks.len() * lines && self.blocks.end <= self.w.blocks());
        let (packed, first) = (self.packed.as_mut_ptr(), self.blocks.start);
        let of_group = S::GROUP / S::RUN;
        let signs = if self.signed && !ShapeOf::<S::Format>::MIN { 0x8080_8080 } else { 0 };
        for row in (0..ROWS).step_by(L::ROWS) {
            // SAFETY: the machine can run `L`; `row + L::ROWS ≤ 16`, and the rows have the blocks, whole groups of them.
            unsafe {
                let runs = self.blocks.start / S::RUN..self.blocks.end.div_ceil(S::RUN);
                let mut header = self.w.header::<L>(runs.start / of_group, row);
                for run in runs.clone() {
                    let (group, of_it) = (run / of_group, run % of_group);
                    if of_it == 0 && run > runs.start {
                        header = self.w.header::<L>(group, row);
                    }
                    let words = self.w.words::<L>(group, of_it, row);
                    each_block!(S::RUN, B => {
                        let b = run * S::RUN + B;
                        if self.blocks.contains(&b) {
                            self.w.prefetch(b, row, L::ROWS);
                            let w = S::block::<L, B>(&header, &words, of_it);
                            let to = packed.add((b - first) * lines).cast::<u8>().add(4 * row);
                            store::<L, ShapeOf<S::Format>>(&w, signs, to);
                        }
                    });
                }
            }
        }
    }
}

/// Writes rows of a packed block, with these bits of the codes turned.
///
/// # Safety
/// The machine can run `L`; the rows are in lines of their own.
#[inline(always)]
unsafe fn store<L: Lanes, S: Shape>(w: &Block<L>, signs: u32, to: *mut u8) {
    if L::MATRICES {
        // SAFETY: that of this function.
        return unsafe { int8_matrices::store::<L, S>(w, to) };
    }
    let line = |i: usize| to.wrapping_add(i * Line::BYTES);
    // SAFETY: that of this function.
    unsafe {
        for j in 0..8 {
            if S::is_wide::<L>() {
                L::store(L::and(w.codes[j], EVEN), line(2 * j));
                L::store(L::and(L::shr(w.codes[j], 8), EVEN), line(2 * j + 1));
            } else {
                L::store(if signs == 0 { w.codes[j] } else { L::xor(w.codes[j], signs) }, line(j));
            }
        }
        let scales = code_lines(S::is_wide::<L>());
        for part in 0..S::PARTS {
            L::store_f32(w.scale.d[part], line(scales + part).cast());
            if S::MIN {
                L::store_f32(w.scale.m[part], line(scales + S::PARTS + part).cast());
            }
        }
    }
}

impl At for Panel {
    #[inline(always)]
    unsafe fn at(self, b: usize, width: usize) -> Self {
        // SAFETY: that of this function.
        unsafe { Panel::at(self, b, width) }
    }
}

/// Products of packed blocks with such scales.
struct Products<S>(PhantomData<S>);

impl<S: Shape> IntegerBlock for Products<S> {
    type Activations = Panel;

    #[inline(always)]
    fn lines<L: Lanes>() -> usize {
        packed_lines::<L, S>()
    }

    #[inline(always)]
    fn in_turns<L: Lanes>() -> bool {
        L::MATRICES
    }

    #[inline(always)]
    unsafe fn multiply<L: Lanes, const N: usize, const T: usize>(w: &[*const u8; N], x: Panel, y: &mut [[L::F; N]; T]) {
        // SAFETY: that of this function.
        unsafe {
            multiply_part::<L, S, 0, N, T>(w, x, y);
            if S::PARTS == 2 {
                multiply_part::<L, S, 1, N, T>(w, x, y);
            }
        }
    }
}

/// The part of a block that has scales of its own.
///
/// # Safety
/// As [`IntegerBlock::multiply`]; where codes are wide the panel has `pairs`.
#[inline(always)]
unsafe fn multiply_part<L: Lanes, S: Shape, const PART: usize, const N: usize, const T: usize>(
    w: &[*const u8; N],
    x: Panel,
    y: &mut [[L::F; N]; T],
) {
    if L::MATRICES {
        // SAFETY: that of this function.
        return unsafe { int8_matrices::multiply_part::<L, S, PART, N, T>(w, x, y) };
    }
    let is_wide = S::is_wide::<L>();
    // SAFETY: the machine can run `L`; the block has these lines, and `x` is the panel of tokens at it.
    unsafe {
        let line = |i: usize, line: usize| w[i].add(line * Line::BYTES);
        let mut sums = [[L::splat(0); N]; T];
        if !S::is_short::<L>() {
            for t in 0..T {
                sums[t] = [start::<L, S>(x, T, PART, t, is_wide); N];
            }
        }
        for group in 0..S::groups() {
            let mut short = [[L::splat(0); N]; T];
            for j in S::quads(PART, group) {
                for half in 0..if is_wide { 2 } else { 1 } {
                    let mut codes = [L::splat(0); N];
                    for i in 0..N {
                        codes[i] = L::load(line(i, if is_wide { 2 * j + half } else { j }));
                    }
                    for t in 0..T {
                        for i in 0..N {
                            if is_wide {
                                let a = x.pairs.add(BLOCK * t + 4 * j + 2 * half);
                                sums[t][i] = L::dot_pairs(sums[t][i], codes[i], a);
                            } else {
                                let (is_first, a) = (j == S::quads(PART, group).start, x.q.add(BLOCK * t + 4 * j));
                                add_quad::<L, S>(&mut sums[t][i], &mut short[t][i], is_first, (codes[i], a));
                            }
                        }
                    }
                }
            }
            for t in 0..T {
                // Not before they are needed: registers are few.
                if S::is_short::<L>() && group == 0 {
                    sums[t] = [start::<L, S>(x, T, PART, t, is_wide); N];
                }
                for i in 0..N {
                    sums[t][i] = add_short::<L, S>(sums[t][i], short[t][i]);
                }
            }
        }
        let scales = code_lines(is_wide);
        for i in 0..N {
            let d = L::load_f32(line(i, scales + PART).cast());
            let m = if S::MIN { L::load_f32(line(i, scales + S::PARTS + PART).cast()) } else { d };
            let (scale, offset) = (Scale { d: [d; 2], m: [m; 2] }, offset::<L>(d));
            for t in 0..T {
                y[t][i] = finish::<L, S>(sums[t][i], (&scale, offset), x, (T, PART, t), y[t][i]);
            }
        }
    }
}

/// Codes are unsigned in formats with minimums, signed in others.
#[cfg(target_arch = "x86_64")]
impl<S: Shape> TileBlock for Products<S> {
    const COLUMNS: usize = BLOCK / S::PARTS;

    #[inline(always)]
    unsafe fn multiply_tiles<const EVEN: bool>(w: *const u8, x: Panel, sums: &mut BlockSums) {
        // SAFETY: that of this function: a half of a block is four lines, and 16 columns of each token.
        unsafe {
            match (S::PARTS, EVEN) {
                (1, false) => Self::multiply_part::<1, 4, 6>(w, x.q, &mut sums[0]),
                _ => Self::multiply_part::<0, 3, 5>(w, x.q, &mut sums[0]),
            }
            if S::PARTS == 2 {
                Self::multiply_part::<1, 4, 6>(w.add(4 * Line::BYTES), x.q.add(BLOCK / 2), &mut sums[1]);
            }
        }
    }

    #[inline(always)]
    unsafe fn finish<L: Lanes>(w: *const u8, x: Panel, sums: &BlockSums, y: &mut [L::F; TILE]) {
        // SAFETY: that of this function; behind the codes are scales, then minimums.
        unsafe {
            let line = |i: usize| w.add((8 + i) * Line::BYTES).cast();
            for part in 0..S::PARTS {
                let d = L::load_f32(line(part));
                let m = if S::MIN { L::load_f32(line(S::PARTS + part)) } else { d };
                let (scale, offset) = (Scale { d: [d; 2], m: [m; 2] }, offset::<L>(d));
                each_token!(T => {
                    let sum = L::add(L::load(sums[part].0[T].as_ptr().cast()), OFFSET);
                    y[T] = finish::<L, S>(sum, (&scale, offset), x, (TILE, part, T), y[T]);
                });
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl<S: Shape> Products<S> {
    /// The sums of a part of a block, in these registers.
    ///
    /// # Safety
    /// There are [`Tiles`]; `w` and `q` point to the part.
    #[inline(always)]
    unsafe fn multiply_part<const C: u8, const A: u8, const B: u8>(w: *const u8, q: *const i8, sums: &mut tile::Sums) {
        // SAFETY: that of this function.
        unsafe {
            tile::zero::<C>();
            tile::load::<A>(q.cast(), BLOCK);
            tile::load::<B>(w, Line::BYTES);
            if S::MIN {
                tile::dot_unsigned::<C, A, B>()
            } else {
                tile::dot_signed::<C, A, B>()
            }
            tile::store::<C>(sums);
        }
    }
}
