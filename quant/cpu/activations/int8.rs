//! Vectors in int8, for quantized weights.

use super::quantize::quantize;
use crate::{
    cpu::{
        layout::{BLOCK, OFFSET},
        par,
    },
    simd::{Isa, LaneKernel, Lanes},
};

/// The vectors as `d·q` with int8 `q` per block of 32, in panels of `width` tokens: a kernel reads the panel
/// of a block with one pointer. `Σ` are exact sums of `q` over the block or over its halves.
#[derive(Default)]
pub(in crate::cpu) struct Int8Panels {
    /// `[panel][block][width][32]`; of many tokens where products are made of matrices, eight columns of two tokens side by side:
    /// `[panel][block][width/2][4][2][8]`.
    q: Vec<i8>,
    /// `[panel][block][width][32]`: the same in 16 bits, of four columns the first and the third before the others; where products
    /// are made of pairs.
    pairs: Vec<i16>,
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
pub(in crate::cpu) struct Panel {
    pub(in crate::cpu) q: *const i8,
    pub(in crate::cpu) pairs: *const i16,
    pub(in crate::cpu) d: *const f32,
    pub(in crate::cpu) bias: *const i32,
    pub(in crate::cpu) sum: *const f32,
    pub(in crate::cpu) half_bias: *const i32,
    pub(in crate::cpu) half_sum: *const f32,
}

// SAFETY: these are pointers only; whoever follows them promises that nobody else writes there.
unsafe impl Send for Panel {}
// SAFETY: a shared `Panel` gives the same pointers, under the same promise.
unsafe impl Sync for Panel {}

impl Panel {
    /// The panel of `width` tokens, advanced by `b` blocks.
    ///
    /// # Safety
    /// The panel has these blocks.
    #[inline(always)]
    pub(in crate::cpu) unsafe fn at(self, b: usize, width: usize) -> Self {
        let i = b * width;
        // SAFETY: the panel has block `b`, so each part stays inside its vector.
        unsafe {
            Self {
                q: self.q.add(BLOCK * i),
                // Nobody reads them where no product is of pairs, and there are none.
                pairs: self.pairs.wrapping_add(BLOCK * i),
                d: self.d.add(i),
                bias: self.bias.add(i),
                sum: self.sum.add(i),
                half_bias: self.half_bias.add(2 * i),
                half_sum: self.half_sum.add(2 * i),
            }
        }
    }
}

impl Int8Panels {
    /// Quantizes vectors `x[tokens][cols]` into panels of `width` tokens, for products of many or of few; of pairs too.
    pub(in crate::cpu) fn set(
        &mut self,
        isa: Isa,
        x: &[f32],
        (cols, width): (usize, usize),
        (many, pairs): (bool, bool),
    ) {
        let (panels, blocks) = ((x.len() / cols).div_ceil(width), cols / BLOCK);
        let n = panels * blocks * width;
        self.q.resize(n * BLOCK, 0);
        self.pairs.resize(if pairs { n * BLOCK } else { 0 }, 0);
        self.d.resize(n, 0.0);
        self.bias.resize(n, 0);
        self.sum.resize(n, 0.0);
        self.half_bias.resize(2 * n, 0);
        self.half_sum.resize(2 * n, 0.0);
        let out = Panel {
            q: self.q.as_mut_ptr(),
            pairs: self.pairs.as_mut_ptr(),
            d: self.d.as_mut_ptr(),
            bias: self.bias.as_mut_ptr(),
            sum: self.sum.as_mut_ptr(),
            half_bias: self.half_bias.as_mut_ptr(),
            half_sum: self.half_sum.as_mut_ptr(),
        };
        par::parallel_for(panels, 1, |range| {
            for panel in range {
                // SAFETY: `isa` was checked; each panel is written by one chunk, inside the vectors that
                // were sized above and that nobody else touches while `self` is borrowed.
                unsafe {
                    let out = out.at(panel * blocks, width);
                    isa.run(Quantize { x, cols, width, panel, out, many, pairs });
                }
            }
        });
    }

    /// Where the parts of a panel lie.
    pub(in crate::cpu) fn panel(&self, panel: usize, (blocks, width): (usize, usize)) -> Panel {
        let i = panel * blocks * width;
        Panel {
            q: self.q[i * BLOCK..].as_ptr(),
            pairs: self.pairs.as_ptr().wrapping_add(i * BLOCK),
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
    /// Whether `q` is for products of many tokens.
    many: bool,
    /// Whether there are `pairs`.
    pairs: bool,
}

impl LaneKernel for Quantize<'_> {
    /// # Safety
    /// `out` may be written: `cols / 32` blocks of `width` tokens, with `pairs` those too.
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let Self { x, cols, width, panel, out, many, pairs } = self;
        for t in 0..width {
            let token = panel * width + t;
            let x = x.get(token * cols..(token + 1) * cols).map(|x| x.as_chunks::<BLOCK>().0);
            for b in 0..cols / BLOCK {
                let i = b * width + t;
                // SAFETY: b < blocks and t < width; the machine can run `L`, and `j + L::ROWS ≤ 32` codes.
                unsafe {
                    let (mut codes, mut halves) = ([L::splat(0); BLOCK], [0i32; 2]);
                    let d = match x {
                        Some(x) => quantize::<L>(&x[b], 127.0, &mut codes),
                        None => 0.0,
                    };
                    let q = out.q.cast_mut().cast::<[i8; BLOCK]>().add(i);
                    for j in (0..BLOCK).step_by(L::ROWS) {
                        let to = match L::MATRICES && many {
                            true => q.cast::<i8>().sub(t % 2 * BLOCK).add(2 * j + t % 2 * 8),
                            false => q.cast::<i8>().add(j),
                        };
                        L::store_8(codes[j / L::ROWS], to);
                        let half = &mut halves[j / (BLOCK / 2)];
                        *half = half.wrapping_add(L::total(codes[j / L::ROWS]));
                    }
                    // Of codes that are beside those of `ROUND`; where a scale is no number they are anything.
                    let is_known = x.is_some() && d.is_finite();
                    let halves = halves
                        .map(|sum| if is_known { sum.wrapping_sub(OFFSET.wrapping_mul(BLOCK as i32 / 2)) } else { 0 });
                    let whole = halves[0] + halves[1];
                    if pairs {
                        let (q, mut pairs) = (q.read().map(i16::from), [0; BLOCK]);
                        for j in (0..BLOCK).step_by(4) {
                            (pairs[j], pairs[j + 1]) = (q[j], q[j + 2]);
                            (pairs[j + 2], pairs[j + 3]) = (q[j + 1], q[j + 3]);
                        }
                        out.pairs.cast_mut().cast::<[i16; BLOCK]>().add(i).write(pairs);
                    }
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
