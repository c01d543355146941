//! Control flow of machine code: lanes meet again only where convergence barriers say so.
//!
//! Lanes that run together are a split. A divergent branch makes two of one; they become one again at `BSYNC` (the lanes
//! that passed its `BSSY`) and at `WARPSYNC` (those of its mask), and nowhere else, not even where they stand at the
//! same instruction. Which side of a branch goes first follows the launch's order: forward, the side that falls
//! through; in reverse, the one that jumps; at random, either, and a split may stop at any branch for another one. A
//! result that depends on it has lost a convergence.
//!
//! Assumed: a convergence barrier is a mask per lane, so that splits which pass the same `BSSY` one after the other do
//! not disturb each other.

use super::super::Order;
use super::super::code::sass::{Branch, Sass};
use super::super::code::{Kernel, Op, R};
use super::super::exec::{Context, execute};
use super::super::random::Random;
use super::super::registers::{ALL, Registers, lanes};
use super::super::trouble::{Checked, FAILED, Trouble, trouble, written};
use super::super::warp::{Flow, MOST_TURNS, Pause, ranges};
use super::scoreboard::Scoreboard;

/// Lanes that run together.
struct Split {
    pc: u32,
    lanes: u32,
    waits: Waits,
    /// Masks of the splits that `WARPSYNC.COLLECTIVE` brought together, until `ENDCOLLECTIVE`.
    parts: Vec<u32>,
}

/// What a split waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    /// It can run.
    No,
    /// The others of a convergence barrier, at `BSYNC`.
    Barrier(u8),
    /// `WARPSYNC` with this mask.
    Mask(u32),
    /// `BAR`.
    Block,
}

pub(in super::super) struct Warp {
    registers: Registers,
    index: usize,
    exists: u32,
    /// The last one runs.
    splits: Vec<Split>,
    /// By number and lane: the lanes that meet.
    barriers: [[u32; 32]; 16],
    scoreboard: Scoreboard,
    order: Order,
    random: Random,
    turns: u32,
    /// What `BAR.RED.OR` found.
    any: bool,
}

/// Whether the running split goes on.
#[derive(PartialEq, Eq)]
enum Next {
    /// With the instruction behind.
    Step,
    /// It stands where it is to go on, or waits.
    Here,
    /// Another one is to be chosen.
    Choose,
}

impl Flow for Warp {
    fn new(index: usize, registers: Registers, order: Order, seed: u64) -> Self {
        Self {
            registers,
            index,
            exists: 0,
            splits: Vec::new(),
            barriers: [[0; 32]; 16],
            scoreboard: Scoreboard::default(),
            order,
            random: Random(seed ^ (index as u64) << 40),
            turns: 0,
            any: false,
        }
    }

    fn begin(&mut self, exists: u32) {
        (self.exists, self.turns, self.any) = (exists, 0, false);
        self.splits.clear();
        self.splits.push(Split { pc: 0, lanes: exists, waits: Waits::No, parts: Vec::new() });
        self.barriers = [[0; 32]; 16];
        self.scoreboard.begin();
    }

    fn registers(&mut self) -> &mut Registers {
        &mut self.registers
    }

    fn index(&self) -> usize {
        self.index
    }

    fn pc(&self) -> usize {
        self.splits.last().map_or(0, |split| split.pc as usize)
    }

    fn run(&mut self, context: &mut Context<'_>, switches: &mut Option<impl FnMut() -> bool>) -> Checked<Pause> {
        // SAFETY: `block::run` found that the processor has what build.rs found when it set `avx2`.
        #[cfg_attr(not(avx2), expect(unused_unsafe, reason = "the function asks for nothing there"))]
        unsafe {
            self.steps(context, switches)
        }
    }

    fn release(&mut self, _: &Kernel, any: bool) {
        self.any = any;
        for split in &mut self.splits {
            (split.waits, split.pc) = (Waits::No, split.pc + 1);
        }
    }

    fn trouble(&self, what: String) -> Box<Trouble> {
        let lanes = self.splits.last().map_or(0, |split| split.lanes);
        Box::new(Trouble { code: FAILED, lanes, what })
    }
}

impl Warp {
    #[cfg_attr(avx2, target_feature(enable = "avx2,fma,bmi2,popcnt"))]
    fn steps(&mut self, context: &mut Context<'_>, switches: &mut Option<impl FnMut() -> bool>) -> Checked<Pause> {
        let kernel = context.kernel;
        loop {
            let Some(split) = self.splits.last() else { return Ok(Pause::Returned) };
            let (pc, active) = (split.pc as usize, split.lanes);
            let Some(instruction) = kernel.code.get(pc) else {
                return trouble(FAILED, active, "runs over the end of the kernel");
            };
            let mask = match self.registers.guarded(instruction.guard, active) {
                Ok(mask) => mask,
                Err(lanes) => return trouble(FAILED, lanes, "its guard was never written"),
            };
            self.scoreboard.issue(kernel.controls[pc], &kernel.uses[pc], active, mask)?;
            let op = instruction.op;
            let at = &mut context.at[pc];
            let passes = at.passes;
            if mask != 0 || matches!(op, Op::Sass(Sass::Branch(_))) {
                at.executed += 1;
                at.lanes += u64::from(mask.count_ones());
            } else {
                at.idle += 1;
            }
            let next = match op {
                Op::Sass(Sass::Branch(branch)) => {
                    let parts = self.splits.len();
                    let next = self.branch(kernel, branch, pc, mask)?;
                    at.divergent += u64::from(self.splits.len() > parts);
                    next
                }
                Op::Sass(Sass::Result(predicate)) => {
                    let all = if self.any { ALL } else { 0 };
                    self.registers.set_predicate(predicate, all, mask, ALL);
                    Next::Step
                }
                Op::Barrier | Op::BarrierOr(..) if mask != 0 => {
                    if mask != active {
                        return trouble(FAILED, active & !mask, "must be executed by all lanes of a warp together");
                    }
                    if let Op::BarrierOr(_, predicate) = op {
                        written(mask, self.registers.predicate_lanes(predicate), "its predicate")?;
                    }
                    self.last().waits = Waits::Block;
                    Next::Choose
                }
                Op::Mma(..) | Op::LoadMatrix { .. } if mask != ALL && mask != 0 => {
                    let missing = self.whereabouts(kernel, ALL & !mask);
                    return trouble(
                        FAILED,
                        mask,
                        format!("must be executed by all lanes of a warp together, without {missing}"),
                    );
                }
                _ if mask == 0 => Next::Step,
                _ => {
                    execute(&instruction.op, &mut self.registers, mask, context, (pc, self.index))?;
                    Next::Step
                }
            };
            if let Some(trace) = &mut context.global.trace {
                trace.step(self.index, pc, context.at[pc].passes - passes);
            }
            match next {
                Next::Step => self.last().pc += 1,
                Next::Here => (),
                Next::Choose => {
                    if let Some(pause) = self.choose(context)? {
                        return Ok(pause);
                    }
                }
            }
            let swaps = matches!(op, Op::Sass(Sass::CompareSwap { .. } | Sass::Branch(Branch::Gather(_))));
            if (swaps || matches!(op, Op::Atomic(..) | Op::Fence(_)))
                && switches.as_mut().is_some_and(|switches| switches())
            {
                return Ok(Pause::Switched);
            }
        }
    }

    /// The split that runs.
    fn last(&mut self) -> &mut Split {
        self.splits.last_mut().expect("a split runs")
    }

    /// Lanes that have not returned.
    fn alive(&self) -> u32 {
        self.splits.iter().fold(0, |lanes, split| lanes | split.lanes)
    }

    /// Whether an operand's condition holds, in the lanes of the mask.
    fn holding(&self, condition: Option<(R, bool)>, mask: u32) -> Checked<u32> {
        let Some((row, not)) = condition else { return Ok(mask) };
        written(mask, self.registers.predicate_lanes(row), "its condition")?;
        let holds = self.registers.predicate(row);
        Ok(mask & if not { !holds } else { holds })
    }

    fn branch(&mut self, kernel: &Kernel, branch: Branch, pc: usize, mask: u32) -> Checked<Next> {
        let active = self.last().lanes;
        match branch {
            _ if mask == 0 => return Ok(Next::Step),
            Branch::Begin(b) => lanes(mask).for_each(|lane| self.barriers[usize::from(b)][lane] = mask),
            Branch::Clear(b, d) => {
                let barrier = &mut self.barriers[usize::from(b)];
                let value = *barrier;
                lanes(mask).for_each(|lane| barrier[lane] = 0);
                self.registers.set_word(d, &value, mask, ALL);
            }
            Branch::Leave(b) => {
                let barrier = &mut self.barriers[usize::from(b)];
                for lane in 0..32 {
                    barrier[lane] = if mask >> lane & 1 != 0 { 0 } else { barrier[lane] & !mask };
                }
                // Others may go on now, and another split be the last.
                self.last().pc += 1;
                self.meet();
                return Ok(Next::Here);
            }
            Branch::Wait(b) => {
                if mask != active {
                    return trouble(FAILED, active, "a guarded BSYNC is not known");
                }
                if let Some(lane) = lanes(mask).find(|lane| self.barriers[usize::from(b)][*lane] == 0) {
                    return trouble(FAILED, 1 << lane, "waits at a convergence barrier that no BSSY began");
                }
                self.last().waits = Waits::Barrier(b);
                self.meet();
                return Ok(Next::Choose);
            }
            Branch::Gather(row) => {
                written(mask, self.registers.word_lanes(row), "its mask of lanes")?;
                let members = self.registers.word(row)[mask.trailing_zeros() as usize] & self.exists;
                if mask & !members != 0 {
                    return trouble(FAILED, mask & !members, format!("they are not in their own mask {members:#x}"));
                }
                if mask != active {
                    let rest = Split { pc: pc as u32 + 1, lanes: active & !mask, waits: Waits::No, parts: Vec::new() };
                    self.splits.insert(0, rest);
                }
                let split = self.last();
                (split.lanes, split.waits) = (mask, Waits::Mask(members));
                self.meet();
                return Ok(Next::Choose);
            }
            Branch::EndCollective => {
                let split = self.last();
                split.pc += 1;
                let parts: Vec<u32> = std::mem::take(&mut split.parts);
                let (pc, mut rest) = (split.pc, split.lanes);
                // What it brought together need not stay so.
                for part in parts.into_iter().skip(1) {
                    rest &= !part;
                    self.splits.insert(0, Split { pc, lanes: part, waits: Waits::No, parts: Vec::new() });
                }
                self.last().lanes = rest;
                return Ok(Next::Here);
            }
            Branch::To(to, condition) => {
                let taken = self.holding(condition, mask)?;
                self.turn(pc, to, taken)?;
                return self.jump(&[(to, taken)], active & !taken, pc);
            }
            Branch::IfDiverged(to, members, diverged) => {
                let members = match members {
                    None => self.exists,
                    Some(row) => {
                        written(mask, self.registers.word_lanes(row), "its mask of lanes")?;
                        self.registers.word(row)[mask.trailing_zeros() as usize] & self.exists
                    }
                };
                let taken = if (members & !active != 0) == diverged { mask } else { 0 };
                return self.jump(&[(to, taken)], active & !taken, pc);
            }
            Branch::Indirect(row, offset) => {
                written(mask, self.registers.word_lanes(row), "the address that it jumps to")?;
                let mut targets: Vec<(u32, u32)> = Vec::new();
                for lane in lanes(mask) {
                    let address = self.registers.word(row)[lane].wrapping_add_signed(offset);
                    if address % 16 != 0 || address as usize / 16 >= kernel.code.len() {
                        return trouble(FAILED, 1 << lane, format!("jumps to {address:#x}, where no instruction is"));
                    }
                    match targets.iter_mut().find(|(to, _)| *to == address / 16) {
                        Some((_, lanes)) => *lanes |= 1 << lane,
                        None => targets.push((address / 16, 1 << lane)),
                    }
                }
                for (to, taken) in &targets {
                    self.turn(pc, *to, *taken)?;
                }
                return self.jump(&targets, active & !mask, pc);
            }
            Branch::Exit(condition) => {
                let gone = self.holding(condition, mask)?;
                self.last().lanes &= !gone;
                self.last().pc += 1;
                if gone != 0 {
                    for barrier in &mut self.barriers {
                        barrier.iter_mut().for_each(|members| *members &= !gone);
                    }
                }
                if self.last().lanes == 0 {
                    self.splits.pop();
                    self.meet();
                    return Ok(Next::Choose);
                }
                self.meet();
                return Ok(Next::Here);
            }
            Branch::Yield => {
                self.last().pc += 1;
                return Ok(if self.splits.len() > 1 { Next::Choose } else { Next::Here });
            }
        }
        Ok(Next::Step)
    }

    /// Counts branches back.
    fn turn(&mut self, pc: usize, to: u32, taken: u32) -> Checked<()> {
        if taken != 0 && to as usize <= pc {
            self.turns += 1;
            if self.turns > MOST_TURNS {
                return trouble(FAILED, taken, format!("does not end: {MOST_TURNS} branches back"));
            }
        }
        Ok(())
    }

    /// Splits the lanes by where they go; `stay` go on behind `pc`.
    fn jump(&mut self, targets: &[(u32, u32)], stay: u32, pc: usize) -> Checked<Next> {
        let mut sides: Vec<(u32, u32)> = targets.iter().filter(|(_, lanes)| *lanes != 0).copied().collect();
        if stay != 0 {
            sides.push((pc as u32 + 1, stay));
        }
        // The last side goes first: forward, the one that falls through.
        if sides.len() > 1 {
            match self.order {
                Order::Forward => (),
                Order::Reverse => sides.reverse(),
                Order::Random(_) => {
                    let n = sides.len();
                    let chosen = (self.random.next() % n as u64) as usize;
                    sides.swap(chosen, n - 1);
                }
            }
        }
        let first = self.last();
        let ((pc, lanes), rest) = sides.split_last().expect("a lane jumps or stays");
        (first.pc, first.lanes) = (*pc, *lanes);
        for (pc, lanes) in rest {
            let at = self.splits.len() - 1;
            self.splits.insert(at, Split { pc: *pc, lanes: *lanes, waits: Waits::No, parts: Vec::new() });
        }
        let switch =
            matches!(self.order, Order::Random(_)) && self.splits.len() > 1 && self.random.next().is_multiple_of(4);
        Ok(if switch { Next::Choose } else { Next::Here })
    }

    /// Splits that wait for each other and are all there become one.
    fn meet(&mut self) {
        let alive = self.alive();
        let mut at = 0;
        while at < self.splits.len() {
            let Split { pc, lanes, waits, .. } = self.splits[at];
            let first = lanes.trailing_zeros() as usize % 32;
            let members = match waits {
                Waits::Barrier(b) => self.barriers[usize::from(b)][first] | lanes,
                Waits::Mask(members) => members & alive,
                Waits::No | Waits::Block => {
                    at += 1;
                    continue;
                }
            };
            let same = |s: &Split| s.pc == pc && s.waits == waits && s.lanes & !members == 0;
            let here = self.splits.iter().filter(|s| same(s)).fold(0, |lanes, s| lanes | s.lanes);
            if members & !here != 0 {
                at += 1;
                continue;
            }
            let parts: Vec<u32> = self.splits.iter().filter(|s| same(s)).map(|s| s.lanes).collect();
            self.splits.retain(|s| !same(s));
            if let Waits::Barrier(b) = waits {
                (0..32).filter(|lane| here >> lane & 1 != 0).for_each(|lane| self.barriers[usize::from(b)][lane] = 0);
            }
            self.splits.push(Split { pc: pc + 1, lanes: here, waits: Waits::No, parts });
            at = 0;
        }
    }

    /// Puts a split that can run last; a pause where all wait for the block.
    fn choose(&mut self, context: &Context<'_>) -> Checked<Option<Pause>> {
        if self.splits.is_empty() {
            return Ok(Some(Pause::Returned));
        }
        let ready: Vec<usize> = (0..self.splits.len()).filter(|n| self.splits[*n].waits == Waits::No).collect();
        let chosen = match (ready.as_slice(), self.order) {
            ([], _) => return self.all_wait(context).map(Some),
            (all, Order::Random(_)) => all[(self.random.next() % all.len() as u64) as usize],
            (all, Order::Reverse) => all[0],
            (all, Order::Forward) => all[all.len() - 1],
        };
        let split = self.splits.remove(chosen);
        self.splits.push(split);
        Ok(None)
    }

    fn all_wait(&mut self, context: &Context<'_>) -> Checked<Pause> {
        let alive = self.alive();
        if let [split] = self.splits.as_slice()
            && split.waits == Waits::Block
        {
            let Op::BarrierOr(_, predicate) = context.kernel.code[split.pc as usize].op else {
                return Ok(Pause::Barrier(false));
            };
            return Ok(Pause::Barrier(self.registers.predicate(predicate) & split.lanes != 0));
        }
        let lanes = self.last().lanes;
        let missing = self.whereabouts(context.kernel, alive & !lanes);
        trouble(FAILED, lanes, format!("waits for ever: {missing}"))
    }

    /// Lanes and what they do.
    fn whereabouts(&self, kernel: &Kernel, missing: u32) -> String {
        let mut parts = Vec::new();
        let gone = missing & !self.alive();
        if gone != 0 {
            parts.push(format!("lanes {} that have returned", ranges(gone)));
        }
        for split in self.splits.iter().filter(|s| s.lanes & missing != 0) {
            let (line, text) = &kernel.lines[split.pc as usize];
            let does = if split.waits == Waits::No { "are" } else { "wait" };
            parts.push(format!("lanes {} that {does} at line {line} `{text}`", ranges(split.lanes & missing)));
        }
        parts.join(", ")
    }
}
