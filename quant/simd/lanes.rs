//! Vector registers as lanes of 32 bits, one lane per row of a weight tile (or per column of a float vector).
//!
//! A row never leaves its lane (but for [`Lanes::zip`], and that for whole products): integer sums are exact and each f32
//! operation happens in the same order on each of these, so all instruction sets give the same bits.

/// Writes functions of [`FloatLanes`] and [`Lanes`], each one expression of intrinsics.
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
// Used only where a processor's intrinsics are.
#[allow(unused_imports)]
pub(super) use lanes;

/// A plain loop to be compiled for every vector width. Rust neither fuses nor reorders arithmetic, so all of them
/// give the same bits.
pub trait SimdKernel {
    /// Implementations are `#[inline(always)]`, as is all that they call: what is not inlined lacks the
    /// instructions.
    fn run(self);
}

/// Float arithmetic to be compiled for every vector width. Implementations are `#[inline(always)]`, so that the body
/// lands in a function that enables the instructions.
pub trait FloatKernel {
    /// # Safety
    /// The machine can run `L`; more in the implementation.
    unsafe fn run<L: FloatLanes>(self);
}

/// Integer products to be compiled for every instruction set, in the same way.
pub(crate) trait LaneKernel {
    /// Whether it is made for the registers of AVX-512 alone: it is not compiled for others.
    const ONLY_AVX512: bool = false;
    /// # Safety
    /// The machine can run `L`; more in the implementation.
    unsafe fn run<L: Lanes>(self);
}

/// `ROWS` floats side by side.
///
/// # Safety
/// All functions: the machine has the instructions, and pointers are valid for `ROWS` elements
/// (no alignment is asked for).
#[allow(clippy::missing_safety_doc)] // Stated once, here above.
pub trait FloatLanes: Copy {
    /// Lanes of one register; divides 16.
    const ROWS: usize;
    /// f32 per lane.
    type F: Copy;
    /// f64 per lane.
    type D: Copy;

    /// One f16 per lane, widened.
    unsafe fn load_f16(p: *const u8) -> Self::F;
    /// One bf16 per lane, widened.
    unsafe fn load_bf16(p: *const u8) -> Self::F;
    /// One f32 per lane.
    unsafe fn load_f32(p: *const f32) -> Self::F;
    /// Writes one f32 per lane.
    unsafe fn store_f32(v: Self::F, p: *mut f32);
    /// One f64 per lane.
    unsafe fn load_f64(p: *const f64) -> Self::D;
    /// Writes one f64 per lane.
    unsafe fn store_f64(v: Self::D, p: *mut f64);
    /// `a·b + c` where `a·b` is exact.
    unsafe fn fma_f64(a: Self::D, b: Self::D, c: Self::D) -> Self::D;
    /// The same f32 in all lanes.
    unsafe fn splat_f32(v: f32) -> Self::F;
    /// `a·b`, rounded.
    unsafe fn mul(a: Self::F, b: Self::F) -> Self::F;
    /// `a·b + c`, rounded once.
    unsafe fn fma(a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// `a + b`, rounded.
    unsafe fn add_f32(a: Self::F, b: Self::F) -> Self::F;
    /// The larger of both; of a number in `a` and NaN in `b`, NaN.
    unsafe fn max_f32(a: Self::F, b: Self::F) -> Self::F;
    /// `2^n` of integers from −126 to 127 that are in the low bits, as where 1.5·2²³ was added to them.
    unsafe fn power_of_2(v: Self::F) -> Self::F;
}

/// `ROWS` rows of integers side by side.
///
/// # Safety
/// As [`FloatLanes`].
pub(crate) trait Lanes: FloatLanes {
    /// Whether `dot` takes 128 off each `w`, because the instructions want it so.
    const CENTRED: bool;
    /// Whether [`Lanes::dot_short`] is fewer instructions than `dot`.
    const SHORT_SUMS: bool = false;
    /// Whether two of [`Lanes::dot_pairs`] are fewer instructions than `dot`.
    const PAIRS: bool = false;
    /// Whether there is [`Lanes::dot_matrices`], with more products per instruction than `dot`. `ROWS` is 8 then.
    const MATRICES: bool = false;
    /// 32-bit integers, or four bytes per lane.
    type V: Copy;

    /// Four bytes per lane.
    unsafe fn load(p: *const u8) -> Self::V;
    /// One unsigned byte per lane, widened.
    unsafe fn load_u8(p: *const u8) -> Self::V;
    /// One signed byte per lane, widened.
    unsafe fn load_i8(p: *const u8) -> Self::V;
    /// Writes four bytes per lane.
    unsafe fn store(v: Self::V, p: *mut u8);

    /// The same integer in all lanes.
    unsafe fn splat(v: i32) -> Self::V;
    /// Bitwise and with a constant.
    unsafe fn and(v: Self::V, mask: u32) -> Self::V;
    /// Bitwise or.
    unsafe fn or(a: Self::V, b: Self::V) -> Self::V;
    /// Bitwise exclusive or with a constant.
    unsafe fn xor(v: Self::V, mask: u32) -> Self::V;
    /// Integer addition, modulo 2³². Only where tiles of AMX are.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn sum(_a: Self::V, _b: Self::V) -> Self::V {
        unreachable!("only with AMX")
    }
    /// Integer addition of a constant, modulo 2³².
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
    /// Two sums of 16 bits per lane: each of two products of unsigned bytes of `w` with signed bytes of `a`. That must fit. Only
    /// where `SHORT_SUMS` says so.
    #[inline(always)]
    unsafe fn short_sums(_w: Self::V, _a: *const i8) -> Self::V {
        unreachable!("only with SHORT_SUMS")
    }
    /// [`Lanes::short_sums`] added to `acc`; that must fit, too.
    #[inline(always)]
    unsafe fn dot_short(_acc: Self::V, _w: Self::V, _a: *const i8) -> Self::V {
        unreachable!("only with SHORT_SUMS")
    }
    /// `acc + Σ_p w_p · a_p`: two signed 16-bit integers per lane by the same two.
    unsafe fn dot_pairs(acc: Self::V, w: Self::V, a: *const i16) -> Self::V;

    /// Integers of both in turns: first those of the first half of the lanes, then those of the second. Only where `MATRICES` says
    /// so, as all that follows from here.
    #[inline(always)]
    unsafe fn zip(_a: Self::V, _b: Self::V) -> [Self::V; 2] {
        unreachable!("only with MATRICES")
    }
    /// What `zip` was made of.
    #[inline(always)]
    unsafe fn unzip(_zipped: [Self::V; 2]) -> [Self::V; 2] {
        unreachable!("only with MATRICES")
    }
    /// Two integers in turns.
    #[inline(always)]
    unsafe fn splat_two(_p: *const i32) -> Self::V {
        unreachable!("only with MATRICES")
    }
    /// `acc + Σ_b w_b · a_b`, exactly, of half the rows by two tokens in turns: eight unsigned bytes of each row, which are two
    /// quads in turns, by eight signed bytes of one token and, behind them, of the other.
    #[inline(always)]
    unsafe fn dot_matrices(_acc: Self::V, _w: Self::V, _a: *const i8) -> Self::V {
        unreachable!("only with MATRICES")
    }

    /// The larger of two signed integers.
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V;
    /// The integer of each lane; behind those of `ROWS` there are zeros.
    #[inline(always)]
    unsafe fn each(v: Self::V) -> [i32; 16] {
        let mut lanes = [0; 16];
        // SAFETY: the trait's contract; there are 16 of four bytes each.
        unsafe { Self::store(v, lanes.as_mut_ptr().cast()) };
        lanes
    }
    /// The largest of all lanes' integers, none of which is negative.
    #[inline(always)]
    unsafe fn largest(v: Self::V) -> i32 {
        // SAFETY: the trait's contract.
        unsafe { Self::each(v) }.into_iter().fold(0, i32::max)
    }
    /// The sum of all lanes' integers, modulo 2³².
    #[inline(always)]
    unsafe fn total(v: Self::V) -> i32 {
        // SAFETY: the trait's contract.
        unsafe { Self::each(v) }.into_iter().fold(0, i32::wrapping_add)
    }
    /// Writes the lowest byte of each lane.
    #[inline(always)]
    unsafe fn store_8(v: Self::V, p: *mut i8) {
        // SAFETY: the trait's contract.
        unsafe {
            let lanes = Self::each(v);
            for i in 0..Self::ROWS {
                p.add(i).write(lanes[i] as i8);
            }
        }
    }
    /// Writes the lowest 16 bits of each lane.
    #[inline(always)]
    unsafe fn store_16(v: Self::V, p: *mut i16) {
        // SAFETY: the trait's contract.
        unsafe {
            let lanes = Self::each(v);
            for i in 0..Self::ROWS {
                p.add(i).write_unaligned(lanes[i] as i16);
            }
        }
    }

    /// The f32 with these bits.
    unsafe fn bits_to_f32(v: Self::V) -> Self::F;
    /// The f16 in the lower half of each lane, widened.
    unsafe fn f16_to_f32(v: Self::V) -> Self::F;
    /// The bits of an f32.
    unsafe fn f32_to_bits(v: Self::F) -> Self::V;
    /// Integers to f32.
    unsafe fn to_f32(v: Self::V) -> Self::F;

    /// 16 bytes of each of `ROWS` rows, `offset` behind the pointers that are there: vector `i` has their words `i`.
    unsafe fn words(rows: *const *const u8, offset: usize) -> [Self::V; 4];

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
            y[i] += sum_lanes(lines[i]);
        }
    }
}

/// The sum of all lanes: halves added until one is left.
#[inline(always)]
pub(crate) fn sum_lanes(mut sums: [f32; 16]) -> f32 {
    let mut n = sums.len();
    while n > 1 {
        n /= 2;
        for i in 0..n {
            sums[i] += sums[i + n];
        }
    }
    sums[0]
}
