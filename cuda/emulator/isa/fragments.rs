//! Tensor cores: which lane holds what, as the PTX manual has it, and the products.
//!
//! With g = lane / 4 and t = lane % 4: a register of a holds neighbours along k of row g (or g + 8), one of b the same
//! of column g, both from k = t times their number on; c and d hold columns 2t and 2t + 1 of rows g and g + 8.

use super::code::{Mma, R};
use super::float::{bits, from_half};
use super::registers::{Registers, each, over};

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
#[inline(always)]
pub(super) fn multiply(mma: Mma, w: &Registers, abc: [&[R]; 3], d: &mut [Row; 4]) {
    // The CPU's fused instruction, where it has one: products are exact either way.
    let step = |dot: f64, x, y| if cfg!(avx2) { f64::mul_add(x, y, dot) } else { x * y + dot };
    let float_sum = |c: u32, dot: f64| bits((f64::from(f32::from_bits(c)) + dot) as f32);
    match mma {
        // SAFETY: as of `Warp::run`.
        #[cfg(avx2)]
        Mma::S8M8N8K16 | Mma::S8M16N8K16 | Mma::S8M16N8K32 => unsafe { bytes(mma, w, abc, d) },
        #[cfg(not(avx2))]
        Mma::S8M8N8K16 | Mma::S8M16N8K16 | Mma::S8M16N8K32 => bytes_in_floats(mma, w, abc, d),
        Mma::F16M16N8K8 | Mma::F16M16N8K16 => {
            let half = |word: u32, i: usize| f64::from(from_half(word >> (16 * i) & 0xffff));
            product::<f64, 2>(mma, w, abc, d, (half, step), float_sum);
        }
        Mma::Bf16M16N8K16 => {
            let half = |word: u32, i: usize| f64::from(f32::from_bits(word >> (16 * i) << 16));
            product::<f64, 2>(mma, w, abc, d, (half, step), float_sum);
        }
    }
}

/// Of bytes: sums of 32 products are exact in f32, of which every CPU multiplies four at a time.
#[cfg(any(test, not(avx2)))]
fn bytes_in_floats(mma: Mma, w: &Registers, abc: [&[R]; 3], d: &mut [Row; 4]) {
    let byte = |word: u32, i: usize| f32::from((word >> (8 * i)) as i8);
    let step = |dot: f32, x: f32, y: f32| x * y + dot;
    product::<f32, 4>(mma, w, abc, d, (byte, step), |c, dot| c.wrapping_add(dot as i32 as u32));
}

/// The same by instructions that sum up products of neighbours, a row of a times the eight columns of b at a time.
#[cfg(avx2)]
#[target_feature(enable = "avx2")]
fn bytes(mma: Mma, w: &Registers, [a, b, c]: [&[R]; 3], d: &mut [Row; 4]) {
    use std::arch::x86_64::*;
    // 16 bytes along k, of a row of a or a column of b, as 16-bit numbers.
    let along_k = |words: &Row, g: usize| {
        let [x0, x1, x2, x3] = words.as_chunks::<4>().0[g].map(|x| x as i32);
        _mm256_cvtepi8_epi16(_mm_set_epi32(x3, x2, x1, x0))
    };
    let halves = shape(mma).0 / 8;
    for half in 0..halves {
        for g in 0..8 {
            let mut sums = [_mm256_setzero_si256(); 8];
            for (b, a) in b.iter().zip(a.iter().skip(half).step_by(halves)) {
                let row = along_k(w.word(*a), g);
                for (column, sum) in sums.iter_mut().enumerate() {
                    *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(row, along_k(w.word(*b), column)));
                }
            }
            let four = |s: &[__m256i]| _mm256_hadd_epi32(_mm256_hadd_epi32(s[0], s[1]), _mm256_hadd_epi32(s[2], s[3]));
            let (low, high) = (four(&sums[..4]), four(&sums[4..]));
            let (first, second) =
                (_mm256_permute2x128_si256::<0x20>(low, high), _mm256_permute2x128_si256::<0x31>(low, high));
            let dots = _mm256_add_epi32(first, second);
            // Even columns, then odd ones.
            let dots = _mm256_permutevar8x32_epi32(dots, _mm256_set_epi32(7, 5, 3, 1, 6, 4, 2, 0));
            // SAFETY: both are 32 bytes, and all bits are numbers.
            let dots: [u32; 8] = unsafe { std::mem::transmute(dots) };
            for (odd, dots) in dots.as_chunks::<4>().0.iter().enumerate() {
                let register = 2 * half + odd;
                let c = w.word(c[register]);
                for t in 0..4 {
                    d[register][4 * g + t] = c[4 * g + t].wrapping_add(dots[t]);
                }
            }
        }
    }
}

/// Multiplies fragments of `WIDE` elements to a register, each made a `T`, in loops over eight columns or 32 lanes.
#[inline(always)]
fn product<T: Copy + Default, const WIDE: usize>(
    mma: Mma,
    w: &Registers,
    [a, b, c]: [&[R]; 3],
    d: &mut [Row; 4],
    (element, step): (impl Fn(u32, usize) -> T, impl Fn(T, T, T) -> T),
    sum: impl Fn(u32, T) -> u32,
) {
    let (rows, _) = shape(mma);
    // By register of b: its rows, one element of each column.
    let mut right = [[[[T::default(); 8]; WIDE]; 4]; 2];
    for (right, row) in right.iter_mut().zip(b) {
        let words = w.word(*row);
        for (t, right) in right.iter_mut().enumerate() {
            let mut columns = [0; 8];
            for g in 0..8 {
                columns[g] = words[4 * g + t];
            }
            for i in 0..WIDE {
                for g in 0..8 {
                    right[i][g] = element(columns[g], i);
                }
            }
        }
    }
    let mut dots = [[T::default(); 8]; 16];
    for (register, row) in a.iter().enumerate() {
        let words = w.word(*row);
        let mut left = [[T::default(); 32]; WIDE];
        for (i, left) in left.iter_mut().enumerate() {
            *left = over(words, |word| element(word, i));
        }
        // Registers go down the rows first, where there are 16, then along k.
        let halves = rows / 8;
        let (down, right) = (register % halves * 8, &right[register / halves]);
        for g in 0..8 {
            let mut sums = dots[down + g];
            for t in 0..4 {
                for i in 0..WIDE {
                    for column in 0..8 {
                        sums[column] = step(sums[column], left[i][4 * g + t], right[t][i][column]);
                    }
                }
            }
            dots[down + g] = sums;
        }
    }
    for (register, row) in c.iter().enumerate() {
        let words = w.word(*row);
        let dot = each(|lane| dots[lane / 4 + register / 2 * 8][lane % 4 * 2 + register % 2]);
        d[register] = each(|lane| sum(words[lane], dot[lane]));
    }
}

/// `ldmatrix` of one 8×8 matrix of 16-bit elements, given its rows as eight halves each.
pub(super) fn load_matrix(rows: &[[u16; 8]; 8], transposed: bool) -> Row {
    each(|lane| {
        let (g, t) = (lane / 4, lane % 4 * 2);
        let at = |i: usize| u32::from(if transposed { rows[t + i][g] } else { rows[g][t + i] });
        at(0) | at(1) << 16
    })
}

#[cfg(all(test, avx2))]
mod tests {
    use super::super::code::Files;
    use super::super::random::Random;
    use super::super::registers::ALL;
    use super::*;

    #[test]
    fn bytes_by_either_way() {
        let mut random = Random(7);
        let mut w = Registers::new(&Files { words: 10, ..Files::default() });
        for mma in [Mma::S8M8N8K16, Mma::S8M16N8K16, Mma::S8M16N8K32] {
            let [nd, na, nb] = registers(mma);
            for row in 0..10 {
                let extremes = each(|lane| if lane % 3 == 0 { 0x8080_8080 } else { random.next() as u32 });
                w.set_word(row, &extremes, ALL, ALL);
            }
            let rows: Vec<R> = (0..10).collect();
            let abc = [&rows[..na], &rows[na..na + nb], &rows[na + nb..na + nb + nd]];
            let (mut wide, mut floats) = ([[1; 32]; 4], [[1; 32]; 4]);
            bytes_in_floats(mma, &w, abc, &mut floats);
            // SAFETY: this test is compiled where `bytes` is, for the processor that builds it.
            unsafe { bytes(mma, &w, abc, &mut wide) };
            assert_eq!(wide, floats, "{mma:?}");
        }
    }
}
