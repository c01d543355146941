//! Time of a launch on a card: from the trace of some of its blocks and the control words of its instructions.
//!
//! One SM is simulated, that with the most blocks: four schedulers that issue in order, stall counts, six barriers per
//! warp, pipes, the one path of loads and stores, latencies, and its share of L2 and DRAM. What comes out is a range: a
//! floor that no schedule goes below, and low and high for the two ends of what is known of the card. It decides between
//! two designs only where their ranges do not touch: no card has confirmed it. Tests hold it to traces made by hand, and
//! assert on no time of a shipped kernel.
//!
//! ```text
//! pipes    an instruction's pipe, interval and latency, by SM
//! cards    clocks, bandwidths, latencies, limits of residency
//! trace    which sectors blocks share
//! sm       one SM, clock by clock;  memory  its path to L1, L2, DRAM
//! report   floors, low, high, and what binds;  occupancy  waves, bytes under way
//! ```
//!
//! Not modelled: registers' banks (only as a range), instruction caches, pages of DRAM, TLBs, limits on loads under
//! way, power.

mod cards;
mod memory;
mod occupancy;
mod pipes;
mod report;
mod setup;
mod sm;
mod trace;

pub use cards::{CARDS, Card, Range};
pub use occupancy::{bytes_in_flight, resident, waves};
pub use pipes::{Issue, Kind, Pipe, Resource};
pub use report::{Bound, Estimate, estimate};
pub use trace::{Block, Step, Trace};

/// A launch whose time is asked for.
#[derive(Clone, Copy)]
pub struct Work<'a> {
    /// By instruction.
    pub issues: &'a [Issue],
    /// Some blocks of the launch, which stand for all of them.
    pub trace: &'a [Block],
    /// What the average block does, over the average of these.
    pub average: f64,
    /// Blocks of the grid.
    pub blocks: u64,
    /// Threads of a block.
    pub threads: u32,
    /// Registers of a thread.
    pub registers: u32,
    /// Shared bytes of a block, static and dynamic.
    pub shared: u32,
    /// Distinct sectors that the launch reads, where all its blocks were counted.
    pub distinct: Option<u64>,
    /// Whether a sector (an address over 32) is in L2 when the launch begins.
    pub hot: &'a dyn Fn(u64) -> bool,
}
