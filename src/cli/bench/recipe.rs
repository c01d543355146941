//! `--recipe`: a published measurement, repeated.

use super::{
    args::{Machine, Outputs, Prompts, Shared, Suite},
    model::Wanted,
    modes::{self, Task},
    numbers::Numbers,
};
use crate::{
    bench::{recipe, report, suite},
    cli::exit::Exit,
};

/// Measures the models one after another, and puts the published figures beside them.
pub fn run(
    recipe: &recipe::Recipe,
    models: Vec<Wanted>,
    machine: &Machine,
    (suite, shared): (&Suite, &Shared),
    outputs: &Outputs,
) -> Result<(), Exit> {
    let mut reports = Vec::new();
    for model in models {
        let task = Task { source: model.source()?, setting: machine.setting()? };
        reports.push(match recipe.name {
            "infer" => {
                let (seed, warmup_runs) = (suite.seed, suite.warmup_runs);
                let full = Suite { suite: Some("full".into()), seed, warmup_runs, ..Suite::default() };
                modes::measure_suite(&full, shared, &task)?
            }
            "eole" => {
                let batches = Prompts { batch: vec![Numbers(vec![1, 4])], ..Prompts::default() };
                modes::measure_prompts(&recipe::EOLE.map(str::to_owned), &batches, shared, &task)?
            }
            _ => modes::measure_requests(suite.seed.unwrap_or(suite::SEED), &task)?,
        });
    }
    let compared = recipe.report(&reports);
    outputs.show(&compared, &(report::tables(&reports) + &recipe::markdown(&compared)))?;
    reports.iter().try_for_each(|report| outputs.keep(report))
}
