//! llama-bench's rows: its flags, its formats.

use std::{
    thread,
    time::{Duration, Instant},
};

use indicatif::ProgressBar;
use qrun::bench::{
    info::RunInfo,
    limits::Limits,
    machine,
    rows::{
        self, ModelInfo, Repeat, Row, Setting, Test,
        output::{Format, Output},
    },
};

use super::{
    Machine, Source, at_least_one, bar,
    machine::{MOST, counts},
    numbers::{self, Numbers},
};
use crate::cli::{
    exit::Exit,
    print,
    terminal::{put, say},
};

/// After so long the machine's limits are measured again.
const STALE: Duration = Duration::from_secs(10);

/// Flags of this mode.
#[derive(Debug, clap::Args)]
#[group(id = "rows_mode", conflicts_with_all = ["prompts_mode", "startup_mode"])]
#[command(next_help_heading = "llama-bench's rows (the default)")]
pub struct Args {
    /// Tokens of the prompt; 0 leaves it out [512]
    #[arg(short = 'p', long, value_name = "N", value_parser = numbers::from_zero)]
    n_prompt: Vec<Numbers>,
    /// Steps of decoding; 0 leaves them out [128]
    #[arg(short = 'n', long, value_name = "N", value_parser = numbers::from_zero)]
    n_gen: Vec<Numbers>,
    /// A prompt and then steps, timed together (-pg)
    #[arg(long, value_name = "PP,TG", value_parser = pair)]
    pg: Vec<(usize, usize)>,
    /// Tokens in the cache before the clock starts [0]
    #[arg(short = 'd', long, value_name = "N", value_parser = numbers::from_zero)]
    n_depth: Vec<Numbers>,
    /// Timed runs of each test [5]
    #[arg(short, long, value_name = "N", value_parser = at_least_one)]
    repetitions: Option<usize>,
    /// No untimed run before them
    #[arg(long)]
    no_warmup: bool,
    /// Seconds between tests
    #[arg(long, value_name = "S")]
    delay: Option<u32>,
    /// md, csv, json, jsonl or none, on stdout [md]
    #[arg(short, long, value_name = "FORMAT", value_parser = format)]
    output: Option<Format>,
    /// The same once more, on stderr [none] (-oe)
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    output_err: Option<Format>,
    /// What can compute here, and nothing else
    #[arg(long)]
    pub list_devices: bool,
}

fn pair(text: &str) -> Result<(usize, usize), String> {
    let parsed = text.split_once(',').and_then(|(pp, tg)| {
        let number = |text: &str| text.trim().parse().ok().filter(|n| *n <= i32::MAX as usize);
        Some((number(pp)?, number(tg)?))
    });
    parsed.ok_or_else(|| "expected two numbers: 512,128".into())
}

fn format(name: &str) -> Result<Format, String> {
    let known = || Format::ALL.map(|(name, _)| name).join(", ");
    Format::ALL
        .into_iter()
        .find(|(n, _)| *n == name)
        .map(|row| row.1)
        .ok_or_else(|| format!("expected one of {}", known()))
}

impl Args {
    fn tests(&self) -> Result<Vec<Test>, Exit> {
        let list = |given: &[Numbers], otherwise| if given.is_empty() { vec![otherwise] } else { counts(given) };
        let (prompts, gens, depths) = (list(&self.n_prompt, 512), list(&self.n_gen, 128), list(&self.n_depth, 0));
        let n = (prompts.len() + gens.len() + self.pg.len()).saturating_mul(depths.len());
        if n > MOST {
            return Err(Exit::usage(format!("--n-depth: {n} tests; at most {MOST} are run")));
        }
        let tests = Test::all(&prompts, &gens, &self.pg, &depths);
        if tests.is_empty() {
            return Err(Exit::usage("nothing to measure: -p, -n and -pg are all 0"));
        }
        Ok(tests)
    }
}

/// Where rows go.
struct Writers {
    out: Output,
    err: Output,
    bar: ProgressBar,
}

impl Writers {
    fn row(&mut self, row: &Row) -> Result<(), Exit> {
        let (out, err) = (self.out.row(row), self.err.row(row));
        self.bar.suspend(|| {
            put(&err);
            print(&out)
        })
    }

    fn end(&self) -> Result<(), Exit> {
        self.bar.finish_and_clear();
        put(&self.err.end());
        print(&self.out.end())
    }
}

pub fn run(args: &Args, sources: &[Source], machine: &Machine, json: bool) -> Result<(), Exit> {
    let (tests, settings) = (args.tests()?, machine.settings()?);
    let format = match (args.output, json) {
        (Some(format), true) if format != Format::Json => {
            return Err(Exit::usage("--json and --output: give one of them"));
        }
        (_, true) => Format::Json,
        (format, false) => format.unwrap_or(Format::Md),
    };
    let repeat = Repeat { times: args.repetitions.unwrap_or(5), warmups: usize::from(!args.no_warmup) };
    let asked = machine.asked();
    let steps = tests.iter().map(|test| test.steps(repeat)).fold(0, usize::saturating_add);
    let mut outputs = Writers {
        out: Output::new(format, &asked),
        err: Output::new(args.output_err.unwrap_or(Format::None), &asked),
        bar: bar(steps.saturating_mul(settings.len() * sources.len())),
    };
    let mut lines = Vec::new();
    let mut measured = || {
        for source in sources {
            for setting in &settings {
                let run = Run { source, setting, repeat, delay: args.delay.unwrap_or(0) };
                lines.push(run.measure(&tests, &mut outputs)?);
            }
        }
        Ok(())
    };
    // What was measured before something failed is whole, too.
    let measured = measured();
    outputs.end()?;
    lines.iter().for_each(|line| say(line));
    measured
}

/// A model with one of the settings.
struct Run<'a> {
    source: &'a Source,
    setting: &'a Setting,
    repeat: Repeat,
    delay: u32,
}

impl Run<'_> {
    /// All tests, between measurements of what the machine can do; says the result in one line.
    fn measure(&self, tests: &[Test], outputs: &mut Writers) -> Result<String, Exit> {
        let n_ctx = tests.iter().map(Test::n_ctx).max().unwrap_or(1);
        let loaded = outputs.bar.suspend(|| self.source.load_as(self.setting, (n_ctx, 1)))?;
        let engine = loaded.engine.clone();
        let info = RunInfo::new("rows", &engine);
        let model = ModelInfo::new(self.source.path().display().to_string(), &engine, &info);
        let mut session = loaded.session();
        let (mut limits, mut known) = (Limits::measure(&engine), Instant::now());
        let mut rows = Vec::new();
        for (i, test) in tests.iter().enumerate() {
            if i > 0 && self.delay > 0 {
                thread::sleep(Duration::from_secs(self.delay.into()));
            }
            outputs.bar.set_message(test.to_string());
            let time = machine::timestamp();
            let samples_ns = rows::samples(&mut session, test, self.repeat, &mut |steps| {
                outputs.bar.inc(steps as u64);
            })?;
            if i + 1 == tests.len() || known.elapsed() > STALE {
                (limits, known) = (limits.best(Limits::measure(&engine)), Instant::now());
            }
            let row = Row {
                test: *test,
                setting: self.setting.clone(),
                model: model.clone(),
                machine: info.machine.clone(),
                time,
                samples_ns,
                bytes: test.bytes(&engine),
                limit_ts: test.limit(&engine, &limits),
            };
            outputs.row(&row)?;
            rows.push(row);
        }
        Ok(line(&info, &limits, &rows))
    }
}

/// One line that can be pasted into an issue.
fn line(info: &RunInfo, limits: &Limits, rows: &[Row]) -> String {
    let each = rows.iter().map(|row| {
        let share = row.limit_share().map_or(String::new(), |share| format!(" ({:.0} %)", 100.0 * share));
        format!("{} {:.1}{share}", row.test, row.avg_ts())
    });
    let each = each.collect::<Vec<_>>().join(", ");
    let reads = format!("which reads {:.1} GB/s", limits.read_gb_per_s);
    format!("{}, {reads}: tok/s (of the limit) {each}; {}", info.line(), info.arithmetic)
}
