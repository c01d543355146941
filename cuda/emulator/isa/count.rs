//! What was executed: exact, the same in every run, per instruction.

/// Kinds of warp instructions, by what they cost. The examples are of PTX; machine code counts under the same kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// `add.s32`, `and.b32`, `shl`, `min.s32`, `mad.lo`, `prmt`, `bfi`, `shf` …
    Integer,
    /// Integer instructions on 64 bits: addresses above all.
    Wide,
    /// `div` and `rem` of integers: dozens of machine instructions each.
    Divide,
    /// `add.f32`, `fma.rn.f32`, `max.f32` …
    Float,
    /// The same on f64.
    Double,
    /// `ex2`, `rcp`, `rsqrt`, `div.rn.f32`, `sqrt.rn.f32`.
    Special,
    /// `cvt`.
    Convert,
    /// `mov`, `cvta`, `selp`: a register allocator takes many of them away.
    Move,
    /// `setp` and logic of predicates.
    Predicate,
    /// `dp4a`.
    Dot,
    /// `mma`.
    Matrix,
    /// `ldmatrix`.
    LoadMatrix,
    /// `ld.param`.
    LoadParam,
    /// `ld.global`, with `.nc` too.
    LoadGlobal,
    /// `st.global`.
    StoreGlobal,
    /// `ld.shared`.
    LoadShared,
    /// `st.shared`.
    StoreShared,
    /// `cp.async` and its commits and waits.
    Copy,
    /// `prefetch.global.L2`: its sectors are no load's.
    Prefetch,
    /// `atom`.
    Atomic,
    /// `shfl`, `vote`.
    Exchange,
    /// `bar.sync`, `bar.red`, `bar.warp.sync`, `membar`.
    Barrier,
    /// `bra`, `ret`.
    Control,
}

/// What one instruction of a kernel did, over all warps, blocks and launches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct At {
    /// How often a warp issued it; guarded instructions count where a lane's guard held, branches always.
    pub executed: u64,
    /// Machine code: how often it was issued besides, with a guard that held in no lane.
    pub idle: u64,
    /// Lanes that did it.
    pub lanes: u64,
    /// Loads, stores, copies and atomics of global memory: 32-byte sectors, counted per warp instruction.
    pub sectors: u64,
    /// The fewest sectors that could hold the distinct bytes of each warp instruction.
    pub ideal_sectors: u64,
    /// As `sectors`, in 128-byte lines.
    pub lines: u64,
    /// Bytes that the lanes asked for, of whatever memory.
    pub bytes: u64,
    /// Shared memory: passes, the most distinct words of a bank over 32, 16 or 8 lanes for 4, 8 or 16 bytes per lane.
    pub passes: u64,
    /// The same without bank conflicts: one pass per group of lanes that has one that takes part.
    pub ideal_passes: u64,
    /// Products that are summed up: 4096 of an `mma` of m16n8k32.
    pub macs: u64,
    /// A branch that parted the lanes.
    pub divergent: u64,
}

/// What a kernel did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelCounts {
    /// Launches of the kernel that were counted.
    pub launches: u64,
    /// Blocks that ran.
    pub blocks: u64,
    /// Distinct 32-byte sectors of global memory that a launch read, summed over the launches.
    pub sectors_read: u64,
    /// The same of those it wrote.
    pub sectors_written: u64,
    /// By instruction, in the order of [`super::Kernel::listing`].
    pub at: Vec<At>,
    /// What each of them is.
    pub classes: Vec<Class>,
}

impl At {
    /// Adds what another one counted.
    pub fn add(&mut self, other: &Self) {
        self.executed += other.executed;
        self.idle += other.idle;
        self.lanes += other.lanes;
        self.sectors += other.sectors;
        self.ideal_sectors += other.ideal_sectors;
        self.lines += other.lines;
        self.bytes += other.bytes;
        self.passes += other.passes;
        self.ideal_passes += other.ideal_passes;
        self.macs += other.macs;
        self.divergent += other.divergent;
    }
}

impl KernelCounts {
    /// The sum over the instructions of these classes; over all where none is named.
    pub fn sum(&self, classes: &[Class]) -> At {
        let mut sum = At::default();
        for (at, class) in self.at.iter().zip(&self.classes) {
            if classes.is_empty() || classes.contains(class) {
                sum.add(at);
            }
        }
        sum
    }

    /// Instructions that warps issued, of all classes.
    pub fn warp_instructions(&self) -> u64 {
        self.sum(&[]).executed
    }
}
