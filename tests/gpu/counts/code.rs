//! What a step of decoding executes, by kernel: the shipped PTX in the models' exact shapes.

use std::{collections::BTreeSet, process::Command};

use anyhow::{Context, Result, ensure};
use qrun_cuda::image::{self, Kind};
use qrun_emulator::{
    Code, Config,
    isa::{At, Class, KernelCounts},
};
use qrun_models::Forward;
use serde_json::{Map, Value, json};

use crate::models;

/// `--code ptx`: counts of the PTX that `QRUN_KERNELS` names, or of each that there is; of one model, or of all.
pub fn counts(code: &str, model: Option<&str>) -> Result<Value> {
    ensure!(code == "ptx", "--code {code}: expected ptx");
    if std::env::var_os(image::FORCE).is_some() {
        return of_target(model);
    }
    // The variable is of a process, so each has one of its own.
    let mut all = Map::new();
    for target in image::targets().into_iter().filter(|t| t.kind == Kind::Ptx) {
        let mut child = Command::new(std::env::current_exe()?);
        let done = child.args(["--code", code]).args(model).env(image::FORCE, target.to_string()).output()?;
        ensure!(done.status.success(), "{target}: {}", String::from_utf8_lossy(&done.stderr));
        all.insert(target.to_string(), serde_json::from_slice(&done.stdout)?);
    }
    Ok(all.into())
}

fn of_target(model: Option<&str>) -> Result<Value> {
    let target = image::target(0)?;
    ensure!(target.kind == Kind::Ptx, "{}={target}: expected PTX, as compute_75", image::FORCE);
    let models = crate::MODELS.into_iter().filter(|name| model.is_none_or(|model| model == *name));
    let models = models.map(|name| Ok((name.to_owned(), of_model(name, target.sm)?)));
    Ok(Value::Object(models.collect::<Result<_>>()?))
}

/// One step that feeds a token at position 1 and samples the likeliest one. Weights are zero: what is executed does not
/// depend on them.
fn of_model(name: &str, sm: u32) -> Result<Value> {
    let device = Config { sm, code: Code::Ptx, ..Config::default() };
    models::on(device, &models::hollow(name)?, |machine, decoder| {
        ensure!(decoder.set_sampling(0, &models::greedy(vec![1]))?, "{name}: the decoder does not sample");
        // The first step is launched as it is, after others that the decoder tries itself with.
        let token = models::next(decoder, 1, 0)?;
        machine.reset_counters();
        models::next(decoder, token, 1)?;
        let steps = machine.counters().launches.get("embed").copied().context("a step begins with an embedding")?;
        let counts = machine.code_counts();
        let kernels = counts.kernels.iter().map(|((_, kernel), counts)| (kernel.clone(), row(counts, steps)));
        let warp_instructions = counts.warp_instructions() / steps;
        Ok(json!({ "warp_instructions": warp_instructions, "kernels": Map::from_iter(kernels) }))
    })
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
