//! Conversions between f32 and the two 16-bit floats, as plain bit operations.
//!
//! The `half` crate asks at each call which instructions the CPU has; that is fine for a value and
//! ruinous in a loop. These have no branches, so loops over them become vector code, and they give the
//! same bits on every machine.

/// A little-endian f16 as it lies in a block: two bytes, alignment 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Half(pub(crate) [u8; 2]);

impl Half {
    /// The value, exactly.
    #[inline(always)]
    pub(crate) const fn to_f32(self) -> f32 {
        f16_to_f32(u16::from_le_bytes(self.0))
    }
    /// The nearest f16, ties to even.
    #[inline(always)]
    pub(crate) const fn from_f32(x: f32) -> Self {
        Self(f32_to_f16(x).to_le_bytes())
    }
}

/// f16 bits to f32, exactly, subnormals and NaN payloads included.
#[inline(always)]
pub(crate) const fn f16_to_f32(h: u16) -> f32 {
    // Exponent and mantissa moved to their f32 places read as a number 2^112 too small; multiplying
    // by 2^112 is exact and makes subnormals normal.
    const TWO_112: f32 = f32::from_bits((127 + 112) << 23);
    let h = h as u32;
    let magnitude = f32::from_bits((h & 0x7fff) << 13) * TWO_112;
    let infinite = if h & 0x7c00 == 0x7c00 { 0x7f80_0000 } else { 0 };
    f32::from_bits((h & 0x8000) << 16 | magnitude.to_bits() | infinite)
}

/// f32 to the nearest f16, ties to even; beyond 65504 (from 65520 on) infinity; NaN stays NaN.
#[inline(always)]
pub(crate) const fn f32_to_f16(x: f32) -> u16 {
    let bits = x.to_bits();
    let a = bits & 0x7fff_ffff;
    // f32 numbers in [0.5, 1) are 2^-24 apart, exactly as f16 subnormals are: the addition rounds.
    let subnormal = (f32::from_bits(a) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
    let normal = a.wrapping_add(0x0fff + (a >> 13 & 1)).wrapping_sub(112 << 23) >> 13;
    let mut magnitude = if a < 0x3880_0000 { subnormal } else { normal };
    if a >= 0x477f_f000 {
        magnitude = 0x7c00;
    }
    if a > 0x7f80_0000 {
        magnitude = 0x7e00;
    }
    (bits >> 16 & 0x8000 | magnitude) as u16
}

/// bf16 bits to f32, exactly.
#[inline(always)]
pub(crate) const fn bf16_to_f32(b: u16) -> f32 {
    f32::from_bits((b as u32) << 16)
}

/// f32 to the nearest bf16, ties to even; NaN stays NaN.
#[inline(always)]
pub(crate) const fn f32_to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    // Rounding could carry a NaN's mantissa away; a quiet NaN with the same top bits cannot.
    let nan = bits >> 16 | 0x40;
    (if bits & 0x7fff_ffff > 0x7f80_0000 { nan } else { rounded }) as u16
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;

    fn same(a: f32, b: f32) -> bool {
        a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
    }

    #[test]
    fn all_halves_to_f32() {
        for h in 0..=u16::MAX {
            assert!(same(f16_to_f32(h), f16::from_bits(h).to_f32()), "f16 {h:#06x}");
            assert!(same(bf16_to_f32(h), bf16::from_bits(h).to_f32()), "bf16 {h:#06x}");
        }
    }

    /// Every 16-bit float, every midpoint between neighbours, and the f32 on each side of both.
    #[test]
    fn rounding_at_every_boundary() {
        let check = |x: f32| {
            for x in [x, x.next_up(), x.next_down()] {
                let (a, b) = (f32_to_f16(x), f32_to_bf16(x));
                let (f, t) = (f16::from_f32(x), bf16::from_f32(x));
                let ok = if x.is_nan() { f16::from_bits(a).is_nan() } else { a == f.to_bits() };
                assert!(ok, "f16 of {x:e}: {a:#06x}, half crate {:#06x}", f.to_bits());
                let ok = if x.is_nan() { bf16::from_bits(b).is_nan() } else { b == t.to_bits() };
                assert!(ok, "bf16 of {x:e}: {b:#06x}, half crate {:#06x}", t.to_bits());
            }
        };
        for h in 0..=u16::MAX {
            let (f, b) = (f16_to_f32(h), bf16_to_f32(h));
            check(f);
            check(b);
            check((f + f16_to_f32(h.wrapping_add(1))) * 0.5);
            check(f32::from_bits((h as u32) << 16 | 0x8000));
        }
    }
}
