//! What a report says about where and when it was made.

use std::{fs, process::Command, time::SystemTime};

use serde::{Deserialize, Serialize};

use crate::{
    clock,
    engine::{Backend, Engine},
};

/// The machine, the program, the moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// `cpu` or `cuda`.
    pub device: String,
    /// The processor's name and its widest instructions for this work.
    pub cpu: String,
    /// Its clock now, in MHz, where the system says it.
    pub cpu_mhz: Option<f64>,
    /// CPU threads.
    pub threads: usize,
    /// The GPU.
    pub gpu: Option<Graphics>,
    /// Operating system.
    pub os: String,
    /// Version of qrun.
    pub qrun: String,
    /// The commit that it was built from.
    pub commit: String,
    /// UTC, ISO 8601.
    pub timestamp: String,
}

/// A GPU and its driver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Graphics {
    /// Marketing name.
    pub name: String,
    /// Compute capability, 75 for 7.5.
    pub sm: i32,
    /// Streaming multiprocessors.
    pub multiprocessors: i32,
    /// Bytes of memory.
    pub memory: u64,
    /// What `nvidia-smi` says, `None` where it is missing: driver, clocks in MHz, power limit in W.
    pub driver: Option<String>,
    /// Highest clock of the multiprocessors.
    pub clock_sm_max: Option<String>,
    /// Highest clock of the memory.
    pub clock_memory_max: Option<String>,
    /// Power limit.
    pub power_limit: Option<String>,
}

impl Machine {
    /// The machine that this engine runs on.
    pub fn of(engine: &Engine) -> Self {
        let here = Self::processor(engine.options().threads);
        match engine.place() {
            Backend::Cpu { .. } => here,
            Backend::Gpu { gpu, .. } => {
                Self { device: "cuda".into(), gpu: Some(Graphics::of(gpu.properties())), ..here }
            }
        }
    }

    /// So many threads of this machine's processor.
    pub fn processor(threads: usize) -> Self {
        Self {
            device: "cpu".into(),
            cpu: cpu(),
            cpu_mhz: cpu_field("cpu MHz").and_then(|mhz| mhz.parse().ok()),
            threads,
            gpu: None,
            os: std::env::consts::OS.into(),
            qrun: env!("CARGO_PKG_VERSION").into(),
            commit: commit().into(),
            timestamp: timestamp(),
        }
    }

    /// What it computes with, in a few words.
    pub fn name(&self) -> String {
        match &self.gpu {
            Some(gpu) => format!("{} (driver {})", gpu.name, gpu.driver.as_deref().unwrap_or("unknown")),
            None => format!("{}, {} threads", self.cpu, self.threads),
        }
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

/// The present moment in UTC, ISO 8601.
pub fn timestamp() -> String {
    now("%Y-%m-%dT%H:%M:%SZ")
}

/// The present moment in UTC, as `strftime` writes it.
pub fn now(format: &str) -> String {
    clock::strftime(SystemTime::now(), format).unwrap_or_default()
}

impl Graphics {
    /// What the driver and `nvidia-smi` say of a device.
    pub fn of(properties: &qrun_cuda::DeviceProperties) -> Self {
        let asked = "--query-gpu=driver_version,clocks.max.sm,clocks.max.memory,power.limit";
        let said = Command::new("nvidia-smi").args([asked, "--format=csv,noheader"]).output();
        let said = said.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
        let line = said.lines().nth(properties.ordinal as usize).unwrap_or_default();
        let mut words = line.split(", ").map(str::to_owned).filter(|word| !word.is_empty());
        Self {
            name: properties.name.clone(),
            sm: properties.sm,
            multiprocessors: properties.multiprocessors,
            memory: properties.memory,
            driver: words.next(),
            clock_sm_max: words.next(),
            clock_memory_max: words.next(),
            power_limit: words.next(),
        }
    }
}

/// The processor's name and the widest of the instructions that the kernels are written for.
pub fn cpu() -> String {
    let flags = cpu_field("flags").unwrap_or_default();
    let widest = ["avx512_vnni", "avx_vnni", "avx2"].into_iter().find(|f| flags.split(' ').any(|g| g == *f));
    let name = cpu_field("model name").unwrap_or_else(|| std::env::consts::ARCH.into());
    widest.map_or(name.clone(), |widest| format!("{name}, {widest}"))
}

fn cpu_field(name: &str) -> Option<String> {
    let info = fs::read_to_string("/proc/cpuinfo").ok()?;
    Some(info.lines().find(|l| l.starts_with(name))?.split_once(": ")?.1.to_owned())
}

/// The most memory that this process has held since [`forget_peak_memory`], in bytes; `None` where the system does not
/// say. Mapped weights that were read count.
pub fn peak_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

/// Lets the peak begin again from what is held now; where the system does not allow it, the peak is the process's.
pub fn forget_peak_memory() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}
