//! What a record says about where and when it was made.

use std::{fs, process::Command, time::SystemTime};

use qrun_cuda::DeviceProperties;
use qrun_quant::cpu::{Isa, Tuning};
use serde_json::{Value, json};

use super::text;
use crate::{
    clock,
    engine::{Backend, Engine},
};

/// The machine that this engine runs on.
pub fn of(engine: &Engine) -> Value {
    let gpu = match engine.backend() {
        Backend::Cpu { .. } => None,
        Backend::Gpu { gpu, .. } => Some(gpu.properties()),
    };
    facts(engine.options().threads, gpu)
}

/// So many threads of this machine, and the GPU that is used (if one is): names, clocks, the program, the moment.
pub fn facts(threads: usize, gpu: Option<&DeviceProperties>) -> Value {
    json!({
        "device": if gpu.is_some() { "cuda" } else { "cpu" },
        "cpu": cpu(), "cpu_mhz": field("/proc/cpuinfo", "cpu MHz").and_then(|mhz| mhz.parse::<f64>().ok()), "threads": threads,
        "gpu": gpu.map(graphics),
        "os": std::env::consts::OS,
        "qrun": env!("CARGO_PKG_VERSION"), "commit": commit(), "timestamp": now("%Y-%m-%dT%H:%M:%SZ"),
    })
}

/// A GPU by its driver, and where `nvidia-smi` is there its version, highest clocks (MHz) and power limit (W).
pub fn graphics(properties: &DeviceProperties) -> Value {
    let asked = "--query-gpu=driver_version,clocks.max.sm,clocks.max.memory,power.limit";
    let said = Command::new("nvidia-smi").args([asked, "--format=csv,noheader"]).output();
    let said = said.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    let mut words = said.lines().nth(properties.ordinal as usize).unwrap_or_default().split(", ");
    let mut next = || words.next().filter(|word| !word.is_empty());
    json!({
        "name": properties.name, "sm": properties.sm,
        "multiprocessors": properties.multiprocessors, "memory": properties.memory,
        "driver": next(), "clock_sm_max": next(), "clock_memory_max": next(), "power_limit": next(),
    })
}

/// What a machine computes with, in a few words.
pub fn name(machine: &Value) -> String {
    match &machine["gpu"] {
        Value::Null => format!("{}, {} threads", text(machine, "cpu"), machine["threads"]),
        gpu => format!("{} (driver {})", text(gpu, "name"), gpu["driver"].as_str().unwrap_or("unknown")),
    }
}

/// The commit that this program was built from.
pub fn commit() -> &'static str {
    env!("QRUN_COMMIT")
}

/// How many commits lead to it; 0 where that is not known.
pub fn build_number() -> u32 {
    env!("QRUN_BUILD_NUMBER").parse().unwrap_or(0)
}

/// The present moment in UTC, as `strftime` writes it.
pub fn now(format: &str) -> String {
    clock::strftime(SystemTime::now(), format).unwrap_or_default()
}

/// The processor's name and the widest of the instructions that the kernels are written for.
pub fn cpu() -> String {
    // As x86 and ARM call the list; `asimd` is NEON, `asimddp` its dot product.
    let flags = field("/proc/cpuinfo", "flags").or_else(|| field("/proc/cpuinfo", "Features")).unwrap_or_default();
    let widest = ["amx_int8", "avx512_vnni", "avx_vnni", "avx2", "i8mm", "asimddp", "asimd"];
    let widest = widest.into_iter().find(|f| flags.split(' ').any(|g| g == *f));
    let name = field("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.into());
    // Whose sizes products use, where they have any of their own.
    let family = Tuning::of(Isa::best()).family;
    [Some(name.as_str()), widest, family].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// A field of one of the system's lists; `None` where it does not say.
fn field(list: &str, name: &str) -> Option<String> {
    let list = fs::read_to_string(list).ok()?;
    Some(list.lines().find(|line| line.starts_with(name))?.split_once(':')?.1.trim().to_owned())
}

/// Bytes of this process in the system's list of them.
fn held(name: &str) -> Option<u64> {
    Some(field("/proc/self/status", name)?.strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

/// The most memory that this process has held since [`forget_peak_memory`], in bytes. Mapped weights that were read count.
pub fn peak_memory() -> Option<u64> {
    held("VmHWM")
}

/// Lets the peak begin again from what is held now; where the system does not allow it, the peak is the process's.
pub fn forget_peak_memory() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// What this process holds, in bytes: at most until now (`peak`), of mapped files (`files`); and how often it waited for a
/// page from the disk (`major_faults`, 0 where a file lay in the page cache).
pub fn memory() -> Value {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The fields after the name, which may hold anything, in brackets.
    let faults = stat.rsplit(") ").next().and_then(|fields| fields.split(' ').nth(9)?.parse::<u64>().ok());
    json!({ "peak": peak_memory(), "files": held("RssFile"), "major_faults": faults })
}
