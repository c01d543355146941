//! Each mode from its flags to its report. Bars are drawn by a thread of their own, not by the one that is measured, only
//! where somebody watches, and until they are dropped.

use std::{path::Path, sync::Arc, thread, time::Duration, time::Instant};

use crate::{
    bench::{Limits, Repeat, machine, prompts, requests, rows, startup, suite, table::Writer},
    engine::Engine,
    text::template::{Message, Render},
};
use qrun_quant::Gguf;
use serde_json::Value;

use super::{
    args::{Machine, Prompts, Rows, Shared, Suite},
    model::Source,
    numbers::all,
};
use crate::cli::{
    exit::{Code, Exit},
    input, print,
    progress::estimate,
    terminal::{put, say},
};

/// A model, and how it runs.
pub struct Task {
    pub source: Source,
    pub setting: rows::Setting,
}

/// llama-bench's rows.
pub fn rows(args: &Rows, sources: &[Source], machine: &Machine, json: bool) -> Result<(), Exit> {
    let (tests, (settings, asked)) = (args.tests()?, machine.settings()?);
    let format = args.output.as_deref().unwrap_or(if json { "json" } else { "md" });
    let repeat = Repeat { warmups: usize::from(!args.no_warmup), times: args.repetitions.unwrap_or(5) };
    let steps = tests.iter().map(|test| test.steps(repeat)).fold(0, usize::saturating_add);
    let bar = estimate(steps.saturating_mul(settings.len() * sources.len()) as u64);
    let (mut out, mut err) = (Writer::new(format), Writer::new(args.output_err.as_deref().unwrap_or("none")));
    let (mut columns, mut lines) = (Vec::new(), Vec::new());
    let n_ctx = tests.iter().map(|test| test.n_ctx()).max().unwrap_or(1);
    let mut measure = |source: &Source, setting: &rows::Setting| -> Result<(), Exit> {
        let (session, _) = bar.suspend(|| source.load(setting, n_ctx, 1))?;
        let mut subject = rows::Subject::new(source.path.display().to_string(), setting, repeat, session);
        let mut done: Vec<Value> = Vec::new();
        for (i, test) in tests.iter().enumerate() {
            let pause = args.delay.filter(|_| i > 0).unwrap_or(0);
            thread::sleep(Duration::from_secs(pause.into()));
            bar.set_message(test.to_string());
            let row = subject.measure(test, i + 1 == tests.len(), &mut |steps| bar.inc(steps as u64))?;
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

/// The generation log's configurations, or one of one's own.
pub fn measure_suite(args: &Suite, shared: &Shared, task: &Task) -> Result<Value, Exit> {
    let mut configs = match &args.suite {
        Some(tier) => suite::configs(tier, args.decode_tokens.unwrap_or(suite::DECODE_TOKENS)),
        None => {
            let (prompt, n) = (args.prompt_tokens.unwrap_or(256), shared.max_new_tokens.unwrap_or(256));
            let greedy = suite::Config::greedy("custom", prompt, n);
            vec![suite::Config { temperature: args.temperature.unwrap_or(0.0), ..greedy }]
        }
    };
    configs.iter_mut().for_each(|config| config.seed = args.seed.unwrap_or(suite::SEED));
    let n_ctx = configs.iter().map(suite::Config::n_ctx).max().unwrap_or(1);
    let (mut session, load_ms) = task.source.load(&task.setting, n_ctx, 1)?;
    let (text, name) = (args.prompt.as_deref().unwrap_or(suite::TEXT), args.suite.as_deref().unwrap_or("custom"));
    let mut plan = suite::Plan::new(session.engine(), name, configs, text)?;
    plan.load_ms = load_ms;
    plan.repeat.warmups = args.warmup_runs.unwrap_or(plan.repeat.warmups);
    plan.repeat.times = shared.trials.unwrap_or(plan.repeat.times);
    let bar = estimate(plan.steps() as u64);
    Ok(plan.run(&mut session, &mut |config, steps| {
        bar.set_message(config.to_owned());
        bar.inc(steps as u64);
    })?)
}

/// The prompts of a file.
pub fn texts(file: &Path) -> Result<Vec<String>, Exit> {
    let text = input::file_text("--prompts", file, input::LONGEST_PROMPT)?;
    prompts::parse(&text).map_err(|reason| Exit::usage(format!("--prompts {}: {reason}", file.display())))
}

/// What a user says, in the model's own form.
fn tokens(engine: &Engine, text: &str) -> Result<Vec<u32>, Exit> {
    let rendered = engine.render(&[Message::new("user", text)], &Render::default());
    Ok(engine.prompt(&rendered.transpose()?.unwrap_or_else(|| text.to_owned()))?)
}

/// The model without its weights: how long prompts are is known once the vocabulary is, and the context depends on it.
fn vocabulary(task: &Task) -> Result<Arc<Engine>, Exit> {
    let engine = task.source.open(&task.setting, 64, 1)?;
    if let Ok(None) = engine.template() {
        say("note: the model has no chat template: the prompts are continued as raw text");
    }
    Ok(engine)
}

/// Whole answers to some prompts, at some batch sizes.
pub fn measure_prompts(texts: &[String], args: &Prompts, shared: &Shared, task: &Task) -> Result<Value, Exit> {
    let (sizes, limit) = (all(&args.batch, 1), shared.max_new_tokens.unwrap_or(2048));
    let set = |engine: &Engine| {
        let prompts = texts.iter().map(|text| tokens(engine, text)).collect::<Result<Vec<_>, Exit>>()?;
        Ok::<_, Exit>(prompts::PromptSet { prompts, limit, ignore_eos: args.ignore_eos })
    };
    let engine = vocabulary(task)?;
    let (counted, before) = (set(&engine)?, Limits::measure(&engine));
    let bar = estimate((sizes.len() * texts.len()).saturating_mul(limit) as u64);
    let batch = |size: usize| {
        bar.set_message(format!("batch {size}"));
        // From the file's name to the last token: what a process of its own would take, but for the few milliseconds until
        // it reads its command line.
        let started = Instant::now();
        let n_seq = size.min(texts.len());
        let (mut session, load_ms) = bar.suspend(|| task.source.load(&task.setting, counted.n_ctx(), n_seq))?;
        let set = set(session.engine())?;
        let generating = Instant::now();
        let mut batch = set.run(session.scheduler(), &mut |tokens| bar.inc(tokens as u64))?;
        (batch.batch, batch.load_s) = (size, load_ms / 1e3);
        (batch.generate_s, batch.wall_s) = (generating.elapsed().as_secs_f64(), started.elapsed().as_secs_f64());
        Ok(batch)
    };
    let batches = sizes.into_iter().map(batch).collect::<Result<Vec<_>, Exit>>()?;
    Ok(counted.report(&engine, texts, before, &batches))
}

/// The requests of a notebook, one after another.
pub fn measure_requests(seed: u64, task: &Task) -> Result<Value, Exit> {
    let engine = vocabulary(task)?;
    let asks = requests::NOTEBOOK.map(|ask| tokens(&engine, ask.prompt).map(|tokens| (ask, tokens)));
    let asks = asks.into_iter().collect::<Result<Vec<_>, Exit>>()?;
    let n_ctx = asks.iter().map(|(ask, tokens)| tokens.len() + ask.limit).max().unwrap_or(1);
    let before = Limits::measure(&engine);
    let bar = estimate(asks.len() as u64);
    let (mut session, _) = bar.suspend(|| task.source.load(&task.setting, n_ctx, 1))?;
    let mut answered = Vec::new();
    for (ask, tokens) in asks {
        answered.push(ask.run(&mut session, tokens, seed)?);
        bar.inc(1);
    }
    Ok(requests::report(&engine, &answered, before))
}

/// The time line of a run: one start that finds the page cache as it is, then `trials` more.
pub fn measure_startup(trials: usize, task: &Task) -> Result<Value, Exit> {
    let (program, path, setting) = (std::env::current_exe()?, &task.source.path, &task.setting);
    let options = &setting.engine_options.options;
    let mut flags = vec![
        format!("--device={}", if setting.n_gpu_layers == 0 { "cpu".into() } else { setting.devices() }),
        format!("--ubatch-size={}", options.n_ubatch.min(setting.n_batch)),
        format!("--threads={}", options.threads),
        format!("--cache-type-k={}", options.type_k.name()),
        format!("--cache-type-v={}", options.type_v.name()),
    ];
    flags.extend((!options.repack).then(|| "--no-repack".to_owned()));
    let bar = estimate(trials as u64 + 1);
    let start = |_| {
        let run = startup::run(&program, path, &flags);
        bar.inc(1);
        run
    };
    let mut runs = (0..=trials).map(start).collect::<Result<Vec<_>, _>>()?;
    let first = runs.remove(0);
    Ok(startup::report(path, Gguf::open(path)?.file_bytes(), options.threads, first, runs))
}

/// The child's exit code is this one's.
impl From<startup::StartupError> for Exit {
    fn from(startup::StartupError(code, said): startup::StartupError) -> Self {
        let known = [Code::Usage, Code::File, Code::Memory, Code::Device];
        let code = known.into_iter().find(|&known| code == Some(known as i32));
        Exit::new(code.unwrap_or(Code::Failure), said)
    }
}
