//! The products of one tile with one panel of activations, for quantized formats.
//!
//! For one token a tile is unpacked in registers. For more, it is unpacked once into a strip of bytes
//! and f32 scales, and the strip is multiplied with all panels. Both end in [`block`], so that a token
//! gets the same bits alone and in any batch.

use std::marker::PhantomData;

use super::{
    activations::{BLOCK, Panel},
    lanes::{Kernel, Lanes},
    tiles::{Codes, Layout, Line, ROWS, Scale, Scales, Shape, TileFormat},
};

/// Bytes of one line.
const LINE: usize = size_of::<Line>();
/// Lines of one block of a strip: 8 of codes, then up to 4 of scales.
pub(super) const STRIP_LINES: usize = 12;

/// Adds the products of one block of 32 columns to `y`, for `T` tokens.
///
/// Codes and activations meet in exact integer arithmetic; each f32 operation is done per lane, in this
/// order, blocks ascending.
///
/// # Safety
/// The machine can run `L`; `x` is the panel advanced to the block.
#[inline(always)]
unsafe fn block<L: Lanes, S: Shape, const T: usize>(w: &[L::V; 8], s: &Scale<L::F>, x: Panel, y: &mut [L::F; T]) {
    // SAFETY: the caller's promise.
    unsafe {
        for t in 0..T {
            let a = x.q.add(BLOCK * t);
            let dot4 = |start: L::V, h: usize| (4 * h..4 * h + 4).fold(start, |s, j| L::dot(s, w[j], a.add(4 * j)));
            let start = |bias: *const i32, i: usize| L::splat(if S::MIN { 0 } else { *bias.add(i) });
            let p = if S::HALVES {
                let low = L::to_f32(dot4(start(x.half_bias, t), 0));
                let high = L::to_f32(dot4(start(x.half_bias, T + t), 1));
                L::fma(high, s.d[1], L::mul(low, s.d[0]))
            } else {
                L::mul(L::to_f32(dot4(dot4(start(x.bias, t), 0), 1)), s.d[0])
            };
            y[t] = L::fma(p, L::splat_f32(*x.d.add(t)), y[t]);
            if S::MIN && S::HALVES {
                y[t] = L::fma(s.m[0], L::splat_f32(*x.half_sum.add(t)), y[t]);
                y[t] = L::fma(s.m[1], L::splat_f32(*x.half_sum.add(T + t)), y[t]);
            } else if S::MIN {
                y[t] = L::fma(s.m[0], L::splat_f32(*x.sum.add(t)), y[t]);
            }
        }
    }
}

impl Panel {
    /// The panel of `width` tokens, advanced by `b` blocks.
    ///
    /// # Safety
    /// The panel has these blocks.
    #[inline(always)]
    unsafe fn at(self, b: usize, width: usize) -> Self {
        let i = b * width;
        // SAFETY: the caller's promise.
        unsafe {
            Self {
                q: self.q.add(BLOCK * i),
                d: self.d.add(i),
                bias: self.bias.add(i),
                sum: self.sum.add(i),
                half_bias: self.half_bias.add(2 * i),
                half_sum: self.half_sum.add(2 * i),
            }
        }
    }
}

/// A packed tile of `cols` columns.
#[derive(Clone, Copy)]
pub(super) struct Tile<F> {
    bytes: *const u8,
    cols: usize,
    format: PhantomData<F>,
}

impl<F: TileFormat> Tile<F> {
    /// The tile in these lines.
    pub(super) fn new(bytes: &[u8], cols: usize) -> Self {
        assert!(bytes.len() >= Layout::of::<F>(cols).lines * LINE);
        Self { bytes: bytes.as_ptr(), cols, format: PhantomData }
    }

    /// Codes and scales of block `b` for rows `row … row + L::ROWS`.
    ///
    /// # Safety
    /// The machine can run `L`; the tile has the block and the rows.
    #[inline(always)]
    unsafe fn unpack<L: Lanes>(&self, b: usize, row: usize) -> ([L::V; 8], Scale<L::F>) {
        let group = F::Scales::GROUP;
        // SAFETY: the caller's promise; `new` checked that the planes are inside the tile.
        unsafe {
            let scales = self.bytes.add(self.cols / BLOCK * F::Codes::LINES * LINE + b / group * F::Scales::BYTES);
            let codes = self.bytes.add(b * F::Codes::LINES * LINE + 4 * row);
            (F::Codes::unpack::<L>(codes), F::Scales::load::<L>(scales, row, b % group, F::Codes::UNIT))
        }
    }
}

/// Tile × one token.
pub(super) struct Gemv<'a, F> {
    /// The weights.
    pub(super) tile: Tile<F>,
    /// A panel of width 1.
    pub(super) x: Panel,
    /// One sum per row.
    pub(super) y: &'a mut [f32; ROWS],
}

impl<F: TileFormat> Kernel for Gemv<'_, F> {
    /// # Safety
    /// The panel has as many blocks as the tile.
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        for row in (0..ROWS).step_by(L::ROWS) {
            // SAFETY: the machine can run `L`; blocks and rows are inside tile and panel.
            unsafe {
                let mut y = [L::splat_f32(0.0)];
                for b in 0..self.tile.cols / BLOCK {
                    let (w, s) = self.tile.unpack::<L>(b, row);
                    block::<L, <F::Scales as Scales>::Shape, 1>(&w, &s, self.x.at(b, 1), &mut y);
                }
                L::store_f32(y[0], self.y.as_mut_ptr().add(row));
            }
        }
    }
}

/// Unpacks a tile into a strip.
pub(super) struct Expand<'a, F> {
    /// The weights.
    pub(super) tile: Tile<F>,
    /// [`STRIP_LINES`] per block.
    pub(super) strip: &'a mut [Line],
}

impl<F: TileFormat> Kernel for Expand<'_, F> {
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        for (b, lines) in self.strip.chunks_exact_mut(STRIP_LINES).enumerate().take(self.tile.cols / BLOCK) {
            let (codes, scales) = lines.split_at_mut(8);
            for row in (0..ROWS).step_by(L::ROWS) {
                // SAFETY: the machine can run `L`; row + L::ROWS ≤ 16 lanes of each line.
                unsafe {
                    let (w, s) = self.tile.unpack::<L>(b, row);
                    for (w, line) in w.into_iter().zip(&mut *codes) {
                        L::store(w, line.0.as_mut_ptr().add(row).cast());
                    }
                    for (s, line) in [s.d[0], s.d[1], s.m[0], s.m[1]].into_iter().zip(&mut *scales) {
                        L::store_f32(s, line.0.as_mut_ptr().add(row).cast());
                    }
                }
            }
        }
    }
}

/// Strip × one panel of `T` tokens.
pub(super) struct Gemm<'a, S, const T: usize> {
    /// What the scales of the strip are.
    pub(super) shape: PhantomData<S>,
    /// The weights.
    pub(super) strip: &'a [Line],
    /// A panel of width `T`.
    pub(super) x: Panel,
    /// Sums by token and row.
    pub(super) y: &'a mut [[f32; ROWS]; T],
}

impl<S: Shape, const T: usize> Kernel for Gemm<'_, S, T> {
    /// # Safety
    /// The panel has as many blocks as the strip.
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        for row in (0..ROWS).step_by(L::ROWS) {
            // SAFETY: the machine can run `L`; row + L::ROWS ≤ 16 lanes of each line, and the panel has
            // as many blocks as the strip.
            unsafe {
                let mut y = [L::splat_f32(0.0); T];
                for b in 0..self.strip.len() / STRIP_LINES {
                    let line = |i: usize| self.strip.as_ptr().add(b * STRIP_LINES + i).cast::<[u8; 4]>().add(row);
                    let w: [L::V; 8] = std::array::from_fn(|j| L::load(line(j).cast()));
                    let scale = |i: usize| L::load_f32(line(8 + i).cast());
                    let s = Scale { d: [scale(0), scale(1)], m: [scale(2), scale(3)] };
                    block::<L, S, T>(&w, &s, self.x.at(b, T), &mut y);
                }
                for t in 0..T {
                    L::store_f32(y[t], self.y[t].as_mut_ptr().add(row));
                }
            }
        }
    }
}
