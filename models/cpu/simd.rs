//! The few vector loops of the forward pass outside of quantized products, for the widest
//! registers of the machine. Every width adds in the same order, so all give the same bits (but for
//! machines without FMA, which round each product).

use qrun_quant::simd::{FloatKernel, FloatLanes, VectorWidth};
pub use qrun_quant::simd::{SimdKernel, dispatch};

/// Elements per step of elementwise functions.
pub const LANES: usize = 16;

/// `e^x`, relative error below 2e-7; 0 below -87.3 and infinity above 88.7.
#[inline(always)]
pub fn exp(x: &mut [f32; LANES]) {
    const LOG2_E: f32 = std::f32::consts::LOG2_E;
    // ln 2 in two parts, so that n·ln2 loses nothing.
    const LN2_HI: f32 = 0.693_145_75;
    const LN2_LO: f32 = 1.428_606_8e-6;
    for x in x {
        let clamped = x.clamp(-104.0, 89.0);
        // Adding 1.5·2²³ rounds to the nearest integer and leaves it in the low bits: vectors have no
        // conversion that does what a cast does.
        let rounded = clamped * LOG2_E + 12_582_912.0;
        let n = rounded - 12_582_912.0;
        let exponent = rounded.to_bits().wrapping_sub(12_582_912f32.to_bits()) as i32;
        let r = (clamped - n * LN2_HI) - n * LN2_LO;
        // Taylor to the 7th power: |r| ≤ 0.347, remainder below 1e-9.
        let mut p = 1.0 / 5040.0;
        for c in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
            p = p * r + c;
        }
        // 2^n in two steps, since n alone can leave the range of normal exponents.
        let half = exponent >> 1;
        let scale = |n: i32| f32::from_bits((n.wrapping_add(127) as u32) << 23);
        let y = p * scale(half) * scale(exponent.wrapping_sub(half));
        *x = if x.is_nan() {
            *x
        } else if *x < -103.9 {
            0.0
        } else {
            y
        };
    }
}

/// Sum of squares in f64, eight lanes wide.
#[inline(always)]
pub fn sum_of_squares(x: &[f32]) -> f64 {
    sum_by_lanes::<true>(x)
}

/// Sum in f64, eight lanes wide.
#[inline(always)]
pub fn sum(x: &[f32]) -> f64 {
    sum_by_lanes::<false>(x)
}

#[inline(always)]
fn sum_by_lanes<const SQUARES: bool>(x: &[f32]) -> f64 {
    let (chunks, rest) = x.as_chunks::<8>();
    let (mut lanes, mut last) = ([0f64; 8], 0.0);
    for chunk in chunks {
        for i in 0..8 {
            let x = f64::from(chunk[i]);
            lanes[i] += if SQUARES { x * x } else { x };
        }
    }
    for &x in rest {
        let x = f64::from(x);
        last += if SQUARES { x * x } else { x };
    }
    let mut total = 0.0;
    for lane in lanes {
        total += lane;
    }
    total + last
}

/// Little-endian f16 bytes to f32. Panics unless there are two bytes for each element of `out`.
pub fn f16_to_f32(bytes: &[u8], out: &mut [f32]) {
    assert_eq!(bytes.len(), 2 * out.len());
    let (halves, (lines, rest)) = (bytes.as_chunks::<{ 2 * LANES }>(), out.as_chunks_mut::<LANES>());
    // SAFETY: the kernel asks for nothing.
    unsafe { VectorWidth::best().run(HalfToFloat { halves: halves.0, floats: lines }) }
    for (b, o) in halves.1.as_chunks().0.iter().zip(rest) {
        *o = half::f16::from_le_bytes(*b).to_f32();
    }
}

/// Widens f16, line by line.
struct HalfToFloat<'a> {
    halves: &'a [[u8; 2 * LANES]],
    floats: &'a mut [[f32; LANES]],
}

impl FloatKernel for HalfToFloat<'_> {
    #[inline(always)]
    unsafe fn run<L: FloatLanes>(self) {
        for (halves, floats) in self.halves.iter().zip(self.floats) {
            for i in (0..LANES).step_by(L::ROWS) {
                // SAFETY: the machine can run `L`; `i + L::ROWS ≤ 16` elements of both.
                unsafe { L::store_f32(L::load_f16(halves.as_ptr().add(2 * i)), floats.as_mut_ptr().add(i)) }
            }
        }
    }
}
