//! Vectors in 16-bit fixed point, for weights in F16 and BF16.

use super::quantize::quantize;
use crate::{
    cpu::{
        layout::BLOCK,
        par::{self, Shared},
    },
    simd::{Isa, LaneKernel, Lanes},
};

/// Largest code: 13 bits and a sign, so that sums of 32 products fit 32 bits.
const LEVELS: f32 = 8191.0;

/// Vectors as `d·q`, in panels of `width` tokens.
#[derive(Default)]
pub(in crate::cpu) struct Int16Panels {
    /// `[panel][block][width][32]`; for tiles of AMX in bytes.
    pub(in crate::cpu) q: Vec<[i16; BLOCK]>,
    /// `[panel][block][width]`.
    pub(in crate::cpu) d: Vec<f32>,
}

impl Int16Panels {
    /// Takes vectors `x[tokens][cols]`; columns are filled up to whole blocks with zeros.
    pub(in crate::cpu) fn set(&mut self, isa: Isa, x: &[f32], (cols, width): (usize, usize)) {
        let in_bytes = isa == Isa::Amx;
        let (panels, blocks) = ((x.len() / cols).div_ceil(width), cols.div_ceil(BLOCK));
        self.q.resize(panels * blocks * width, [0; BLOCK]);
        self.d.resize(panels * blocks * width, 0.0);
        let out = (Shared::new(self.q.as_mut_ptr()), Shared::new(self.d.as_mut_ptr()));
        par::parallel_for(panels, 1, |range| {
            for panel in range {
                let (at, n) = (panel * blocks * width, blocks * width);
                // SAFETY: the panel's part of the vectors that were sized above; this chunk alone has it.
                let (q, d) = unsafe {
                    let q = std::slice::from_raw_parts_mut(out.0.get().add(at), n);
                    (q, std::slice::from_raw_parts_mut(out.1.get().add(at), n))
                };
                // SAFETY: `isa` was checked.
                unsafe { isa.run(Quantize { x, cols, panel: (panel, width), q, d, in_bytes }) };
            }
        });
    }
}

/// Quantizes the tokens of one panel.
struct Quantize<'a> {
    x: &'a [f32],
    cols: usize,
    /// Which, and how many tokens it has.
    panel: (usize, usize),
    q: &'a mut [[i16; BLOCK]],
    d: &'a mut [f32],
    /// Whether codes are taken apart into bytes, for tiles of AMX.
    in_bytes: bool,
}

/// High bytes of the codes, then low ones: of a code `128·high + low`, low ≥ 0. Of four columns the first and the third are before
/// the others, as in weights.
fn take_apart(codes: [i16; BLOCK]) -> [i16; BLOCK] {
    let [mut high, mut low] = [[0; BLOCK]; 2];
    for i in 0..BLOCK {
        let code = codes[i & !3 | [0, 2, 1, 3][i % 4]];
        (high[i], low[i]) = ((code >> 7) as u8, (code & 127) as u8);
    }
    let mut bytes = [0; BLOCK];
    for (two, bytes) in high.as_chunks().0.iter().chain(low.as_chunks().0).zip(&mut bytes) {
        *bytes = i16::from_le_bytes(*two);
    }
    bytes
}

impl LaneKernel for Quantize<'_> {
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let Self { x, cols, panel: (panel, width), q, d, in_bytes } = self;
        for t in 0..width {
            let token = panel * width + t;
            let mut columns = x.get(token * cols..(token + 1) * cols).unwrap_or_default();
            for (q, d) in q.iter_mut().zip(d.iter_mut()).skip(t).step_by(width) {
                let (block, rest) = columns.split_at(columns.len().min(BLOCK));
                columns = rest;
                let mut padded = [0.0; BLOCK];
                let x = block.as_array().unwrap_or_else(|| {
                    padded[..block.len()].copy_from_slice(block);
                    &padded
                });
                // SAFETY: the machine can run `L`; `i + L::ROWS ≤ 32` codes.
                unsafe {
                    let mut codes = [L::splat(0); BLOCK];
                    *d = quantize::<L>(x, LEVELS, &mut codes);
                    for i in (0..BLOCK).step_by(L::ROWS) {
                        L::store_16(codes[i / L::ROWS], q.as_mut_ptr().add(i));
                    }
                    if in_bytes {
                        *q = take_apart(*q);
                    }
                }
            }
        }
    }
}
