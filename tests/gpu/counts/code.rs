//! What a step executes, by kernel, and how long that takes: the code that is shipped, in the models' exact shapes.
//!
//! Launches of one shape are executed once and counted as often as they come.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    process::Command,
};

use anyhow::{Context, Error, Result, ensure};
use qrun_cuda::image::{self, Kind};
use qrun_emulator::{
    Code, Config,
    isa::{
        self, At, Class, Keep, KernelCounts, LaunchCounts,
        cost::{CARDS, Card, Estimate, Work, estimate},
    },
};
use qrun_models::{Entry, Forward, Output};
use serde_json::{Map, Value, json};

use crate::{models, times::Times};

/// What is counted.
#[derive(Debug, Clone)]
pub struct Wish {
    code: Code,
    model: Option<String>,
    /// Whose machine code, where that was said.
    sm: Option<u32>,
    /// Tokens of the prompt; 0: a step of decoding.
    prompt: u32,
}

/// Blocks of a launch that are traced: what two of them touch, all do.
const TRACED: usize = 4;

impl Wish {
    /// Refuses what would have no effect.
    pub fn new(code: Code, model: Option<String>, sm: Option<u32>, prompt: Option<u32>) -> Result<Self> {
        ensure!(
            code == Code::Sass || sm.is_none(),
            "--sm is for --code sass: PTX is counted for each target that there is"
        );
        if let Some(sm) = sm {
            let known = image::CUBINS.map(|sm| sm.to_string()).join(", ");
            ensure!(image::CUBINS.contains(&sm), "--sm {sm}: expected one of {known}");
        }
        Ok(Self { code, model, sm, prompt: prompt.unwrap_or(0) })
    }

    fn kind(&self) -> Kind {
        if self.code == Code::Ptx { Kind::Ptx } else { Kind::Cubin }
    }
}

/// Counts of the image that `QRUN_KERNELS` names; else of each PTX that there is, or of one SM's machine code.
pub fn counts(wish: &Wish) -> Result<Value> {
    if env::var_os(image::FORCE).is_some() {
        return of_target(wish);
    }
    // The variable is of a process, so each has one of its own.
    let wanted = |t: &image::Target| t.kind == wish.kind() && (wish.code == Code::Ptx || t.sm == wish.sm.unwrap_or(75));
    let mut all = Map::new();
    for target in image::targets().into_iter().filter(wanted) {
        if target.kind == Kind::Cubin {
            let images = image::modules(target)?;
            // Whether nvdisasm works is said before anything else is tried.
            isa::disassemble(&images[0].bytes).map_err(Error::msg)?;
        }
        let mut child = Command::new(env::current_exe()?);
        let done = child.args(env::args_os().skip(1)).env(image::FORCE, target.to_string()).output()?;
        ensure!(done.status.success(), "{target}: {}", String::from_utf8_lossy(&done.stderr).trim());
        all.insert(target.to_string(), serde_json::from_slice(&done.stdout)?);
    }
    Ok(all.into())
}

fn of_target(wish: &Wish) -> Result<Value> {
    let target = image::target(0)?;
    let wanted = target.kind == wish.kind() && wish.sm.is_none_or(|sm| sm == target.sm);
    ensure!(wanted, "{}={target}: not what --code and --sm ask for", image::FORCE);
    let models = crate::MODELS.into_iter().filter(|name| wish.model.as_deref().is_none_or(|model| model == *name));
    let models = models.map(|name| Ok((name.to_owned(), of_model(name, target.sm, wish)?)));
    Ok(Value::Object(models.collect::<Result<_>>()?))
}

/// One step that feeds a token at position 1 and samples the likeliest one, or a prompt. Weights are zero: what is
/// executed does not depend on them.
fn of_model(name: &str, sm: u32, wish: &Wish) -> Result<Value> {
    let device = Config { sm, code: wish.code, ..Config::default() };
    models::in_batches(device, wish.prompt.max(64) as usize, &models::hollow(name)?, |machine, decoder| {
        machine.keep(Keep { launches: true, traced: if wish.code == Code::Sass { TRACED } else { 0 } });
        if wish.prompt > 0 {
            let mut prompt: Vec<Entry> = (0..wish.prompt).map(|at| models::entry(1, at)).collect();
            prompt.last_mut().context("a prompt has tokens")?.output = Output::Logits;
            machine.reset_counters();
            decoder.forward(&prompt)?;
        } else {
            ensure!(decoder.set_sampling(0, &models::greedy(vec![1]))?, "{name}: the decoder does not sample");
            // The first step is launched as it is, after others that the decoder tries itself with.
            let token = models::next(decoder, 1, 0)?;
            machine.reset_counters();
            models::next(decoder, token, 1)?;
        }
        let steps = machine.counters().launches.get("embed").copied().context("a step begins with an embedding")?;
        let base = decoder.arena().0;
        let weights = decoder.parts().iter().filter(|p| p.name.starts_with("weights/"));
        let weights: Vec<_> = weights.map(|p| base + p.offset..base + p.offset + p.bytes).collect();
        let cold = |sector: u64| weights.iter().any(|w| w.contains(&(32 * sector)));
        let counts = machine.code_counts();
        let mut times: BTreeMap<&str, Times> = BTreeMap::new();
        let mut step = Times::default();
        for launch in &counts.launches {
            for card in CARDS.iter().filter(|card| card.sm == launch.sm) {
                if let Some(found) = timed(launch, card, &|sector| !cold(sector)) {
                    let times_per_step = launch.times as f64 / steps as f64;
                    times.entry(&launch.kernel).or_default().add(card, &found, times_per_step);
                    step.add_launched(card, &found, times_per_step);
                }
            }
        }
        let kernels = counts.kernels.iter().map(|((_, kernel), counts)| {
            let mut row = row(counts, steps);
            if let Some(times) = times.get(kernel.as_str()) {
                row["us"] = times.to_json();
            }
            (kernel.clone(), row)
        });
        let kernels = Map::from_iter(kernels);
        let warp_instructions = counts.warp_instructions() / steps;
        let mut all = json!({ "warp_instructions": warp_instructions });
        if wish.code == Code::Sass {
            all["us"] = step.to_json();
        }
        all["kernels"] = kernels.into();
        Ok(all)
    })
}

/// How long a launch takes on a card; None where it was not traced.
fn timed(launch: &LaunchCounts, card: &Card, hot: &dyn Fn(u64) -> bool) -> Option<Estimate> {
    let LaunchCounts { grid, threads, registers, shared, counts, trace, issues, .. } = launch;
    let blocks = grid.iter().map(|n| u64::from(*n)).product();
    let distinct = (counts.blocks == blocks).then_some(counts.sectors_read);
    let (threads, registers, shared) = (*threads, *registers, *shared);
    estimate(&Work { issues, trace, blocks, threads, registers, shared, distinct, hot }, card)
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
