//! The machine that executes what is shipped, PTX and machine code: one decoded instruction for 32 lanes at a time.
//!
//! [`Module::parse`] reads the PTX and [`Module::cubin`] the machine code that `cuModuleLoadData` was given, [`run`]
//! executes one launch of one of its kernels on the calling thread. Semantics are those of the PTX manual, not of C. In
//! PTX a lane has a program counter of its own, the lowest goes first, so lanes that a branch parted meet again; in
//! machine code they meet where its convergence barriers say so. What is wrong is a [`Fault`] that names kernel, block,
//! warp, lanes and the line of the PTX or of the listing.
//!
//! ```text
//! ptx, table   text -> code: a row per opcode, everything decoded once;  sass  the same of machine code
//! code         Kernel, Instruction, registers as rows of 32 lanes; code/ what machine code has besides
//! exec         one instruction for one warp: words, longs, predicates, access to memory, what lanes do together
//! warp, block  divergence, collectives, barriers, orders
//! memory       bounds, sectors, `.nc` loads against stores
//! shared       bytes that nothing wrote, banks, asynchronous copies
//! float        roundings, half formats, approximations;  fragments  tensor-core layouts;  count  counters
//! launches     single launches, their traces;  cost  how long they take on a card
//! ```

use std::fmt;
use std::ops::Range;

mod block;
mod code;
pub mod cost;
mod count;
mod exec;
mod float;
mod fragments;
mod launches;
pub(crate) mod link;
mod memory;
mod ptx;
mod random;
mod registers;
mod sass;
mod shared;
mod table;
mod trouble;
mod visible;
mod warp;

pub use block::run;
pub use code::sass::Control;
pub use code::{Kernel, Module};
pub use count::{At, Class, KernelCounts};
pub use launches::{Counts, Keep, LaunchCounts};
pub use sass::{disassemble, nvdisasm};

pub use crate::order::Order;

/// Text that is not PTX this machine knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// From 1; 0 where no line is to blame.
    pub line: usize,
    /// The instruction or declaration, and what about it.
    pub what: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.what),
            line => write!(f, "line {line}: {}", self.what),
        }
    }
}

impl std::error::Error for ParseError {}

/// What `ex2.approx`, `rcp.approx` and `rsqrt.approx` return: the manual leaves them some ULPs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Approximation {
    /// Computed in f64 and rounded once.
    #[default]
    Exact,
    /// The exact result moved down by the ULPs that the manual allows (2 for ex2 and rsqrt, 1 for rcp).
    Low,
    /// The same upwards.
    High,
}

/// One launch. Device addresses in `params` are host addresses that `memory` knows.
#[derive(Clone, Copy)]
pub struct Launch<'a> {
    /// What runs.
    pub kernel: &'a Kernel,
    /// The bytes of the parameter; exactly [`Kernel::param_bytes`] of them.
    pub params: &'a [u8],
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y, z. A last warp that is not full is allowed.
    pub block: [u32; 3],
    /// Bytes behind the kernel's own shared arrays.
    pub dynamic_shared: u32,
    /// The most shared bytes, own and dynamic, that a block may have.
    pub shared_limit: u32,
    /// Of blocks, and of the warps of a block between two barriers.
    pub order: Order,
    /// Mixed into that of [`Order::Random`], so that each launch draws another order.
    pub seed: u64,
    /// Only the first and the last so many blocks run; 0: all.
    pub ends: u64,
    /// It may start before the kernels before it have ended: each thread waits for them by itself.
    pub dependent: bool,
    /// What the approximate instructions return.
    pub approximation: Approximation,
    /// What the driver knows of addresses.
    pub memory: &'a dyn GlobalMemory,
}

/// What the driver knows of device addresses (they are host addresses).
///
/// # Safety
/// The bytes of a region must be readable and writable until the launch ends, and nobody else may touch them except as
/// another processor would (a host that polls): the machine reads and writes them by address.
pub unsafe trait GlobalMemory {
    /// Exact bounds of the allocation or fence that holds the address. The machine asks once per region and launch.
    ///
    /// # Errors
    /// What is to be said about an address that no region holds.
    fn region(&self, address: u64) -> Result<Range<u64>, String>;
    /// A volatile store that a polling host may see was made at the address, or (None) a system fence.
    fn published(&self, address: Option<u64>);
    /// Bytes of a region that the launch read and wrote, each byte counted once. Told when it has ended.
    fn traffic(&self, region: Range<u64>, read: u64, written: u64) {
        let _ = (region, read, written);
    }
}

/// Why a launch failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// A `CUresult`: 1 invalid value, 700 illegal address, 701 too many resources, 716 misaligned, 719 anything else.
    pub code: i32,
    /// For people: kernel, block, warp or thread, line and text of the instruction, expected and found.
    pub report: String,
}
