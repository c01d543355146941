//! Input vectors of matrix products, prepared once for all matrices of a call.

use std::ops::Range;

use super::{
    Arithmetic, Isa,
    fixed::Fixed,
    floats,
    kernels::OFFSET,
    lanes::{Kernel, Lanes},
    par::{self, Shared},
    tiles::Line,
};
use crate::GgmlType;

/// Elements that share one scale.
pub(super) const BLOCK: usize = 32;
/// Tokens per panel for few tokens, or few registers.
pub(super) const NARROW: usize = 4;
/// Tokens per panel for 32 registers.
pub(super) const WIDE: usize = 6;
/// Most tokens that are few. The same for all instruction sets, as it decides what a product rounds.
const FEW: usize = 12;

/// What fast arithmetic multiplies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComputeType {
    /// f32.
    Float,
    /// 16-bit integers: fixed point.
    Int16,
    /// 8-bit integers.
    Int8,
}

impl ComputeType {
    /// With weights of this type and so many vectors at once.
    pub fn of(ty: GgmlType, tokens: usize) -> Self {
        match ty {
            GgmlType::F16 | GgmlType::BF16 if tokens > FEW => Self::Int16,
            _ if ty.format().block == 1 => Self::Float,
            _ => Self::Int8,
        }
    }
}

/// Input vectors of products, in the forms in which their weights take them. Only memory: what a product
/// puts here it uses itself, and the next one takes the place.
pub struct Activations {
    pub(super) arithmetic: Arithmetic,
    pub(super) isa: Isa,
    pub(super) tokens: usize,
    pub(super) cols: usize,
    /// Tokens per panel; the last panel is filled up with zeros.
    pub(super) width: usize,
    /// `[tokens][cols]`: set in exact arithmetic.
    plain: Vec<f32>,
    /// `[panel][step][width]` lines of 16 columns: set for weights in floats that are multiplied as they are.
    floats: Vec<Line>,
    /// Set for weights in floats that are multiplied in fixed point.
    pub(super) fixed: Fixed,
    /// Set for quantized weights.
    pub(super) ints: Ints,
}

/// The vectors as `d·q` with int8 `q` per block of 32, in panels of `width` tokens: a kernel reads the panel
/// of a block with one pointer. `Σ` are exact sums of `q` over the block or over its halves.
#[derive(Default)]
pub(super) struct Ints {
    /// `[panel][block][width][32]`.
    q: Vec<i8>,
    /// `[panel][block][width]`: the scale.
    d: Vec<f32>,
    /// `[panel][block][width]`: [`OFFSET`]` − 128·Σ`, where the sum of products with offset codes starts.
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

// SAFETY: these are pointers only; whoever follows them promises that nobody else writes there.
unsafe impl Send for Panel {}
// SAFETY: as above.
unsafe impl Sync for Panel {}

impl Activations {
    /// An empty set of vectors; memory is taken when vectors are set.
    pub fn new(arithmetic: Arithmetic) -> Self {
        Self::with_isa(arithmetic, Isa::best())
    }

    /// As [`Activations::new`], for products that use this instruction set. Panics when the machine
    /// lacks it.
    pub fn with_isa(arithmetic: Arithmetic, isa: Isa) -> Self {
        let isa = isa.checked();
        let (plain, floats, fixed, ints) = (Vec::new(), Vec::new(), Fixed::default(), Ints::default());
        Self { arithmetic, isa, tokens: 0, cols: 0, width: 0, plain, floats, fixed, ints }
    }

    /// Takes vectors `x[tokens][cols]` for products with weights of these types.
    pub(super) fn set(&mut self, x: &[f32], cols: usize, types: impl Iterator<Item = GgmlType>) {
        assert!(cols > 0 && x.len().is_multiple_of(cols), "{} elements in vectors of {cols}", x.len());
        (self.tokens, self.cols) = (x.len() / cols, cols);
        self.width = width(self.isa, self.tokens);
        if self.arithmetic == Arithmetic::Exact {
            self.plain.clear();
            self.plain.extend_from_slice(x);
            return;
        }
        let (mut floats, mut fixed, mut ints) = (false, false, false);
        types.for_each(|ty| match ComputeType::of(ty, self.tokens) {
            ComputeType::Float => floats = true,
            ComputeType::Int16 => fixed = true,
            ComputeType::Int8 => ints = true,
        });
        if floats {
            self.set_floats(x);
        }
        if fixed {
            self.fixed.set(self.isa, x, (cols, self.width));
        }
        if ints {
            self.ints.set(self.isa, x, (cols, self.width));
        }
    }

    fn set_floats(&mut self, x: &[f32]) {
        let (steps, width) = (floats::steps(self.cols), self.width);
        let panels = self.tokens.div_ceil(width);
        self.floats.resize(panels * steps * width, Line::ZERO);
        let out = Shared::new(self.floats.as_mut_ptr());
        par::for_chunks(panels, 1, |range| {
            for panel in range {
                // SAFETY: the panel's lines, which this chunk alone writes.
                let lines =
                    unsafe { std::slice::from_raw_parts_mut(out.get().add(panel * steps * width), steps * width) };
                let tokens: [&[f32]; WIDE] = std::array::from_fn(|t| {
                    let token = (panel * width + t) * self.cols;
                    x.get(token..token + self.cols).unwrap_or(&[])
                });
                // Panels in the order in which they are read. Tokens that are not there stay zero.
                for (step, lines) in lines.chunks_exact_mut(width).enumerate() {
                    for (x, line) in tokens.iter().zip(lines) {
                        let whole = x.as_chunks::<{ floats::LANES }>().0.get(step);
                        *line = Line(whole.copied().unwrap_or_default().map(f32::to_ne_bytes));
                    }
                }
                let Some(last) = lines.chunks_exact_mut(width).next_back() else { continue };
                for (x, line) in tokens.iter().zip(last) {
                    for (x, bytes) in x.as_chunks::<{ floats::LANES }>().1.iter().zip(&mut line.0) {
                        *bytes = x.to_ne_bytes();
                    }
                }
            }
        });
    }

    /// One vector in f32, in exact arithmetic.
    pub(super) fn token(&self, t: usize) -> &[f32] {
        &self.plain[t * self.cols..][..self.cols]
    }

    /// Some steps of a panel, `[step][width]`.
    pub(super) fn floats(&self, panel: usize, steps: Range<usize>) -> &[Line] {
        let start = panel * floats::steps(self.cols);
        &self.floats[(start + steps.start) * self.width..(start + steps.end) * self.width]
    }

    /// Whether weights in floats are multiplied as they lie in the file: unpacking them would cost more than
    /// the products.
    pub(super) fn few(&self) -> bool {
        self.tokens <= FEW
    }

    /// Number of panels.
    pub(super) fn panels(&self) -> usize {
        self.tokens.div_ceil(self.width)
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
    fn set(&mut self, isa: Isa, x: &[f32], (cols, width): (usize, usize)) {
        let (panels, blocks) = ((x.len() / cols).div_ceil(width), cols / BLOCK);
        let n = panels * blocks * width;
        self.q.resize(n * BLOCK, 0);
        self.d.resize(n, 0.0);
        self.bias.resize(n, 0);
        self.sum.resize(n, 0.0);
        self.half_bias.resize(2 * n, 0);
        self.half_sum.resize(2 * n, 0.0);
        let out = Panel {
            q: self.q.as_mut_ptr(),
            d: self.d.as_mut_ptr(),
            bias: self.bias.as_mut_ptr(),
            sum: self.sum.as_mut_ptr(),
            half_bias: self.half_bias.as_mut_ptr(),
            half_sum: self.half_sum.as_mut_ptr(),
        };
        par::for_chunks(panels, 1, |range| {
            for panel in range {
                // SAFETY: `isa` was checked; each panel is written by one chunk, inside the vectors that
                // were sized above and that nobody else touches while `self` is borrowed.
                unsafe {
                    let out = out.at(panel * blocks, width);
                    isa.run(Quantize { x, cols, width, panel, out });
                }
            }
        });
    }

    /// Where the parts of a panel lie.
    pub(super) fn panel(&self, panel: usize, (blocks, width): (usize, usize)) -> Panel {
        let i = panel * blocks * width;
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
                    Some(x) => quantize(x[b * BLOCK..][..BLOCK].try_into().expect("32 elements"), 127.0),
                    None => (0.0, [0; BLOCK]),
                };
                let q = q.map(|bits| bits as i8);
                let sum = |q: &[i8]| q.iter().map(|&q| i32::from(q)).sum::<i32>();
                let halves = [sum(&q[..16]), sum(&q[16..])];
                let (i, whole) = (b * width + t, halves[0] + halves[1]);
                // SAFETY: b < blocks and t < width.
                unsafe {
                    out.q.cast_mut().cast::<[i8; BLOCK]>().add(i).write(q);
                    out.d.cast_mut().add(i).write(d);
                    out.bias.cast_mut().add(i).write(OFFSET - 128 * whole);
                    out.sum.cast_mut().add(i).write(d * whole as f32);
                    for (h, half) in halves.into_iter().enumerate() {
                        let i = (2 * b + h) * width + t;
                        out.half_bias.cast_mut().add(i).write(OFFSET - 128 * half);
                        out.half_sum.cast_mut().add(i).write(d * half as f32);
                    }
                }
            }
        }
    }
}

/// The scale and the bits of floats whose low ones are the nearest integers, at most ± `levels` (below 2²²). A NaN
/// or infinity gives a NaN or infinite scale, so that it is seen in the result.
#[inline(always)]
pub(super) fn quantize(x: &[f32; BLOCK], levels: f32) -> (f32, [u32; BLOCK]) {
    // Magnitudes compare like their bits, NaN above all.
    let bits = x.iter().fold(0, |m, v| m.max(v.to_bits() as i32 & i32::MAX));
    let max = f32::from_bits(bits as u32);
    // Below this the scale's inverse would overflow; nothing this small changes a sum.
    if max < 1e-30 {
        return (0.0, [0; BLOCK]);
    }
    let inverse = levels / max;
    (max / levels, std::array::from_fn(|i| (x[i] * inverse + ROUND).to_bits()))
}

/// Adding 1.5·2²³ rounds to an integer, ties to even, and leaves it in the low bits.
pub(super) const ROUND: f32 = 12_582_912.0;
