//! Fields of bits apart: four of them as a byte each of a word, the lowest first.

/// The lower four bits.
#[inline(always)]
pub(crate) fn bits(bits: u8) -> u32 {
    // Multiplied by 1 + 2⁷ + 2¹⁴ + 2²¹.
    (u32::from(bits & 15) * 0x0020_4081) & 0x0101_0101
}

/// The four pairs of bits of a byte.
#[inline(always)]
pub(crate) fn pairs(pairs: u8) -> u32 {
    let pairs = u32::from(pairs);
    (pairs | pairs << 6 | pairs << 12 | pairs << 18) & 0x0303_0303
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_is_in_its_byte() {
        for byte in 0..=u8::MAX {
            for (i, (bit, pair)) in bits(byte).to_le_bytes().into_iter().zip(pairs(byte).to_le_bytes()).enumerate() {
                assert_eq!((bit, pair), (byte >> i & 1, byte >> (2 * i) & 3), "{byte:#04x}, field {i}");
            }
        }
    }
}
