//! What a recorded run says about where and when it was made.

use std::{process::Command, time::Instant};

use qrun_quant::cpu::par::{Pool, for_chunks};
use serde_json::{Value, json};

/// CPU, threads, commit, date.
pub fn facts(threads: usize) -> Value {
    json!({
        "cpu": cpu(), "threads": threads, "os": std::env::consts::OS, "date": date(),
        "commit": command("git", &["rev-parse", "--short=12", "HEAD"]), "qrun": env!("CARGO_PKG_VERSION"),
    })
}

/// Today as YYYY-MM-DD.
pub fn date() -> String {
    command("date", &["+%Y-%m-%d"])
}

fn command(program: &str, args: &[&str]) -> String {
    let out = Command::new(program).args(args).output();
    out.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned()).unwrap_or_else(|_| "unknown".into())
}

fn cpu() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| info.lines().find(|l| l.starts_with(name))?.split(": ").nth(1).map(str::to_owned);
    let flags = field("flags").unwrap_or_default();
    let widest = ["avx512_vnni", "avx_vnni", "avx2"].into_iter().find(|f| flags.split(' ').any(|g| g == *f));
    format!("{}, {}", field("model name").unwrap_or_else(|| "unknown".into()), widest.unwrap_or("no AVX2"))
}

/// Bytes per second, in GB/s, that `threads` threads read from memory: the best of six passes, each
/// asking for lines 4 KiB ahead of their use, which on some machines reads a quarter faster.
pub fn read_bandwidth(threads: usize) -> f64 {
    let Ok(pool) = Pool::new(threads) else { return f64::NAN };
    let data = vec![1u64; 1 << 27];
    let pass = || {
        let start = Instant::now();
        let chunk = 1 << 20;
        for_chunks(data.len(), chunk, |range| {
            // Eight sums, so that additions do not wait for each other.
            let mut sums = [0u64; 8];
            for x in data[range].chunks_exact(8) {
                prefetch(x.as_ptr().wrapping_add(512));
                for (s, x) in sums.iter_mut().zip(x) {
                    *s = s.wrapping_add(*x);
                }
            }
            std::hint::black_box(sums);
        });
        (8 * data.len()) as f64 / start.elapsed().as_secs_f64() / 1e9
    };
    pool.install(|| (0..6).map(|_| pass()).fold(0.0, f64::max))
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
