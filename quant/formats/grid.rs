//! What IQ1, IQ2 and IQ3 share: the magnitudes of eight weights, or of four, are an entry of a grid, and each weight has a
//! sign.
//!
//! A code is the index of a magnitude in the format's table, with the sign as its highest bit: the second half of a table
//! holds the negatives of the first. Entries of IQ1 have signs of their own; there the bit says which way weights are moved.

use super::{GgmlType, grids, spread};

/// Eight signs of which seven are stored (from bit 0 on): the number of minus signs is even.
#[inline(always)]
pub(crate) fn even(seven: u32) -> u8 {
    let seven = (seven & 127) as u8;
    seven | ((seven.count_ones() & 1) as u8) << 7
}

/// What the sub-blocks' scales are multiples of: `2n + 1` where `n` is nibble `i`.
#[inline(always)]
pub(crate) fn odd(nibbles: &[u8], i: usize) -> u8 {
    (nibbles[i / 2] >> (i % 2 * 4) & 15) * 2 + 1
}

/// The codes of 32 weights of IQ1 or IQ2, four per word: `octet` gives the grid entry and the signs of eight.
#[inline(always)]
pub(crate) fn codes_of_3_bits(octet: impl Fn(usize) -> (u16, u8)) -> [u32; 8] {
    let mut quads = [0; 8];
    for l in 0..4 {
        let (entry, signs) = octet(l);
        for half in 0..2 {
            let magnitudes = spread::pairs(entry.to_le_bytes()[half]);
            quads[2 * l + half] = magnitudes | spread::bits(signs >> (4 * half)) << 2;
        }
    }
    quads
}

/// The codes of 32 weights of IQ3, four per word: `octet` gives the grid entries of four weights each, and the signs.
#[inline(always)]
pub(crate) fn codes_of_4_bits(octet: impl Fn(usize) -> ([u16; 2], u8)) -> [u32; 8] {
    let mut quads = [0; 8];
    for l in 0..4 {
        let (entries, signs) = octet(l);
        for half in 0..2 {
            let nibbles = (u32::from(entries[half]) | u32::from(entries[half]) << 8) & 0x00ff_00ff;
            let magnitudes = (nibbles | nibbles << 4) & 0x0707_0707;
            quads[2 * l + half] = magnitudes | spread::bits(signs >> (4 * half)) << 3;
        }
    }
    quads
}

/// 256 weights `d·T[code]`: `block` gives the codes of 32, and the scales of its halves.
#[inline(always)]
pub(crate) fn dequantize(out: &mut [f32; 256], table: &[i8; 16], block: impl Fn(usize) -> ([u32; 8], [f32; 2])) {
    for (j, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (quads, d) = block(j);
        for (i, out) in out.iter_mut().enumerate() {
            let code = quads[i / 4].to_le_bytes()[i % 4];
            *out = d[i / 16] * f32::from(table[usize::from(code & 15)]);
        }
    }
}

/// The grid of an IQ2 or IQ3 format as words of four nibbles, the indices of four magnitudes: entry by entry, two words
/// each in IQ2. Of IQ1_M, whose grid IQ1_S has, too, a word per entry: its nibbles have an index of two bits of the first four
/// weights, and above it one of the last four. Of other formats nothing.
pub fn grid_quads(format: GgmlType) -> Vec<u16> {
    let pairs =
        |entry: &u16| entry.to_le_bytes().map(|four| (0..4).map(|i| u16::from(four >> (2 * i) & 3) << (4 * i)).sum());
    let nibble = |entry: u16, i: u32| (entry >> (2 * i) & 3 | entry >> (8 + 2 * i) << 2 & 12) << (4 * i);
    match format {
        GgmlType::IQ1_M => grids::IQ1_S.iter().map(|&entry| (0..4).map(|i| nibble(entry, i)).sum()).collect(),
        GgmlType::IQ2_XXS => grids::IQ2_XXS.iter().flat_map(pairs).collect(),
        GgmlType::IQ2_XS => grids::IQ2_XS.iter().flat_map(pairs).collect(),
        GgmlType::IQ2_S => grids::IQ2_S.iter().flat_map(pairs).collect(),
        GgmlType::IQ3_XXS => grids::IQ3_XXS.to_vec(),
        GgmlType::IQ3_S => grids::IQ3_S.to_vec(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_minus_signs_is_even() {
        for seven in 0..128 {
            assert!(even(seven).count_ones().is_multiple_of(2) && u32::from(even(seven)) & 127 == seven, "{seven}");
        }
    }
}
