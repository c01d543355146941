//! Control flow of a warp: a program counter per lane, lowest first, so that lanes which a branch parted meet again.
//!
//! Lanes at the same instruction are a group. One group runs, until it comes to where another stands. `shfl`, `vote`
//! and `bar.warp` wait for the lanes of their mask; what is `.aligned` waits for all lanes: those that cannot come,
//! because they have returned or wait elsewhere, are an error.

use super::Order;
use super::code::{Kernel, Op, R};
use super::exec::{Context, execute};
use super::registers::{ALL, Registers, lanes};
use super::trouble::{Checked, FAILED, Trouble, trouble, written};

/// How the lanes of a warp go through the code.
pub(super) trait Flow: Sized {
    fn new(index: usize, registers: Registers, order: Order, seed: u64) -> Self;
    /// Before the first instruction of a block that has these lanes.
    fn begin(&mut self, exists: u32);
    fn registers(&mut self) -> &mut Registers;
    fn index(&self) -> usize;
    /// Where it stands.
    fn pc(&self) -> usize;
    /// Runs to the next pause. Where `switches` is given, it is asked behind what orders memory whether another warp
    /// goes first.
    fn run(&mut self, context: &mut Context<'_>, switches: &mut Option<impl FnMut() -> bool>) -> Checked<Pause>;
    /// Goes on behind the barrier that it paused at; whether a predicate held, for `bar.red.or`.
    fn release(&mut self, kernel: &Kernel, any: bool);
    /// A trouble of the lanes that run, for what concerns the block.
    fn trouble(&self, what: String) -> Box<Trouble>;
}

pub(super) struct Warp {
    registers: Registers,
    index: usize,
    /// Lanes that the block has, and those of them that have not returned.
    exists: u32,
    alive: u32,
    /// The group that runs, and where.
    pc: u32,
    active: u32,
    others: Vec<Group>,
    /// Where the lowest of the others above `pc` stands.
    limit: u32,
    /// Every group waits for lanes of another one.
    stuck: bool,
    /// Branches back that it has taken.
    turns: u32,
}

/// Branches back that a warp may take: hundreds of times what the longest loop over a vocabulary or a context has, and a few
/// seconds of this machine.
pub(super) const MOST_TURNS: u32 = 1 << 24;

/// Lanes that stand elsewhere.
struct Group {
    pc: u32,
    lanes: u32,
    /// Waits for other lanes to come.
    waits: bool,
}

/// Why a warp stopped running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pause {
    /// All lanes returned.
    Returned,
    /// All lanes are at a barrier; whether a lane's predicate held, for `bar.red.or`.
    Barrier(bool),
    /// Another warp may go first.
    Switched,
}

impl Flow for Warp {
    fn new(index: usize, registers: Registers, _: Order, _: u64) -> Self {
        let (others, stuck) = (Vec::new(), false);
        Self { registers, index, exists: 0, alive: 0, pc: 0, active: 0, others, limit: u32::MAX, stuck, turns: 0 }
    }

    fn begin(&mut self, exists: u32) {
        (self.exists, self.alive, self.active) = (exists, exists, exists);
        (self.pc, self.limit, self.stuck, self.turns) = (0, u32::MAX, false, 0);
        self.others.clear();
    }

    fn registers(&mut self) -> &mut Registers {
        &mut self.registers
    }

    fn index(&self) -> usize {
        self.index
    }

    fn pc(&self) -> usize {
        self.pc as usize
    }

    fn run(&mut self, context: &mut Context<'_>, switches: &mut Option<impl FnMut() -> bool>) -> Checked<Pause> {
        // SAFETY: `block::run` found that the processor has what build.rs found when it set `avx2`.
        #[cfg_attr(not(avx2), expect(unused_unsafe, reason = "the function asks for nothing there"))]
        unsafe {
            self.steps(context, switches)
        }
    }

    fn release(&mut self, kernel: &Kernel, any: bool) {
        if let Op::BarrierOr(d, _) = kernel.code[self.pc()].op {
            self.registers.set_predicate(d, if any { ALL } else { 0 }, self.active, ALL);
        }
        self.pc += 1;
    }

    fn trouble(&self, what: String) -> Box<Trouble> {
        Box::new(Trouble { code: FAILED, lanes: self.active, what })
    }
}

impl Warp {
    #[cfg_attr(avx2, target_feature(enable = "avx2,fma,bmi2,popcnt"))]
    fn steps(&mut self, context: &mut Context<'_>, switches: &mut Option<impl FnMut() -> bool>) -> Checked<Pause> {
        let kernel = context.kernel;
        loop {
            if self.pc >= self.limit {
                self.regroup();
            }
            let pc = self.pc as usize;
            let instruction = &kernel.code[pc];
            let mask = match self.registers.guarded(instruction.guard, self.active) {
                Ok(mask) => mask,
                Err(lanes) => return trouble(FAILED, lanes, "its guard was never written"),
            };
            let op = instruction.op;
            let at = &mut context.at[pc];
            match op {
                Op::Branch(target) => {
                    at.executed += 1;
                    at.lanes += u64::from(self.active.count_ones());
                    at.divergent += u64::from(mask != 0 && mask != self.active);
                    if mask != 0 && target <= self.pc {
                        self.turns += 1;
                        if self.turns > MOST_TURNS {
                            return trouble(FAILED, mask, format!("does not end: {MOST_TURNS} branches back"));
                        }
                    }
                    self.branch(target, mask);
                    continue;
                }
                Op::Return => {
                    at.executed += u64::from(mask != 0);
                    at.lanes += u64::from(mask.count_ones());
                    self.alive &= !mask;
                    self.active &= !mask;
                    self.pc += 1;
                    if self.active == 0 {
                        if self.others.is_empty() {
                            return Ok(Pause::Returned);
                        }
                        self.regroup();
                    }
                    continue;
                }
                Op::Barrier | Op::BarrierOr(..) => {
                    if !self.together(kernel, self.exists, mask)? {
                        continue;
                    }
                    let at = &mut context.at[pc];
                    at.executed += 1;
                    at.lanes += u64::from(mask.count_ones());
                    return self.arrive(op).map(Pause::Barrier);
                }
                Op::Shuffle { members, .. } | Op::Ballot { members, .. } | Op::WarpBarrier(members)
                    if !self.gather(kernel, members, mask)? =>
                {
                    continue;
                }
                Op::Mma(..) | Op::LoadMatrix { .. } if !self.together(kernel, ALL, mask)? => continue,
                _ => (),
            }
            if mask != 0 {
                let at = &mut context.at[pc];
                at.executed += 1;
                at.lanes += u64::from(mask.count_ones());
                execute(&instruction.op, &mut self.registers, mask, context, (pc, self.index))?;
            }
            self.pc += 1;
            if matches!(op, Op::WarpBarrier(_) | Op::Atomic(..) | Op::Fence(_))
                && switches.as_mut().is_some_and(|switches| switches())
            {
                return Ok(Pause::Switched);
            }
        }
    }

    /// Whether a lane's predicate holds at `bar.red.or`.
    fn arrive(&self, op: Op) -> Checked<bool> {
        let Op::BarrierOr(_, predicate) = op else { return Ok(false) };
        written(self.active, self.registers.predicate_lanes(predicate), "its predicate")?;
        Ok(self.registers.predicate(predicate) & self.active != 0)
    }

    fn branch(&mut self, target: u32, taken: u32) {
        if taken == 0 {
            self.pc += 1;
            return;
        }
        if taken == self.active {
            self.pc = target;
            if self.others.is_empty() {
                return;
            }
        } else {
            self.others.push(Group { pc: target, lanes: taken, waits: false });
            self.active &= !taken;
            self.pc += 1;
        }
        self.regroup();
    }

    /// Groups at one instruction become one; the lowest that does not wait runs.
    fn regroup(&mut self) {
        if self.active != 0 {
            self.others.push(Group { pc: self.pc, lanes: self.active, waits: false });
        }
        self.others.sort_unstable_by_key(|g| g.pc);
        self.others.dedup_by(|later, earlier| {
            let same = later.pc == earlier.pc;
            if same {
                earlier.lanes |= later.lanes;
                earlier.waits = false;
            }
            same
        });
        // Where all wait, the first shows whom it waits for.
        let next = self.others.iter().position(|g| !g.waits);
        self.stuck = next.is_none();
        let next = self.others.remove(next.unwrap_or_default());
        (self.pc, self.active) = (next.pc, next.lanes);
        self.limit = self.others.iter().map(|g| g.pc).find(|pc| *pc > self.pc).unwrap_or(u32::MAX);
    }

    /// Whether the lanes of the instruction's mask are here; else the group waits and another one runs.
    fn gather(&mut self, kernel: &Kernel, members: R, mask: u32) -> Checked<bool> {
        if mask == 0 {
            return Ok(true);
        }
        written(mask, self.registers.word_lanes(members), "its mask of lanes")?;
        let row = self.registers.word(members);
        let members = row[mask.trailing_zeros() as usize];
        if members == mask && mask == ALL && row.iter().all(|m| *m == ALL) {
            return Ok(true);
        }
        if let Some(other) = lanes(mask).find(|lane| row[*lane] != members) {
            let what = format!("its mask is {members:#x} here and {:#x} in lane {other}", row[other]);
            return trouble(FAILED, mask, what);
        }
        if mask & !members != 0 {
            return trouble(FAILED, mask & !members, format!("they are not in their own mask {members:#x}"));
        }
        let missing = members & !mask;
        if missing == 0 {
            return Ok(true);
        }
        if self.stuck || missing & (!self.alive | self.active) != 0 {
            let what = format!("waits for {}", self.whereabouts(kernel, missing));
            return trouble(FAILED, mask, what);
        }
        self.wait();
        Ok(false)
    }

    /// Has another group run until others come here.
    fn wait(&mut self) {
        self.others.push(Group { pc: self.pc, lanes: self.active, waits: true });
        self.active = 0;
        self.regroup();
    }

    /// Whether all of the expected lanes are here; else the group waits and another one runs. Code does not always lie
    /// in the order in which it runs, so lanes that belong here may stand further below. Err where some cannot come any
    /// more.
    #[inline(always)]
    fn together(&mut self, kernel: &Kernel, expected: u32, mask: u32) -> Checked<bool> {
        if mask == expected {
            return Ok(true);
        }
        let missing = expected & !mask;
        if !self.stuck && missing & (!self.alive | self.active) == 0 {
            self.wait();
            return Ok(false);
        }
        let what =
            format!("must be executed by all lanes of a warp together, without {}", self.whereabouts(kernel, missing));
        trouble(FAILED, mask, what)
    }

    /// Lanes and what they do.
    fn whereabouts(&self, kernel: &Kernel, missing: u32) -> String {
        let mut parts = Vec::new();
        let mut say = |of: u32, what: String| {
            if missing & of != 0 {
                parts.push(format!("lanes {} {what}", ranges(missing & of)));
            }
        };
        say(!self.exists, "that the block does not have".to_owned());
        say(self.exists & !self.alive, "that have returned".to_owned());
        say(self.active, "whose guard is false".to_owned());
        for group in &self.others {
            let (line, text) = &kernel.lines[group.pc as usize];
            let does = if group.waits { "that wait" } else { "that are" };
            say(group.lanes, format!("{does} at line {line} `{text}`"));
        }
        parts.join(", ")
    }
}

/// `0-3, 7`.
pub(super) fn ranges(mask: u32) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for lane in lanes(mask) {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == lane => *last = lane,
            _ => parts.push((lane, lane)),
        }
    }
    let part =
        |(first, last): &(usize, usize)| if first == last { format!("{first}") } else { format!("{first}-{last}") };
    parts.iter().map(part).collect::<Vec<_>>().join(", ")
}
