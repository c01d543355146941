//! The configurations of the public generation log.

use std::path::PathBuf;

use qrun::bench::{
    report::Report,
    run::{Plan, Progress},
    suite::{Config, DECODE_TOKENS, SEED, Suite, TEXT},
    tables,
};

use super::{Keep, Machine, Source, at_least_one, bar};
use crate::cli::{exit::Exit, print, terminal::say};

#[derive(Debug, clap::Args)]
// Groups are named by their types, and all of these are Args.
#[group(skip)]
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
    /// One configuration: tokens to generate [256]; --prompts: tokens of an answer at most [2048]
    #[arg(long, value_name = "N", conflicts_with = "suite", value_parser = at_least_one)]
    pub max_new_tokens: Option<usize>,
    /// One configuration: temperature; 0 is greedy
    #[arg(long, value_name = "X", conflicts_with = "suite")]
    temperature: Option<f32>,
    /// Same seed, same tokens [42]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Untimed runs before each configuration [2]
    #[arg(long, value_name = "N")]
    warmup_runs: Option<usize>,
    /// Timed runs of each configuration [3]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    trials: Option<usize>,
    /// Measure nothing: the tables of these reports, their models beside each other
    #[arg(long, value_name = "REPORT", num_args = 1..)]
    pub tables: Vec<PathBuf>,
}

fn tier(name: &str) -> Result<Suite, String> {
    Suite::ALL.into_iter().find(|s| s.name() == name).ok_or_else(|| "expected quick, standard or full".into())
}

impl Args {
    /// A flag of this mode that was given, other than those that another mode has too.
    pub fn asked(&self, shared: &[&str]) -> Option<&'static str> {
        let given = [
            ("--suite", self.suite.is_some()),
            ("--prompt-tokens", self.prompt_tokens.is_some()),
            ("--prompt", self.prompt.is_some()),
            ("--temperature", self.temperature.is_some()),
            ("--decode-tokens", self.decode_tokens.is_some()),
            ("--seed", self.seed.is_some()),
            ("--warmup-runs", self.warmup_runs.is_some()),
            ("--trials", self.trials.is_some()),
            ("--max-new-tokens", self.max_new_tokens.is_some()),
        ];
        given.into_iter().find_map(|(flag, given)| (given && !shared.contains(&flag)).then_some(flag))
    }

    /// Timed runs.
    pub fn trials(&self) -> usize {
        self.trials.unwrap_or(3)
    }

    fn configs(&self) -> Vec<Config> {
        let configs = match self.suite {
            Some(suite) => suite.configs(self.decode_tokens.unwrap_or(DECODE_TOKENS)),
            None => {
                let (prompt, n) = (self.prompt_tokens.unwrap_or(256), self.max_new_tokens.unwrap_or(256));
                vec![Config { temperature: self.temperature.unwrap_or(0.0), ..Config::greedy("custom", prompt, n) }]
            }
        };
        configs.into_iter().map(|config| Config { seed: self.seed.unwrap_or(SEED), ..config }).collect()
    }
}

/// Measures, says and keeps; returns the report.
pub fn run(args: &Args, keep: &Keep, source: &Source, machine: &Machine) -> Result<Report, Exit> {
    let configs = args.configs();
    let n_ctx = configs.iter().map(Config::n_ctx).max().unwrap_or(1);
    let loaded = source.load(machine, (n_ctx, 1))?;
    let (text, name) = (args.prompt.as_deref().unwrap_or(TEXT), args.suite.map_or("custom", Suite::name));
    let mut plan = Plan::new(&loaded.engine, name, configs, text)?;
    (plan.warmup_runs, plan.trials, plan.load_ms) = (args.warmup_runs.unwrap_or(2), args.trials(), loaded.load_ms);
    let bar = bar(plan.steps());
    let report = plan.run(&mut loaded.session(), &mut |progress| match progress {
        Progress::Config(name) => bar.set_message(name.to_owned()),
        Progress::Steps(n) => bar.inc(n as u64),
    });
    bar.finish_and_clear();
    let report = report?;
    keep.report(&report.about.file_name(), &report.json())?;
    print(&if keep.json { report.json() } else { tables::markdown(std::slice::from_ref(&report)) })?;
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
