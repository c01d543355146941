//! What an emulated machine is like, and its text in `QRUN_EMULATOR`.

use crate::isa::Approximation;
use crate::order::Order;

/// Which of a kernel's programs runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// The kernel's source, compiled by g++ with this package.
    Source,
    /// The PTX that `cuModuleLoadData` was given, by the machine of [`isa`](crate::isa). Machine code is refused
    /// (`QRUN_KERNELS=compute_80` makes qrun load PTX). Bounds, alignment and undefined values are always looked at, races are
    /// not.
    Ptx,
    /// The machine code that it was given, by the same machine (`QRUN_KERNELS=sm_86` makes qrun load that of another SM than
    /// the card's). It is read with nvdisasm; where that is not installed, modules are refused with the reason.
    Sass,
}

const CODES: [(&str, Code); 3] = [("source", Code::Source), ("ptx", Code::Ptx), ("sass", Code::Sass)];

const APPROXIMATIONS: [(&str, Approximation); 3] =
    [("exact", Approximation::Exact), ("low", Approximation::Low), ("high", Approximation::High)];

fn name_of<T: PartialEq>(names: &[(&'static str, T)], value: &T) -> &'static str {
    names.iter().find(|(_, v)| v == value).expect("each value has a name").0
}

/// What a variable moves a default to.
///
/// # Panics
/// Where it is set to something else than what it may be.
fn moved<T>(variable: &str, expected: &str, read: impl Fn(&str) -> Option<T>) -> Option<T> {
    let found = std::env::var(variable).ok().filter(|found| !found.is_empty())?;
    Some(read(&found).unwrap_or_else(|| panic!("{variable}={found}: expected {expected}")))
}

fn moved_by_name<T: Copy>(variable: &str, names: &[(&'static str, T)]) -> Option<T> {
    let expected = names.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" or ");
    moved(variable, &expected, |found| names.iter().find(|(name, _)| *name == found).map(|(_, value)| *value))
}

/// When the work of a stream happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streams {
    /// In the call that submits it.
    Immediate,
    /// When something synchronises with it, as late as possible in the order forward, after the other streams in the
    /// order reverse. A host that polls memory must ask the stream or an event, which makes one step.
    Delayed,
}

/// What an emulated machine is like. Take the rest from [`Config::default`] or [`Config::checked`].
#[derive(Debug, Clone)]
pub struct Config {
    /// Compute capability as `10 * major + minor`: 75, 80, 86, 89, 90, 100 or 120.
    pub sm: u32,
    /// Device memory in bytes.
    pub memory: u64,
    /// How many GPUs the driver reports.
    pub devices: u32,
    /// The driver's CUDA version, as 12080 for 12.8.
    pub driver: i32,
    /// Whether kernels are checked for races, bounds, uninitialised reads and alignment (about 5 to 10 times slower). With
    /// [`Code::Ptx`] and [`Code::Sass`] all but races always are, and this says whether [`published`](crate::Machine::published) is kept.
    pub checked: bool,
    /// How many of the first and of the last blocks of a launch run, where it has more: for shapes whose ends are what matters,
    /// and kernels whose blocks do not wait for each other. 0: all.
    pub blocks: u64,
    /// Which program of a kernel runs.
    pub code: Code,
    /// What the approximate instructions of PTX and machine code (`ex2`, `rcp`, `rsqrt`) give.
    pub approximation: Approximation,
    /// The order of threads, blocks and delayed streams.
    pub order: Order,
    /// When the work of streams happens.
    pub streams: Streams,
    /// Whether kernels and copies happen at all; where not, they are only counted and device memory costs nothing.
    pub execute: bool,
}

impl Default for Config {
    /// An A100 with 8 GiB that runs everything at once, unchecked, from source and in the order forward. Tests run on the
    /// shipped PTX, or in another order, where `QRUN_EMULATOR_CODE=ptx`, `QRUN_EMULATOR_ORDER=reverse` (or `random:7`) and
    /// `QRUN_EMULATOR_APPROXIMATION=low` (or `high`) say so.
    ///
    /// # Panics
    /// Where one of these variables holds anything else.
    fn default() -> Self {
        Self {
            sm: 80,
            memory: 8 << 30,
            devices: 1,
            driver: 12080,
            checked: false,
            blocks: 0,
            code: moved_by_name("QRUN_EMULATOR_CODE", &CODES).unwrap_or(Code::Source),
            approximation: moved_by_name("QRUN_EMULATOR_APPROXIMATION", &APPROXIMATIONS)
                .unwrap_or(Approximation::Exact),
            order: moved("QRUN_EMULATOR_ORDER", "forward, reverse or random:7", Order::read).unwrap_or(Order::Forward),
            streams: Streams::Immediate,
            execute: true,
        }
    }
}

impl Config {
    /// The default with all checks.
    pub fn checked() -> Self {
        Self { checked: true, ..Self::default() }
    }

    /// The default for kernels that exist as source only, or where what is asked of the machine only the source's checks tell.
    pub fn source() -> Self {
        Self { code: Code::Source, ..Self::default() }
    }

    /// The same as the text of `QRUN_EMULATOR`, for a child process.
    pub fn settings(&self) -> String {
        let Self { sm, memory, devices, driver, blocks, .. } = self;
        let (checked, execute) = (u8::from(self.checked), u8::from(self.execute));
        let delayed = u8::from(self.streams == Streams::Delayed);
        let (code, order) = (name_of(&CODES, &self.code), self.order.text());
        let approximation = name_of(&APPROXIMATIONS, &self.approximation);
        format!(
            "sm={sm},memory={memory},devices={devices},driver={driver},checked={checked},blocks={blocks},code={code},\
             approximation={approximation},order={order},delayed={delayed},execute={execute}"
        )
    }
}
