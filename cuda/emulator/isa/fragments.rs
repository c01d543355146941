//! Tensor cores: which lane holds what, as the PTX manual has it, and the products.
//!
//! With g = lane / 4 and t = lane % 4: a register of a holds neighbours along k of row g (or g + 8), one of b the same
//! of column g, both from k = t times their number on; c and d hold columns 2t and 2t + 1 of rows g and g + 8.

use std::ops::{AddAssign, Mul};

use super::code::{Mma, R};
use super::float::{bits, from_half};
use super::registers::Registers;

/// Values of one register in all lanes.
type Row = [u32; 32];

/// Rows of a, columns of a (rows of b); b and c have 8 columns.
const fn shape(mma: Mma) -> (usize, usize) {
    match mma {
        Mma::S8M8N8K16 => (8, 16),
        Mma::S8M16N8K16 => (16, 16),
        Mma::S8M16N8K32 => (16, 32),
        Mma::F16M16N8K8 => (16, 8),
        Mma::F16M16N8K16 | Mma::Bf16M16N8K16 => (16, 16),
    }
}

/// Products that it sums up.
pub(super) const fn macs(mma: Mma) -> u64 {
    let (rows, k) = shape(mma);
    (rows * k * 8) as u64
}

/// Registers of d (and c), a and b.
pub(super) const fn registers(mma: Mma) -> [usize; 3] {
    match mma {
        Mma::S8M8N8K16 => [2, 1, 1],
        Mma::S8M16N8K16 | Mma::F16M16N8K8 => [4, 2, 1],
        Mma::S8M16N8K32 | Mma::F16M16N8K16 | Mma::Bf16M16N8K16 => [4, 4, 2],
    }
}

/// d = a·b + c. Integers wrap; floats are summed in f64, whose products are exact, and rounded once.
pub(super) fn multiply(mma: Mma, w: &Registers, abc: [&[R]; 3], d: &mut [Row; 4]) {
    let float_sum = |c: u32, dot: f64| bits((f64::from(f32::from_bits(c)) + dot) as f32);
    match mma {
        Mma::S8M8N8K16 | Mma::S8M16N8K16 | Mma::S8M16N8K32 => {
            // Sums of 32 products of bytes are exact in f32, of which CPUs multiply four at a time.
            let byte = |word: u32, i: usize| f32::from((word >> (8 * i)) as i8);
            product::<f32, 4>(mma, w, abc, d, byte, |c, dot| c.wrapping_add(dot as i32 as u32));
        }
        Mma::F16M16N8K8 | Mma::F16M16N8K16 => {
            let half = |word: u32, i: usize| f64::from(from_half(word >> (16 * i) & 0xffff));
            product::<f64, 2>(mma, w, abc, d, half, float_sum);
        }
        Mma::Bf16M16N8K16 => {
            let half = |word: u32, i: usize| f64::from(f32::from_bits(word >> (16 * i) << 16));
            product::<f64, 2>(mma, w, abc, d, half, float_sum);
        }
    }
}

/// Lays the fragments out as matrices of `T`, `WIDE` elements to a register, and multiplies them.
fn product<T: Copy + Default + Mul<Output = T> + AddAssign, const WIDE: usize>(
    mma: Mma,
    w: &Registers,
    [a, b, c]: [&[R]; 3],
    d: &mut [Row; 4],
    element: impl Fn(u32, usize) -> T,
    sum: impl Fn(u32, T) -> u32,
) {
    let (rows, depth) = shape(mma);
    let (mut left, mut right) = ([[T::default(); 32]; 16], [[T::default(); 8]; 32]);
    for (register, row) in a.iter().enumerate() {
        let words = w.word(*row);
        // Registers go down the rows first, where there are 16, then along k.
        let halves = rows / 8;
        let (down, along) = (register % halves * 8, register / halves * WIDE * 4);
        for (lane, i) in (0..32).flat_map(|lane| (0..WIDE).map(move |i| (lane, i))) {
            left[lane / 4 + down][lane % 4 * WIDE + i + along] = element(words[lane], i);
        }
    }
    for (register, row) in b.iter().enumerate() {
        let words = w.word(*row);
        for (lane, i) in (0..32).flat_map(|lane| (0..WIDE).map(move |i| (lane, i))) {
            right[lane % 4 * WIDE + i + register * WIDE * 4][lane / 4] = element(words[lane], i);
        }
    }
    let mut dots = [[T::default(); 8]; 16];
    for (dots, left) in dots.iter_mut().zip(&left).take(rows) {
        for (x, right) in left.iter().zip(&right).take(depth) {
            for column in 0..8 {
                dots[column] += *x * right[column];
            }
        }
    }
    for (register, row) in c.iter().enumerate() {
        let words = w.word(*row);
        for lane in 0..32 {
            let dot = dots[lane / 4 + register / 2 * 8][lane % 4 * 2 + register % 2];
            d[register][lane] = sum(words[lane], dot);
        }
    }
}

/// `ldmatrix` of one 8×8 matrix of 16-bit elements, given its rows as eight halves each.
pub(super) fn load_matrix(rows: &[[u16; 8]; 8], transposed: bool) -> Row {
    std::array::from_fn(|lane| {
        let (g, t) = (lane / 4, lane % 4 * 2);
        let at = |i: usize| u32::from(if transposed { rows[t + i][g] } else { rows[g][t + i] });
        at(0) | at(1) << 16
    })
}
