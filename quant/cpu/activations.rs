//! Input vectors of matrix products, prepared once and used by every matrix that reads them.

use super::{
    Arithmetic, Isa,
    lanes::{Kernel, Lanes},
    par::{self, Shared},
};

/// Elements that share one scale.
pub(super) const BLOCK: usize = 32;
/// Tokens per panel for few tokens, or few registers.
pub(super) const NARROW: usize = 4;
/// Tokens per panel for 32 registers.
pub(super) const WIDE: usize = 6;

/// `tokens` vectors of `cols` elements.
pub struct Activations {
    pub(super) arithmetic: Arithmetic,
    pub(super) isa: Isa,
    pub(super) tokens: usize,
    pub(super) cols: usize,
    /// `[tokens][stride]`: the vectors in f32, apart from each other.
    f32: Vec<f32>,
    stride: usize,
    /// Set in fast arithmetic when rows are whole blocks.
    pub(super) ints: Ints,
}

/// The same vectors as `d·q` with int8 `q` per block of 32, in panels of `width` tokens: a kernel reads
/// the panel of a block with one pointer. `Σ` are exact sums of `q` over the block or over its halves.
#[derive(Default)]
pub(super) struct Ints {
    /// Tokens per panel; the last panel is filled up with zeros.
    pub(super) width: usize,
    /// `[panel][block][width][32]`.
    q: Vec<i8>,
    /// `[panel][block][width]`: the scale.
    d: Vec<f32>,
    /// `[panel][block][width]`: `−128·Σ`, where the sum of products with offset codes starts.
    bias: Vec<i32>,
    /// `[panel][block][width]`: `d·Σ`, what the minimum of an affine block is multiplied with.
    sum: Vec<f32>,
    /// `[panel][block][2][width]`: `bias` of the two halves.
    half_bias: Vec<i32>,
    /// `[panel][block][2][width]`: `sum` of the two halves.
    half_sum: Vec<f32>,
}

/// Where the parts of one panel start.
#[derive(Clone, Copy)]
pub(super) struct Panel {
    pub(super) q: *const i8,
    pub(super) d: *const f32,
    pub(super) bias: *const i32,
    pub(super) sum: *const f32,
    pub(super) half_bias: *const i32,
    pub(super) half_sum: *const f32,
}

impl Activations {
    /// An empty set of vectors; memory is taken when vectors are set.
    pub fn new(arithmetic: Arithmetic) -> Self {
        Self::with_isa(arithmetic, Isa::best())
    }

    /// As [`Activations::new`], for products that use this instruction set. Panics when the machine
    /// lacks it.
    pub fn with_isa(arithmetic: Arithmetic, isa: Isa) -> Self {
        let isa = isa.checked();
        Self { arithmetic, isa, tokens: 0, cols: 0, f32: Vec::new(), stride: 0, ints: Ints::default() }
    }

    /// Takes `tokens` vectors `x[tokens][cols]`.
    pub fn set(&mut self, x: &[f32], cols: usize) {
        assert!(cols > 0 && x.len().is_multiple_of(cols), "{} elements in vectors of {cols}", x.len());
        (self.tokens, self.cols) = (x.len() / cols, cols);
        // Vectors whose distance is a multiple of 4 KiB would push each other out of the first-level cache.
        self.stride = if cols.is_multiple_of(256) { cols + 16 } else { cols };
        self.f32.resize(self.tokens * self.stride, 0.0);
        let (stride, out) = (self.stride, Shared::new(self.f32.as_mut_ptr()));
        par::for_chunks(self.tokens, 16, |range| {
            for t in range {
                // SAFETY: token t of both, which this chunk alone writes.
                unsafe { std::ptr::copy_nonoverlapping(x[t * cols..].as_ptr(), out.get().add(t * stride), cols) }
            }
        });
        if self.arithmetic == Arithmetic::Fast && cols.is_multiple_of(BLOCK) {
            self.ints.set(self.isa, x, cols);
        }
    }

    /// One vector in f32.
    pub(super) fn token(&self, t: usize) -> &[f32] {
        &self.f32[t * self.stride..][..self.cols]
    }

    /// Number of vectors.
    pub fn tokens(&self) -> usize {
        self.tokens
    }
}

/// Tokens per panel: what the registers of the instruction set can hold.
fn width(isa: Isa, tokens: usize) -> usize {
    match (isa, tokens) {
        (_, 0..=1) => 1,
        (Isa::Avx512Vnni, 5..) => WIDE,
        _ => NARROW,
    }
}

impl Ints {
    fn set(&mut self, isa: Isa, x: &[f32], cols: usize) {
        let tokens = x.len() / cols;
        self.width = width(isa, tokens);
        let (panels, blocks) = (tokens.div_ceil(self.width), cols / BLOCK);
        let n = panels * blocks * self.width;
        self.q.resize(n * BLOCK, 0);
        self.d.resize(n, 0.0);
        self.bias.resize(n, 0);
        self.sum.resize(n, 0.0);
        self.half_bias.resize(2 * n, 0);
        self.half_sum.resize(2 * n, 0.0);
        let (width, out) = (self.width, Shared::new(&raw mut *self));
        par::for_chunks(panels, 1, |range| {
            for panel in range {
                // SAFETY: `isa` was checked; each panel is written by one chunk, inside the vectors
                // that were sized above and that nobody else touches while `self` is borrowed.
                unsafe { isa.run(Quantize { x, cols, width, panel, out: (*out.get()).panel(panel, blocks) }) }
            }
        });
    }

    /// Number of panels for this many tokens.
    pub(super) fn panels(&self, tokens: usize) -> usize {
        tokens.div_ceil(self.width)
    }

    /// Where the parts of a panel lie.
    pub(super) fn panel(&self, panel: usize, blocks: usize) -> Panel {
        let i = panel * blocks * self.width;
        Panel {
            q: self.q[i * BLOCK..].as_ptr(),
            d: self.d[i..].as_ptr(),
            bias: self.bias[i..].as_ptr(),
            sum: self.sum[i..].as_ptr(),
            half_bias: self.half_bias[2 * i..].as_ptr(),
            half_sum: self.half_sum[2 * i..].as_ptr(),
        }
    }
}

/// Quantizes the tokens of one panel.
struct Quantize<'a> {
    x: &'a [f32],
    cols: usize,
    width: usize,
    panel: usize,
    out: Panel,
}

impl Kernel for Quantize<'_> {
    /// # Safety
    /// `out` may be written: `cols / 32` blocks of `width` tokens.
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let Self { x, cols, width, panel, out } = self;
        for t in 0..width {
            let token = panel * width + t;
            let x = x.get(token * cols..(token + 1) * cols);
            for b in 0..cols / BLOCK {
                let (d, q) = match x {
                    Some(x) => quantize(x[b * BLOCK..][..BLOCK].try_into().expect("32 elements")),
                    None => (0.0, [0; BLOCK]),
                };
                let sum = |q: &[i8]| q.iter().map(|&q| i32::from(q)).sum::<i32>();
                let halves = [sum(&q[..16]), sum(&q[16..])];
                let (i, whole) = (b * width + t, halves[0] + halves[1]);
                // SAFETY: b < blocks and t < width.
                unsafe {
                    out.q.cast_mut().cast::<[i8; BLOCK]>().add(i).write(q);
                    out.d.cast_mut().add(i).write(d);
                    out.bias.cast_mut().add(i).write(-128 * whole);
                    out.sum.cast_mut().add(i).write(d * whole as f32);
                    for (h, half) in halves.into_iter().enumerate() {
                        let i = (2 * b + h) * width + t;
                        out.half_bias.cast_mut().add(i).write(-128 * half);
                        out.half_sum.cast_mut().add(i).write(d * half as f32);
                    }
                }
            }
        }
    }
}

/// The scale and the nearest integers, −127…127. A NaN or infinity gives a NaN or infinite scale, so
/// that it is seen in the result.
#[inline(always)]
fn quantize(x: &[f32; BLOCK]) -> (f32, [i8; BLOCK]) {
    // Magnitudes compare like their bits, NaN above all.
    let bits = x.iter().fold(0, |m, v| m.max(v.to_bits() as i32 & i32::MAX));
    let max = f32::from_bits(bits as u32);
    // Below this the scale's inverse would overflow; nothing this small changes a sum.
    if max < 1e-30 {
        return (0.0, [0; BLOCK]);
    }
    // Adding 1.5·2²³ rounds to an integer, ties to even, and leaves it in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let inverse = 127.0 / max;
    (max / 127.0, std::array::from_fn(|i| (x[i] * inverse + ROUND).to_bits() as i8))
}
