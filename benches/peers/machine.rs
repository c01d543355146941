//! What a recorded run says about where and when it was made.

use std::process::Command;

use serde_json::{Value, json};

/// CPU, threads, commit, date.
pub fn facts(threads: usize) -> Value {
    json!({
        "cpu": cpu(), "threads": threads, "os": std::env::consts::OS, "date": date(),
        "commit": command("git", &["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]), "qrun": env!("CARGO_PKG_VERSION"),
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

/// The most memory this process has had, in MiB; 0 where the system does not say.
pub fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) / 1024
}
