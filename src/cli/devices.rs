//! `qrun devices`: what can compute here.

use std::fmt::Write;

use qrun_cuda::device;

use super::info::bytes;

/// The GPUs, or why there are none, and the CPU.
pub fn listing() -> String {
    let mut text = String::from("Available devices:\n");
    match device::list() {
        Ok(devices) => {
            for d in devices {
                let (major, minor) = (d.sm / 10, d.sm % 10);
                let fits = if d.sm < device::MIN_SM { "; too old: qrun needs SM 7.5" } else { "" };
                let _ = writeln!(
                    text,
                    "  cuda{}: {} (SM {major}.{minor}, {}, {} multiprocessors{fits})",
                    d.ordinal,
                    d.name,
                    bytes(d.memory),
                    d.multiprocessors
                );
            }
        }
        Err(reason) => {
            let _ = writeln!(text, "  cuda: none ({reason})");
        }
    }
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let _ = writeln!(text, "  cpu: {threads} threads");
    text
}
