//! How products are cut into pieces on different processors: one row each. No row changes a bit of a result.

use super::prefetch::Ahead;
use crate::{GgmlType, simd::Isa};

/// Either of the two alone reads a tenth less on Zen 3.
const AHEAD: Ahead = Ahead { near: 2048, far: 8192 };

/// Sizes that suit some processors.
#[derive(Debug)]
pub struct Tuning {
    /// The family of processors that it was measured on, where it is for that one alone.
    pub family: Option<&'static str>,
    /// Most tokens whose products with a quantized tile are made while it is unpacked in registers, panel after panel with
    /// the tile in the cache; for more it is unpacked once, into memory.
    pub(super) in_registers: usize,
    /// Most tiles that integer kernels multiply at once, [`Tuning::TILES`] or one: an activation is loaded once for all.
    pub(super) tiles: usize,
    /// Most blocks of 32 columns of a packed panel of bytes, and of 16-bit codes. So many of the tiles that are multiplied
    /// at once and the same columns of a panel of activations are to fit a cache; the fewer panels a row has, the fewer times sums
    /// are read and written.
    pub(super) byte_blocks: usize,
    pub(super) pair_blocks: usize,
    /// How far ahead of their use weights are prefetched, and those types whose weights come faster otherwise.
    ahead: Ahead,
    ahead_of: (&'static [GgmlType], Ahead),
}

impl Tuning {
    /// Most tiles of any row of the table.
    pub(super) const TILES: usize = 2;

    /// 36 KB of bytes, 26 KB of 16-bit codes: the first-level cache. In registers, 32 tokens on Zen 4: AVX-512 is 10 to 20 % faster
    /// so than from memory, from 100 on (Q8_0) slower; Zen 5 gains and loses as much, from 40 on.
    const ANY: Self = Self {
        family: None,
        in_registers: 48,
        tiles: 2,
        byte_blocks: 32,
        pair_blocks: 12,
        ahead: AHEAD,
        ahead_of: (&[], AHEAD),
    };

    /// A product is several instructions with registers between them, and the first-level cache is small, or half of it where two
    /// threads share a core. In registers, on Zen 3: 8 tokens are 0 to 10 % faster, 12 are 0 to 30 % slower (but for Q8_0), 32 are
    /// 0 to 40 %.
    const AVX2: Self = Self { in_registers: 8, tiles: 1, byte_blocks: 16, ..Self::ANY };

    /// The second-level cache gives a line per cycle, three times what kernels of 512 bits take of it: prompts of BF16 are 5 % faster
    /// with 64 blocks than with 12, of Q4_K 1 % than with 32. Prefetched into the first-level cache alone, and earlier, weights of
    /// the types below come 4 to 20 % faster, those of Q5_0, Q5_K, MXFP4 and Q2_K up to 10 % slower.
    const ZEN5: Self = Self {
        family: Some("Zen 5"),
        byte_blocks: 64,
        pair_blocks: 64,
        ahead_of: {
            use GgmlType::*;
            (&[F32, F16, BF16, Q8_0, Q4_K, Q6_K, IQ4_XS], Ahead { near: 4096, far: 0 })
        },
        ..Self::ANY
    };

    /// A panel of 16 tokens has less than half of the time that its products take in registers; 2 MB of second-level cache give
    /// lines faster than they are used. By counts: not measured.
    const AMX: Self = Self { in_registers: 16, byte_blocks: 64, pair_blocks: 64, ..Self::ANY };

    /// From memory an instruction makes twice as many products as in registers. Counted, packing included: 12 tokens take 0.45 to 0.65
    /// of the instructions, 32 0.35 to 0.54. A packed block has one to four lines more: two tiles 31 to 49 KB.
    const I8MM: Self = Self { in_registers: 8, byte_blocks: 24, ..Self::ANY };

    /// All rows.
    pub const ALL: [&Self; 5] = [&Self::ANY, &Self::AVX2, &Self::I8MM, &Self::ZEN5, &Self::AMX];

    /// How far ahead of their use weights of this type are prefetched.
    pub(super) fn ahead(&self, ty: GgmlType) -> Ahead {
        let (types, ahead) = self.ahead_of;
        if types.contains(&ty) { ahead } else { self.ahead }
    }

    /// That of this machine where it uses the instruction set.
    pub fn of(isa: Isa) -> &'static Self {
        match isa {
            Isa::Avx2 => &Self::AVX2,
            Isa::NeonI8mm => &Self::I8MM,
            Isa::Amx => &Self::AMX,
            Isa::Avx512Vnni if is_zen5() => &Self::ZEN5,
            _ => &Self::ANY,
        }
    }
}

/// Whether the processor is an AMD of family 1Ah. Asked once: in a virtual machine each question leaves it.
#[cfg(target_arch = "x86_64")]
fn is_zen5() -> bool {
    use std::{arch::x86_64::__cpuid, sync::OnceLock};
    static IS_ZEN5: OnceLock<bool> = OnceLock::new();
    *IS_ZEN5.get_or_init(|| {
        let (vendor, version) = (__cpuid(0), __cpuid(1).eax);
        let family = (version >> 8 & 15) + (version >> 20 & 255);
        [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).as_flattened() == b"AuthenticAMD" && family == 0x1a
    })
}

#[cfg(not(target_arch = "x86_64"))]
fn is_zen5() -> bool {
    false
}
