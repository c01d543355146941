//! The memory path of an SM: L1, its share of L2 and of DRAM.

use super::setup::Setup;
use super::trace::Sectors;

/// The SM's share of what L2 or DRAM delivers.
#[derive(Default)]
pub(super) struct Bandwidth {
    /// When all that was asked for so far is through.
    free: f64,
    /// Clocks that it was in use.
    pub used: f64,
    /// Bytes per clock.
    pub rate: f64,
}

/// What the SM's memory path is about to do, and has done.
pub(super) struct Memory {
    /// When its last instruction is through, and what all together took.
    pub load: f64,
    pub load_used: f64,
    pub l2: Bandwidth,
    pub dram: Bandwidth,
    /// By sector: when it arrived (infinite: never), and which insertion into L1 that was.
    arrived: Vec<(f64, u64)>,
    /// By sector: when it is in L2 since it was prefetched (infinite: it was not).
    prefetched: Vec<f64>,
    inserted: u64,
    capacity: u64,
    l1: f64,
    pub l2_clocks: f64,
    dram_clocks: f64,
    /// Bytes that a sector takes of this SM's share of DRAM: one that all SMs read, one that only this one reads.
    charge: [f64; 2],
}

impl Memory {
    /// Empty caches.
    pub fn new(setup: &Setup<'_>) -> Self {
        let Setup { work, sectors, card, end, resident, blocks, .. } = setup;
        let end = *end;
        let copies = blocks.div_ceil(work.trace.len() as u64) as usize;
        let own = (sectors.count - sectors.shared) as usize;
        let (all_cold, own_cold) = sectors.cold();
        // The rest of what seems to be one block's is shared with blocks that were not traced.
        let counted = work.distinct.map_or(1.0, |n| {
            let rest = n as f64 - all_cold;
            if own_cold > 0.0 { (rest / (own_cold * work.blocks as f64)).clamp(0.0, 1.0) } else { 1.0 }
        });
        let shared = (work.shared + if card.sm < 80 { 0 } else { 1024 }) * (*resident).min(*blocks) as u32;
        Self {
            load: 0.0,
            load_used: 0.0,
            l2: Bandwidth::default(),
            dram: Bandwidth::default(),
            arrived: vec![(f64::INFINITY, 0); sectors.shared as usize + own * copies],
            prefetched: vec![f64::INFINITY; sectors.shared as usize + own * copies],
            inserted: 0,
            capacity: u64::from(card.l1_bytes.saturating_sub(shared).max(8 << 10) / 32),
            l1: card.l1_clocks,
            l2_clocks: card.l2_clocks[end],
            dram_clocks: card.dram_ns[end] * card.ghz[end],
            charge: [32.0 / work.blocks.min(card.sms.into()) as f64, 32.0 * counted],
        }
    }

    /// When the last of the sectors has arrived.
    pub fn read(&mut self, sectors: &[u32], (of, copy, alone): (&Sectors, u32, Option<u32>), past: bool) -> f64 {
        let mut last = self.load + self.l1;
        for number in sectors {
            let n = *number as usize;
            if alone.is_some() && of.warp[n] != alone {
                continue;
            }
            let own = *number >= of.shared;
            let at = place(of, *number, copy);
            let (arrived, inserted) = self.arrived[at];
            let never = arrived == f64::INFINITY;
            if !past && !never && self.inserted - inserted <= self.capacity {
                last = last.max(arrived);
                continue;
            }
            let mut arrives = self.l2.serve(self.load, 32.0) + self.l2_clocks;
            if never && self.prefetched[at] < f64::INFINITY {
                arrives = arrives.max(self.prefetched[at] + self.l2_clocks);
            } else if never && !of.hot[n] {
                arrives = self.dram.serve(self.load, self.charge[usize::from(own)]).max(arrives - self.l2_clocks)
                    + self.l2_clocks
                    + self.dram_clocks;
            }
            self.inserted += 1;
            self.arrived[at] = (arrives, self.inserted);
            last = last.max(arrives);
        }
        last
    }

    /// Sectors that L2 does not have are on their way there.
    pub fn prefetch(&mut self, sectors: &[u32], (of, copy): (&Sectors, u32)) {
        for number in sectors {
            let at = place(of, *number, copy);
            if self.arrived[at].0 < f64::INFINITY || self.prefetched[at] < f64::INFINITY || of.hot[*number as usize] {
                continue;
            }
            let charge = self.charge[usize::from(*number >= of.shared)];
            self.prefetched[at] = self.dram.serve(self.load, charge) + self.dram_clocks;
        }
    }

    /// Stores go through to L2.
    pub fn write(&mut self, sectors: usize) {
        self.l2.serve(self.load, 32.0 * sectors as f64);
    }
}

/// Where what is known of a sector stands: of those of one block, by the copy of its trace.
fn place(of: &Sectors, number: u32, copy: u32) -> usize {
    let own = number >= of.shared;
    number as usize + if own { copy as usize * (of.count - of.shared) as usize } else { 0 }
}

impl Bandwidth {
    /// Takes so many bytes from t on; when they are through.
    fn serve(&mut self, t: f64, bytes: f64) -> f64 {
        let clocks = bytes / self.rate;
        self.free = self.free.max(t) + clocks;
        self.used += clocks;
        self.free
    }
}
