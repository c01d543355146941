//! Blocks of random bytes that stand for finite weights.

use half::f16;
use qrun_quant::{GgmlType, formats::Format};

/// Where a block has its f16 numbers; all its other bytes may have any value, but for the exponent of MXFP4 and the number
/// that IQ1_M has in pieces.
pub fn f16_offsets(ty: GgmlType) -> &'static [usize] {
    match ty {
        GgmlType::Q1_0 | GgmlType::Q2_0 | GgmlType::IQ1_S => &[0],
        GgmlType::Q4_0 | GgmlType::Q5_0 | GgmlType::Q8_0 | GgmlType::IQ4_NL | GgmlType::IQ4_XS => &[0],
        GgmlType::IQ2_XXS | GgmlType::IQ2_XS | GgmlType::IQ2_S | GgmlType::IQ3_XXS | GgmlType::IQ3_S => &[0],
        GgmlType::Q4_1 | GgmlType::Q5_1 | GgmlType::Q4_K | GgmlType::Q5_K => &[0, 2],
        GgmlType::TQ1_0 => &[52],
        GgmlType::TQ2_0 => &[64],
        GgmlType::Q2_K => &[80, 82],
        GgmlType::Q3_K => &[108],
        GgmlType::Q6_K => &[208],
        GgmlType::MXFP4 | GgmlType::NVFP4 | GgmlType::IQ1_M | GgmlType::F32 | GgmlType::F16 | GgmlType::BF16 => &[],
    }
}

/// Replaces the scales and minimums of whole blocks by finite numbers.
pub fn set_scales(format: &Format, blocks: &mut [u8], mut scale: impl FnMut() -> f16) {
    for block in blocks.chunks_exact_mut(format.bytes) {
        for &at in f16_offsets(format.ty) {
            block[at..at + 2].copy_from_slice(&scale().to_le_bytes());
        }
        if format.ty == GgmlType::MXFP4 {
            // The exponent of the number; its sign is shifted out.
            block[0] = (scale().to_f32().to_bits() >> 23) as u8;
        }
        if format.ty == GgmlType::IQ1_M {
            // Four bits above each of four words.
            let bits = scale().to_bits();
            let words = block[48..].chunks_exact_mut(2).enumerate();
            words.for_each(|(i, word)| word[1] = word[1] & 0x0f | ((bits >> (4 * i) & 15) as u8) << 4);
        }
    }
}
