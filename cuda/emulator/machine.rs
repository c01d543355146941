//! Machines: what they count, how they fail.

use std::collections::BTreeMap;
use std::ffi::{CString, c_void};
use std::sync::Arc;

use crate::config::Config;
use crate::isa::{Counts, Keep, link};
use crate::symbols::SYMBOLS;

/// A driver call that is to fail, without doing anything.
#[derive(Debug, Clone, Copy)]
pub struct Failure<'a> {
    /// The function, without the suffix of its version (`cuMemAlloc`); any function where `None`.
    pub call: Option<&'a str>,
    /// Which call from now on: 1 is the next.
    pub nth: u64,
    /// The `CUresult` to return. With the name of a kernel as `call`, 600 (not ready): that launch never ends.
    pub code: i32,
}

/// Bytes that kernels moved in one allocation or fence, each byte counted once per launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
}

/// What happened on a machine since it was made, or since [`Machine::reset_counters`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counters {
    /// Launches by kernel.
    pub launches: BTreeMap<String, u64>,
    /// Calls by driver function, without the suffix of its version.
    pub driver_calls: BTreeMap<String, u64>,
    /// Times that the host waited for the device, blocking copies included.
    pub syncs: u64,
    /// Allocations of device memory.
    pub allocations: u64,
    /// Bytes of device memory in use.
    pub used: u64,
    /// Bytes copied to the device.
    pub bytes_in: u64,
    /// Bytes copied from the device.
    pub bytes_out: u64,
    /// Bytes copied on the device.
    pub bytes_within: u64,
    /// By name of the allocation or fence; zero on machines that run source and are not checked.
    pub traffic: BTreeMap<String, Traffic>,
}

/// One emulated computer. A clone is the same one.
#[derive(Debug, Clone)]
pub struct Machine(Arc<Handle>);

/// The library's machine, deleted with the last of its owners.
#[derive(Debug)]
struct Handle(*mut c_void);

// SAFETY: the library locks a machine in every call.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

/// While it lives, this thread's driver calls go to its machine, which it keeps. Stays on its thread.
#[derive(Debug)]
pub struct Entered {
    before: *mut c_void,
    _machine: Machine,
}

impl Machine {
    /// A machine of its own: nothing is shared with others, so tests may run side by side.
    ///
    /// # Panics
    /// Where `QRUN_GPU` is set: the emulator would be found under the driver's name from then on, and tests that are to run
    /// on the card of this machine would pass without one.
    pub fn new(config: Config) -> Self {
        let real = std::env::var_os("QRUN_GPU").is_some();
        assert!(!real, "QRUN_GPU asks for the card of this machine, and this test for an emulated one");
        let text = CString::new(config.settings()).expect("settings have no NUL");
        // SAFETY: a string.
        let machine = unsafe { (SYMBOLS.machine_new)(text.as_ptr()) };
        assert!(!machine.is_null(), "the emulator does not understand {config:?}");
        Self(Arc::new(Handle(machine)))
    }

    /// This thread's driver calls go to this machine from now on. No context is current at first.
    pub fn enter(&self) -> Entered {
        // SAFETY: the guard keeps the machine.
        Entered { before: unsafe { (SYMBOLS.enter)(self.0.0) }, _machine: self.clone() }
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        // SAFETY: the machine is alive.
        let text = SYMBOLS.take(unsafe { (SYMBOLS.counters)(self.0.0) }).unwrap_or_default();
        let mut counters = Counters::default();
        for line in text.lines() {
            let mut words = line.split('\t');
            let mut word = || words.next().expect("four words per line");
            let (kind, name) = (word(), word().to_string());
            let mut number = || word().parse::<u64>().expect("a number");
            let (first, second) = (number(), number());
            match (kind, name.as_str()) {
                ("launch", _) => drop(counters.launches.insert(name, first)),
                ("call", _) => drop(counters.driver_calls.insert(name, first)),
                ("region", _) => {
                    let traffic = counters.traffic.entry(name).or_default();
                    *traffic = Traffic { read: traffic.read + first, written: traffic.written + second };
                }
                (_, "syncs") => counters.syncs = first,
                (_, "allocations") => counters.allocations = first,
                (_, "used") => counters.used = first,
                (_, "bytes_in") => counters.bytes_in = first,
                (_, "bytes_out") => counters.bytes_out = first,
                (_, "bytes_within") => counters.bytes_within = first,
                _ => unreachable!("the library counts no {name}"),
            }
        }
        counters
    }

    /// What was executed of the images that were loaded; nothing where the kernels' source runs.
    pub fn code_counts(&self) -> Counts {
        // SAFETY: the machine is alive, and with it what it counts.
        unsafe { link::counted((SYMBOLS.code_counts)(self.0.0)) }
    }

    /// What is kept of single launches from now on, in [`Counts::launches`].
    pub fn keep(&self, keep: Keep) {
        // SAFETY: as above.
        unsafe { link::keep((SYMBOLS.code_counts)(self.0.0), keep) }
    }

    /// Counts from zero again.
    pub fn reset_counters(&self) {
        // SAFETY: the machine is alive.
        unsafe { (SYMBOLS.reset_counters)(self.0.0) }
    }

    /// Makes a later call fail.
    pub fn fail(&self, failure: Failure<'_>) {
        let call = CString::new(failure.call.unwrap_or_default()).expect("a function's name has no NUL");
        // SAFETY: the machine is alive, the string too.
        unsafe { (SYMBOLS.fail)(self.0.0, call.as_ptr(), failure.nth, failure.code) }
    }

    /// Gives a part of an allocation (or of pinned memory) exact bounds and a name: from then on a checked kernel must stay
    /// inside the fences of that allocation. Leave a gap between two fences, or one overruns into the other unseen.
    ///
    /// # Panics
    /// Where the part is not inside an allocation or does not begin at a multiple of 256.
    pub fn fence(&self, address: u64, bytes: u64, name: &str) {
        let text = CString::new(name).expect("a name has no NUL");
        // SAFETY: the machine is alive, the string too.
        let done = unsafe { (SYMBOLS.fence)(self.0.0, address, bytes as usize, text.as_ptr()) };
        assert!(done != 0, "fence {name}: {bytes} bytes at {address:#x} are not an aligned part of one allocation");
    }

    /// What kernels stored for a host that polls, since this was last asked: the 16 bytes around each store as they were after
    /// it, and none for a fence. Nothing on machines that are not checked.
    pub fn published(&self) -> Vec<Option<[u32; 4]>> {
        // SAFETY: the machine is alive.
        let text = SYMBOLS.take(unsafe { (SYMBOLS.published)(self.0.0) }).unwrap_or_default();
        let words = |line: &str| {
            let mut words = line.split(' ').map(|word| word.parse().expect("a number"));
            std::array::from_fn(|_| words.next().expect("four words per line"))
        };
        text.lines().map(|line| (line != "fence").then(|| words(line))).collect()
    }

    /// Why the last launch, copy or check failed, if one did.
    pub fn report(&self) -> Option<String> {
        // SAFETY: the machine is alive.
        SYMBOLS.take(unsafe { (SYMBOLS.report)(self.0.0) })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: no guard borrows it any more; contexts that are still held keep the memory alive.
        unsafe { (SYMBOLS.machine_delete)(self.0) }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        // SAFETY: made by `enter` on this thread (the raw pointer keeps the guard there), left once.
        unsafe { (SYMBOLS.leave)(self.before) }
    }
}
