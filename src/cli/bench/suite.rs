//! The configurations of the public generation log.

use std::path::PathBuf;

use qrun::bench::{
    limits::{Demand, Limits},
    machine,
    report::{Measured, Report},
    suite::{self, Config, DECODE_TOKENS, SEED, Suite, TEXT},
    tables,
    trial::{Job, Trial},
};
use qrun::session::{Place, Session};

use super::{Machine, Source, at_least_one, bar};
use crate::cli::{
    exit::{Code, Exit},
    print,
    terminal::say,
};

/// Tokens that a warm-up generates at most: what is to be warm is warm then.
const WARMUP_TOKENS: usize = 16;
/// Prompt tokens that take about as long as one step, for the estimate of the time left.
const PROMPT_PER_STEP: usize = 8;

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
}

fn tier(name: &str) -> Result<Suite, String> {
    Suite::ALL.into_iter().find(|s| s.name() == name).ok_or_else(|| "expected quick, standard or full".into())
}

/// One configuration with its prompt.
struct Planned {
    config: Config,
    prompt: Vec<u32>,
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
    let mut report = Report::new(
        args.suite.map_or("custom", Suite::name),
        &loaded.engine,
        (args.trials, args.warmup_runs),
        loaded.load_ms,
    );
    let mut session = loaded.session();
    let engine = session.engine().clone();
    let text = args.prompt.as_deref().unwrap_or(TEXT);
    let plan = configs.into_iter().map(|config| {
        let prompt = suite::prompt(&engine, text, config.n_prompt)?;
        Ok(Planned { config: Config { n_prompt: prompt.len(), ..config }, prompt })
    });
    let plan = plan.collect::<Result<Vec<Planned>, Exit>>()?;
    report.limits = Limits::measure(&engine);
    report.configs = measure(args, &mut session, &plan)?;
    report.limits = report.limits.best(Limits::measure(&engine));
    let demand = Demand::new(&engine);
    report.configs.iter_mut().for_each(|measured| measured.beside(&demand, &report.limits));
    let json = serde_json::to_string_pretty(&report).map_err(|e| Exit::new(Code::Failure, e.to_string()))? + "\n";
    if !args.no_save {
        let file = args.reports.join(report.file_name());
        let failed = |e| Exit::new(Code::Failure, format!("{}: {e}; --no-save keeps no report", file.display()));
        std::fs::create_dir_all(&args.reports).and_then(|()| std::fs::write(&file, &json)).map_err(failed)?;
        say(&format!("report: {}", file.display()));
    }
    print(&if args.json { json } else { tables::markdown(std::slice::from_ref(&report)) })?;
    say(&report.line());
    Ok(report)
}

/// All configurations, one after the other, each with its warm-ups.
fn measure(args: &Args, session: &mut Session, plan: &[Planned]) -> Result<Vec<Measured>, Exit> {
    let cost = |p: &Planned, n_gen: usize| p.prompt.len() / PROMPT_PER_STEP + n_gen;
    let whole = |p: &Planned| {
        args.warmup_runs * cost(p, p.config.n_gen.min(WARMUP_TOKENS)) + args.trials * cost(p, p.config.n_gen)
    };
    let bar = bar(plan.iter().map(whole).sum());
    let mut measured = Vec::new();
    for planned in plan {
        bar.set_message(planned.config.name.clone());
        let mut run = |n_gen: usize| {
            let params = planned.config.sampler();
            let trial =
                Trial::run(session, &Job { prompt: planned.prompt.clone(), depth: 0, n_gen, params }, &mut || {
                    bar.inc(1)
                });
            bar.inc((planned.prompt.len() / PROMPT_PER_STEP) as u64);
            trial
        };
        machine::forget_peak_memory();
        for _ in 0..args.warmup_runs {
            run(planned.config.n_gen.min(WARMUP_TOKENS))?;
        }
        let trials = (0..args.trials).map(|_| run(planned.config.n_gen)).collect::<Result<Vec<_>, _>>()?;
        measured.push(Measured::new(&planned.config, &trials, peak_memory(session)));
    }
    bar.finish_and_clear();
    Ok(measured)
}

/// Of this process where the model runs on the CPU, else what was planned on the GPU and taken.
fn peak_memory(session: &Session) -> Option<u64> {
    match session.engine().place() {
        Place::Cpu { .. } => machine::peak_memory(),
        Place::Gpu { .. } => Some(session.engine().plan().bytes.total()),
    }
}
