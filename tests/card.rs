//! The GPU that a test runs on: an emulated one of its own, or with `QRUN_GPU` set the card of this machine.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock, Mutex},
};

use qrun_cuda::{
    Gpu,
    image::{self, Image, Kind, Target},
};
use qrun_emulator::{Config, Entered, Machine};

/// The card, opened once for all tests of a process: a context takes a tenth of a second to make.
static CARD: LazyLock<Arc<Gpu>> = LazyLock::new(|| Gpu::open(0).expect("a GPU (QRUN_GPU is set)"));

/// Whether tests run on the card of this machine.
pub fn is_real() -> bool {
    std::env::var_os("QRUN_GPU").is_some()
}

/// The GPU of the machine that this thread has entered, or the card.
pub fn gpu() -> Arc<Gpu> {
    if is_real() { CARD.clone() } else { Gpu::open(0).expect("a GPU") }
}

/// The kernels of the machines of this process: all GPUs that are opened share them, where each would unpack its own.
static KERNELS: Mutex<BTreeMap<Target, Arc<[Image]>>> = Mutex::new(BTreeMap::new());

/// The kernels that `QRUN_KERNELS` forces, if it does.
fn forced() -> Option<Target> {
    std::env::var_os(image::FORCE)?;
    Some(image::target(0).unwrap_or_else(|e| panic!("{e}")))
}

/// GPUs that have all builds of the kernels: without and with what Ampere brought (and kernels that start before those
/// before them have ended), or only what is forced.
pub fn builds() -> Vec<u32> {
    forced().map_or(vec![75, 90], |target| vec![target.sm])
}

/// An emulated machine: as new as the PTX that is forced needs it, or the one that forced machine code is for.
pub fn machine(config: Config) -> Machine {
    let sm = match forced() {
        None => config.sm,
        Some(Target { kind: Kind::Ptx, sm }) => config.sm.max(sm),
        Some(Target { kind: Kind::Cubin, sm }) => sm,
    };
    if let Ok(target) = image::target(sm) {
        let unpack = || image::modules(target).expect("a part of the archive");
        KERNELS.lock().expect("no test fails here").entry(target).or_insert_with(unpack);
    }
    Machine::new(Config { sm, ..config })
}

/// An emulated machine that this thread has entered for as long as this lives; nothing where the card is used.
pub struct Place {
    // Left before the machine goes.
    _entered: Option<Entered>,
    pub machine: Option<Machine>,
}

impl Place {
    pub fn new(config: Config) -> Self {
        Self::on((!is_real()).then(|| machine(config)))
    }

    /// On a machine that others have been on, or the card.
    pub fn on(machine: Option<Machine>) -> Self {
        Self { _entered: machine.as_ref().map(Machine::enter), machine }
    }
}
