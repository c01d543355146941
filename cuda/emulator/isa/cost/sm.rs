//! One SM, from clock to clock: what its schedulers issue, and what its memory path does.

use super::memory::Memory;
use super::pipes::Resource;
use super::pipes::{Issue, Kind, Pipe};
use super::setup::Setup;
use super::trace::Step;

/// Clocks of work that the path of loads and stores takes before a scheduler has to wait for it (G).
const QUEUE: f64 = 64.0;
/// Clocks until an instruction has read its sources, where a barrier tells (M 6 – 12).
const SOURCES: f64 = 8.0;
/// Clocks that a taken branch costs a warp (G).
const TAKEN: [f64; 2] = [10.0, 16.0];
/// Bytes that an SM gets from L2 in a clock (V).
const PORT: f64 = 64.0;

/// How long that took, and the share of the time that each resource was busy.
pub(super) struct Outcome {
    pub clocks: f64,
    pub busy: Vec<(Resource, f64)>,
}

#[derive(Default)]
struct Warp<'a> {
    steps: &'a [Step],
    sectors: &'a [u32],
    at: usize,
    /// Its block's place on the SM, and which copy of its trace it is.
    block: usize,
    copy: u32,
    /// When its next instruction can be issued, if its pipe can take it.
    wake: f64,
    /// When they are down.
    barriers: [f64; 6],
    /// When the copies of the open group, and of each group before, have arrived.
    open: f64,
    groups: Vec<f64>,
}

/// A block's place on the SM.
#[derive(Default, Clone)]
struct Place {
    alive: usize,
    waiting: Vec<usize>,
}

struct Sm<'a> {
    setup: Setup<'a>,
    warps: Vec<Warp<'a>>,
    places: Vec<Place>,
    /// By scheduler.
    pipes: [[f64; Pipe::COUNT]; 4],
    used: [[f64; Pipe::COUNT]; 4],
    next: [f64; 4],
    issued: u64,
    begun: u64,
    finished: u64,
    memory: Memory,
}

/// Simulates the SM that has the most blocks.
pub(super) fn simulate(setup: Setup<'_>) -> Outcome {
    let Setup { work, resident, blocks, .. } = setup;
    let per_block = if setup.only.is_some() { 1 } else { work.trace[0].warps.len() };
    let places = resident.min(blocks) as usize;
    let mut sm = Sm {
        setup,
        warps: (0..places * per_block).map(|_| Warp::default()).collect(),
        places: vec![Place::default(); places],
        pipes: [[0.0; Pipe::COUNT]; 4],
        used: [[0.0; Pipe::COUNT]; 4],
        next: [0.0; 4],
        issued: 0,
        begun: 0,
        finished: 0,
        memory: Memory::new(&setup),
    };
    for place in 0..places {
        sm.begin(place, 0.0);
    }
    let clocks = sm.run().max(1.0);
    sm.outcome(clocks)
}

impl<'a> Sm<'a> {
    /// A block begins on a place.
    fn begin(&mut self, place: usize, t: f64) {
        let Setup { work, sectors, blocks, only, .. } = self.setup;
        self.share();
        if self.begun == blocks {
            return;
        }
        let n = self.begun as usize;
        self.begun += 1;
        let block = only.map_or(n % work.trace.len(), |(block, _)| block);
        let warps = work.trace[block].warps.iter().enumerate();
        let warps: Vec<&[Step]> =
            warps.filter(|(w, _)| only.is_none_or(|(_, only)| only == *w)).map(|(_, steps)| &steps[..]).collect();
        let first = place * warps.len();
        self.places[place].alive = warps.len();
        for (i, steps) in warps.into_iter().enumerate() {
            let slot = first + i;
            let copy = (n / work.trace.len()) as u32;
            let sectors = &sectors.of[block];
            self.warps[slot] = Warp { steps, sectors, block: place, copy, wake: t, ..Warp::default() };
            self.next[slot % 4] = self.next[slot % 4].min(t);
            if steps.is_empty() {
                self.end(slot, t);
            }
        }
    }

    /// A warp has ended.
    fn end(&mut self, slot: usize, t: f64) {
        let place = self.warps[slot].block;
        self.places[place].alive -= 1;
        self.warps[slot].wake = f64::INFINITY;
        if self.places[place].alive == 0 {
            self.finished += 1;
            self.begin(place, t);
        } else {
            self.release(place, t);
        }
    }

    /// Warps that wait for each other go on where all are there.
    fn release(&mut self, place: usize, t: f64) {
        let Place { alive, waiting } = &mut self.places[place];
        if waiting.is_empty() || waiting.len() < *alive {
            return;
        }
        // M on TU102.
        let after = t + 20.0 + 2.0 * waiting.len() as f64;
        for slot in std::mem::take(waiting) {
            let warp = &mut self.warps[slot];
            let next = &self.setup.work.issues[warp.steps[warp.at].pc as usize];
            warp.wake = warp.after(after, next);
            self.next[slot % 4] = self.next[slot % 4].min(warp.wake);
        }
    }

    /// This SM's share of L2 and DRAM: its part of the blocks that run on all of them.
    fn share(&mut self) {
        let Setup { work, card, end, resident, blocks, .. } = self.setup;
        let left = blocks.saturating_sub(self.finished).max(1);
        let here = left.min(resident);
        let sms = u64::from(card.sms);
        let most = if work.blocks.is_multiple_of(sms) { sms } else { work.blocks % sms };
        // The other SMs have one block less.
        let others = if work.blocks < sms { 0 } else { sms - most };
        let all = most * here + others * (left - 1).min(resident);
        let share = if self.setup.only.is_some() { 1.0 } else { here as f64 / all as f64 };
        let ghz = card.ghz[end];
        self.memory.l2.rate = (share * card.l2 / ghz).min(PORT);
        self.memory.dram.rate = share * card.dram[end] / ghz;
    }

    /// Until all has ended; the clocks.
    fn run(&mut self) -> f64 {
        let (mut t, mut last) = (0.0f64, [0usize; 4]);
        let slots: [Vec<usize>; 4] = std::array::from_fn(|q| (q..self.warps.len()).step_by(4).collect());
        loop {
            for q in 0..4 {
                if self.next[q] > t {
                    continue;
                }
                // The same warp while it can go, then the others in turn.
                let n = slots[q].len();
                let (mut soonest, mut chosen) = (f64::INFINITY, None);
                for j in 0..n {
                    let place = (last[q] + j) % n;
                    let ready = self.ready(slots[q][place], q);
                    if ready <= t {
                        chosen = Some(place);
                        break;
                    }
                    soonest = soonest.min(ready);
                }
                self.next[q] = soonest;
                if let Some(place) = chosen {
                    last[q] = place;
                    self.next[q] = t + 1.0;
                    self.issue(slots[q][place], q, t);
                }
            }
            let soonest = self.next.iter().copied().fold(f64::INFINITY, f64::min);
            if soonest < f64::INFINITY {
                t = soonest.ceil().max(t + 1.0);
            } else if let Some(place) = self.places.iter().position(|p| !p.waiting.is_empty()) {
                // A trace that lacks warps at a barrier.
                self.places[place].alive = self.places[place].waiting.len();
                self.release(place, t);
            } else {
                return t;
            }
        }
    }

    /// When a warp's next instruction can be issued, as far as is known.
    #[inline(always)]
    fn ready(&self, slot: usize, q: usize) -> f64 {
        let warp = &self.warps[slot];
        if warp.wake == f64::INFINITY {
            return f64::INFINITY;
        }
        let Some(step) = warp.steps.get(warp.at) else { return warp.wake };
        let pipe = self.setup.work.issues[step.pc as usize].pipe;
        let pipes = &self.pipes[q];
        let free = match pipe {
            Pipe::Load => self.memory.load - QUEUE,
            Pipe::FmaLite => pipes[Pipe::Fma as usize].min(pipes[Pipe::FmaLite as usize]),
            Pipe::Control => 0.0,
            _ => pipes[pipe as usize],
        };
        warp.wake.max(free)
    }

    fn issue(&mut self, slot: usize, q: usize, t: f64) {
        let (work, end) = (self.setup.work, self.setup.end);
        let warp = &mut self.warps[slot];
        let Some(step) = warp.steps.get(warp.at).copied() else { return self.end(slot, t) };
        let Issue { control, mut pipe, interval, latency, kind } = work.issues[step.pc as usize];
        warp.at += 1;
        self.issued += 1;
        let interval = f64::from(interval[end]);
        if pipe == Pipe::FmaLite && self.pipes[q][Pipe::Fma as usize] < self.pipes[q][Pipe::FmaLite as usize] {
            pipe = Pipe::Fma;
        }
        if pipe != Pipe::Load {
            // What is left of a clock is not lost.
            let free = &mut self.pipes[q][pipe as usize];
            *free = if *free > t - 1.0 { *free } else { t } + interval;
            self.used[q][pipe as usize] += interval;
        }
        let sectors = &warp.sectors[step.first as usize..][..usize::from(step.sectors)];
        let memory = &mut self.memory;
        let (mut result, mut sources) = (t + f64::from(latency), t + SOURCES);
        let mut ready = t + f64::from(control.stall.max(1));
        if pipe == Pipe::Load {
            let whole = 4 * u32::from(step.lines) == u32::from(step.sectors);
            let rate = self.setup.card.sectors[if whole { 0 } else { end }];
            let lines = f64::from(step.lines).max(f64::from(step.sectors) / rate);
            let passes = interval * f64::from(step.passes);
            let bare = if step.lines == 0 && step.passes == 0 { interval.max(1.0) } else { 0.0 };
            let clocks = lines.max(passes).max(bare);
            memory.load = memory.load.max(t) + clocks;
            memory.load_used += clocks;
            result = memory.load + f64::from(latency);
            sources = memory.load + SOURCES;
        }
        match kind {
            Kind::Load(_) | Kind::Copy | Kind::Atomic => {
                let past = matches!(kind, Kind::Load(true) | Kind::Atomic);
                let alone = self.setup.only.map(|(_, warp)| warp as u32);
                let arrived = memory.read(sectors, (self.setup.sectors, warp.copy, alone), past);
                result = result.max(arrived);
                if kind == Kind::Copy {
                    warp.open = warp.open.max(arrived);
                    result = memory.load;
                }
            }
            Kind::Prefetch => memory.prefetch(sectors, (self.setup.sectors, warp.copy)),
            Kind::Store => memory.write(sectors.len()),
            Kind::CopyCommit => {
                result = warp.open.max(result);
                let before = warp.groups.last().copied().unwrap_or(0.0);
                warp.groups.push(warp.open.max(before));
                warp.open = 0.0;
            }
            Kind::Branch => {
                let taken = warp.steps.get(warp.at).is_some_and(|next| next.pc != step.pc + 1);
                // A guess is no part of a floor.
                let clocks = if self.setup.only.is_some() { 0.0 } else { TAKEN[end] };
                ready = ready.max(if taken { t + clocks } else { 0.0 });
            }
            Kind::Fence => ready = ready.max(memory.load.max(t) + memory.l2_clocks),
            Kind::Barrier | Kind::CopyWait(_) | Kind::Compute => (),
        }
        for (barrier, when) in [(control.write, result), (control.read, sources)] {
            if let Some(down) = warp.barriers.get_mut(usize::from(barrier)) {
                *down = down.max(when);
            }
        }
        warp.wake = match warp.steps.get(warp.at) {
            Some(next) => warp.after(ready, &work.issues[next.pc as usize]),
            None => ready,
        };
        if kind == Kind::Barrier && warp.at < warp.steps.len() {
            let place = warp.block;
            warp.wake = f64::INFINITY;
            self.places[place].waiting.push(slot);
            self.release(place, ready);
        }
    }

    fn outcome(&self, clocks: f64) -> Outcome {
        let mut busy = vec![
            (Resource::Dram, self.memory.dram.used),
            (Resource::L2, self.memory.l2.used),
            (Resource::LoadPath, self.memory.load_used),
            (Resource::Issue, self.issued as f64 / 4.0),
        ];
        let pipes =
            [Pipe::Fma, Pipe::FmaLite, Pipe::Alu, Pipe::Half, Pipe::Special, Pipe::Double, Pipe::Tensor, Pipe::Uniform];
        busy.extend(pipes.map(|p| {
            let most = self.used.iter().map(|used| used[p as usize]).fold(0.0, f64::max);
            (Resource::Pipe(p), most)
        }));
        busy.iter_mut().for_each(|(_, clock)| *clock /= clocks);
        Outcome { clocks, busy }
    }
}

impl Warp<'_> {
    /// When what an instruction waits for is there.
    fn after(&self, ready: f64, next: &Issue) -> f64 {
        let waits = (0..6).filter(|n| next.control.wait >> n & 1 != 0).map(|n| self.barriers[n]);
        let ready = waits.fold(ready, f64::max);
        match next.kind {
            Kind::CopyWait(groups) => {
                let done = self.groups.len().saturating_sub(usize::from(groups));
                self.groups[..done].last().map_or(ready, |arrived| ready.max(*arrived))
            }
            _ => ready,
        }
    }
}
