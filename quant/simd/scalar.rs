//! One row at a time in portable code: the reference for the vector instruction sets.

use half::f16;

use super::lanes::{FloatLanes, Lanes};

/// One lane.
#[derive(Clone, Copy)]
pub(crate) struct Scalar;

/// Reads `N` bytes.
///
/// # Safety
/// `p` is valid for `N` bytes.
#[inline(always)]
unsafe fn bytes<const N: usize>(p: *const u8) -> [u8; N] {
    // SAFETY: `p` is valid for `N` bytes; a byte array has no alignment.
    unsafe { p.cast::<[u8; N]>().read() }
}

// SAFETY of all blocks: the pointers are valid for one element, as the trait demands.
impl FloatLanes for Scalar {
    const ROWS: usize = 1;
    type F = f32;
    type D = f64;

    #[inline(always)]
    unsafe fn load_f16(p: *const u8) -> f32 {
        // SAFETY: see the impl.
        f16::from_le_bytes(unsafe { bytes(p) }).to_f32()
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u8) -> f32 {
        // SAFETY: see the impl.
        f32::from_bits(u32::from(u16::from_le_bytes(unsafe { bytes(p) })) << 16)
    }
    #[inline(always)]
    unsafe fn load_f32(p: *const f32) -> f32 {
        // SAFETY: see the impl.
        unsafe { p.read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store_f32(v: f32, p: *mut f32) {
        // SAFETY: see the impl.
        unsafe { p.write_unaligned(v) }
    }
    #[inline(always)]
    unsafe fn load_f64(p: *const f64) -> f64 {
        // SAFETY: see the impl.
        unsafe { p.read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store_f64(v: f64, p: *mut f64) {
        // SAFETY: see the impl.
        unsafe { p.write_unaligned(v) }
    }
    /// Not fused: the same, and where a processor has no such instruction no call.
    #[inline(always)]
    unsafe fn fma_f64(a: f64, b: f64, c: f64) -> f64 {
        c + a * b
    }
    #[inline(always)]
    unsafe fn splat_f32(v: f32) -> f32 {
        v
    }
    #[inline(always)]
    unsafe fn mul(a: f32, b: f32) -> f32 {
        a * b
    }
    #[inline(always)]
    unsafe fn fma(a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }
    #[inline(always)]
    unsafe fn add_f32(a: f32, b: f32) -> f32 {
        a + b
    }
    #[inline(always)]
    unsafe fn max_f32(a: f32, b: f32) -> f32 {
        if a > b { a } else { b }
    }
    #[inline(always)]
    unsafe fn power_of_2(v: f32) -> f32 {
        f32::from_bits(v.to_bits().wrapping_add(127) << 23)
    }
}

impl Lanes for Scalar {
    const CENTRED: bool = false;
    type V = i32;

    #[inline(always)]
    unsafe fn load(p: *const u8) -> i32 {
        // SAFETY: see the impl.
        i32::from_le_bytes(unsafe { bytes(p) })
    }
    #[inline(always)]
    unsafe fn load_u8(p: *const u8) -> i32 {
        // SAFETY: see the impl.
        i32::from(unsafe { p.read() })
    }
    #[inline(always)]
    unsafe fn load_i8(p: *const u8) -> i32 {
        // SAFETY: see the impl.
        i32::from(unsafe { p.read() } as i8)
    }
    #[inline(always)]
    unsafe fn store(v: i32, p: *mut u8) {
        // SAFETY: see the impl.
        unsafe { p.cast::<[u8; 4]>().write(v.to_le_bytes()) }
    }
    #[inline(always)]
    unsafe fn splat(v: i32) -> i32 {
        v
    }
    #[inline(always)]
    unsafe fn and(v: i32, mask: u32) -> i32 {
        v & mask as i32
    }
    #[inline(always)]
    unsafe fn or(a: i32, b: i32) -> i32 {
        a | b
    }
    #[inline(always)]
    unsafe fn xor(v: i32, mask: u32) -> i32 {
        v ^ mask as i32
    }
    #[inline(always)]
    unsafe fn add(v: i32, n: i32) -> i32 {
        v.wrapping_add(n)
    }
    #[inline(always)]
    unsafe fn shl(v: i32, n: u32) -> i32 {
        v << n
    }
    #[inline(always)]
    unsafe fn shr(v: i32, n: u32) -> i32 {
        (v as u32 >> n) as i32
    }
    #[inline(always)]
    unsafe fn lookup(v: i32, table: &[u8; 16]) -> i32 {
        i32::from_le_bytes(v.to_le_bytes().map(|i| table[usize::from(i & 15)]))
    }
    #[inline(always)]
    unsafe fn dot(acc: i32, w: i32, a: *const i8) -> i32 {
        // SAFETY: see the impl.
        let (w, a) = (w.to_le_bytes(), unsafe { bytes::<4>(a.cast()) });
        let product = |i: usize| i32::from(w[i]) * i32::from(a[i] as i8);
        acc + product(0) + product(1) + product(2) + product(3)
    }
    #[inline(always)]
    unsafe fn dot_pairs(acc: i32, w: i32, a: *const i16) -> i32 {
        // SAFETY: see the impl.
        let pairs = unsafe { [a.read_unaligned(), a.add(1).read_unaligned()] };
        acc + (w << 16 >> 16) * i32::from(pairs[0]) + (w >> 16) * i32::from(pairs[1])
    }
    #[inline(always)]
    unsafe fn max(a: i32, b: i32) -> i32 {
        a.max(b)
    }
    #[inline(always)]
    unsafe fn words(rows: *const *const u8, offset: usize) -> [i32; 4] {
        // SAFETY: see the impl; the row has 16 bytes there.
        let bytes = unsafe { bytes::<16>((*rows).add(offset)) };
        let [a, b, c, d, ..] = *bytes.as_chunks::<4>().0 else { unreachable!("16 bytes") };
        [a, b, c, d].map(i32::from_le_bytes)
    }
    #[inline(always)]
    unsafe fn f16_to_f32(v: i32) -> f32 {
        f16::from_bits(v as u16).to_f32()
    }
    #[inline(always)]
    unsafe fn f32_to_bits(v: f32) -> i32 {
        v.to_bits() as i32
    }
    #[inline(always)]
    unsafe fn bits_to_f32(v: i32) -> f32 {
        f32::from_bits(v as u32)
    }
    #[inline(always)]
    unsafe fn to_f32(v: i32) -> f32 {
        v as f32
    }
}
