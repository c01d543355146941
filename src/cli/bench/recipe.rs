//! `--recipe`: a published measurement, repeated.

use super::{
    args::{Machine, Outputs, Prompts, Shared, Suite},
    model::Wanted,
    modes::{self, Task},
    numbers::Numbers,
};
use crate::{
    bench::{prompts, recipe, record, requests, suite},
    cli::{exit::Exit, print, terminal::say},
};

/// Measures the models one after another, and puts the published figures beside them.
pub fn run(
    recipe: &recipe::Recipe,
    models: Vec<Wanted>,
    machine: &Machine,
    (suite, shared): (&Suite, &Shared),
    outputs: &Outputs,
) -> Result<(), Exit> {
    let (mut reports, mut lines) = (Vec::new(), Vec::new());
    for model in models {
        let task = Task { source: model.source()?, setting: machine.setting()?, outputs };
        let (report, line): (_, fn(&_) -> String) = match recipe.name {
            "infer" => {
                let (seed, warmup_runs) = (suite.seed, suite.warmup_runs);
                let full = Suite { suite: Some("full".into()), seed, warmup_runs, ..Suite::default() };
                (modes::measure_suite(&full, shared, &task)?, suite::line)
            }
            "eole" => {
                let batches = Prompts { batch: vec![Numbers(vec![1, 4])], ..Prompts::default() };
                let (limit, texts) = (shared.max_new_tokens.unwrap_or(2048), recipe::EOLE.map(str::to_owned));
                (modes::measure_prompts(&texts, &batches, limit, &task)?, prompts::line)
            }
            _ => (modes::measure_requests(suite.seed.unwrap_or(suite::SEED), &task)?, requests::line),
        };
        lines.push(line(&report));
        reports.push(report);
    }
    let compared = recipe.report(&reports);
    if outputs.json {
        print(&record::json(&compared))?;
    } else {
        let tables = match recipe.name {
            "infer" => suite::markdown(&reports),
            "eole" => reports.iter().map(prompts::markdown).collect(),
            _ => reports.iter().map(requests::markdown).collect(),
        };
        print(&(tables + &recipe::markdown(&compared)))?;
    }
    for (report, line) in reports.iter().zip(&lines) {
        outputs.keep(report)?;
        say(line);
    }
    Ok(())
}
