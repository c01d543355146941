//! Floors, low, high, and what binds.

use super::Work;
use super::cards::Card;
use super::occupancy::resident;
use super::pipes::{Pipe, Resource};
use super::setup::Setup;
use super::sm::{Outcome, simulate};
use super::trace::Sectors;

/// A time, and what it is due to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// Microseconds.
    pub us: f64,
    /// What binds: what was busy most of the time, or latency.
    pub by: Resource,
}

/// The time of a launch, without what a launch costs by itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// No schedule goes below.
    pub floor: Bound,
    /// With the better end of everything that is not known exactly.
    pub low: Bound,
    /// With the worse end.
    pub high: Bound,
}

/// A resource binds where it is busy for this part of the time.
const BINDS: f64 = 0.6;

/// Warp instructions of a simulation, about: more blocks than that takes are extrapolated from their rate.
const STEPS: usize = 300_000;

/// The time of a launch on a card of the instructions' SM; None where nothing was traced.
pub fn estimate(work: &Work<'_>, card: &Card) -> Option<Estimate> {
    if work.trace.is_empty() || work.blocks == 0 {
        return None;
    }
    let sectors = Sectors::new(work.trace, work.issues, work.hot);
    // Blocks that find nothing to do are none; where all do more than those that were traced, it takes longer.
    let busy = (work.blocks as f64 * work.average.min(1.0)).round().max(1.0) as u64;
    let work = &Work { blocks: busy, average: work.average.max(1.0), ..*work };
    let (resident, blocks) = (resident(work, card), work.blocks.div_ceil(card.sms.into()));
    let setup = |end| Setup { work, sectors: &sectors, card, end, resident, blocks, only: None };
    let floor = floor(&setup(0));
    let [low, high] = [0, 1].map(|end| timed(&setup(end)));
    let low = if low.us < floor.us { floor } else { low };
    let high = if high.us < low.us { low } else { high };
    Some(Estimate { floor, low, high })
}

fn us(clocks: f64, setup: &Setup<'_>) -> f64 {
    clocks / (setup.card.ghz[setup.end] * 1e3)
}

/// The time of all blocks, from that of as many as are simulated.
fn timed(setup: &Setup<'_>) -> Bound {
    let trace = setup.work.trace;
    let steps: usize = trace.iter().flat_map(|b| &b.warps).map(Vec::len).sum();
    let wave = setup.resident.min(setup.blocks);
    let affordable = (STEPS * trace.len() / steps.max(1)) as u64 / wave;
    let most = wave * affordable.clamp(2, 6);
    if setup.blocks <= most {
        let Outcome { clocks, busy } = simulate(*setup);
        return Bound { us: us(clocks * setup.work.average, setup), by: binds(&busy) };
    }
    // One wave, and several: the difference goes on.
    let [one, several] = [wave, most].map(|blocks| simulate(Setup { blocks, ..*setup }));
    let rate = (several.clocks - one.clocks).max(0.0) / (most - wave) as f64;
    let clocks = several.clocks + rate * (setup.blocks - most) as f64;
    Bound { us: us(clocks * setup.work.average, setup), by: binds(&several.busy) }
}

fn binds(busy: &[(Resource, f64)]) -> Resource {
    let most = busy.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    most.filter(|(_, share)| *share >= BINDS).map_or(Resource::Latency, |(resource, _)| *resource)
}

/// The largest of the times that each resource alone takes, and of one warp alone.
fn floor(setup: &Setup<'_>) -> Bound {
    let Setup { work, sectors, card, .. } = *setup;
    let (traced, blocks, sms) = (work.trace.len() as f64, work.blocks as f64, f64::from(card.sms));
    let mut pipes = [0.0; Pipe::COUNT];
    let (mut load, mut slots) = (0.0, 0.0);
    for step in work.trace.iter().flat_map(|b| &b.warps).flatten() {
        let issue = &work.issues[step.pc as usize];
        let interval = f64::from(issue.interval[0]);
        slots += 0.25;
        if issue.pipe == Pipe::Load {
            let lines = f64::from(step.lines).max(f64::from(step.sectors) / card.sectors[0]);
            load += lines.max(interval * f64::from(step.passes));
        } else {
            pipes[issue.pipe as usize] += interval / 4.0;
        }
    }
    // What the light pipe takes the other takes as well: at best it is spread evenly over both.
    let lite = &mut pipes[Pipe::FmaLite as usize];
    let both = std::mem::take(lite);
    let fma = &mut pipes[Pipe::Fma as usize];
    *fma = fma.max((*fma + both) / 2.0);
    // Clocks of the average SM.
    let clocks = |of_traced: f64| of_traced / traced * work.average * blocks / sms;
    let (all_cold, own_cold) = sectors.cold();
    let cold =
        32.0 * (all_cold + own_cold * work.average * blocks).min(work.distinct.map_or(f64::INFINITY, |n| n as f64));
    let own = f64::from(sectors.count - sectors.shared) / traced * work.average;
    let into = 32.0 * (f64::from(sectors.shared) + own * setup.blocks as f64);
    let from = 32.0 * (f64::from(sectors.shared) * blocks.min(sms) + own * blocks);
    let mut all = vec![
        (Resource::Dram, cold / card.dram[0] * card.ghz[0]),
        (Resource::L2, (from / card.l2 * card.ghz[0]).max(into / 64.0)),
        (Resource::LoadPath, clocks(load)),
        (Resource::Issue, clocks(slots)),
        (Resource::Latency, alone(setup)),
    ];
    let pipe = |p: Pipe| (Resource::Pipe(p), clocks(pipes[p as usize]));
    all.extend([Pipe::Fma, Pipe::Alu, Pipe::Half, Pipe::Special, Pipe::Double, Pipe::Tensor].map(pipe));
    let (by, clocks) = all.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).expect("there are floors");
    Bound { us: us(clocks, setup), by }
}

/// Clocks of the longest warp with the SM for itself.
fn alone(setup: &Setup<'_>) -> f64 {
    let blocks = setup.work.trace.iter().enumerate();
    let warps = blocks.flat_map(|(n, block)| block.warps.iter().enumerate().map(move |(w, steps)| (n, w, steps.len())));
    let Some((block, warp, _)) = warps.max_by_key(|(_, _, steps)| *steps) else { return 0.0 };
    simulate(Setup { resident: 1, blocks: 1, only: Some((block, warp)), ..*setup }).clocks
}
