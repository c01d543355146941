//! What this machine can do at most: the limits that every measured speed stands beside.

use std::{hint::black_box, time::Instant};

use memmap2::MmapMut;

use super::{
    par::{self, Pool, parallel_for, parallel_for_runs},
    prefetch::Ahead,
    tuning::Tuning,
};
use crate::{GgmlType, simd::Isa};

/// Bytes that are read for the bandwidth: more than any last-level cache holds.
const WORKING_SET: usize = 512 << 20;
/// Bytes that a thread takes at a time in the end: long enough for whatever reads ahead.
const CHUNK: usize = 1 << 18;
/// Passes of each measurement; the best one counts, for whatever disturbs makes it slower.
const PASSES: usize = 6;
/// Instructions without an effect on each other, which hide how long one takes.
const CHAINS: usize = 12;
/// Rounds of a peak: a few milliseconds.
const ROUNDS: usize = 1_000_000;

/// GB/s that `threads` threads together read from memory: fresh, in large pages where the system gives them, and prefetched
/// as the products prefetch weights. 0 where the system gives no threads or no memory.
pub fn read_bandwidth(threads: usize) -> f64 {
    let Ok(mut memory) = MmapMut::map_anon(WORKING_SET) else { return 0.0 };
    #[cfg(target_os = "linux")]
    let _ = memory.advise(memmap2::Advice::HugePage);
    memory.fill(1);
    read_bandwidth_of(&memory, threads)
}

/// The same of these bytes where they lie: the pages of a mapped file may read slower than fresh memory. They are
/// in memory after the first pass, if they fit. Fewer bytes than a last-level cache holds are read from there.
pub fn read_bandwidth_of(bytes: &[u8], threads: usize) -> f64 {
    let Ok(pool) = Pool::new(threads) else { return 0.0 };
    let ahead = Tuning::of(Isa::best()).ahead(GgmlType::F32);
    bytes.len() as f64
        / 1e9
        / pool.install(|| best(|| parallel_for_runs(bytes.len(), CHUNK, |range| read(&bytes[range], ahead))))
}

/// Reads all of it once, in lines; eight sums, so that additions do not wait for each other.
fn read(bytes: &[u8], ahead: Ahead) {
    let mut sums = [0u64; 8];
    for line in bytes.as_chunks::<64>().0 {
        ahead.stream(line.as_ptr(), 1);
        for (sum, word) in sums.iter_mut().zip(line.as_chunks().0) {
            *sum = sum.wrapping_add(u64::from_ne_bytes(*word));
        }
    }
    black_box(sums);
}

/// 10⁹ operations per second (a multiplication and an addition are two) of `threads` threads that do nothing but
/// int8 dot products, the limit of quantized prompts. `None` where no instruction for them is known here.
pub fn dot_peak(threads: usize) -> Option<f64> {
    peak(threads, chains::TILES.iter().chain(chains::DOTS))
}

/// The same of dot products of 16-bit integers, the limit of prompts with F16 and BF16 weights.
pub fn pair_peak(threads: usize) -> Option<f64> {
    // Of tiles there are four products of bytes for one.
    let tiles = peak(threads, chains::TILES.iter()).map(|peak| peak / 4.0);
    tiles.or_else(|| peak(threads, chains::PAIRS.iter()))
}

/// The same of f32 multiply-additions, the limit of prompts with F32 weights, and of attention.
pub fn fma_peak(threads: usize) -> Option<f64> {
    peak(threads, chains::FMAS.iter())
}

/// A loop of nothing but one instruction.
struct Chain {
    /// Whether this processor has the instruction.
    is_here: fn() -> bool,
    /// Multiplications of each.
    products: usize,
    /// Runs `CHAINS × ROUNDS` of them; nothing where the processor does not have them.
    run: fn(),
}

/// Runs the first of these that is known here on all threads.
fn peak<'a>(threads: usize, mut chains: impl Iterator<Item = &'a Chain>) -> Option<f64> {
    let chain = chains.find(|chain| (chain.is_here)())?;
    let pool = Pool::new(threads).ok()?;
    let seconds = pool.install(|| best(|| parallel_for(par::threads(), 1, |_| (chain.run)())));
    Some((pool.threads() * ROUNDS * CHAINS * chain.products * 2) as f64 / 1e9 / seconds)
}

/// Seconds of the fastest pass.
fn best(mut pass: impl FnMut()) -> f64 {
    let mut time = || {
        let start = Instant::now();
        pass();
        start.elapsed().as_secs_f64()
    };
    (0..PASSES).map(|_| time()).fold(f64::INFINITY, f64::min)
}

/// Writes loops on registers, one for each instruction: multiplications of one, what it needs, its operands, the step.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! chains {
    ($($products:literal, [$($feature:tt),+], $start:expr, $step:expr;)+) => {
        &[$({
            $(#[target_feature(enable = $feature)])+
            fn run() {
                let start = black_box($start);
                let mut sums = [start; CHAINS];
                for _ in 0..ROUNDS {
                    for sum in &mut sums {
                        *sum = $step(*sum, start, start);
                    }
                }
                black_box(sums);
            }
            fn is_here() -> bool {
                $(has!($feature))&&+
            }
            fn checked() {
                if is_here() {
                    // SAFETY: the machine has each feature that is enabled.
                    unsafe { run() }
                }
            }
            Chain { is_here, products: $products, run: checked }
        }),+]
    };
}

/// The widest instructions first.
#[cfg(target_arch = "x86_64")]
mod chains {
    use std::{
        arch::{is_x86_feature_detected as has, x86_64::*},
        hint::black_box,
    };

    use super::{CHAINS, Chain, ROUNDS};
    use crate::simd::{
        Isa,
        amx::{self, Tiles},
    };

    pub const TILES: &[Chain] = &[Chain { is_here: has_tiles, products: 16 * 16 * 64, run: multiply_tiles }];

    fn has_tiles() -> bool {
        Isa::best() == Isa::Amx
    }

    fn multiply_tiles() {
        if has_tiles() {
            // SAFETY: the machine has AMX; all registers have the same shape.
            unsafe {
                let _tiles = Tiles::new(64);
                for _ in 0..CHAINS * ROUNDS / 4 {
                    amx::dot_signed::<0, 3, 5>();
                    amx::dot_signed::<1, 3, 5>();
                    amx::dot_signed::<2, 3, 5>();
                    amx::dot_signed::<4, 3, 5>();
                }
            }
        }
    }

    pub const DOTS: &[Chain] = chains![
        64, ["avx512f", "avx512vnni"], _mm512_set1_epi32(0x0102_0304), _mm512_dpbusd_epi32;
        32, ["avx", "avx2", "avxvnni"], _mm256_set1_epi32(0x0102_0304), _mm256_dpbusd_avx_epi32;
        // Three instructions; the sum is an operand of the first, or all but the last would leave the loop.
        32, ["avx", "avx2"], _mm256_set1_epi32(0x0102_0304), |sum, a, b| {
            _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(sum, a), b))
        };
    ];
    pub const PAIRS: &[Chain] = chains![
        32, ["avx512f", "avx512vnni"], _mm512_set1_epi32(0x0001_0002), _mm512_dpwssd_epi32;
        16, ["avx", "avx2", "avxvnni"], _mm256_set1_epi32(0x0001_0002), _mm256_dpwssd_avx_epi32;
        16, ["avx", "avx2"], _mm256_set1_epi32(0x0001_0002), |sum, a, _b| _mm256_add_epi32(sum, _mm256_madd_epi16(sum, a));
    ];
    pub const FMAS: &[Chain] = chains![
        16, ["avx512f"], _mm512_set1_ps(0.5), |sum, a, b| _mm512_fmadd_ps(a, b, sum);
        8, ["avx", "fma"], _mm256_set1_ps(0.5), |sum, a, b| _mm256_fmadd_ps(a, b, sum);
    ];
}

/// As above.
#[cfg(target_arch = "aarch64")]
mod chains {
    use std::{
        arch::{aarch64::*, asm, is_aarch64_feature_detected as has},
        hint::black_box,
    };

    use super::{CHAINS, Chain, ROUNDS};

    pub const TILES: &[Chain] = &[];
    pub const DOTS: &[Chain] = chains![
        16, ["dotprod"], vdupq_n_s32(0x0102_0304), |mut sum: int32x4_t, a: int32x4_t, b: int32x4_t| {
            // SAFETY: registers only; the loop around is compiled for the instruction, which has no stable intrinsic.
            unsafe {
                asm!("sdot {sum:v}.4s, {a:v}.16b, {b:v}.16b", sum = inout(vreg) sum, a = in(vreg) a, b = in(vreg) b,
                    options(pure, nomem, nostack, preserves_flags));
            }
            sum
        };
    ];
    pub const PAIRS: &[Chain] = chains![
        4, ["neon"], vdupq_n_s32(0x0001_0002), |sum, a, b| {
            vmlal_high_s16(sum, vreinterpretq_s16_s32(a), vreinterpretq_s16_s32(b))
        };
    ];
    pub const FMAS: &[Chain] = chains![4, ["neon"], vdupq_n_f32(0.5), |sum, a, b| vfmaq_f32(sum, a, b);];
}

/// None is written for other processors.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod chains {
    use super::Chain;

    pub const TILES: &[Chain] = &[];
    pub const DOTS: &[Chain] = &[];
    pub const PAIRS: &[Chain] = &[];
    pub const FMAS: &[Chain] = &[];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_measured_wherever_their_instructions_are() {
        let is_speed = |speed: f64| speed.is_finite() && speed > 0.0;
        let peaks = [
            ("dots", chains::DOTS, dot_peak(2)),
            ("pairs", chains::PAIRS, pair_peak(2)),
            ("fmas", chains::FMAS, fma_peak(2)),
        ];
        for (name, chains, peak) in peaks {
            assert_eq!(peak.map(is_speed), chains.iter().any(|c| (c.is_here)()).then_some(true), "{name}: {peak:?}");
        }
        // Less than a chunk, no whole number of lines, no multiple of a word's address.
        let bytes = vec![1u8; 5 * CHUNK + 77];
        for bytes in [&bytes[..64], &bytes[..], &bytes[3..]] {
            let speed = read_bandwidth_of(bytes, 2);
            assert!(is_speed(speed), "{} bytes: {speed}", bytes.len());
        }
    }
}
