//! Packed blocks for instructions that multiply matrices, some rows by two tokens over eight columns. Where others hold sums of all
//! rows and a token, registers hold those of half the rows and of two tokens, in turns; what rounds is the same.

use super::int8::{finish_tokens, offset};
use crate::{
    cpu::{
        activations::int8::Panel,
        layout::{BLOCK, Line, OFFSET},
        tiles::{Block, Scale, Shape},
    },
    simd::Lanes,
};

/// Lines of codes: of each two one has eight columns of the first half of the rows, one those of the second half.
const CODES: usize = 8;

/// Lines of one packed block: codes, then f32 scales, then minimums, each number twice: it is beside sums of two tokens.
pub(super) fn packed_lines<S: Shape>() -> usize {
    CODES + 2 * S::PARTS * if S::MIN { 2 } else { 1 }
}

/// Where the scales of half of the rows are.
#[inline(always)]
fn scale(part: usize, half: usize) -> usize {
    CODES + 2 * part + half
}

/// Where the minimums are.
#[inline(always)]
fn minimum<S: Shape>(part: usize, half: usize) -> usize {
    scale(S::PARTS + part, half)
}

/// Writes rows of a packed block.
///
/// # Safety
/// The machine can run `L`, and it has [`Lanes::MATRICES`]; the rows are in lines of their own.
#[inline(always)]
pub(super) unsafe fn store<L: Lanes, S: Shape>(w: &Block<L>, to: *mut u8) {
    let line = |i: usize| to.wrapping_add(i * Line::BYTES);
    // SAFETY: that of this function.
    unsafe {
        for half in 0..2 {
            for j in (0..CODES).step_by(2) {
                L::store(L::zip(w.codes[j], w.codes[j + 1])[half], line(j + half));
            }
            for part in 0..S::PARTS {
                let (d, m) = (L::f32_to_bits(w.scale.d[part]), L::f32_to_bits(w.scale.m[part]));
                L::store(L::zip(d, d)[half], line(scale(part, half)));
                if S::MIN {
                    L::store(L::zip(m, m)[half], line(minimum::<S>(part, half)));
                }
            }
        }
    }
}

/// Adds the products of the part of a block that has scales of its own: of tokens `t` and `t + 1` to `y[t]` those of the first half
/// of the rows, to `y[t + 1]` those of the second.
///
/// # Safety
/// The machine can run `L`, and it has [`Lanes::MATRICES`]; `w` points to the rows in the lines of a packed block, `x` is the panel
/// at it, `q` those of many tokens; `T` is even.
#[inline(always)]
pub(super) unsafe fn multiply_part<L: Lanes, S: Shape, const PART: usize, const N: usize, const T: usize>(
    w: &[*const u8; N],
    x: Panel,
    y: &mut [[L::F; N]; T],
) {
    // SAFETY: that of this function: the block has these lines, the panel these tokens.
    unsafe {
        let line = |i: usize, line: usize| w[i].add(line * Line::BYTES);
        // Half after half: sums of all, those of the second part on their way, are more than there are registers.
        for half in 0..2 {
            for i in 0..N {
                // Of token `t` and the next one.
                let mut sums = [L::splat(OFFSET); T];
                if !S::MIN {
                    for t in (0..T).step_by(2) {
                        let bias = if S::PARTS == 1 { x.bias } else { x.half_bias.add(PART * T) };
                        sums[t] = L::splat_two(bias.add(t));
                    }
                }
                for eight in PART * 4 / S::PARTS..(PART + 1) * 4 / S::PARTS {
                    let codes = L::load(line(i, 2 * eight + half));
                    for t in (0..T).step_by(2) {
                        sums[t] = L::dot_matrices(sums[t], codes, x.q.add(BLOCK * t + 16 * eight));
                    }
                }
                let d = L::load_f32(line(i, scale(PART, half)).cast());
                let m = if S::MIN { L::load_f32(line(i, minimum::<S>(PART, half)).cast()) } else { d };
                let (scale, offset) = (Scale { d: [d; 2], m: [m; 2] }, offset::<L>(d));
                for t in (0..T).step_by(2) {
                    let y = &mut y[t + half][i];
                    *y = finish_tokens::<L, S, 2>(sums[t], (&scale, offset), x, (T, PART, t), *y);
                }
            }
        }
    }
}
