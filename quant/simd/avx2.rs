//! Eight rows per register, with the integer dot product of AVX-VNNI or made of AVX2 instructions.

use std::arch::{asm, x86_64::*};

use super::lanes::{FloatKernel, FloatLanes, LaneKernel, Lanes, SimdKernel, lanes};

/// # Safety
/// The machine has these features; what the kernel itself asks for.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn run<K: LaneKernel>(kernel: K) {
    // SAFETY: the features that `Avx2` uses are enabled here; the rest is the caller's part.
    unsafe { kernel.run::<Avx2>() }
}

/// # Safety
/// The machine has these features; what the kernel itself asks for.
#[target_feature(enable = "avx2,fma,f16c,avxvnni")]
pub(super) unsafe fn run_vnni<K: LaneKernel>(kernel: K) {
    // SAFETY: the features that `AvxVnni` uses are enabled here; the rest is the caller's part.
    unsafe { kernel.run::<AvxVnni>() }
}

/// # Safety
/// The machine has these features; what the kernel itself asks for.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn run_floats<K: FloatKernel>(kernel: K) {
    // SAFETY: the features that `Avx2` uses are enabled here; the rest is the caller's part.
    unsafe { kernel.run::<Avx2>() }
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn run_loop(kernel: impl SimdKernel) {
    kernel.run();
}

/// Eight lanes, dot products of centred codes.
#[derive(Clone, Copy)]
pub(super) struct Avx2;

/// Eight lanes, dot products by `vpdpbusd`.
#[derive(Clone, Copy)]
pub(super) struct AvxVnni;

/// The dot product without VNNI: `acc + Σ (w − 128)·a`, exactly.
///
/// `vpmaddubsw` saturates on codes above 128; the magnitude of a centred code is at most 128, and its sign
/// goes over to the activation, so that the sum of two products is at most 32 512.
///
/// # Safety
/// The machine has AVX2; `a` is valid for four bytes.
#[inline(always)]
unsafe fn centred_dot(acc: __m256i, w: __m256i, a: *const i8) -> __m256i {
    // SAFETY: that of this function: AVX2, and valid pointers.
    unsafe {
        let w = _mm256_xor_si256(w, _mm256_set1_epi8(i8::MIN));
        let a = _mm256_sign_epi8(_mm256_set1_epi32(a.cast::<i32>().read_unaligned()), w);
        let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), a);
        dot_pairs(acc, pairs, _mm256_set1_epi16(1))
    }
}

/// Writes instructions and their operands. They stay in the order in which they are written: with intrinsics the compiler
/// sums in another order, and no longer has registers for what it keeps meanwhile.
macro_rules! in_order {
    ($($instruction:literal),+; $($operand:tt)+) => {
        // SAFETY: registers only; the function around is compiled for AVX2.
        unsafe { asm!($($instruction),+, $($operand)+, options(nomem, nostack, preserves_flags)) }
    };
}

/// `acc + Σ_p w_p · a_p` of two signed 16-bit integers per lane.
#[target_feature(enable = "avx2")]
#[inline]
fn dot_pairs(mut acc: __m256i, w: __m256i, a: __m256i) -> __m256i {
    in_order!("vpmaddwd {sum}, {w}, {a}", "vpaddd {acc}, {acc}, {sum}";
        acc = inout(ymm_reg) acc, w = in(ymm_reg) w, a = in(ymm_reg) a, sum = out(ymm_reg) _);
    acc
}

/// Two sums of 16 bits per lane: each of two products of unsigned bytes of `w` with signed ones of `a`.
#[target_feature(enable = "avx2")]
#[inline]
fn short_sums(w: __m256i, a: __m256i) -> __m256i {
    let sums;
    in_order!("vpmaddubsw {sums}, {w}, {a}"; w = in(ymm_reg) w, a = in(ymm_reg) a, sums = out(ymm_reg) sums);
    sums
}

/// [`short_sums`] added to `acc`.
#[target_feature(enable = "avx2")]
#[inline]
fn dot_short(mut acc: __m256i, w: __m256i, a: __m256i) -> __m256i {
    in_order!("vpmaddubsw {sum}, {w}, {a}", "vpaddw {acc}, {acc}, {sum}";
        acc = inout(ymm_reg) acc, w = in(ymm_reg) w, a = in(ymm_reg) a, sum = out(ymm_reg) _);
    acc
}

/// Line `i` of the result holds word `i` of eight rows (of 32 bytes).
///
/// # Safety
/// The machine has AVX2; the rows are valid.
#[inline(always)]
unsafe fn transpose_8(rows: [*const u8; 8]) -> [__m256i; 8] {
    // SAFETY: that of this function: AVX2, and valid pointers.
    unsafe {
        let mut v = [_mm256_setzero_si256(); 8];
        // Words of two rows side by side, then of four (v[4i + c]: word c of rows 4i … 4i + 3 in each half).
        for i in 0..4 {
            let (a, b) = (_mm256_loadu_si256(rows[2 * i].cast()), _mm256_loadu_si256(rows[2 * i + 1].cast()));
            (v[2 * i], v[2 * i + 1]) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
        }
        for i in 0..2 {
            let [a, b, c, d] = [v[4 * i], v[4 * i + 1], v[4 * i + 2], v[4 * i + 3]];
            (v[4 * i], v[4 * i + 1]) = (_mm256_unpacklo_epi64(a, c), _mm256_unpackhi_epi64(a, c));
            (v[4 * i + 2], v[4 * i + 3]) = (_mm256_unpacklo_epi64(b, d), _mm256_unpackhi_epi64(b, d));
        }
        for c in 0..4 {
            let (low, high) = (v[c], v[c + 4]);
            v[c] = _mm256_permute2x128_si256::<0x20>(low, high);
            v[c + 4] = _mm256_permute2x128_si256::<0x31>(low, high);
        }
        v
    }
}

/// 16 bytes of eight rows: vector `i` has their words `i`.
///
/// # Safety
/// The machine has AVX2; there are eight pointers to rows that have 16 bytes at the offset.
#[inline(always)]
unsafe fn words(rows: *const *const u8, offset: usize) -> [__m256i; 4] {
    // SAFETY: that of this function.
    unsafe {
        let mut v = [_mm256_setzero_si256(); 4];
        for r in 0..4 {
            let (low, high) = ((*rows.add(r)).add(offset), (*rows.add(r + 4)).add(offset));
            let low = _mm256_castsi128_si256(_mm_loadu_si128(low.cast()));
            v[r] = _mm256_inserti128_si256::<1>(low, _mm_loadu_si128(high.cast()));
        }
        let (ab, ab_high) = (_mm256_unpacklo_epi32(v[0], v[1]), _mm256_unpackhi_epi32(v[0], v[1]));
        let (cd, cd_high) = (_mm256_unpacklo_epi32(v[2], v[3]), _mm256_unpackhi_epi32(v[2], v[3]));
        [
            _mm256_unpacklo_epi64(ab, cd),
            _mm256_unpackhi_epi64(ab, cd),
            _mm256_unpacklo_epi64(ab_high, cd_high),
            _mm256_unpackhi_epi64(ab_high, cd_high),
        ]
    }
}

/// Writes the trait for a type, given its dot product; each function is one expression of intrinsics.
macro_rules! eight_lanes {
    ($lanes:ty, $dot:expr, $dot_pairs:expr, centred: $centred:literal, short sums: $short:literal, pairs: $pairs:literal) => {
        impl FloatLanes for $lanes {
            const ROWS: usize = 8;
            type F = __m256;
            type D = [__m256d; 2];
            lanes! {
                load_f16(p: *const u8) -> __m256 = _mm256_cvtph_ps(_mm_loadu_si128(p.cast()));
                load_bf16(p: *const u8) -> __m256 =
                    _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast()))));
                load_f32(p: *const f32) -> __m256 = _mm256_loadu_ps(p);
                store_f32(v: __m256, p: *mut f32) -> () = _mm256_storeu_ps(p, v);
                load_f64(p: *const f64) -> [__m256d; 2] = [_mm256_loadu_pd(p), _mm256_loadu_pd(p.add(4))];
                store_f64(v: [__m256d; 2], p: *mut f64) -> () = {
                    _mm256_storeu_pd(p, v[0]);
                    _mm256_storeu_pd(p.add(4), v[1]);
                };
                fma_f64(a: [__m256d; 2], b: [__m256d; 2], c: [__m256d; 2]) -> [__m256d; 2] =
                    [_mm256_fmadd_pd(a[0], b[0], c[0]), _mm256_fmadd_pd(a[1], b[1], c[1])];
                splat_f32(v: f32) -> __m256 = _mm256_set1_ps(v);
                mul(a: __m256, b: __m256) -> __m256 = _mm256_mul_ps(a, b);
                fma(a: __m256, b: __m256, c: __m256) -> __m256 = _mm256_fmadd_ps(a, b, c);
                add_f32(a: __m256, b: __m256) -> __m256 = _mm256_add_ps(a, b);
                max_f32(a: __m256, b: __m256) -> __m256 = _mm256_max_ps(a, b);
                power_of_2(v: __m256) -> __m256 = _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_add_epi32(
                    _mm256_castps_si256(v), _mm256_set1_epi32(127))));
            }
        }

        impl Lanes for $lanes {
            const CENTRED: bool = $centred;
            const SHORT_SUMS: bool = $short;
            const PAIRS: bool = $pairs;
            type V = __m256i;
            lanes! {
                load(p: *const u8) -> __m256i = _mm256_loadu_si256(p.cast());
                load_u8(p: *const u8) -> __m256i = _mm256_cvtepu8_epi32(_mm_loadl_epi64(p.cast()));
                load_i8(p: *const u8) -> __m256i = _mm256_cvtepi8_epi32(_mm_loadl_epi64(p.cast()));
                store(v: __m256i, p: *mut u8) -> () = _mm256_storeu_si256(p.cast(), v);
                splat(v: i32) -> __m256i = _mm256_set1_epi32(v);
                and(v: __m256i, mask: u32) -> __m256i = _mm256_and_si256(v, _mm256_set1_epi32(mask as i32));
                or(a: __m256i, b: __m256i) -> __m256i = _mm256_or_si256(a, b);
                xor(v: __m256i, mask: u32) -> __m256i = _mm256_xor_si256(v, _mm256_set1_epi32(mask as i32));
                words(rows: *const *const u8, offset: usize) -> [__m256i; 4] = words(rows, offset);
                add(v: __m256i, n: i32) -> __m256i = _mm256_add_epi32(v, _mm256_set1_epi32(n));
                shl(v: __m256i, n: u32) -> __m256i = _mm256_sllv_epi32(v, _mm256_set1_epi32(n as i32));
                shr(v: __m256i, n: u32) -> __m256i = _mm256_srlv_epi32(v, _mm256_set1_epi32(n as i32));
                lookup(v: __m256i, table: &[u8; 16]) -> __m256i =
                    _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast())), v);
                dot(acc: __m256i, w: __m256i, a: *const i8) -> __m256i = $dot(acc, w, a);
                short_sums(w: __m256i, a: *const i8) -> __m256i =
                    short_sums(w, _mm256_set1_epi32(a.cast::<i32>().read_unaligned()));
                dot_short(acc: __m256i, w: __m256i, a: *const i8) -> __m256i =
                    dot_short(acc, w, _mm256_set1_epi32(a.cast::<i32>().read_unaligned()));
                dot_pairs(acc: __m256i, w: __m256i, a: *const i16) -> __m256i =
                    $dot_pairs(acc, w, _mm256_set1_epi32(a.cast::<i32>().read_unaligned()));
                max(a: __m256i, b: __m256i) -> __m256i = _mm256_max_epi32(a, b);
                largest(v: __m256i) -> i32 = {
                    let v = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256::<1>(v));
                    let v = _mm_max_epi32(v, _mm_unpackhi_epi64(v, v));
                    _mm_cvtsi128_si32(_mm_max_epi32(v, _mm_shuffle_epi32::<1>(v)))
                };
                total(v: __m256i) -> i32 = {
                    let v = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256::<1>(v));
                    let v = _mm_add_epi32(v, _mm_unpackhi_epi64(v, v));
                    _mm_cvtsi128_si32(_mm_add_epi32(v, _mm_shuffle_epi32::<1>(v)))
                };
                store_8(v: __m256i, p: *mut i8) -> () = {
                    let v = _mm256_shuffle_epi8(v, _mm256_set1_epi32(0x0c08_0400));
                    let v = _mm_unpacklo_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256::<1>(v));
                    _mm_storel_epi64(p.cast(), v)
                };
                store_16(v: __m256i, p: *mut i16) -> () = {
                    let v = _mm256_shuffle_epi8(v, _mm256_set1_epi64x(0x0d0c_0908_0504_0100));
                    let v = _mm_unpacklo_epi64(_mm256_castsi256_si128(v), _mm256_extracti128_si256::<1>(v));
                    _mm_storeu_si128(p.cast(), v)
                };
                f16_to_f32(v: __m256i) -> __m256 = {
                    let low = _mm256_and_si256(v, _mm256_set1_epi32(0xffff));
                    _mm256_cvtph_ps(_mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256::<1>(low)))
                };
                f32_to_bits(v: __m256) -> __m256i = _mm256_castps_si256(v);
                bits_to_f32(v: __m256i) -> __m256 = _mm256_castsi256_ps(v);
                to_f32(v: __m256i) -> __m256 = _mm256_cvtepi32_ps(v);
            }

            #[inline(always)]
            unsafe fn transpose(rows: &[*const u8; 16]) -> [[u32; 16]; 16] {
                let mut lines = [[0; 16]; 16];
                for (r, rows) in rows.as_chunks::<8>().0.iter().enumerate() {
                    for half in 0..2 {
                        // SAFETY: the trait's contract; rows have 64 bytes, lines 16 words.
                        unsafe {
                            let words = transpose_8(rows.map(|row| row.wrapping_add(32 * half)));
                            for i in 0..8 {
                                _mm256_storeu_si256(lines[8 * half + i].as_mut_ptr().add(8 * r).cast(), words[i]);
                            }
                        }
                    }
                }
                lines
            }
        }
    };
}

eight_lanes!(
    Avx2,
    centred_dot,
    dot_pairs,
    centred: true,
    short sums: true,
    pairs: true
);
eight_lanes!(
    AvxVnni,
    |acc, w, a: *const i8| _mm256_dpbusd_avx_epi32(acc, w, _mm256_set1_epi32(a.cast::<i32>().read_unaligned())),
    _mm256_dpwssd_avx_epi32,
    centred: false,
    short sums: false,
    pairs: false
);
