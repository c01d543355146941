//! Eight rows in a pair of NEON registers, with the integer dot product of Armv8.4, of the int8 extension, or made of
//! what every 64-bit ARM has. A block of codes in pairs fills half of the 32 registers. With the int8 extension an instruction
//! multiplies two rows by two tokens, over eight columns: twice as many products as of a dot product.

use std::arch::{aarch64::*, asm};

use super::lanes::{FloatKernel, FloatLanes, LaneKernel, Lanes, lanes};

/// # Safety
/// What the kernel itself asks for: every 64-bit ARM has NEON.
#[target_feature(enable = "neon")]
pub(super) unsafe fn run<K: LaneKernel>(kernel: K) {
    // SAFETY: the features that `Neon` uses are enabled here; the rest is the caller's part.
    unsafe { kernel.run::<Neon>() }
}

/// # Safety
/// The machine has these features; what the kernel itself asks for.
#[target_feature(enable = "neon,dotprod")]
pub(super) unsafe fn run_dot<K: LaneKernel>(kernel: K) {
    // SAFETY: the features that `NeonDot` uses are enabled here; the rest is the caller's part.
    unsafe { kernel.run::<NeonDot>() }
}

/// # Safety
/// The machine has these features; what the kernel itself asks for.
#[target_feature(enable = "neon,dotprod,i8mm")]
pub(super) unsafe fn run_i8mm<K: LaneKernel>(kernel: K) {
    // SAFETY: the features that `NeonI8mm` uses are enabled here; the rest is the caller's part.
    unsafe { kernel.run::<NeonI8mm>() }
}

/// # Safety
/// What the kernel itself asks for.
#[target_feature(enable = "neon")]
pub(super) unsafe fn run_floats<K: FloatKernel>(kernel: K) {
    // SAFETY: the features that `Neon` uses are enabled here; the rest is the caller's part.
    unsafe { kernel.run::<Neon>() }
}

/// Eight lanes, dot products of centred codes by multiplications of bytes and additions of pairs.
#[derive(Clone, Copy)]
pub(super) struct Neon;

/// Eight lanes, dot products of centred codes by `sdot`.
#[derive(Clone, Copy)]
pub(super) struct NeonDot;

/// Eight lanes, dot products by `usdot`, those of many tokens by `usmmla`.
#[derive(Clone, Copy)]
pub(super) struct NeonI8mm;

/// Eight floats.
type Floats = [float32x4_t; 2];
/// Eight integers, or four bytes for each of eight rows.
type Words = [int32x4_t; 2];

/// Both registers of one operand.
#[inline(always)]
fn each<A: Copy, R>(a: [A; 2], f: impl Fn(A) -> R) -> [R; 2] {
    [f(a[0]), f(a[1])]
}

/// Both registers of two operands.
#[inline(always)]
fn both<A: Copy, B: Copy, R>(a: [A; 2], b: [B; 2], f: impl Fn(A, B) -> R) -> [R; 2] {
    [f(a[0], b[0]), f(a[1], b[1])]
}

/// Codes without the 128 that centred formats add.
///
/// # Safety
/// The machine has NEON.
#[inline(always)]
unsafe fn centred(w: int32x4_t) -> int8x16_t {
    // SAFETY: that of this function.
    unsafe { vreinterpretq_s8_u8(veorq_u8(vreinterpretq_u8_s32(w), vdupq_n_u8(0x80))) }
}

/// `acc + Σ (w − 128)·a`, exactly: a product of two signed bytes fits 16 bits, and sums of pairs are made in 32.
///
/// # Safety
/// The machine has NEON.
#[inline(always)]
unsafe fn dot(acc: int32x4_t, w: int32x4_t, a: int8x16_t) -> int32x4_t {
    // SAFETY: that of this function.
    unsafe {
        let w = centred(w);
        let low = vmull_s8(vget_low_s8(w), vget_low_s8(a));
        let high = vmull_high_s8(w, a);
        vaddq_s32(acc, vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high)))
    }
}

/// The same by one instruction, which has no stable intrinsic. The assembler is told of it: without optimization the code
/// around is compiled for less.
///
/// # Safety
/// The machine has the dot product of Armv8.4.
#[inline(always)]
unsafe fn sdot(mut acc: int32x4_t, w: int32x4_t, a: int8x16_t) -> int32x4_t {
    // SAFETY: that of this function; registers only.
    unsafe {
        let w = centred(w);
        asm!(".arch_extension dotprod", "sdot {acc:v}.4s, {w:v}.16b, {a:v}.16b", acc = inout(vreg) acc,
            w = in(vreg) w, a = in(vreg) a, options(pure, nomem, nostack, preserves_flags));
    }
    acc
}

/// `acc + Σ w·a` of unsigned and signed bytes by one instruction, which has no stable intrinsic.
///
/// # Safety
/// The machine has the int8 matrix extension.
#[inline(always)]
unsafe fn usdot(mut acc: int32x4_t, w: int32x4_t, a: int8x16_t) -> int32x4_t {
    // SAFETY: that of this function; registers only.
    unsafe {
        asm!(".arch_extension i8mm", "usdot {acc:v}.4s, {w:v}.16b, {a:v}.16b", acc = inout(vreg) acc,
            w = in(vreg) w, a = in(vreg) a, options(pure, nomem, nostack, preserves_flags));
    }
    acc
}

/// `acc + Σ w·a` of two rows (eight unsigned bytes of each) and two tokens (eight signed ones of each) by one instruction, which has
/// no stable intrinsic: sums of the first row with both tokens, then of the second.
///
/// # Safety
/// The machine has the int8 matrix extension.
#[inline(always)]
unsafe fn usmmla(mut acc: int32x4_t, w: int32x4_t, a: int8x16_t) -> int32x4_t {
    // SAFETY: that of this function; registers only.
    unsafe {
        asm!(".arch_extension i8mm", "usmmla {acc:v}.4s, {w:v}.16b, {a:v}.16b", acc = inout(vreg) acc,
            w = in(vreg) w, a = in(vreg) a, options(pure, nomem, nostack, preserves_flags));
    }
    acc
}

/// Two sums of 16 bits per lane: each of two products of a byte of `w` below 128 with one of `a`.
///
/// # Safety
/// The machine has NEON.
#[inline(always)]
unsafe fn short_sums(w: int32x4_t, a: int8x16_t) -> int32x4_t {
    // SAFETY: that of this function.
    unsafe {
        let w = vreinterpretq_s8_s32(w);
        let (low, high) = (vmull_s8(vget_low_s8(w), vget_low_s8(a)), vmull_high_s8(w, a));
        vreinterpretq_s32_s16(vpaddq_s16(low, high))
    }
}

/// [`short_sums`] added to `acc`.
///
/// # Safety
/// The machine has NEON.
#[inline(always)]
unsafe fn dot_short(acc: int32x4_t, w: int32x4_t, a: int8x16_t) -> int32x4_t {
    // SAFETY: that of this function.
    unsafe {
        let sums = vreinterpretq_s16_s32(short_sums(w, a));
        vreinterpretq_s32_s16(vaddq_s16(vreinterpretq_s16_s32(acc), sums))
    }
}

/// `acc + Σ_p w_p · a_p` of two signed 16-bit integers per lane.
///
/// # Safety
/// The machine has NEON.
#[inline(always)]
unsafe fn dot_pairs(acc: int32x4_t, w: int32x4_t, a: int16x8_t) -> int32x4_t {
    // SAFETY: that of this function.
    unsafe {
        let w = vreinterpretq_s16_s32(w);
        let (low, high) = (vmull_s16(vget_low_s16(w), vget_low_s16(a)), vmull_high_s16(w, a));
        vaddq_s32(acc, vpaddq_s32(low, high))
    }
}

/// Line `i` of the result holds word `i` of four rows (of 16 bytes).
///
/// # Safety
/// The machine has NEON; the rows are valid.
#[inline(always)]
unsafe fn transpose_4(rows: [*const u8; 4]) -> [int32x4_t; 4] {
    // SAFETY: that of this function.
    unsafe {
        let [a, b, c, d] = rows.map(|row| vreinterpretq_s32_u8(vld1q_u8(row)));
        // Words 0 and 2 of two rows, then 1 and 3.
        let (ab, ab_odd) = (vreinterpretq_s64_s32(vtrn1q_s32(a, b)), vreinterpretq_s64_s32(vtrn2q_s32(a, b)));
        let (cd, cd_odd) = (vreinterpretq_s64_s32(vtrn1q_s32(c, d)), vreinterpretq_s64_s32(vtrn2q_s32(c, d)));
        [vtrn1q_s64(ab, cd), vtrn1q_s64(ab_odd, cd_odd), vtrn2q_s64(ab, cd), vtrn2q_s64(ab_odd, cd_odd)]
            .map(|words| vreinterpretq_s32_s64(words))
    }
}

/// Writes the traits for a type, given its dot product; each function is one expression of intrinsics.
macro_rules! eight_lanes {
    ($lanes:ty, $dot:expr, centred: $centred:literal, short sums: $short:literal, matrices: $matrices:literal) => {
        impl FloatLanes for $lanes {
            const ROWS: usize = 8;
            type F = Floats;
            type D = [float64x2_t; 4];
            lanes! {
                load_f16(p: *const u8) -> Floats = {
                    let halves = vreinterpretq_f16_u8(vld1q_u8(p));
                    [vcvt_f32_f16(vget_low_f16(halves)), vcvt_high_f32_f16(halves)]
                };
                load_bf16(p: *const u8) -> Floats = {
                    let halves = vreinterpretq_u16_u8(vld1q_u8(p));
                    let words = [vshll_n_u16::<16>(vget_low_u16(halves)), vshll_high_n_u16::<16>(halves)];
                    each(words, |w| vreinterpretq_f32_u32(w))
                };
                load_f32(p: *const f32) -> Floats = [vld1q_f32(p), vld1q_f32(p.add(4))];
                store_f32(v: Floats, p: *mut f32) -> () = {
                    vst1q_f32(p, v[0]);
                    vst1q_f32(p.add(4), v[1]);
                };
                load_f64(p: *const f64) -> [float64x2_t; 4] =
                    [vld1q_f64(p), vld1q_f64(p.add(2)), vld1q_f64(p.add(4)), vld1q_f64(p.add(6))];
                store_f64(v: [float64x2_t; 4], p: *mut f64) -> () = {
                    for i in 0..4 {
                        vst1q_f64(p.add(2 * i), v[i]);
                    }
                };
                fma_f64(a: [float64x2_t; 4], b: [float64x2_t; 4], c: [float64x2_t; 4]) -> [float64x2_t; 4] = [
                    vfmaq_f64(c[0], a[0], b[0]),
                    vfmaq_f64(c[1], a[1], b[1]),
                    vfmaq_f64(c[2], a[2], b[2]),
                    vfmaq_f64(c[3], a[3], b[3]),
                ];
                splat_f32(v: f32) -> Floats = [vdupq_n_f32(v); 2];
                mul(a: Floats, b: Floats) -> Floats = both(a, b, |a, b| vmulq_f32(a, b));
                fma(a: Floats, b: Floats, c: Floats) -> Floats =
                    [vfmaq_f32(c[0], a[0], b[0]), vfmaq_f32(c[1], a[1], b[1])];
                add_f32(a: Floats, b: Floats) -> Floats = both(a, b, |a, b| vaddq_f32(a, b));
                max_f32(a: Floats, b: Floats) -> Floats = both(a, b, |a, b| vbslq_f32(vcgtq_f32(a, b), a, b));
                power_of_2(v: Floats) -> Floats = each(v, |v| {
                    let exponent = vaddq_s32(vreinterpretq_s32_f32(v), vdupq_n_s32(127));
                    vreinterpretq_f32_s32(vshlq_n_s32::<23>(exponent))
                });
            }
        }

        impl Lanes for $lanes {
            const CENTRED: bool = $centred;
            const SHORT_SUMS: bool = $short;
            const MATRICES: bool = $matrices;
            type V = Words;
            lanes! {
                load(p: *const u8) -> Words =
                    [vreinterpretq_s32_u8(vld1q_u8(p)), vreinterpretq_s32_u8(vld1q_u8(p.add(16)))];
                load_u8(p: *const u8) -> Words = {
                    let wide = vmovl_u8(vld1_u8(p));
                    each([vmovl_u16(vget_low_u16(wide)), vmovl_high_u16(wide)], |w| vreinterpretq_s32_u32(w))
                };
                load_i8(p: *const u8) -> Words = {
                    let wide = vmovl_s8(vld1_s8(p.cast()));
                    [vmovl_s16(vget_low_s16(wide)), vmovl_high_s16(wide)]
                };
                store(v: Words, p: *mut u8) -> () = {
                    vst1q_u8(p, vreinterpretq_u8_s32(v[0]));
                    vst1q_u8(p.add(16), vreinterpretq_u8_s32(v[1]));
                };
                splat(v: i32) -> Words = [vdupq_n_s32(v); 2];
                and(v: Words, mask: u32) -> Words = each(v, |v| vandq_s32(v, vdupq_n_s32(mask as i32)));
                or(a: Words, b: Words) -> Words = both(a, b, |a, b| vorrq_s32(a, b));
                xor(v: Words, mask: u32) -> Words = each(v, |v| veorq_s32(v, vdupq_n_s32(mask as i32)));
                words(rows: *const *const u8, offset: usize) -> [Words; 4] = {
                    let row = |r: usize| (*rows.add(r)).wrapping_add(offset);
                    let low = transpose_4([row(0), row(1), row(2), row(3)]);
                    let high = transpose_4([row(4), row(5), row(6), row(7)]);
                    [[low[0], high[0]], [low[1], high[1]], [low[2], high[2]], [low[3], high[3]]]
                };
                add(v: Words, n: i32) -> Words = each(v, |v| vaddq_s32(v, vdupq_n_s32(n)));
                shl(v: Words, n: u32) -> Words = each(v, |v| vshlq_s32(v, vdupq_n_s32(n as i32)));
                // A shift left by a negative number is one to the right.
                shr(v: Words, n: u32) -> Words = each(v, |v| {
                    vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(v), vdupq_n_s32(-(n as i32))))
                });
                lookup(v: Words, table: &[u8; 16]) -> Words = {
                    let table = vld1q_u8(table.as_ptr());
                    each(v, |v| vreinterpretq_s32_u8(vqtbl1q_u8(table, vreinterpretq_u8_s32(v))))
                };
                dot(acc: Words, w: Words, a: *const i8) -> Words = {
                    let a = vreinterpretq_s8_s32(vdupq_n_s32(a.cast::<i32>().read_unaligned()));
                    both(acc, w, |acc, w| $dot(acc, w, a))
                };
                short_sums(w: Words, a: *const i8) -> Words = {
                    let a = vreinterpretq_s8_s32(vdupq_n_s32(a.cast::<i32>().read_unaligned()));
                    each(w, |w| short_sums(w, a))
                };
                dot_short(acc: Words, w: Words, a: *const i8) -> Words = {
                    let a = vreinterpretq_s8_s32(vdupq_n_s32(a.cast::<i32>().read_unaligned()));
                    both(acc, w, |acc, w| dot_short(acc, w, a))
                };
                dot_pairs(acc: Words, w: Words, a: *const i16) -> Words = {
                    let a = vreinterpretq_s16_s32(vdupq_n_s32(a.cast::<i32>().read_unaligned()));
                    both(acc, w, |acc, w| dot_pairs(acc, w, a))
                };
                zip(a: Words, b: Words) -> [Words; 2] = both(a, b, |a, b| [vzip1q_s32(a, b), vzip2q_s32(a, b)]);
                unzip(zipped: [Words; 2]) -> [Words; 2] = {
                    let [low, high] = zipped;
                    [
                        [vuzp1q_s32(low[0], low[1]), vuzp1q_s32(high[0], high[1])],
                        [vuzp2q_s32(low[0], low[1]), vuzp2q_s32(high[0], high[1])],
                    ]
                };
                splat_two(p: *const i32) -> Words =
                    [vreinterpretq_s32_s64(vdupq_n_s64(p.cast::<i64>().read_unaligned())); 2];
                dot_matrices(acc: Words, w: Words, a: *const i8) -> Words = {
                    let a = vld1q_s8(a);
                    both(acc, w, |acc, w| usmmla(acc, w, a))
                };
                max(a: Words, b: Words) -> Words = both(a, b, |a, b| vmaxq_s32(a, b));
                f16_to_f32(v: Words) -> Floats = each(v, |v| {
                    vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(vreinterpretq_u32_s32(v))))
                });
                f32_to_bits(v: Floats) -> Words = each(v, |v| vreinterpretq_s32_f32(v));
                bits_to_f32(v: Words) -> Floats = each(v, |v| vreinterpretq_f32_s32(v));
                to_f32(v: Words) -> Floats = each(v, |v| vcvtq_f32_s32(v));
            }

            #[inline(always)]
            unsafe fn transpose(rows: &[*const u8; 16]) -> [[u32; 16]; 16] {
                let mut lines = [[0u32; 16]; 16];
                for (r, rows) in rows.as_chunks::<4>().0.iter().enumerate() {
                    for quarter in 0..4 {
                        // SAFETY: the trait's contract; rows have 64 bytes, lines 16 words.
                        unsafe {
                            let words = transpose_4(rows.map(|row| row.wrapping_add(16 * quarter)));
                            for (line, words) in lines[4 * quarter..].iter_mut().zip(words) {
                                vst1q_u32(line.as_mut_ptr().add(4 * r), vreinterpretq_u32_s32(words));
                            }
                        }
                    }
                }
                lines
            }
        }
    };
}

eight_lanes!(Neon, dot, centred: true, short sums: true, matrices: false);
eight_lanes!(NeonDot, sdot, centred: true, short sums: false, matrices: false);
eight_lanes!(NeonI8mm, usdot, centred: false, short sums: false, matrices: true);
