//! Sixteen rows per register; `vpdpbusd` with the activations broadcast from memory.

use std::arch::x86_64::*;

use super::lanes::{FloatKernel, FloatLanes, LaneKernel, Lanes, SimdKernel, lanes};

/// # Safety
/// The machine has these features; what the kernel itself asks for.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(super) unsafe fn run<K: LaneKernel>(kernel: K) {
    // SAFETY: the features that `Avx512` uses are enabled here; the rest is the caller's part.
    unsafe { kernel.run::<Avx512>() }
}

/// # Safety
/// The machine has these features; what the kernel itself asks for.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn run_floats<K: FloatKernel>(kernel: K) {
    // SAFETY: `FloatLanes` of `Avx512` needs no VNNI; the rest is the caller's part.
    unsafe { kernel.run::<Avx512>() }
}

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn run_loop(kernel: impl SimdKernel) {
    kernel.run();
}

/// Sixteen lanes.
#[derive(Clone, Copy)]
pub(super) struct Avx512;

impl FloatLanes for Avx512 {
    const ROWS: usize = 16;
    type F = __m512;
    type D = [__m512d; 2];

    lanes! {
        load_f16(p: *const u8) -> __m512 = _mm512_cvtph_ps(_mm256_loadu_si256(p.cast()));
        load_bf16(p: *const u8) -> __m512 =
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p.cast()))));
        load_f32(p: *const f32) -> __m512 = _mm512_loadu_ps(p);
        store_f32(v: __m512, p: *mut f32) -> () = _mm512_storeu_ps(p, v);
        load_f64(p: *const f64) -> [__m512d; 2] = [_mm512_loadu_pd(p), _mm512_loadu_pd(p.add(8))];
        store_f64(v: [__m512d; 2], p: *mut f64) -> () = {
            _mm512_storeu_pd(p, v[0]);
            _mm512_storeu_pd(p.add(8), v[1]);
        };
        fma_f64(a: [__m512d; 2], b: [__m512d; 2], c: [__m512d; 2]) -> [__m512d; 2] =
            [_mm512_fmadd_pd(a[0], b[0], c[0]), _mm512_fmadd_pd(a[1], b[1], c[1])];
        splat_f32(v: f32) -> __m512 = _mm512_set1_ps(v);
        mul(a: __m512, b: __m512) -> __m512 = _mm512_mul_ps(a, b);
        fma(a: __m512, b: __m512, c: __m512) -> __m512 = _mm512_fmadd_ps(a, b, c);
        add_f32(a: __m512, b: __m512) -> __m512 = _mm512_add_ps(a, b);
        max_f32(a: __m512, b: __m512) -> __m512 = _mm512_max_ps(a, b);
        power_of_2(v: __m512) -> __m512 = _mm512_castsi512_ps(_mm512_slli_epi32::<23>(_mm512_add_epi32(
            _mm512_castps_si512(v), _mm512_set1_epi32(127))));
    }
}

impl Lanes for Avx512 {
    const CENTRED: bool = false;
    type V = __m512i;

    lanes! {
        load(p: *const u8) -> __m512i = _mm512_loadu_si512(p.cast());
        load_u8(p: *const u8) -> __m512i = _mm512_cvtepu8_epi32(_mm_loadu_si128(p.cast()));
        load_i8(p: *const u8) -> __m512i = _mm512_cvtepi8_epi32(_mm_loadu_si128(p.cast()));
        store(v: __m512i, p: *mut u8) -> () = _mm512_storeu_si512(p.cast(), v);
        splat(v: i32) -> __m512i = _mm512_set1_epi32(v);
        and(v: __m512i, mask: u32) -> __m512i = _mm512_and_si512(v, _mm512_set1_epi32(mask as i32));
        or(a: __m512i, b: __m512i) -> __m512i = _mm512_or_si512(a, b);
        xor(v: __m512i, mask: u32) -> __m512i = _mm512_xor_si512(v, _mm512_set1_epi32(mask as i32));
        sum(a: __m512i, b: __m512i) -> __m512i = _mm512_add_epi32(a, b);
        add(v: __m512i, n: i32) -> __m512i = _mm512_add_epi32(v, _mm512_set1_epi32(n));
        shl(v: __m512i, n: u32) -> __m512i = _mm512_sllv_epi32(v, _mm512_set1_epi32(n as i32));
        shr(v: __m512i, n: u32) -> __m512i = _mm512_srlv_epi32(v, _mm512_set1_epi32(n as i32));
        lookup(v: __m512i, table: &[u8; 16]) -> __m512i =
            _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128(table.as_ptr().cast())), v);
        dot(acc: __m512i, w: __m512i, a: *const i8) -> __m512i =
            _mm512_dpbusd_epi32(acc, w, _mm512_set1_epi32(a.cast::<i32>().read_unaligned()));
        dot_pairs(acc: __m512i, w: __m512i, a: *const i16) -> __m512i =
            _mm512_dpwssd_epi32(acc, w, _mm512_set1_epi32(a.cast::<i32>().read_unaligned()));
        max(a: __m512i, b: __m512i) -> __m512i = _mm512_max_epi32(a, b);
        largest(v: __m512i) -> i32 = _mm512_reduce_max_epi32(v);
        total(v: __m512i) -> i32 = _mm512_reduce_add_epi32(v);
        store_8(v: __m512i, p: *mut i8) -> () = _mm_storeu_si128(p.cast(), _mm512_cvtepi32_epi8(v));
        store_16(v: __m512i, p: *mut i16) -> () = _mm256_storeu_si256(p.cast(), _mm512_cvtepi32_epi16(v));
        f16_to_f32(v: __m512i) -> __m512 = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v));
        f32_to_bits(v: __m512) -> __m512i = _mm512_castps_si512(v);
        bits_to_f32(v: __m512i) -> __m512 = _mm512_castsi512_ps(v);
        to_f32(v: __m512i) -> __m512 = _mm512_cvtepi32_ps(v);
    }

    #[inline(always)]
    unsafe fn words(rows: *const *const u8, offset: usize) -> [__m512i; 4] {
        // SAFETY: the trait's contract: 16 pointers to rows that have 16 bytes at the offset.
        unsafe {
            let mut v = [_mm512_setzero_si512(); 4];
            for r in 0..4 {
                // Rows r, r + 4, r + 8 and r + 12: rows 4q … 4q + 3 end in quarter q.
                let mut row = [_mm_setzero_si128(); 4];
                for q in 0..4 {
                    row[q] = _mm_loadu_si128((*rows.add(4 * q + r)).add(offset).cast());
                }
                let low = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(row[0]), row[1]);
                let high = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(row[2]), row[3]);
                v[r] = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high);
            }
            let (ab, ab_high) = (_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
            let (cd, cd_high) = (_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
            [
                _mm512_unpacklo_epi64(ab, cd),
                _mm512_unpackhi_epi64(ab, cd),
                _mm512_unpacklo_epi64(ab_high, cd_high),
                _mm512_unpackhi_epi64(ab_high, cd_high),
            ]
        }
    }

    #[inline(always)]
    unsafe fn transpose(rows: &[*const u8; 16]) -> [[u32; 16]; 16] {
        let mut lines = [[0; 16]; 16];
        // SAFETY: the trait's contract; lines are 16 elements each.
        unsafe {
            let mut v = [_mm512_setzero_si512(); 16];
            // Words of two rows side by side, then of four (v[4i + c]: word c of rows 4i … 4i + 3 in each quarter).
            for i in 0..8 {
                let (a, b) = (_mm512_loadu_si512(rows[2 * i].cast()), _mm512_loadu_si512(rows[2 * i + 1].cast()));
                (v[2 * i], v[2 * i + 1]) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
            }
            for i in 0..4 {
                let [a, b, c, d] = [v[4 * i], v[4 * i + 1], v[4 * i + 2], v[4 * i + 3]];
                (v[4 * i], v[4 * i + 1]) = (_mm512_unpacklo_epi64(a, c), _mm512_unpackhi_epi64(a, c));
                (v[4 * i + 2], v[4 * i + 3]) = (_mm512_unpacklo_epi64(b, d), _mm512_unpackhi_epi64(b, d));
            }
            // Quarter q of v[c], v[c + 4], v[c + 8] and v[c + 12] is word 4q + c of all rows.
            for c in 0..4 {
                let (low, high) = (v[c], v[c + 4]);
                let (ab0, ab1) = (
                    _mm512_shuffle_i32x4::<0b10_00_10_00>(low, high),
                    _mm512_shuffle_i32x4::<0b11_01_11_01>(low, high),
                );
                let (low, high) = (v[c + 8], v[c + 12]);
                let (cd0, cd1) = (
                    _mm512_shuffle_i32x4::<0b10_00_10_00>(low, high),
                    _mm512_shuffle_i32x4::<0b11_01_11_01>(low, high),
                );
                let words = [
                    _mm512_shuffle_i32x4::<0b10_00_10_00>(ab0, cd0),
                    _mm512_shuffle_i32x4::<0b10_00_10_00>(ab1, cd1),
                    _mm512_shuffle_i32x4::<0b11_01_11_01>(ab0, cd0),
                    _mm512_shuffle_i32x4::<0b11_01_11_01>(ab1, cd1),
                ];
                for (q, word) in words.into_iter().enumerate() {
                    _mm512_storeu_si512(lines[4 * q + c].as_mut_ptr().cast(), word);
                }
            }
        }
        lines
    }

    #[inline(always)]
    unsafe fn add_lanes(lines: &[[f32; 16]; 16], y: &mut [f32; 16]) {
        // SAFETY: the trait's contract; lines and y are 16 elements each.
        unsafe {
            let mut v = [_mm512_setzero_ps(); 16];
            for i in 0..16 {
                v[i] = _mm512_loadu_ps(lines[i].as_ptr());
            }
            // Two vectors become one that holds what is left of both side by side: after halves of 8, 4 and
            // 2 lanes, lane i of the last one is the sum of line i.
            for i in 0..8 {
                let swapped = _mm512_shuffle_f32x4::<0b01_00_11_10>(v[i], v[i + 8]);
                v[i] = _mm512_add_ps(_mm512_mask_blend_ps(0xff00, v[i], v[i + 8]), swapped);
            }
            let fours = _mm512_setr_epi32(4, 5, 6, 7, 16, 17, 18, 19, 12, 13, 14, 15, 24, 25, 26, 27);
            for i in 0..4 {
                let swapped = _mm512_permutex2var_ps(v[i], fours, v[i + 4]);
                v[i] = _mm512_add_ps(_mm512_mask_blend_ps(0xf0f0, v[i], v[i + 4]), swapped);
            }
            let twos = _mm512_setr_epi32(2, 3, 16, 17, 6, 7, 20, 21, 10, 11, 24, 25, 14, 15, 28, 29);
            for i in 0..2 {
                let swapped = _mm512_permutex2var_ps(v[i], twos, v[i + 2]);
                v[i] = _mm512_add_ps(_mm512_mask_blend_ps(0xcccc, v[i], v[i + 2]), swapped);
            }
            let ones = _mm512_setr_epi32(1, 16, 3, 18, 5, 20, 7, 22, 9, 24, 11, 26, 13, 28, 15, 30);
            let swapped = _mm512_permutex2var_ps(v[0], ones, v[1]);
            let sums = _mm512_add_ps(_mm512_mask_blend_ps(0xaaaa, v[0], v[1]), swapped);
            _mm512_storeu_ps(y.as_mut_ptr(), _mm512_add_ps(_mm512_loadu_ps(y.as_ptr()), sums));
        }
    }
}
