//! Blocks one after another, warps of a block in the order of the launch, from barrier to barrier.

use super::code::{Kernel, Special};
use super::cost::Trace;
use super::count::{At, KernelCounts};
use super::exec::Context;
use super::launches::{Counts, LaunchCounts};
use super::memory::Global;
use super::random::Random;
use super::registers::Registers;
use super::sass;
use super::shared::Shared;
use super::trouble::{Checked, FAILED, INVALID, NEVER_WRITTEN, OUT_OF_RESOURCES, Trouble};
use super::visible::Visible;
use super::warp::{Flow, Pause, Warp, ranges};
use super::{Fault, Launch, Order};

/// What runs next, of blocks or warps.
fn order(n: usize, order: Order, random: &mut Random) -> Vec<usize> {
    let mut all: Vec<usize> = (0..n).collect();
    match order {
        Order::Forward => (),
        Order::Reverse => all.reverse(),
        Order::Random(_) => {
            for i in (1..n).rev() {
                all.swap(i, (random.next() % (i as u64 + 1)) as usize);
            }
        }
    }
    all
}

fn count([x, y, z]: [u32; 3]) -> u64 {
    u64::from(x) * u64::from(y) * u64::from(z)
}

/// Index in x, y, z of the n-th block or thread.
fn place(n: u64, [x, y, _]: [u32; 3]) -> [u32; 3] {
    let (x, y) = (u64::from(x), u64::from(y));
    [(n % x) as u32, (n / x % y) as u32, (n / x / y) as u32]
}

/// What the kernel was read from.
fn launched(kernel: &Kernel) -> &'static str {
    if kernel.is_machine_code() { "machine code" } else { "PTX" }
}

/// Why a launch is refused before it begins.
fn refuse(launch: &Launch<'_>) -> Option<Fault> {
    let Launch { kernel, params, block, grid, .. } = launch;
    let threads = count(*block);
    let shared = kernel.own_shared_bytes() as u64 + u64::from(launch.dynamic_shared);
    let (code, why) = if params.len() != kernel.param_bytes {
        (INVALID, format!("given {} bytes of parameters, its .param has {}", params.len(), kernel.param_bytes))
    } else if threads == 0 || count(*grid) == 0 {
        (INVALID, format!("{grid:?} blocks of {block:?} threads"))
    } else if threads > u64::from(kernel.max_threads) {
        (INVALID, format!("{threads} threads per block, its .maxntid is {}", kernel.max_threads))
    } else if shared > u64::from(launch.shared_limit) {
        (OUT_OF_RESOURCES, format!("{shared} bytes of shared memory, a block may have {}", launch.shared_limit))
    } else if launch.dependent && !kernel.waits() {
        (
            FAILED,
            "it may start before the kernels before it have ended, and nowhere waits for them (depend_wait)".to_owned(),
        )
    } else {
        return None;
    };
    Some(Fault { code, report: format!("kernel {} ({} for sm_{}): {why}", kernel.name, launched(kernel), kernel.sm) })
}

/// Runs the blocks of a launch on the calling thread, up to the first fault. Counts go on from what they were.
///
/// # Errors
/// The first fault; or why the launch was refused: parameters of another size, no blocks or threads, more threads or
/// more shared memory than a block may have.
pub fn run(launch: &Launch<'_>, counts: &mut Counts) -> Result<(), Fault> {
    #[cfg(avx2)]
    assert!(
        is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("popcnt"),
        "the emulator was built on a processor with AVX2, FMA and BMI2, which this one lacks: build it here"
    );
    if let Some(fault) = refuse(launch) {
        return Err(fault);
    }
    if counts.again(launch) {
        return Ok(());
    }
    if !launch.kernel.is_machine_code() {
        run_with::<Warp>(launch, counts)
    } else {
        run_with::<sass::Warp>(launch, counts)
    }
}

fn run_with<W: Flow>(launch: &Launch<'_>, counts: &mut Counts) -> Result<(), Fault> {
    let kernel = launch.kernel;
    let warps = count(launch.block).div_ceil(32) as usize;
    let shared = kernel.shared_bytes + launch.dynamic_shared as usize;
    let mut global = Global::new(launch.memory, Visible::new(count(launch.grid), kernel));
    if counts.keep.traced > 0 && kernel.is_machine_code() {
        global.trace = Some(Trace::new(counts.keep.traced));
    }
    let context = Context {
        kernel,
        params: launch.params,
        approximation: launch.approximation,
        memory: launch.memory,
        global,
        shared: Shared::new(shared, &kernel.shared),
        at: vec![At::default(); kernel.code.len()],
        unwritten: None,
        groups: vec![[0; 32]; warps],
    };
    let seed = if let Order::Random(seed) = launch.order { seed } else { 0 };
    let random = Random(seed ^ launch.seed.rotate_left(32));
    let warp = |index| W::new(index, Registers::new(&kernel.files), launch.order, random.0);
    let warps = (0..warps).map(warp).collect();
    let mut machine = Machine::<W> { launch, context, warps, random };
    let (result, blocks) = machine.blocks();
    let (sectors_read, sectors_written) = machine.context.global.finish();
    let kept = counts.kernels.entry((kernel.sm, kernel.name.clone())).or_default();
    kept.classes.clone_from(&kernel.classes);
    kept.at.resize(kernel.code.len(), At::default());
    kept.at.iter_mut().zip(&machine.context.at).for_each(|(at, more)| at.add(more));
    kept.launches += 1;
    kept.blocks += blocks;
    kept.sectors_read += sectors_read;
    kept.sectors_written += sectors_written;
    if counts.keep.launches && result.is_ok() {
        let Context { at, global, .. } = machine.context;
        let (launches, classes) = (1, kernel.classes.clone());
        let this = KernelCounts { launches, blocks, sectors_read, sectors_written, at, classes };
        counts.launches.push(LaunchCounts::new(launch, this, global.trace));
    }
    result
}

struct Machine<'a, W> {
    launch: &'a Launch<'a>,
    context: Context<'a>,
    warps: Vec<W>,
    random: Random,
}

impl<W: Flow> Machine<'_, W> {
    /// Runs all blocks; how many ran.
    fn blocks(&mut self) -> (Result<(), Fault>, u64) {
        let blocks = count(self.launch.grid);
        let ends = if self.launch.ends == 0 { blocks } else { self.launch.ends };
        let mut chosen: Vec<u64> = (0..blocks.min(ends)).collect();
        chosen.extend(ends.max(blocks.saturating_sub(ends))..blocks);
        let chosen = order(chosen.len(), self.launch.order, &mut self.random).into_iter().map(|i| chosen[i]);
        let mut ran = 0;
        for n in chosen.collect::<Vec<_>>() {
            ran += 1;
            let index = place(n, self.launch.grid);
            if let Err((warp, trouble)) = self.block(index) {
                return (Err(self.fault(index, warp, *trouble)), ran);
            }
        }
        (Ok(()), ran)
    }

    /// Runs one block; the warp that met trouble.
    fn block(&mut self, index: [u32; 3]) -> Result<(), (usize, Box<Trouble>)> {
        let launch = self.launch;
        let threads = count(launch.block);
        self.context.shared.begin();
        self.context.global.visible.begin();
        if let Some(trace) = &mut self.context.global.trace {
            trace.begin(self.warps.len());
        }
        self.context.groups.fill([0; 32]);
        for warp in &mut self.warps {
            let first = warp.index() as u64 * 32;
            let exists = (threads - first).min(32) as u32;
            warp.begin(u32::MAX >> (32 - exists));
            warp.registers().begin(&launch.kernel.files, |special| match special {
                Special::Thread(axis) => std::array::from_fn(|lane| place(first + lane as u64, launch.block)[axis]),
                Special::Threads(axis) => [launch.block[axis]; 32],
                Special::Block(axis) => [index[axis]; 32],
                Special::Blocks(axis) => [launch.grid[axis]; 32],
                Special::Lane => std::array::from_fn(|lane| lane as u32),
                Special::LanesBelow => std::array::from_fn(|lane| (1 << lane) - 1),
                Special::Bank(offset) => [launch.kernel.bank.word(usize::from(offset), launch); 32],
            });
        }
        loop {
            let mut ready = order(self.warps.len(), launch.order, &mut self.random);
            ready.reverse();
            let (mut waiting, mut returned, mut any) = (Vec::new(), Vec::new(), false);
            while let Some(n) = ready.pop() {
                match self.warp(n).map_err(|trouble| (n, trouble))? {
                    Pause::Returned => returned.push(n),
                    Pause::Barrier(holds) => {
                        waiting.push(n);
                        any |= holds;
                    }
                    Pause::Switched => {
                        let place = (self.random.next() % (ready.len() as u64 + 1)) as usize;
                        ready.insert(place, n);
                    }
                }
            }
            let Some(first) = waiting.first().copied() else { return Ok(()) };
            self.meet(first, &waiting, &returned).map_err(|trouble| (first, trouble))?;
            self.context.global.visible.barrier();
            for n in waiting {
                self.warps[n].release(launch.kernel, any);
            }
        }
    }

    fn warp(&mut self, n: usize) -> Checked<Pause> {
        self.context.global.visible.runs(n);
        let random = &mut self.random;
        let switches = || random.next() & 1 == 0;
        let mut switches = matches!(self.launch.order, Order::Random(_)).then_some(switches);
        self.warps[n].run(&mut self.context, &mut switches)
    }

    /// Err where a warp is not at the barrier of the others.
    fn meet(&self, first: usize, waiting: &[usize], returned: &[usize]) -> Checked<()> {
        let (warp, kernel) = (&self.warps[first], self.launch.kernel);
        if let Some(gone) = returned.first() {
            return Err(warp.trouble(format!("waits for warp {gone}, whose threads have returned")));
        }
        match waiting.iter().find(|n| self.warps[**n].pc() != warp.pc()) {
            None => Ok(()),
            Some(other) => {
                let (line, text) = &kernel.lines[self.warps[*other].pc()];
                Err(warp.trouble(format!("waits for warp {other}, which is at another barrier: line {line} `{text}`")))
            }
        }
    }

    /// Who met the trouble, and where.
    fn fault(&self, [x, y, z]: [u32; 3], warp: usize, Trouble { code, lanes, what }: Trouble) -> Fault {
        let Kernel { name, sm, lines, .. } = self.launch.kernel;
        let warp = &self.warps[warp];
        // Behind the last instruction: that is where it ran over the end.
        let (line, text) = lines.get(warp.pc()).or(lines.last()).expect("a kernel that runs has instructions");
        let index = warp.index();
        let from = launched(self.launch.kernel);
        let mut who = format!("kernel {name} ({from} for sm_{sm}), block ({x},{y},{z}), ");
        match lanes.count_ones() {
            1 => {
                who += &format!(
                    "thread {} (lane {} of warp {index})",
                    index * 32 + lanes.trailing_zeros() as usize,
                    ranges(lanes)
                )
            }
            _ => who += &format!("warp {index}, lanes {}", ranges(lanes)),
        }
        let mut report = format!("{who}, line {line} `{text}`: {what}");
        if let Some((pc, loaded)) = self.context.unwritten.as_ref().filter(|_| what.ends_with(NEVER_WRITTEN)) {
            let (line, text) = &lines[*pc];
            report += &format!("; line {line} `{text}` {loaded}");
        }
        Fault { code, report }
    }
}
