//! Each mode from its flags to its report. Bars are drawn by a thread of their own, not by the one that is measured, and
//! only where somebody watches.

use std::{path::Path, thread, time::Duration, time::Instant};

use qrun::{
    bench::{
        limits::Limits,
        machine,
        prompts::{self, PromptSet},
        rows::{self, Setting, Subject},
        startup::{self, StartupError},
        suite::{self, Config, DECODE_TOKENS, Plan, SEED, TEXT},
        table::Writer,
        trial::Repeat,
    },
    engine::{DevicePreference, Engine},
    text::template::{Message, Render},
};
use qrun_quant::Gguf;
use serde_json::Value;

use super::{
    Source,
    args::{Machine, Outputs, Prompts, Rows, Shared, Suite},
    numbers::all,
};
use crate::cli::{
    exit::{Code, Exit},
    input, print,
    progress::estimate,
    terminal::{put, say},
};

/// llama-bench's rows.
pub fn rows(args: &Rows, sources: &[Source], machine: &Machine, json: bool) -> Result<(), Exit> {
    let (tests, settings, asked) = (args.tests()?, machine.settings()?, machine.asked());
    let format = match (args.output.as_deref(), json) {
        (Some(format), true) if format != "json" => return Err(Exit::usage("--json and --output: give one of them")),
        (format, json) => format.unwrap_or(if json { "json" } else { "md" }),
    };
    let times = args.repetitions.unwrap_or(5);
    let repeat = Repeat { warmups: usize::from(!args.no_warmup), warmup_tokens: rows::WARMUP_TOKENS, times };
    let steps = tests.iter().map(|test| test.steps(repeat)).fold(0, usize::saturating_add);
    let bar = estimate(steps.saturating_mul(settings.len() * sources.len()) as u64);
    let (mut out, mut err) = (Writer::new(format), Writer::new(args.output_err.as_deref().unwrap_or("none")));
    let (mut columns, mut lines) = (Vec::new(), Vec::new());
    let mut measure = |source: &Source, setting: &Setting| -> Result<(), Exit> {
        let n_ctx = tests.iter().map(|test| test.n_ctx()).max().unwrap_or(1);
        let (session, _) = bar.suspend(|| source.load(setting, (n_ctx, 1)))?;
        let mut subject = Subject::new(source.path.display().to_string(), setting, session);
        let mut done: Vec<Value> = Vec::new();
        for (i, test) in tests.iter().enumerate() {
            let pause = if i > 0 { args.delay.unwrap_or(0) } else { 0 };
            thread::sleep(Duration::from_secs(pause.into()));
            bar.set_message(test.to_string());
            let row = subject.measure(test, (repeat, i + 1 == tests.len()), &mut |steps| bar.inc(steps as u64))?;
            if columns.is_empty() {
                columns = rows::columns(&asked, &row);
            }
            bar.suspend(|| {
                put(&err.row(&row, &columns));
                print(&out.row(&row, &columns))
            })?;
            done.push(row);
        }
        lines.push(subject.line(&done));
        Ok(())
    };
    let mut each = sources.iter().flat_map(|source| settings.iter().map(move |setting| (source, setting)));
    let measured = each.try_for_each(|(source, setting)| measure(source, setting));
    // What was measured before something failed is whole, too.
    bar.finish_and_clear();
    let build = format!("{} ({})", machine::commit(), machine::build_number());
    put(&err.end(&build));
    print(&out.end(&build))?;
    lines.iter().for_each(|line| say(line));
    measured
}

/// The generation log's configurations, or one of one's own; returns the report.
pub fn suite(
    args: &Suite,
    shared: &Shared,
    outputs: &Outputs,
    source: &Source,
    setting: &Setting,
) -> Result<Value, Exit> {
    let mut configs = match &args.suite {
        Some(tier) => suite::configs(tier, args.decode_tokens.unwrap_or(DECODE_TOKENS)),
        None => {
            let (prompt, n) = (args.prompt_tokens.unwrap_or(256), shared.max_new_tokens.unwrap_or(256));
            vec![Config { temperature: args.temperature.unwrap_or(0.0), ..Config::greedy("custom", prompt, n) }]
        }
    };
    configs.iter_mut().for_each(|config| config.seed = args.seed.unwrap_or(SEED));
    let n_ctx = configs.iter().map(Config::n_ctx).max().unwrap_or(1);
    let (mut session, load_ms) = source.load(setting, (n_ctx, 1))?;
    let (text, name) = (args.prompt.as_deref().unwrap_or(TEXT), args.suite.as_deref().unwrap_or("custom"));
    let mut plan = Plan::new(session.engine(), name, configs, text)?;
    plan.load_ms = load_ms;
    plan.repeat.warmups = args.warmup_runs.unwrap_or(plan.repeat.warmups);
    plan.repeat.times = shared.trials.unwrap_or(plan.repeat.times);
    let bar = estimate(plan.steps() as u64);
    let report = plan.run(&mut session, &mut |config, steps| {
        bar.set_message(config.to_owned());
        bar.inc(steps as u64);
    });
    bar.finish_and_clear();
    let report = report?;
    outputs.report(&report, &suite::markdown(std::slice::from_ref(&report)), &suite::line(&report))?;
    Ok(report)
}

/// Whole answers to the prompts of a file, in batches.
pub fn prompts(
    file: &Path,
    args: &Prompts,
    limit: usize,
    outputs: &Outputs,
    source: &Source,
    setting: &Setting,
) -> Result<(), Exit> {
    let wrong = |reason: String| Exit::usage(format!("--prompts {}: {reason}", file.display()));
    let bytes = std::fs::read(file).map_err(|e| wrong(e.to_string()))?;
    let texts = prompts::parse(&input::text(&file.display().to_string(), bytes)?).map_err(wrong)?;
    let batches = all(&args.batch, 1);
    // In the model's own form.
    let set = |engine: &Engine| {
        let tokens = |text: &String| {
            let rendered = engine.render(&[Message::new("user", text)], &Render::default());
            Ok(engine.prompt(&rendered.transpose()?.unwrap_or_else(|| text.clone()))?)
        };
        let prompts = texts.iter().map(tokens).collect::<Result<Vec<_>, Exit>>()?;
        Ok::<_, Exit>(PromptSet { prompts, limit, ignore_eos: args.ignore_eos })
    };
    // How long the prompts are is known once the vocabulary is; the context depends on it.
    let engine = source.open(setting, (64, 1))?;
    if let Ok(None) = engine.template() {
        say("note: the model has no chat template: the prompts are continued as raw text");
    }
    let counted = set(&engine)?;
    let (mut report, before) = (counted.head(&engine, &texts), Limits::measure(&engine));
    let bar = estimate((batches.len() * texts.len()).saturating_mul(limit) as u64);
    for batch in batches {
        bar.set_message(format!("batch {batch}"));
        // From the file's name to the last token: what a process of its own would take, but for the few milliseconds until
        // it reads its command line.
        let started = Instant::now();
        let size = (counted.n_ctx(), batch.min(texts.len()));
        let (mut session, load_ms) = bar.suspend(|| source.load(setting, size))?;
        let set = set(session.engine())?;
        let generating = Instant::now();
        let answers = set.run(session.scheduler(), &mut |tokens| bar.inc(tokens as u64))?;
        let seconds = [load_ms / 1e3, generating.elapsed().as_secs_f64(), started.elapsed().as_secs_f64()];
        prompts::add(&mut report, batch, &answers, seconds, &engine);
    }
    bar.finish_and_clear();
    prompts::set_limits(&mut report, before.best(Limits::measure(&engine)));
    outputs.report(&report, &prompts::markdown(&report), &prompts::line(&report))
}

/// The time line of a run: one start that finds the page cache as it is, then `trials` more.
pub fn startup(source: &Source, setting: &Setting, trials: usize, outputs: &Outputs) -> Result<(), Exit> {
    let (program, flags) = (std::env::current_exe()?, flags(setting));
    let bar = estimate(trials as u64 + 1);
    let start = |_| {
        let run = startup::run(&program, &source.path, &flags);
        bar.inc(1);
        run
    };
    let mut runs = (0..=trials).map(start).collect::<Result<Vec<_>, _>>()?;
    bar.finish_and_clear();
    let file_bytes = Gguf::open(&source.path)?.file_bytes();
    let first = runs.remove(0);
    let report = startup::report(&source.path, file_bytes, setting.threads, first, runs);
    print(&if outputs.json { qrun::bench::record::json(&report) } else { startup::markdown(&report) })
}

/// A setting as words of an ordinary command line.
fn flags(setting: &Setting) -> Vec<String> {
    let device = match setting.device() {
        DevicePreference::Auto => "auto".into(),
        DevicePreference::Cpu => "cpu".into(),
        DevicePreference::Cuda(ordinal) => ordinal.map_or("cuda".into(), |n| format!("cuda{n}")),
    };
    let mut flags = vec![
        format!("--device={device}"),
        format!("--ubatch-size={}", setting.n_ubatch.min(setting.n_batch)),
        format!("--threads={}", setting.threads),
        format!("--cache-type-k={}", setting.type_k.name()),
        format!("--cache-type-v={}", setting.type_v.name()),
    ];
    flags.extend((!setting.repack).then(|| "--no-repack".to_owned()));
    flags
}

/// The child's exit code is this one's.
impl From<StartupError> for Exit {
    fn from(error: StartupError) -> Self {
        let known = [Code::Usage, Code::File, Code::Memory, Code::Device];
        let code = match &error {
            StartupError::Failed(code, _) => known.into_iter().find(|&known| *code == Some(known as i32)),
            _ => None,
        };
        Exit::new(code.unwrap_or(Code::Failure), error.to_string())
    }
}
