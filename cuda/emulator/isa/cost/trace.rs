//! What warps executed, and which of their sectors are those of one block alone.

use std::collections::HashMap;

use super::{Issue, Kind};

/// One warp instruction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Step {
    /// Index of the instruction.
    pub pc: u32,
    /// Its sectors: so many of [`Block::sectors`], from this one on.
    pub first: u32,
    /// How many 32-byte sectors of global memory it touched.
    pub sectors: u8,
    /// 128-byte lines of them.
    pub lines: u8,
    /// Passes over the banks of shared memory.
    pub passes: u8,
}

/// What the warps of a block did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Block {
    /// Of each warp, in its order.
    pub warps: Vec<Vec<Step>>,
    /// Addresses over 32, as [`Step::first`] and [`Step::sectors`] say.
    pub sectors: Vec<u64>,
}

/// The first blocks of a launch, as they run: the machine tells it of blocks, sectors and steps.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// Blocks that are kept.
    pub blocks: Vec<Block>,
    most: usize,
    on: bool,
    touched: Vec<u64>,
}

impl Trace {
    /// Steps after which no further block is kept.
    const ENOUGH: usize = 4 << 20;

    /// Keeps at most so many blocks.
    pub fn new(most: usize) -> Self {
        Self { most, ..Self::default() }
    }

    /// A block begins.
    pub fn begin(&mut self, warps: usize) {
        let steps: usize = self.blocks.iter().flat_map(|b| &b.warps).map(Vec::len).sum();
        self.on = self.blocks.len() < self.most && steps < Self::ENOUGH;
        if self.on {
            self.blocks.push(Block { warps: vec![Vec::new(); warps], sectors: Vec::new() });
        }
    }

    /// Whether the block that runs is kept.
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// The instruction under way touches the sectors of these bytes.
    pub fn touch(&mut self, address: u64, bytes: u64) {
        for sector in address / 32..=(address + bytes - 1) / 32 {
            if self.touched.last() != Some(&sector) {
                self.touched.push(sector);
            }
        }
    }

    /// A warp has executed an instruction: with what was touched since the last step, and passes over banks.
    pub fn step(&mut self, warp: usize, pc: usize, passes: u64) {
        let Some(block) = self.blocks.last_mut().filter(|_| self.on) else { return self.touched.clear() };
        // Lanes may tell their addresses in any order.
        self.touched.sort_unstable();
        self.touched.dedup();
        let mut lines: u8 = 0;
        for (i, sector) in self.touched.iter().enumerate() {
            lines += u8::from(i == 0 || self.touched[i - 1] / 4 != sector / 4);
        }
        let (first, sectors) = (block.sectors.len() as u32, self.touched.len() as u8);
        block.sectors.append(&mut self.touched);
        let passes = passes.min(255) as u8;
        block.warps[warp].push(Step { pc: pc as u32, first, sectors, lines, passes });
    }
}

/// Sectors by number. Those that more than one traced block touches are taken to be touched by all blocks; each other
/// one to have its like in every block.
pub(super) struct Sectors {
    /// By block, as [`Block::sectors`]: a number, shared ones first.
    pub of: Vec<Vec<u32>>,
    pub shared: u32,
    pub count: u32,
    /// By number: whether DRAM has nothing to do with it.
    pub hot: Vec<bool>,
    /// By number: the warp (of its block) that alone touches it, or None.
    pub warp: Vec<Option<u32>>,
}

impl Sectors {
    pub fn new(blocks: &[Block], issues: &[Issue], hot: &dyn Fn(u64) -> bool) -> Self {
        /// Where it was seen first, whether in other blocks and warps too, and whether somebody reads it.
        struct Seen {
            block: usize,
            warp: usize,
            blocks: bool,
            warps: bool,
            read: bool,
        }
        let mut seen: HashMap<u64, Seen> = HashMap::new();
        let mut order = Vec::new();
        for (n, block) in blocks.iter().enumerate() {
            for (w, warp) in block.warps.iter().enumerate() {
                let touched = warp.iter().flat_map(|step| block.of(step).iter().map(|sector| (step.pc, *sector)));
                for (pc, sector) in touched {
                    let at = seen.entry(sector).or_insert_with(|| {
                        order.push(sector);
                        Seen { block: n, warp: w, blocks: false, warps: false, read: false }
                    });
                    at.read |= issues[pc as usize].kind != Kind::Store;
                    at.blocks |= at.block != n;
                    at.warps |= at.warp != w;
                }
            }
        }
        let (all, own): (Vec<u64>, Vec<u64>) = order.into_iter().partition(|sector| seen[sector].blocks);
        let shared = all.len() as u32;
        let numbered = || all.iter().chain(&own);
        let numbers: HashMap<u64, u32> = numbered().enumerate().map(|(i, sector)| (*sector, i as u32)).collect();
        let alone = |sector: &u64| {
            let at = &seen[sector];
            (!at.blocks && !at.warps).then_some(at.warp as u32)
        };
        Self {
            of: blocks.iter().map(|block| block.sectors.iter().map(|s| numbers[s]).collect()).collect(),
            shared,
            count: numbers.len() as u32,
            hot: numbered().map(|sector| !seen[sector].read || hot(*sector)).collect(),
            warp: numbered().map(alone).collect(),
        }
    }

    /// Sectors that lie in DRAM: those that all blocks touch, and those of the average block alone.
    pub fn cold(&self) -> (f64, f64) {
        let (all, own) = self.hot.split_at(self.shared as usize);
        let cold = |of: &[bool]| of.iter().filter(|hot| !**hot).count() as f64;
        (cold(all), cold(own) / self.of.len().max(1) as f64)
    }
}

impl Block {
    /// The sectors of a step.
    pub fn of(&self, step: &Step) -> &[u64] {
        &self.sectors[step.first as usize..][..usize::from(step.sectors)]
    }
}
