//! What a step executes, by kernel, and how long that takes: the code that is shipped, in the models' exact shapes.
//!
//! Launches of one shape are executed once and counted as often as they come.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    ops::Range,
    process::Command,
};

use anyhow::{Context, Error, Result, ensure};
use qrun_cuda::image::{self, Kind, Target};
use qrun_emulator::{
    Code, Config,
    isa::{
        self, At, Class, Counts, Keep, KernelCounts, LaunchCounts,
        cost::{CARDS, Card, Estimate, Work, estimate},
    },
};
use qrun_models::{Entry, Forward, GpuDecoder, Options, Output};
use serde_json::{Map, Value, json};

use crate::{models, times::Times};

/// What is counted.
#[derive(Debug, Clone)]
pub struct Selection {
    code: Code,
    model: Option<String>,
    /// Whose machine code, where that was said.
    sm: Option<u32>,
    /// None: all of [`Step::DECODES`], as a whole and not by kernel.
    step: Option<Step>,
}

/// A step that is counted.
#[derive(Debug, Clone, Copy)]
pub enum Step {
    /// A prompt of so many tokens.
    Prompt(u32),
    /// A token of each sequence, sampled to the likeliest next one, behind `depth` (at least 1) tokens in the KV cache.
    Decode { sequences: u32, depth: u32 },
}

impl Step {
    /// The second token of a sequence.
    pub const DECODE: Self = Self::Decode { sequences: 1, depth: 1 };
    /// One sequence and a batch, at both ends of a context and in between.
    pub const DECODES: [Self; 6] = [
        Self::DECODE,
        Self::Decode { sequences: 1, depth: 2048 },
        Self::Decode { sequences: 1, depth: 8192 },
        Self::Decode { sequences: 8, depth: 1 },
        Self::Decode { sequences: 8, depth: 2048 },
        Self::Decode { sequences: 8, depth: 8192 },
    ];

    /// As llama-bench names it.
    pub fn name(self) -> String {
        match self {
            Self::Prompt(tokens) => format!("pp{tokens}"),
            Self::Decode { sequences: 1, depth } => format!("tg @ d{depth}"),
            Self::Decode { sequences, depth } => format!("{sequences} x tg @ d{depth}"),
        }
    }

    /// Tokens that it feeds.
    pub fn tokens(self) -> u32 {
        match self {
            Self::Prompt(tokens) => tokens,
            Self::Decode { sequences, .. } => sequences,
        }
    }

    /// What a decoder needs for it.
    fn options(self) -> Options {
        let options = models::options();
        match self {
            Self::Prompt(tokens) => Options { n_ubatch: options.n_ubatch.max(tokens as usize), ..options },
            Self::Decode { sequences, depth } => {
                Options { n_ctx: options.n_ctx.max(depth as usize + AHEAD), n_seq: sequences as usize, ..options }
            }
        }
    }
}

/// Blocks of a launch that are traced: what two of them touch, all do.
const TRACED: usize = 4;

/// What has left L2 since the last step: there are more weights than L2 holds.
const COLD: [&str; 2] = ["weights/", "kv/"];

/// Positions that a decoder wants free behind a step, as the next one runs ahead.
const AHEAD: usize = 3;

impl Selection {
    /// Refuses what would have no effect.
    pub fn new(code: Code, model: Option<String>, sm: Option<u32>, step: Option<Step>) -> Result<Self> {
        ensure!(code == Code::Sass || sm.is_none(), "--sm is for --code sass: PTX is of one target");
        if let Some(sm) = sm {
            let known = image::CUBINS.map(|sm| sm.to_string()).join(", ");
            ensure!(image::CUBINS.contains(&sm), "--sm {sm}: expected one of {known}");
        }
        Ok(Self { code, model, sm, step })
    }

    fn kind(&self) -> Kind {
        if self.code == Code::Ptx { Kind::Ptx } else { Kind::Cubin }
    }

    /// What is counted where `QRUN_KERNELS` names nothing.
    fn target(&self) -> Target {
        let kind = self.kind();
        Target { kind, sm: if kind == Kind::Ptx { image::PTX } else { self.sm.unwrap_or(75) } }
    }
}

/// Counts of the image that `QRUN_KERNELS` names; else of the PTX, or of one SM's machine code.
pub fn counts(selection: &Selection) -> Result<Value> {
    if env::var_os(image::FORCE).is_some() {
        return of_target(selection);
    }
    // The variable is of a process, so the counts have one of their own.
    let target = selection.target();
    if target.kind == Kind::Cubin {
        let images = image::modules(target)?;
        // Whether nvdisasm works is said before anything else is tried.
        isa::disassemble(&images[0].bytes).map_err(Error::msg)?;
    }
    let mut child = Command::new(env::current_exe()?);
    let done = child.args(env::args_os().skip(1)).env(image::FORCE, target.to_string()).output()?;
    ensure!(done.status.success(), "{target}: {}", String::from_utf8_lossy(&done.stderr).trim());
    Ok(json!({ target.to_string(): serde_json::from_slice::<Value>(&done.stdout)? }))
}

fn of_target(selection: &Selection) -> Result<Value> {
    let target = image::target(0)?;
    let wanted = target.kind == selection.kind() && selection.sm.is_none_or(|sm| sm == target.sm);
    ensure!(wanted, "{}={target}: not what --code and --sm ask for", image::FORCE);
    let models = crate::MODELS.into_iter().filter(|name| selection.model.as_deref().is_none_or(|model| model == *name));
    let of_model = |name| match selection.step {
        Some(step) => of_step(name, target.sm, selection.code, step),
        None => of_decodes(name, target.sm, selection.code),
    };
    let models = models.map(|name| Ok((name.to_owned(), of_model(name)?)));
    Ok(Value::Object(models.collect::<Result<_>>()?))
}

/// What a model's decoder executed.
pub struct Executed<'a> {
    /// Of all steps together.
    pub counts: Counts,
    /// How many steps that were.
    pub steps: u64,
    /// In whose memory the launches worked.
    pub decoder: &'a GpuDecoder,
    cold: Vec<Range<u64>>,
}

/// A step of a model in some mix. Weights are zero, and so is memory that nothing was written to: what is executed does not
/// depend on them, and what makes records of weights is skipped, as is what fills the KV cache. Where blocks are left out,
/// nothing is computed.
pub fn execute<T>(
    (name, mix): (&str, &str),
    device: Config,
    step: Step,
    work: impl FnOnce(&Executed) -> Result<T>,
) -> Result<T> {
    let (code, all_blocks) = (device.code, device.blocks == 0);
    let skip = Keep { skip: true, ..Keep::default() };
    let keep = Keep { launches: true, traced: if code == Code::Sass { TRACED } else { 0 }, skip: false };
    models::on_loaded(device, step.options(), skip, &models::hollow(name, mix)?, |machine, decoder| {
        let done = match step {
            Step::Prompt(tokens) => {
                let mut prompt: Vec<Entry> = (0..tokens).map(|at| models::entry(1, at)).collect();
                prompt.last_mut().context("a prompt has tokens")?.output = Output::Logits;
                machine.keep(keep);
                machine.reset_counters();
                decoder.forward(&prompt).map(drop).map_err(Error::from)
            }
            Step::Decode { sequences, depth } => {
                let tokens = vec![1; sequences as usize];
                for seq in 0..sequences {
                    let prompt: Vec<Entry> = (0..depth - 1).map(|at| Entry { seq, ..models::entry(1, at) }).collect();
                    prompt.chunks(step.options().n_ubatch).try_for_each(|part| decoder.forward(part).map(drop))?;
                    ensure!(
                        decoder.set_sampling(seq, &models::greedy(vec![1]))?,
                        "{name}: the decoder does not sample"
                    );
                }
                // The first one is a prompt's, and what follows is a step of decoding.
                machine.keep(Keep { skip: !all_blocks, ..keep });
                let sampled = models::next_of_each(decoder, &tokens, depth - 1);
                let tokens = sampled.or_else(|e| if all_blocks { Err(e) } else { Ok(tokens) })?;
                machine.keep(keep);
                machine.reset_counters();
                models::next_of_each(decoder, &tokens, depth).map(drop)
            }
        };
        ensure!(done.is_ok() || !all_blocks, "{name}: {done:?}");
        let counts = machine.code_counts();
        let steps = machine.counters().launches.get("embed").copied().context("a step begins with an embedding")?;
        let base = decoder.arena().0;
        let cold = decoder.parts().iter().filter(|p| COLD.iter().any(|purpose| p.name.starts_with(purpose)));
        let cold = cold.map(|p| base + p.offset..base + p.offset + p.bytes).collect();
        work(&Executed { counts, steps, decoder, cold })
    })
}

impl Executed<'_> {
    /// Whether a sector (an address over 32) is in L2 when a launch begins.
    pub fn hot(&self, sector: u64) -> bool {
        !self.cold.iter().any(|part| part.contains(&(32 * sector)))
    }

    /// How often a launch comes in a step.
    pub fn times(&self, launch: &LaunchCounts) -> f64 {
        launch.times as f64 / self.steps as f64
    }
}

/// Blocks of a launch over those that were executed.
pub fn blocks(launch: &LaunchCounts) -> f64 {
    launch.grid.iter().map(|n| f64::from(*n)).product::<f64>() / launch.counts.blocks as f64
}

/// Of each of [`Step::DECODES`] by name: instructions and times by card.
fn of_decodes(name: &str, sm: u32, code: Code) -> Result<Value> {
    let of = |step: Step| {
        let mut counts = of_step(name, sm, code, step)?;
        counts.as_object_mut().context("an object")?.remove("kernels");
        Ok((step.name(), counts))
    };
    Ok(Value::Object(Step::DECODES.into_iter().map(of).collect::<Result<_>>()?))
}

/// Counts by kernel, and times by card.
fn of_step(name: &str, sm: u32, code: Code, step: Step) -> Result<Value> {
    let device = Config { sm, code, memory: 64 << 30, ..Config::default() };
    execute((name, models::MIX), device, step, |executed| {
        let Executed { counts, steps, .. } = executed;
        let mut times: BTreeMap<&str, Times> = BTreeMap::new();
        let timed = timed(executed);
        for Timed { launch, card, estimate } in &timed {
            times.entry(&launch.kernel).or_default().add(card, estimate, executed.times(launch));
        }
        let kernels = counts.kernels.iter().map(|((_, kernel), counts)| {
            let mut row = row(counts, *steps);
            if let Some(times) = times.get(kernel.as_str()) {
                row["us"] = times.to_json();
            }
            (kernel.clone(), row)
        });
        let kernels = Map::from_iter(kernels);
        let warp_instructions = counts.warp_instructions() / steps;
        let mut all = json!({ "warp_instructions": warp_instructions });
        if code == Code::Sass {
            all["us"] = whole(executed, &timed).to_json();
        }
        all["kernels"] = kernels.into();
        Ok(all)
    })
}

/// How long a launch takes on a card.
struct Timed<'a> {
    launch: &'a LaunchCounts,
    card: &'static Card,
    estimate: Estimate,
}

/// Of all launches on all cards of their SM.
fn timed<'a>(executed: &'a Executed) -> Vec<Timed<'a>> {
    let of_launch = |launch: &'a LaunchCounts| {
        let hot = |sector| executed.hot(sector);
        let work = work(launch, &hot);
        let cards = CARDS.iter().filter(|card| card.sm == launch.sm);
        cards.filter_map(|card| Some(Timed { launch, card, estimate: estimate(&work, card)? })).collect::<Vec<_>>()
    };
    executed.counts.launches.iter().flat_map(of_launch).collect()
}

/// By card: of a whole step, with what launches cost as nodes of a graph.
fn whole(executed: &Executed, timed: &[Timed]) -> Times {
    let mut times = Times::default();
    for Timed { launch, card, estimate } in timed {
        times.add_launched(card, estimate, executed.times(launch));
    }
    times
}

/// The same, of what was executed.
pub fn times(executed: &Executed) -> Times {
    whole(executed, &timed(executed))
}

/// A launch for the model of costs, which says nothing of one that was not traced.
pub fn work<'a>(launch: &'a LaunchCounts, hot: &'a dyn Fn(u64) -> bool) -> Work<'a> {
    let LaunchCounts { grid, threads, registers, shared, counts, trace, issues, .. } = launch;
    let blocks = grid.iter().map(|n| u64::from(*n)).product();
    let distinct = (counts.blocks == blocks).then_some(counts.sectors_read);
    let (threads, registers, shared, average) = (*threads, *registers, *shared, launch.average());
    Work { issues, trace, average, blocks, threads, registers, shared, distinct, hot }
}

/// A kernel's counts per step.
fn row(counts: &KernelCounts, steps: u64) -> Value {
    let per = |a: u64, b: u64| if b == 0 { Value::Null } else { json!((a as f64 / b as f64 * 1e3).round() / 1e3) };
    let memory = |classes: &[Class]| {
        let At { executed, sectors, lines, bytes, .. } = counts.sum(classes);
        json!({
            "requests": executed / steps,
            "sectors": sectors / steps,
            "sectors_per_request": per(sectors, executed),
            "lines_per_request": per(lines, executed),
            "bytes_wanted_over_sectors": per(bytes, 32 * sectors),
        })
    };
    let classes: BTreeSet<Class> = counts.classes.iter().copied().collect();
    let by_class = classes.iter().map(|class| (format!("{class:?}"), (counts.sum(&[*class]).executed / steps).into()));
    let all = counts.sum(&[]);
    json!({
        "launches": counts.launches / steps,
        "blocks": counts.blocks / steps,
        "warp_instructions": all.executed / steps,
        "lanes_per_instruction": per(all.lanes, all.executed),
        "by_class": by_class.collect::<Map<String, Value>>(),
        "loads": memory(&[Class::LoadGlobal, Class::Copy]),
        "stores": memory(&[Class::StoreGlobal]),
        "distinct_bytes_read": 32 * counts.sectors_read / steps,
        "distinct_bytes_written": 32 * counts.sectors_written / steps,
        "shared_passes": all.passes / steps,
        "divergent_branches": all.divergent / steps,
    })
}
