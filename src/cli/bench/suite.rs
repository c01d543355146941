//! The configurations of the public generation log.

use std::path::PathBuf;

use qrun::bench::{
    report::Report,
    run::{Plan, Progress},
    suite::{Config, DECODE_TOKENS, SEED, Suite, TEXT},
    tables,
};

use super::{Machine, Outputs, Shared, Source, at_least_one, bar};
use crate::cli::{exit::Exit, print, terminal::say};

#[derive(Debug, Default, clap::Args)]
#[group(id = "suite_mode", conflicts_with_all = ["rows_mode", "prompts_mode", "startup_mode"])]
#[command(next_help_heading = "The generation log's configurations, or one of one's own")]
pub struct Args {
    /// Configurations of the log: quick (short, medium), standard (and prefill, decode, sampled) or full (all seven)
    #[arg(long, value_name = "TIER", value_parser = tier)]
    suite: Option<Suite>,
    /// Tokens that `decode` and `long` generate: 1024, or 512 as in the older log
    #[arg(long, value_name = "N", requires = "suite", value_parser = at_least_one)]
    decode_tokens: Option<usize>,
    /// One configuration: tokens of the prompt [256]
    #[arg(long, value_name = "N", conflicts_with = "suite", value_parser = at_least_one)]
    prompt_tokens: Option<usize>,
    /// One configuration: its text, repeated or cut to --prompt-tokens where that is given
    #[arg(long, value_name = "TEXT", conflicts_with = "suite")]
    prompt: Option<String>,
    /// One configuration: temperature; 0 is greedy
    #[arg(long, value_name = "X", conflicts_with = "suite")]
    temperature: Option<f32>,
    /// Same seed, same tokens [42]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Untimed runs before each configuration [2]
    #[arg(long, value_name = "N")]
    warmup_runs: Option<usize>,
    /// Measure nothing: the tables of these reports, their models beside each other
    #[arg(long, value_name = "REPORT", num_args = 1..)]
    pub tables: Vec<PathBuf>,
}

fn tier(name: &str) -> Result<Suite, String> {
    Suite::ALL.into_iter().find(|s| s.name() == name).ok_or_else(|| "expected quick, standard or full".into())
}

impl Args {
    fn configs(&self, max_new_tokens: Option<usize>) -> Vec<Config> {
        let configs = match self.suite {
            Some(suite) => suite.configs(self.decode_tokens.unwrap_or(DECODE_TOKENS)),
            None => {
                let (prompt, n) = (self.prompt_tokens.unwrap_or(256), max_new_tokens.unwrap_or(256));
                vec![Config { temperature: self.temperature.unwrap_or(0.0), ..Config::greedy("custom", prompt, n) }]
            }
        };
        configs.into_iter().map(|config| Config { seed: self.seed.unwrap_or(SEED), ..config }).collect()
    }
}

/// Measures, prints and keeps; returns the report.
pub fn run(
    args: &Args,
    shared: &Shared,
    outputs: &Outputs,
    (source, machine): (&Source, &Machine),
) -> Result<Report, Exit> {
    let configs = args.configs(shared.max_new_tokens);
    let n_ctx = configs.iter().map(Config::n_ctx).max().unwrap_or(1);
    let loaded = source.load(machine, (n_ctx, 1))?;
    let (text, name) = (args.prompt.as_deref().unwrap_or(TEXT), args.suite.map_or("custom", Suite::name));
    let mut plan = Plan::new(&loaded.engine, name, configs, text)?;
    (plan.warmup_runs, plan.trials, plan.load_ms) = (args.warmup_runs.unwrap_or(2), shared.trials(), loaded.load_ms);
    let bar = bar(plan.steps());
    let report = plan.run(&mut loaded.session(), &mut |progress| match progress {
        Progress::Config(name) => bar.set_message(name.to_owned()),
        Progress::Steps(n) => bar.inc(n as u64),
    });
    bar.finish_and_clear();
    let report = report?;
    let tables = tables::markdown(std::slice::from_ref(&report));
    outputs.report(&report.info.file_name(), &report.json(), &tables)?;
    say(&report.line());
    Ok(report)
}

/// Prints the tables of recorded reports.
pub fn tables(files: &[PathBuf]) -> Result<(), Exit> {
    let reports = files
        .iter()
        .map(|file| Report::read(file).map_err(|reason| Exit::usage(format!("--tables {}: {reason}", file.display()))));
    print(&tables::markdown(&reports.collect::<Result<Vec<_>, _>>()?))
}
