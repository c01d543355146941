//! Single launches: those of one shape are executed once, where that is asked for, and their first blocks are traced.

use std::collections::BTreeMap;

use super::Launch;
use super::code::{Kernel, Op, Space};
use super::cost::{Block, Issue, Trace};
use super::count::{At, Class, KernelCounts};

/// What is kept of single launches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Keep {
    /// Whether [`Counts::launches`] is filled. A launch like an earlier one (kernel, grid, parameters except for what
    /// they point to) is counted once more and not executed, unless it tells the host something: what its counts
    /// would be must not depend on the bytes in memory.
    pub launches: bool,
    /// So many blocks of a launch of machine code are traced, from the first on.
    pub traced: usize,
    /// Launches are neither executed nor counted, unless they tell the host something: for what comes before those in
    /// question.
    pub skip: bool,
}

/// Counts of all launches that were run with it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// By target (75, 80 …; of PTX or of machine code, as the launches were) and name of the kernel.
    pub kernels: BTreeMap<(u32, String), KernelCounts>,
    /// What is to be kept of single launches.
    pub keep: Keep,
    /// The launches that were kept.
    pub launches: Vec<LaunchCounts>,
}

/// A launch, which stands for all that were like it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LaunchCounts {
    /// The kernel's name.
    pub kernel: String,
    /// What the kernel was compiled for: 75, 80 …
    pub sm: u32,
    /// Blocks of the grid.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub threads: u32,
    /// Registers of a thread; 0 for PTX.
    pub registers: u32,
    /// Shared bytes of a block.
    pub shared: u32,
    /// How many launches were like it, itself too.
    pub times: u64,
    /// What it did.
    pub counts: KernelCounts,
    /// Blocks that were traced.
    pub trace: Vec<Block>,
    /// How its instructions are issued.
    pub issues: Vec<Issue>,
    /// What the parameters of the first of them point to.
    pub addresses: Vec<u64>,
    /// Parameters, without what they point to.
    params: Vec<u8>,
}

// The numbers of its issues come from tables, and none is NaN.
impl Eq for LaunchCounts {}

impl LaunchCounts {
    pub(super) fn new(launch: &Launch<'_>, counts: KernelCounts, trace: Option<Trace>) -> Self {
        let kernel = launch.kernel;
        let trace = trace.map_or(Vec::new(), |trace| trace.blocks);
        Self {
            kernel: kernel.name.clone(),
            sm: kernel.sm,
            grid: launch.grid,
            threads: launch.block.iter().product(),
            registers: kernel.registers,
            shared: kernel.own_shared_bytes() as u32 + launch.dynamic_shared,
            times: 1,
            counts,
            issues: if trace.is_empty() { Vec::new() } else { issues(kernel) },
            trace,
            addresses: words(launch).filter(|value| points(launch, *value)).collect(),
            params: shape(launch),
        }
    }

    /// Instructions of the average block over those of the average one that was traced; 1 where none was.
    pub fn average(&self) -> f64 {
        let (all, traced) = (self.counts.sum(&[]), self.trace.iter().flat_map(|block| &block.warps).map(Vec::len));
        let all = (all.executed + all.idle) as f64 / self.counts.blocks.max(1) as f64;
        let traced = traced.sum::<usize>() as f64 / self.trace.len().max(1) as f64;
        if traced > 0.0 { all / traced } else { 1.0 }
    }

    fn is_like(&self, launch: &Launch<'_>, params: &[u8]) -> bool {
        let Launch { kernel, grid, block, .. } = launch;
        (&self.kernel, self.sm, self.grid, self.threads) == (&kernel.name, kernel.sm, *grid, block.iter().product())
            && self.params == params
    }
}

/// The parameters and dynamic bytes, with where an address lies in its 256 bytes in place of the address.
fn shape(launch: &Launch<'_>) -> Vec<u8> {
    let mut all = launch.dynamic_shared.to_le_bytes().to_vec();
    for value in words(launch) {
        all.extend((if points(launch, value) { (value % 256) | (1 << 63) } else { value }).to_le_bytes());
    }
    all
}

/// The parameters, 8 bytes at a time.
fn words<'a>(launch: &Launch<'a>) -> impl Iterator<Item = u64> + use<'a> {
    launch.params.chunks(8).map(|word| word.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

/// Whether it is an address of device memory. No allocation lies in the first 4 GiB.
fn points(launch: &Launch<'_>, value: u64) -> bool {
    value >> 32 != 0 && launch.memory.region(value).is_ok()
}

/// Whether a host may see that it ran.
fn tells(kernel: &Kernel) -> bool {
    kernel.code.iter().any(|i| matches!(i.op, Op::Fence(true) | Op::Store(Space::Volatile, _)))
}

impl Counts {
    /// Counts a launch like an earlier one, or skips it; false where it has to be executed.
    pub(super) fn again(&mut self, launch: &Launch<'_>) -> bool {
        if tells(launch.kernel) || !self.keep.launches && !self.keep.skip {
            return false;
        }
        if self.keep.skip {
            return true;
        }
        let params = shape(launch);
        let Some(found) = self.launches.iter_mut().find(|l| l.is_like(launch, &params)) else { return false };
        found.times += 1;
        let once =
            Self { kernels: [((found.sm, found.kernel.clone()), found.counts.clone())].into(), ..Self::default() };
        self.add(&once);
        true
    }
}

impl Counts {
    /// Adds what others counted.
    pub fn add(&mut self, other: &Self) {
        self.launches.extend(other.launches.iter().cloned());
        for (key, theirs) in &other.kernels {
            let ours = self.kernels.entry(key.clone()).or_default();
            ours.launches += theirs.launches;
            ours.blocks += theirs.blocks;
            ours.sectors_read += theirs.sectors_read;
            ours.sectors_written += theirs.sectors_written;
            if ours.at.len() < theirs.at.len() {
                ours.at.resize(theirs.at.len(), At::default());
                ours.classes.clone_from(&theirs.classes);
            }
            for (at, more) in ours.at.iter_mut().zip(&theirs.at) {
                at.add(more);
            }
        }
    }

    /// The sum over the instructions of these classes of all kernels; over all classes where none is named.
    pub fn sum(&self, classes: &[Class]) -> At {
        let mut sum = At::default();
        self.kernels.values().for_each(|kernel| sum.add(&kernel.sum(classes)));
        sum
    }

    /// Instructions that warps issued, of all classes and kernels.
    pub fn warp_instructions(&self) -> u64 {
        self.sum(&[]).executed
    }

    /// What the kernel of this name did, whatever its target.
    pub fn kernel(&self, name: &str) -> KernelCounts {
        let mut counts = Self::default();
        for ((_, of), kernel) in self.kernels.iter().filter(|((_, of), _)| of == name) {
            counts.add(&Self { kernels: BTreeMap::from([((0, of.clone()), kernel.clone())]), ..Self::default() });
        }
        counts.kernels.into_values().next().unwrap_or_default()
    }
}

/// How each instruction of machine code is issued; nothing of PTX.
fn issues(kernel: &Kernel) -> Vec<Issue> {
    let lines = kernel.lines.iter().zip(&kernel.controls);
    lines.map(|((_, text), control)| Issue::new(kernel.sm, text, *control)).collect()
}
