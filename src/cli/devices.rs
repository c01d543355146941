//! `qrun devices`: what can compute here, with which code, and what is taken when nothing is said.

use std::fmt::Write;

use crate::engine::plan::human_bytes;
use qrun_cuda::{
    device,
    image::{self, Choice},
};
use qrun_quant::cpu::{Isa, Tuning, physical_cores};

/// The GPUs, or why there are none, the CPU, and which of them `--device auto` takes.
pub fn listing() -> String {
    let mut text = String::from("Available devices:\n");
    let found = device::list();
    for d in found.iter().flatten() {
        let (major, minor) = (d.sm / 10, d.sm % 10);
        let _ = writeln!(
            text,
            "  cuda{}: {} (SM {major}.{minor}, {}, {} multiprocessors; {})",
            d.ordinal,
            d.name,
            human_bytes(d.memory),
            d.multiprocessors,
            code(d.sm)
        );
    }
    if let Err(reason) = &found {
        let _ = writeln!(text, "  cuda: none ({reason})");
    }
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let isa = Isa::best();
    let family = Tuning::of(isa).family.map_or(String::new(), |family| format!(" of {family}"));
    let _ = writeln!(text, "  cpu: {isa}{family}, {threads} threads, {} of them used", physical_cores());
    let devices = found.as_deref().unwrap_or_default();
    let taken = match (device::best(devices), devices) {
        (Some(best), _) => format!("cuda{} where the model fits, else the CPU", best.ordinal),
        (None, [first, ..]) => format!("the CPU: {} is too old", first.name),
        (None, []) => "the CPU".into(),
    };
    let _ = writeln!(text, "--device auto takes {taken}");
    if devices.len() > 1 {
        let _ =
            writeln!(text, "--device cuda1 takes the second GPU; CUDA_VISIBLE_DEVICES hides some from every program");
    }
    text
}

/// Which of the kernels inside this program a GPU runs.
fn code(sm: i32) -> String {
    let dotted = |sm: u32| format!("{}.{}", sm / 10, sm % 10);
    match image::pick(sm as u32) {
        Choice::Exact(_) => "kernels made for it".into(),
        Choice::SameMajor(other) => format!("kernels made for SM {}", dotted(other)),
        Choice::Ptx => format!("kernels that the driver compiles from PTX {}", dotted(image::PTX)),
        Choice::TooOld => format!("too old: qrun needs SM {}", dotted(device::MIN_SM as u32)),
    }
}
