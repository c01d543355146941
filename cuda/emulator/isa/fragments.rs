//! Tensor cores: which lane holds what, as the PTX manual has it, and the products.
//!
//! With g = lane / 4 and t = lane % 4, element i of a lane's fragment is at the row and column that the functions say.

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

/// Row and column of element `i` of a; `wide` elements fit a register (4 bytes, 2 halves).
fn place_a(rows: usize, wide: usize, lane: usize, i: usize) -> (usize, usize) {
    let (register, element) = (i / wide, i % wide);
    let (g, t) = (lane / 4, lane % 4);
    // Registers go down the rows first, where there are 16, then along k.
    let halves = rows / 8;
    (g + register % halves * 8, t * wide + element + register / halves * wide * 4)
}

/// Row (along k) and column of element `i` of b.
fn place_b(wide: usize, lane: usize, i: usize) -> (usize, usize) {
    (lane % 4 * wide + i % wide + i / wide * wide * 4, lane / 4)
}

/// Row and column of register `i` of c and d.
fn place_c(lane: usize, i: usize) -> (usize, usize) {
    (lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2)
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
    match mma {
        Mma::S8M8N8K16 | Mma::S8M16N8K16 | Mma::S8M16N8K32 => {
            let byte = |word: u32, i: usize| i32::from((word >> (8 * i)) as i8);
            let sum = |c: u32, x: &[i32], y: &[i32]| {
                let dot: i32 = x.iter().zip(y).map(|(x, y)| x * y).sum();
                c.wrapping_add(dot as u32)
            };
            product::<i32, 4>(mma, w, abc, d, byte, sum);
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

fn float_sum(c: u32, x: &[f64], y: &[f64]) -> u32 {
    let dot: f64 = x.iter().zip(y).map(|(x, y)| x * y).sum();
    bits((f64::from(f32::from_bits(c)) + dot) as f32)
}

/// Lays the fragments out as matrices of `T`, `WIDE` to a register, and multiplies them.
fn product<T: Copy + Default, const WIDE: usize>(
    mma: Mma,
    w: &Registers,
    [a, b, c]: [&[R]; 3],
    d: &mut [Row; 4],
    element: impl Fn(u32, usize) -> T,
    sum: impl Fn(u32, &[T], &[T]) -> u32,
) {
    let (rows, k) = shape(mma);
    // Rows of a, columns of b.
    let (mut left, mut right) = ([[T::default(); 32]; 16], [[T::default(); 32]; 8]);
    for lane in 0..32 {
        for i in 0..a.len() * WIDE {
            let (row, column) = place_a(rows, WIDE, lane, i);
            left[row][column] = element(w.word(a[i / WIDE])[lane], i % WIDE);
        }
        for i in 0..b.len() * WIDE {
            let (row, column) = place_b(WIDE, lane, i);
            right[column][row] = element(w.word(b[i / WIDE])[lane], i % WIDE);
        }
    }
    for (i, register) in c.iter().enumerate() {
        let c = w.word(*register);
        for lane in 0..32 {
            let (row, column) = place_c(lane, i);
            d[i][lane] = sum(c[lane], &left[row][..k], &right[column][..k]);
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
