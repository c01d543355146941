//! How much of a launch a card holds at a time, and how many bytes that has under way.

use super::Work;
use super::cards::Card;
use super::pipes::Kind;
use super::trace::{Block, Step};

/// How many blocks of a launch an SM holds at a time; at least one.
pub fn resident(work: &Work<'_>, card: &Card) -> u64 {
    let warps = u64::from(work.threads.div_ceil(32)).max(1);
    // Registers go to warps in pieces of 256, a quarter of all to each scheduler.
    let registers = u64::from(work.registers.max(1) * 32).next_multiple_of(256);
    let by_registers = 16384 / registers * 4 / warps;
    // From sm_80 on a block's shared memory has 1 KiB of the driver's.
    let shared = u64::from(work.shared) + if card.sm < 80 { 0 } else { 1024 };
    let by_shared = u64::from(card.shared_bytes) / shared.max(1);
    let all = [by_registers, by_shared, u64::from(card.warps) / warps, u64::from(card.blocks)];
    all.into_iter().fold(u64::MAX, u64::min).max(1)
}

/// Blocks of the launch over those that the card holds at a time. What stands behind the point is the part of the card
/// that the last wave keeps busy.
pub fn waves(work: &Work<'_>, card: &Card) -> f64 {
    work.blocks as f64 / (resident(work, card) * u64::from(card.sms)) as f64
}

/// Bytes of DRAM that the first wave has asked for and not yet used, each warp at its best moment. Below
/// [`Card::bytes_to_fill`] the memory waits for the warps. 0 where nothing was traced.
pub fn bytes_in_flight(work: &Work<'_>, card: &Card) -> f64 {
    let of_block = |block: &Block| block.warps.iter().map(|warp| most_under_way(work, block, warp)).sum::<u64>();
    let all: u64 = work.trace.iter().map(of_block).sum();
    let blocks = work.blocks.min(resident(work, card) * u64::from(card.sms));
    all as f64 / work.trace.len().max(1) as f64 * blocks as f64
}

/// Of one warp: the most bytes between the instructions that ask for them and those that wait.
fn most_under_way(work: &Work<'_>, block: &Block, warp: &[Step]) -> u64 {
    // By barrier; by group of copies, the open one last.
    let (mut loads, mut copies, mut most) = ([0u64; 6], vec![0u64], 0);
    for step in warp {
        let issue = &work.issues[step.pc as usize];
        let waits = |n: usize| issue.control.wait >> n & 1 != 0;
        (0..6).filter(|n| waits(*n)).for_each(|n| loads[n] = 0);
        let cold = || 32 * block.of(step).iter().filter(|sector| !(work.hot)(**sector)).count() as u64;
        match issue.kind {
            Kind::Load(_) => {
                if let Some(load) = loads.get_mut(usize::from(issue.control.write)) {
                    *load += cold();
                }
            }
            Kind::Copy => *copies.last_mut().expect("a group is open") += cold(),
            Kind::CopyCommit => copies.push(0),
            Kind::CopyWait(groups) => {
                let done = (copies.len() - 1).saturating_sub(usize::from(groups));
                copies[..done].fill(0);
            }
            _ => (),
        }
        most = most.max(loads.iter().chain(&copies).sum());
    }
    most
}

impl Card {
    /// Bytes that have to be under way for DRAM to be busy all the time: bandwidth times latency, at the better end.
    pub fn bytes_to_fill(&self) -> f64 {
        self.dram[0] * (self.dram_ns[0] + self.l2_clocks[0] / self.ghz[0])
    }
}
