//! What the processor can do, asked once, and the way into code compiled for it.

use std::sync::OnceLock;

#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};
use super::{
    lanes::{FloatKernel, LaneKernel, SimdKernel},
    scalar::Scalar,
};

/// Vector registers for float arithmetic and plain loops, narrowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum VectorWidth {
    /// Whatever the compiler's target has: portable code, any machine.
    Scalar,
    /// 256 bits: AVX2, FMA and F16C.
    Avx2,
    /// 512 bits: AVX-512 F, BW, DQ and VL.
    Avx512,
}

impl VectorWidth {
    /// The widest registers of this machine.
    pub fn best() -> Self {
        static BEST: OnceLock<VectorWidth> = OnceLock::new();
        *BEST.get_or_init(Self::detect)
    }

    /// The widths of this machine, the best one last.
    pub fn available() -> impl Iterator<Item = Self> {
        [Self::Scalar, Self::Avx2, Self::Avx512].into_iter().filter(|width| *width <= Self::best())
    }

    fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            if has!("avx2") && has!("fma") && has!("f16c") {
                let wide = has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl");
                return if wide { Self::Avx512 } else { Self::Avx2 };
            }
        }
        Self::Scalar
    }

    /// Runs a plain loop compiled for this width. Panics where the machine lacks it.
    pub fn run_loop(self, kernel: impl SimdKernel) {
        assert!(self <= Self::best(), "this machine has no {self:?}");
        match self {
            Self::Scalar => kernel.run(),
            // SAFETY: `best` found the features of this width, and of each narrower one.
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => unsafe { avx2::run_loop(kernel) },
            // SAFETY: as for AVX2.
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => unsafe { avx512::run_loop(kernel) },
            #[cfg(not(target_arch = "x86_64"))]
            _ => unreachable!("`best` finds these on x86-64 only"),
        }
    }

    /// Runs a float kernel compiled for this width. Panics where the machine lacks it.
    ///
    /// # Safety
    /// What the kernel itself asks for.
    pub unsafe fn run(self, kernel: impl FloatKernel) {
        assert!(self <= Self::best(), "this machine has no {self:?}");
        // SAFETY: `best` found the features of this width, and of each narrower one; the rest is the caller's part.
        unsafe {
            match self {
                Self::Scalar => kernel.run::<Scalar>(),
                #[cfg(target_arch = "x86_64")]
                Self::Avx2 => avx2::run_floats(kernel),
                #[cfg(target_arch = "x86_64")]
                Self::Avx512 => avx512::run_floats(kernel),
                #[cfg(not(target_arch = "x86_64"))]
                _ => unreachable!("`best` finds these on x86-64 only"),
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
    /// AVX2 and FMA: Intel Haswell, AMD Zen and later.
    Avx2,
    /// AVX2 with the integer dot product of AVX-VNNI: Intel Alder Lake and later.
    AvxVnni,
    /// AVX-512 with VNNI: Intel Ice Lake, AMD Zen 4 and later.
    Avx512Vnni,
}

impl Isa {
    /// The instruction sets of this machine, best last.
    pub fn available() -> Vec<Isa> {
        let mut all = vec![Isa::Scalar];
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            let width = VectorWidth::best();
            if width >= VectorWidth::Avx2 {
                all.push(Isa::Avx2);
            }
            if width >= VectorWidth::Avx2 && has!("avxvnni") {
                all.push(Isa::AvxVnni);
            }
            if width >= VectorWidth::Avx512 && has!("avx512vnni") {
                all.push(Isa::Avx512Vnni);
            }
        }
        all
    }

    /// The best instruction set of this machine.
    pub fn best() -> Isa {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(|| Isa::available().pop().expect("scalar code runs everywhere"))
    }

    /// Panics when this machine lacks the instruction set.
    pub(crate) fn checked(self) -> Isa {
        assert!(self <= Isa::best() && Isa::available().contains(&self), "this machine has no {self:?}");
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
                Isa::Scalar => kernel.run::<Scalar>(),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => avx2::run(kernel),
                #[cfg(target_arch = "x86_64")]
                Isa::AvxVnni => avx2::run_vnni(kernel),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512Vnni => avx512::run(kernel),
                #[cfg(not(target_arch = "x86_64"))]
                _ => unreachable!("never available here"),
            }
        }
    }
}
