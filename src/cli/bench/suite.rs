//! The configurations of the public generation log.

use std::path::PathBuf;

use qrun::bench::{
    report::Report,
    run::{Plan, Progress},
    suite::{Config, DECODE_TOKENS, SEED, Suite, TEXT},
    tables,
};

use super::{Machine, Source, at_least_one, bar};
use crate::cli::{
    exit::{Code, Exit},
    print,
    terminal::say,
};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Configurations of the log: quick (short, medium), standard (and prefill, decode, sampled) or full (all seven)
    #[arg(long, value_name = "TIER", value_parser = tier)]
    suite: Option<Suite>,
    /// Tokens that `decode` and `long` generate: 1024, or 512 as in the older log
    #[arg(long, value_name = "N", default_value_t = DECODE_TOKENS, value_parser = at_least_one)]
    decode_tokens: usize,
    /// One configuration: tokens of the prompt
    #[arg(long, value_name = "N", conflicts_with = "suite", value_parser = at_least_one)]
    prompt_tokens: Option<usize>,
    /// One configuration: its text, repeated or cut to --prompt-tokens where that is given
    #[arg(long, value_name = "TEXT", conflicts_with = "suite")]
    prompt: Option<String>,
    /// One configuration: tokens to generate
    #[arg(long, value_name = "N", conflicts_with = "suite", value_parser = at_least_one)]
    max_new_tokens: Option<usize>,
    /// One configuration: temperature; 0 is greedy
    #[arg(long, value_name = "X", conflicts_with = "suite")]
    temperature: Option<f32>,
    /// Same seed, same tokens
    #[arg(long, value_name = "N", default_value_t = SEED)]
    seed: u64,
    /// Untimed runs before each configuration
    #[arg(long, value_name = "N", default_value_t = 2)]
    warmup_runs: usize,
    /// Timed runs of each configuration
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = at_least_one)]
    trials: usize,
    /// The report as JSON on stdout, in place of tables
    #[arg(long)]
    json: bool,
    /// Where reports are kept
    #[arg(long, value_name = "DIR", default_value = "benches/reports")]
    reports: PathBuf,
    /// Keep no report
    #[arg(long)]
    no_save: bool,
    /// Measure nothing: the tables of these reports, their models beside each other
    #[arg(long, value_name = "REPORT", num_args = 1..)]
    pub tables: Vec<PathBuf>,
}

fn tier(name: &str) -> Result<Suite, String> {
    Suite::ALL.into_iter().find(|s| s.name() == name).ok_or_else(|| "expected quick, standard or full".into())
}

impl Args {
    /// Whether flags of this mode were given.
    pub fn asked(&self) -> bool {
        self.suite.is_some() || self.prompt_tokens.is_some() || self.prompt.is_some() || self.max_new_tokens.is_some()
    }

    /// Timed runs, and whether they are told as JSON.
    pub fn measured(&self) -> (usize, bool) {
        (self.trials, self.json)
    }

    fn configs(&self) -> Vec<Config> {
        let configs = match self.suite {
            Some(suite) => suite.configs(self.decode_tokens),
            None => {
                let (prompt, n) = (self.prompt_tokens.unwrap_or(256), self.max_new_tokens.unwrap_or(256));
                vec![Config { temperature: self.temperature.unwrap_or(0.0), ..Config::greedy("custom", prompt, n) }]
            }
        };
        configs.into_iter().map(|config| Config { seed: self.seed, ..config }).collect()
    }
}

/// Measures, says and keeps; returns the report.
pub fn run(args: &Args, source: &Source, machine: &Machine) -> Result<Report, Exit> {
    let configs = args.configs();
    let n_ctx = configs.iter().map(Config::n_ctx).max().unwrap_or(1);
    let loaded = source.load(machine, (n_ctx, 1))?;
    let (text, name) = (args.prompt.as_deref().unwrap_or(TEXT), args.suite.map_or("custom", Suite::name));
    let mut plan = Plan::new(&loaded.engine, name, configs, text)?;
    (plan.warmup_runs, plan.trials, plan.load_ms) = (args.warmup_runs, args.trials, loaded.load_ms);
    let bar = bar(plan.steps());
    let report = plan.run(&mut loaded.session(), &mut |progress| match progress {
        Progress::Config(name) => bar.set_message(name.to_owned()),
        Progress::Steps(n) => bar.inc(n as u64),
    });
    bar.finish_and_clear();
    let report = report?;
    if !args.no_save {
        let file = args.reports.join(report.file_name());
        let failed = |e| Exit::new(Code::Failure, format!("{}: {e}; --no-save keeps no report", file.display()));
        std::fs::create_dir_all(&args.reports).and_then(|()| std::fs::write(&file, report.json())).map_err(failed)?;
        say(&format!("report: {}", file.display()));
    }
    print(&if args.json { report.json() } else { tables::markdown(std::slice::from_ref(&report)) })?;
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
