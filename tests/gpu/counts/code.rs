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
        cost::{CARDS, Work, estimate},
    },
};
use qrun_models::{Entry, Forward, GpuDecoder, Output};
use serde_json::{Map, Value, json};

use crate::{models, times::Times};

/// What is counted.
#[derive(Debug, Clone)]
pub struct Selection {
    code: Code,
    model: Option<String>,
    /// Whose machine code, where that was said.
    sm: Option<u32>,
    /// Tokens of the prompt; 0: a step of decoding.
    prompt: u32,
}

/// Blocks of a launch that are traced: what two of them touch, all do.
const TRACED: usize = 4;

impl Selection {
    /// Refuses what would have no effect.
    pub fn new(code: Code, model: Option<String>, sm: Option<u32>, prompt: Option<u32>) -> Result<Self> {
        ensure!(code == Code::Sass || sm.is_none(), "--sm is for --code sass: PTX is of one target");
        if let Some(sm) = sm {
            let known = image::CUBINS.map(|sm| sm.to_string()).join(", ");
            ensure!(image::CUBINS.contains(&sm), "--sm {sm}: expected one of {known}");
        }
        Ok(Self { code, model, sm, prompt: prompt.unwrap_or(0) })
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
    let models = models.map(|name| Ok((name.to_owned(), of_model(name, target.sm, selection)?)));
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
    weights: Vec<Range<u64>>,
}

/// One step that feeds a token at position 1 and samples the likeliest one, or a prompt of so many tokens, of a model in
/// some mix. Weights are zero, and so is memory that nothing was written to: what is executed does not depend on them, and
/// what makes records of weights is skipped. Where blocks are left out, nothing is computed.
pub fn execute<T>(
    (name, mix): (&str, &str),
    device: Config,
    prompt: u32,
    work: impl FnOnce(&Executed) -> Result<T>,
) -> Result<T> {
    let (code, all_blocks) = (device.code, device.blocks == 0);
    let (loading, n_ubatch) = (Keep { skip: true, ..Keep::default() }, prompt.max(64) as usize);
    models::on_loaded(device, n_ubatch, loading, &models::hollow(name, mix)?, |machine, decoder| {
        let keep = Keep { launches: true, traced: if code == Code::Sass { TRACED } else { 0 }, skip: false };
        machine.keep(keep);
        if prompt > 0 {
            let mut prompt: Vec<Entry> = (0..prompt).map(|at| models::entry(1, at)).collect();
            prompt.last_mut().context("a prompt has tokens")?.output = Output::Logits;
            machine.reset_counters();
            let done = decoder.forward(&prompt).map(drop);
            ensure!(done.is_ok() || !all_blocks, "{name}: {done:?}");
        } else {
            ensure!(decoder.set_sampling(0, &models::greedy(vec![1]))?, "{name}: the decoder does not sample");
            // The first one is a prompt's, and what follows is a step of decoding.
            machine.keep(Keep { skip: !all_blocks, ..keep });
            let token = models::next(decoder, 1, 0);
            machine.keep(keep);
            machine.reset_counters();
            let done = models::next(decoder, token.or_else(|e| if all_blocks { Err(e) } else { Ok(1) })?, 1);
            ensure!(done.is_ok() || !all_blocks, "{name}: {done:?}");
        }
        let counts = machine.code_counts();
        let steps = machine.counters().launches.get("embed").copied().context("a step begins with an embedding")?;
        let base = decoder.arena().0;
        let weights = decoder.parts().iter().filter(|p| p.name.starts_with("weights/"));
        let weights = weights.map(|p| base + p.offset..base + p.offset + p.bytes).collect();
        work(&Executed { counts, steps, decoder, weights })
    })
}

impl Executed<'_> {
    /// Whether a sector (an address over 32) is in L2 when a launch begins: weights are not.
    pub fn hot(&self, sector: u64) -> bool {
        !self.weights.iter().any(|weights| weights.contains(&(32 * sector)))
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

/// Counts by kernel, and times by card.
fn of_model(name: &str, sm: u32, selection: &Selection) -> Result<Value> {
    let device = Config { sm, code: selection.code, ..Config::default() };
    execute((name, models::MIX), device, selection.prompt, |executed| {
        let Executed { counts, steps, .. } = executed;
        let mut times: BTreeMap<&str, Times> = BTreeMap::new();
        let mut step = Times::default();
        for launch in &counts.launches {
            let hot = |sector| executed.hot(sector);
            let work = work(launch, &hot);
            for card in CARDS.iter().filter(|card| card.sm == launch.sm) {
                if let Some(found) = estimate(&work, card) {
                    times.entry(&launch.kernel).or_default().add(card, &found, executed.times(launch));
                    step.add_launched(card, &found, executed.times(launch));
                }
            }
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
        if selection.code == Code::Sass {
            all["us"] = step.to_json();
        }
        all["kernels"] = kernels.into();
        Ok(all)
    })
}

/// A launch for the model of costs, which says nothing of one that was not traced.
pub fn work<'a>(launch: &'a LaunchCounts, hot: &'a dyn Fn(u64) -> bool) -> Work<'a> {
    let LaunchCounts { grid, threads, registers, shared, counts, trace, issues, .. } = launch;
    let blocks = grid.iter().map(|n| u64::from(*n)).product();
    let distinct = (counts.blocks == blocks).then_some(counts.sectors_read);
    let (threads, registers, shared) = (*threads, *registers, *shared);
    Work { issues, trace, blocks, threads, registers, shared, distinct, hot }
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
