//! Sixteen rows per register; `vpdpbusd` with the activations broadcast from memory.

use std::arch::x86_64::*;

use super::{Kernel, Lanes};

/// # Safety
/// The machine has these features; the kernel's own promises hold.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) unsafe fn run<K: Kernel>(kernel: K) {
    // SAFETY: the caller's promise.
    unsafe { kernel.run::<Avx512>() }
}

/// Sixteen lanes.
#[derive(Clone, Copy)]
pub(super) struct Avx512;

impl Lanes for Avx512 {
    const ROWS: usize = 16;
    type V = __m512i;
    type F = __m512;

    lanes! {
        load(p: *const u8) -> __m512i = _mm512_loadu_si512(p.cast());
        load_u8(p: *const u8) -> __m512i = _mm512_cvtepu8_epi32(_mm_loadu_si128(p.cast()));
        load_i8(p: *const u8) -> __m512i = _mm512_cvtepi8_epi32(_mm_loadu_si128(p.cast()));
        load_f16(p: *const u8) -> __m512 = _mm512_cvtph_ps(_mm256_loadu_si256(p.cast()));
        load_bf16(p: *const u8) -> __m512 =
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p.cast()))));
        load_f32(p: *const f32) -> __m512 = _mm512_loadu_ps(p);
        store(v: __m512i, p: *mut u8) -> () = _mm512_storeu_si512(p.cast(), v);
        store_f32(v: __m512, p: *mut f32) -> () = _mm512_storeu_ps(p, v);
        splat(v: i32) -> __m512i = _mm512_set1_epi32(v);
        splat_f32(v: f32) -> __m512 = _mm512_set1_ps(v);
        and(v: __m512i, mask: u32) -> __m512i = _mm512_and_si512(v, _mm512_set1_epi32(mask as i32));
        or(a: __m512i, b: __m512i) -> __m512i = _mm512_or_si512(a, b);
        add(v: __m512i, n: i32) -> __m512i = _mm512_add_epi32(v, _mm512_set1_epi32(n));
        shl(v: __m512i, n: u32) -> __m512i = _mm512_sllv_epi32(v, _mm512_set1_epi32(n as i32));
        shr(v: __m512i, n: u32) -> __m512i = _mm512_srlv_epi32(v, _mm512_set1_epi32(n as i32));
        lookup(v: __m512i, table: &[u8; 16]) -> __m512i =
            _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128(table.as_ptr().cast())), v);
        dot(acc: __m512i, w: __m512i, a: *const i8) -> __m512i =
            _mm512_dpbusd_epi32(acc, w, _mm512_set1_epi32(a.cast::<i32>().read_unaligned()));
        to_f32(v: __m512i) -> __m512 = _mm512_cvtepi32_ps(v);
        mul(a: __m512, b: __m512) -> __m512 = _mm512_mul_ps(a, b);
        fma(a: __m512, b: __m512, c: __m512) -> __m512 = _mm512_fmadd_ps(a, b, c);
    }
}
