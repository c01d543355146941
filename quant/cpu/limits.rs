//! What this machine can do at most: the limits that every measured speed stands beside.

use std::{hint::black_box, time::Instant};

use super::par::{self, Pool, for_chunks};

/// Bytes that are read for the bandwidth: more than any last-level cache holds.
const WORKING_SET: usize = 512 << 20;
/// Bytes that a thread takes at a time: long enough for whatever reads ahead, short enough to share evenly.
const CHUNK: usize = 1 << 20;
/// Passes of each measurement; the best one counts, for whatever disturbs makes it slower.
const PASSES: usize = 6;
/// Instructions without an effect on each other, which hide how long one takes.
const CHAINS: usize = 12;
/// Rounds of a peak: a few milliseconds.
const ROUNDS: usize = 1_000_000;

/// GB/s that `threads` threads together read from memory, each asking for lines 4 KiB ahead of their use,
/// which on some machines reads a quarter faster. 0 where the system gives no threads.
pub fn read_bandwidth(threads: usize) -> f64 {
    read_bandwidth_of(&vec![1; WORKING_SET], threads)
}

/// The same of these bytes where they lie: the pages of a mapped file may read slower than fresh memory. They are
/// in memory after the first pass, if they fit. Fewer bytes than a last-level cache holds are read from there.
pub fn read_bandwidth_of(bytes: &[u8], threads: usize) -> f64 {
    let Ok(pool) = Pool::new(threads) else { return 0.0 };
    bytes.len() as f64 / 1e9 / pool.install(|| best(|| read(bytes)))
}

/// Reads all of it once, in lines; eight sums, so that additions do not wait for each other.
fn read(bytes: &[u8]) {
    for_chunks(bytes.len(), CHUNK, |range| {
        let mut sums = [0u64; 8];
        for line in bytes[range].as_chunks::<64>().0 {
            prefetch(line.as_ptr().wrapping_add(4096));
            for (sum, word) in sums.iter_mut().zip(line.as_chunks().0) {
                *sum = sum.wrapping_add(u64::from_ne_bytes(*word));
            }
        }
        black_box(sums);
    });
}

/// Asks for the line at `p`, whatever lies there.
fn prefetch(p: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 processor has the instruction, and it may be given any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(p.cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}

/// 10⁹ operations per second (a multiplication and an addition are two) of `threads` threads that do nothing but
/// int8 dot products, the limit of quantized prompts. `None` where no instruction for them is known here.
pub fn dot_peak(threads: usize) -> Option<f64> {
    peak(threads, chains::DOTS)
}

/// The same of f32 multiply-additions, the limit of prompts with F32, F16 and BF16 weights.
pub fn fma_peak(threads: usize) -> Option<f64> {
    peak(threads, chains::FMAS)
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
fn peak(threads: usize, chains: &[Chain]) -> Option<f64> {
    let chain = chains.iter().find(|chain| (chain.is_here)())?;
    let pool = Pool::new(threads).ok()?;
    let seconds = pool.install(|| best(|| for_chunks(par::threads(), 1, |_| (chain.run)())));
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

/// The widest instructions first.
#[cfg(target_arch = "x86_64")]
mod chains {
    use std::{
        arch::{is_x86_feature_detected, x86_64::*},
        hint::black_box,
    };

    use super::{CHAINS, Chain, ROUNDS};

    /// Loops on registers, one for each instruction: multiplications of one, what it needs, its operands, the step.
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
                    $(is_x86_feature_detected!($feature))&&+
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
    pub const DOTS: &[Chain] = chains![
        64, ["avx512f", "avx512vnni"], _mm512_set1_epi32(0x0102_0304), _mm512_dpbusd_epi32;
        32, ["avx", "avx2", "avxvnni"], _mm256_set1_epi32(0x0102_0304), _mm256_dpbusd_avx_epi32;
    ];
    pub const FMAS: &[Chain] = chains![
        16, ["avx512f"], _mm512_set1_ps(0.5), |sum, a, b| _mm512_fmadd_ps(a, b, sum);
        8, ["avx", "fma"], _mm256_set1_ps(0.5), |sum, a, b| _mm256_fmadd_ps(a, b, sum);
    ];
}

/// None is written for other processors.
#[cfg(not(target_arch = "x86_64"))]
mod chains {
    use super::Chain;

    pub const DOTS: &[Chain] = &[];
    pub const FMAS: &[Chain] = &[];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_measured_wherever_their_instructions_are() {
        let is_speed = |speed: f64| speed.is_finite() && speed > 0.0;
        for (name, chains, peak) in [("dots", chains::DOTS, dot_peak(2)), ("fmas", chains::FMAS, fma_peak(2))] {
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
