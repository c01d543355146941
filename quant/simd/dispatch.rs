//! What the processor can do, asked once, and the way into code compiled for it.

use std::{fmt, sync::OnceLock};

#[cfg(target_arch = "aarch64")]
use super::neon;
#[cfg(target_arch = "x86_64")]
use super::{amx, avx2, avx512};
use super::{
    lanes::{FloatKernel, LaneKernel, SimdKernel},
    scalar::Scalar,
};

/// Vector registers for float arithmetic and plain loops, narrowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum VectorWidth {
    /// Whatever the compiler's target has: portable code, any machine.
    Scalar,
    /// Pairs of 128 bits: every 64-bit ARM.
    Neon,
    /// 256 bits: AVX2, FMA and F16C.
    Avx2,
    /// 512 bits: AVX-512 F, BW, DQ and VL.
    Avx512,
}

impl VectorWidth {
    /// The widest registers of this machine.
    pub fn best() -> Self {
        static BEST: OnceLock<VectorWidth> = OnceLock::new();
        *BEST.get_or_init(|| Self::available().last().expect("scalar code runs everywhere"))
    }

    /// The widths of this machine, the best one last.
    pub fn available() -> impl Iterator<Item = Self> {
        [Self::Scalar, Self::Neon, Self::Avx2, Self::Avx512].into_iter().filter(|width| width.is_here())
    }

    fn is_here(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        use std::arch::is_x86_feature_detected as has;
        match self {
            Self::Scalar => true,
            Self::Neon => cfg!(target_arch = "aarch64"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => has!("avx2") && has!("fma") && has!("f16c"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                let wide = has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl");
                wide && Self::Avx2.is_here()
            }
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx2 | Self::Avx512 => false,
        }
    }

    /// Panics where this machine lacks the registers.
    fn checked(self) -> Self {
        assert!(self.is_here(), "this machine has no {self:?}");
        self
    }

    /// Runs a plain loop compiled for this width. Panics where the machine lacks it.
    pub fn run_loop(self, kernel: impl SimdKernel) {
        match self.checked() {
            // Every compiler for 64-bit ARM uses NEON for plain loops.
            Self::Scalar | Self::Neon => kernel.run(),
            // SAFETY: `checked` found the features of this width.
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => unsafe { avx2::run_loop(kernel) },
            // SAFETY: as for AVX2.
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => unsafe { avx512::run_loop(kernel) },
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx2 | Self::Avx512 => unreachable!("only x86-64 has them"),
        }
    }

    /// Runs a float kernel compiled for this width. Panics where the machine lacks it.
    ///
    /// # Safety
    /// What the kernel itself asks for.
    pub unsafe fn run(self, kernel: impl FloatKernel) {
        // SAFETY: `checked` found the features of this width; the rest is the caller's part.
        unsafe {
            match self.checked() {
                Self::Scalar => kernel.run::<Scalar>(),
                #[cfg(target_arch = "aarch64")]
                Self::Neon => neon::run_floats(kernel),
                #[cfg(not(target_arch = "aarch64"))]
                Self::Neon => unreachable!("only 64-bit ARM has it"),
                #[cfg(target_arch = "x86_64")]
                Self::Avx2 => avx2::run_floats(kernel),
                #[cfg(target_arch = "x86_64")]
                Self::Avx512 => avx512::run_floats(kernel),
                #[cfg(not(target_arch = "x86_64"))]
                Self::Avx2 | Self::Avx512 => unreachable!("only x86-64 has them"),
            }
        }
    }
}

/// Runs a plain loop with the widest registers of the machine.
pub fn dispatch(kernel: impl SimdKernel) {
    VectorWidth::best().run_loop(kernel);
}

/// Instruction sets that quantized products are compiled for, slowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// Portable code; any machine.
    Scalar,
    /// NEON: every 64-bit ARM.
    Neon,
    /// NEON with the dot product of signed bytes: ARM from Cortex-A75 and Apple A13 on, Raspberry Pi 5.
    NeonDot,
    /// NEON with products of unsigned and signed bytes, of matrices too: Armv8.6, Apple M2, Graviton 3 and later.
    NeonI8mm,
    /// AVX2 and FMA: Intel Haswell, AMD Zen and later.
    Avx2,
    /// AVX2 with the integer dot product of AVX-VNNI: Intel Alder Lake and later.
    AvxVnni,
    /// AVX-512 with VNNI: Intel Ice Lake, AMD Zen 4 and later.
    Avx512Vnni,
    /// The same with AMX, which multiplies the bytes of 16 rows and 16 tokens at once: Intel Sapphire Rapids and later servers.
    Amx,
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scalar => "portable code",
            Self::Neon => "NEON",
            Self::NeonDot => "NEON with dotprod",
            Self::NeonI8mm => "NEON with i8mm",
            Self::Avx2 => "AVX2",
            Self::AvxVnni => "AVX-VNNI",
            Self::Avx512Vnni => "AVX-512 VNNI",
            Self::Amx => "AMX",
        })
    }
}

impl Isa {
    /// The instruction sets of this machine, best last.
    pub fn available() -> Vec<Isa> {
        use Isa::*;
        [Scalar, Neon, NeonDot, NeonI8mm, Avx2, AvxVnni, Avx512Vnni, Amx]
            .into_iter()
            .filter(|isa| isa.is_here())
            .collect()
    }

    /// Says that this process executes the instructions of AMX itself where the processor has none, for tests of what is written
    /// in them. To be called before anything else of this type.
    ///
    /// # Safety
    /// It does, from now on.
    #[cfg(target_arch = "x86_64")]
    pub unsafe fn emulate_amx() {
        // SAFETY: that of this function.
        unsafe { amx::emulate() }
    }

    fn is_here(self) -> bool {
        #[cfg(target_arch = "aarch64")]
        use std::arch::is_aarch64_feature_detected as has;
        #[cfg(target_arch = "x86_64")]
        use std::arch::is_x86_feature_detected as has;
        match self {
            Isa::Scalar => true,
            Isa::Neon => cfg!(target_arch = "aarch64"),
            #[cfg(target_arch = "aarch64")]
            Isa::NeonDot => has!("dotprod"),
            #[cfg(target_arch = "aarch64")]
            Isa::NeonI8mm => has!("dotprod") && has!("i8mm"),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => VectorWidth::Avx2.is_here(),
            #[cfg(target_arch = "x86_64")]
            Isa::AvxVnni => VectorWidth::Avx2.is_here() && has!("avxvnni"),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vnni => VectorWidth::Avx512.is_here() && has!("avx512vnni"),
            #[cfg(target_arch = "x86_64")]
            Isa::Amx => Isa::Avx512Vnni.is_here() && amx::is_here(),
            #[allow(unreachable_patterns)] // On a processor with all of the above.
            _ => false,
        }
    }

    /// The best instruction set of this machine.
    pub fn best() -> Isa {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(|| Isa::available().pop().expect("scalar code runs everywhere"))
    }

    /// Whether its vectors are the 32 registers of 512 bits.
    pub(crate) fn is_avx512(self) -> bool {
        matches!(self, Isa::Avx512Vnni | Isa::Amx)
    }

    /// Panics when this machine lacks the instruction set.
    pub(crate) fn checked(self) -> Isa {
        assert!(self.is_here(), "this machine has no {self:?}");
        self
    }

    /// Runs a kernel compiled for this instruction set.
    ///
    /// # Safety
    /// The machine has the instruction set (see [`Isa::checked`]), and what the kernel itself asks for.
    pub(crate) unsafe fn run<K: LaneKernel>(self, kernel: K) {
        // SAFETY: the caller checked the instruction set; each function below enables exactly what its lanes use.
        unsafe {
            match self {
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512Vnni | Isa::Amx => avx512::run(kernel),
                _ if K::ONLY_AVX512 => unreachable!("a kernel for AVX-512 on {self}"),
                Isa::Scalar => kernel.run::<Scalar>(),
                #[cfg(target_arch = "aarch64")]
                Isa::Neon => neon::run(kernel),
                #[cfg(target_arch = "aarch64")]
                Isa::NeonDot => neon::run_dot(kernel),
                #[cfg(target_arch = "aarch64")]
                Isa::NeonI8mm => neon::run_i8mm(kernel),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => avx2::run(kernel),
                #[cfg(target_arch = "x86_64")]
                Isa::AvxVnni => avx2::run_vnni(kernel),
                _ => unreachable!("`available` has those of this processor only"),
            }
        }
    }
}
