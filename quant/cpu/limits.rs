//! What this machine can do at most: the limits that every measured speed stands beside.

use std::{hint::black_box, time::Instant};

use super::par::{self, Pool, for_chunks};

/// Bytes that are read for the bandwidth: more than any last-level cache holds.
const WORKING_SET: usize = 512 << 20;
/// Passes of each measurement; the best one counts, for whatever disturbs makes it slower.
const PASSES: usize = 6;
/// Instructions without an effect on each other, which hide how long one takes.
const CHAINS: usize = 12;
/// Rounds of a peak: a few milliseconds.
const ROUNDS: usize = 1_000_000;

/// GB/s that `threads` threads together read from memory, each asking for lines 4 KiB ahead of their use,
/// which on some machines reads a quarter faster. 0 where the system gives no threads.
pub fn read_bandwidth(threads: usize) -> f64 {
    let Ok(pool) = Pool::new(threads) else { return 0.0 };
    let words = vec![1u64; WORKING_SET / size_of::<u64>()];
    WORKING_SET as f64 / 1e9 / pool.install(|| best(|| read(&words)))
}

/// Reads all of it once; eight sums, so that additions do not wait for each other.
fn read(words: &[u64]) {
    for_chunks(words.len(), 1 << 17, |range| {
        let mut sums = [0u64; 8];
        for line in words[range].as_chunks::<8>().0 {
            prefetch(line.as_ptr().wrapping_add(512));
            for (sum, word) in sums.iter_mut().zip(line) {
                *sum = sum.wrapping_add(*word);
            }
        }
        black_box(sums);
    });
}

/// Asks for the line at `p`, whatever lies there.
fn prefetch(p: *const u64) {
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
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512vnni") {
        // SAFETY: the machine has the instruction.
        return peak(threads, 64, || unsafe { x86::dots_512() });
    }
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avxvnni") {
        // SAFETY: the machine has the instruction.
        return peak(threads, 32, || unsafe { x86::dots_256() });
    }
    let _ = threads;
    None
}

/// The same of f32 multiply-additions, the limit of prompts with F32, F16 and BF16 weights.
pub fn fma_peak(threads: usize) -> Option<f64> {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512f") {
        // SAFETY: the machine has the instruction.
        return peak(threads, 16, || unsafe { x86::fmas_512() });
    }
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("fma") {
        // SAFETY: the machine has the instruction.
        return peak(threads, 8, || unsafe { x86::fmas_256() });
    }
    let _ = threads;
    None
}

/// Runs `work`, which does `CHAINS × ROUNDS` instructions of `products` multiplications each, on all threads.
#[cfg(target_arch = "x86_64")]
fn peak(threads: usize, products: usize, work: impl Fn() + Sync + Send) -> Option<f64> {
    let pool = Pool::new(threads).ok()?;
    let seconds = pool.install(|| best(|| for_chunks(par::threads(), 1, |_| work())));
    Some((pool.threads() * ROUNDS * CHAINS * products * 2) as f64 / 1e9 / seconds)
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

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::{arch::x86_64::*, hint::black_box};

    use super::{CHAINS, ROUNDS};

    /// A loop of nothing but one instruction, on registers.
    macro_rules! chains {
        ($name:ident, $features:literal, $start:expr, $step:expr) => {
            #[target_feature(enable = $features)]
            pub fn $name() {
                let start = black_box($start);
                let mut sums = [start; CHAINS];
                for _ in 0..ROUNDS {
                    for sum in &mut sums {
                        *sum = $step(*sum, start, start);
                    }
                }
                black_box(sums);
            }
        };
    }
    chains!(dots_512, "avx512f,avx512vnni", _mm512_set1_epi32(0x0102_0304), _mm512_dpbusd_epi32);
    chains!(dots_256, "avx,avx2,avxvnni", _mm256_set1_epi32(0x0102_0304), _mm256_dpbusd_avx_epi32);
    chains!(fmas_512, "avx512f", _mm512_set1_ps(0.5), |sum, a, b| _mm512_fmadd_ps(a, b, sum));
    chains!(fmas_256, "avx,fma", _mm256_set1_ps(0.5), |sum, a, b| _mm256_fmadd_ps(a, b, sum));
}
