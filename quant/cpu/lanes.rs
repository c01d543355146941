//! Vector registers as lanes of 32 bits, one lane per row of a weight tile.
//!
//! Every kernel is written once against [`Lanes`] and compiled for each instruction set. A row never
//! leaves its lane: integer sums are exact and each f32 operation happens in the same order on each of
//! these, so all instruction sets give the same bits.

/// Writes functions of [`Lanes`], each one expression of intrinsics.
macro_rules! lanes {
    ($($name:ident($($arg:ident: $ty:ty),*) -> $out:ty = $body:expr;)*) => {$(
        #[inline(always)]
        unsafe fn $name($($arg: $ty),*) -> $out {
            // SAFETY: the trait's contract: the machine has the instructions and the pointers are valid
            // for `ROWS` elements; the loads and stores here are unaligned ones of exactly that size.
            unsafe { $body }
        }
    )*};
}

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod scalar;

pub(super) use scalar::Scalar;

use super::floats::add_lanes;

/// Instruction sets that the kernels are compiled for, slowest first.
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
            let avx2 = has!("avx2") && has!("fma") && has!("f16c");
            if avx2 {
                all.push(Isa::Avx2);
            }
            if avx2 && has!("avxvnni") {
                all.push(Isa::AvxVnni);
            }
            if avx2 && has!("avx512f") && has!("avx512bw") && has!("avx512vl") && has!("avx512vnni") {
                all.push(Isa::Avx512Vnni);
            }
        }
        all
    }

    /// The best instruction set of this machine.
    pub fn best() -> Isa {
        static BEST: std::sync::OnceLock<Isa> = std::sync::OnceLock::new();
        *BEST.get_or_init(|| Isa::available().pop().expect("scalar code runs everywhere"))
    }

    /// Panics when this machine lacks the instruction set.
    pub(super) fn checked(self) -> Isa {
        assert!(self <= Isa::best() && Isa::available().contains(&self), "this machine has no {self:?}");
        self
    }

    /// Runs a kernel compiled for this instruction set.
    ///
    /// # Safety
    /// The machine has the instruction set (see [`Isa::checked`]), and the kernel's own promises hold.
    pub(super) unsafe fn run<K: Kernel>(self, kernel: K) {
        // SAFETY: the caller's promise; each function below enables exactly what its lanes use.
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

/// Code to be compiled for every instruction set. Implementations are `#[inline(always)]`, so that the
/// body lands in a function that enables the instructions.
pub(super) trait Kernel {
    /// # Safety
    /// The machine can run `L`; more in the implementation.
    unsafe fn run<L: Lanes>(self);
}

/// `ROWS` rows side by side.
///
/// # Safety
/// All functions: the machine has the instructions, and pointers are valid for `ROWS` elements
/// (no alignment is asked for).
pub(super) trait Lanes: Copy {
    /// Rows in one register; divides 16.
    const ROWS: usize;
    /// Whether `dot` takes 128 off each `w`, because the instructions want it so.
    const CENTRED: bool;
    /// 32-bit integers, or four bytes per lane.
    type V: Copy;
    /// f32 per lane.
    type F: Copy;

    /// Four bytes per lane.
    unsafe fn load(p: *const u8) -> Self::V;
    /// One unsigned byte per lane, widened.
    unsafe fn load_u8(p: *const u8) -> Self::V;
    /// One signed byte per lane, widened.
    unsafe fn load_i8(p: *const u8) -> Self::V;
    /// One f16 per lane, widened.
    unsafe fn load_f16(p: *const u8) -> Self::F;
    /// One bf16 per lane, widened.
    unsafe fn load_bf16(p: *const u8) -> Self::F;
    /// One f32 per lane.
    unsafe fn load_f32(p: *const f32) -> Self::F;
    /// Writes four bytes per lane.
    unsafe fn store(v: Self::V, p: *mut u8);
    /// Writes one f32 per lane.
    unsafe fn store_f32(v: Self::F, p: *mut f32);

    /// The same integer in all lanes.
    unsafe fn splat(v: i32) -> Self::V;
    /// The same f32 in all lanes.
    unsafe fn splat_f32(v: f32) -> Self::F;
    /// Bitwise and with a constant.
    unsafe fn and(v: Self::V, mask: u32) -> Self::V;
    /// Bitwise or.
    unsafe fn or(a: Self::V, b: Self::V) -> Self::V;
    /// Integer addition of a constant.
    unsafe fn add(v: Self::V, n: i32) -> Self::V;
    /// Shift left, n < 32.
    unsafe fn shl(v: Self::V, n: u32) -> Self::V;
    /// Logical shift right, n < 32.
    unsafe fn shr(v: Self::V, n: u32) -> Self::V;
    /// Each byte (0..16) replaced by its table entry.
    unsafe fn lookup(v: Self::V, table: &[u8; 16]) -> Self::V;
    /// `acc + Σ_b w_b · a_b`: four unsigned bytes per lane by the same four signed bytes (exact), or
    /// `acc + Σ_b (w_b − 128) · a_b` where `CENTRED`.
    unsafe fn dot(acc: Self::V, w: Self::V, a: *const i8) -> Self::V;
    /// `acc + Σ_p w_p · a_p`: two signed 16-bit integers per lane by the same two.
    unsafe fn dot_pairs(acc: Self::V, w: Self::V, a: *const i16) -> Self::V;

    /// The larger of two signed integers.
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V;

    /// The f32 with these bits.
    unsafe fn bits_to_f32(v: Self::V) -> Self::F;
    /// The f16 in the lower half of each lane, widened.
    unsafe fn f16_to_f32(v: Self::V) -> Self::F;
    /// The bits of an f32.
    unsafe fn f32_to_bits(v: Self::F) -> Self::V;
    /// Integers to f32.
    unsafe fn to_f32(v: Self::V) -> Self::F;
    /// `a·b`, rounded.
    unsafe fn mul(a: Self::F, b: Self::F) -> Self::F;
    /// `a·b + c`, rounded once.
    unsafe fn fma(a: Self::F, b: Self::F, c: Self::F) -> Self::F;

    /// Line `i` of the result holds word `i` of each of 16 rows (of 64 bytes).
    #[inline(always)]
    unsafe fn transpose(rows: &[*const u8; 16]) -> [[u32; 16]; 16] {
        let mut lines = [[0; 16]; 16];
        for (r, row) in rows.iter().enumerate() {
            // SAFETY: the trait's contract; the type has no alignment.
            let row = unsafe { row.cast::<[[u8; 4]; 16]>().read() };
            for (line, word) in lines.iter_mut().zip(row) {
                line[r] = u32::from_le_bytes(word);
            }
        }
        lines
    }

    /// Adds to `y[i]` the sum of line `i`: halves added until one lane is left.
    #[inline(always)]
    unsafe fn add_lanes(lines: &[[f32; 16]; 16], y: &mut [f32; 16]) {
        for i in 0..16 {
            y[i] += add_lanes(lines[i]);
        }
    }
}
