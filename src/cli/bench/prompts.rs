//! Whole answers to the prompts of a file, in batches.

use std::{path::PathBuf, time::Instant};

use indicatif::ProgressBar;
use qrun::{
    bench::{
        info::RunInfo,
        limits::Limits,
        prompts::{
            self, PromptSet, Tick,
            report::{Clock, PromptsReport},
        },
    },
    engine::Engine,
    generate::Scheduler,
    text::template::{Message, Render},
};

use super::{
    Loaded, Machine, Outputs, Source, bar,
    machine::counts,
    numbers::{self, Numbers},
};
use crate::cli::{exit::Exit, input, terminal::say};

/// Tokens of an answer at most, as in the public recipe.
const LIMIT: usize = 2048;
/// Tokens of the context in which the prompts are counted.
const SMALLEST: usize = 64;

/// Flags of this mode.
#[derive(Debug, clap::Args)]
#[group(id = "prompts_mode", conflicts_with = "startup_mode")]
#[command(next_help_heading = "Whole answers")]
pub struct Args {
    /// Answer the prompts of this file: a line each, or a JSON array of strings
    #[arg(long, value_name = "FILE")]
    prompts: Option<PathBuf>,
    /// How many are answered at once, a list; the model is loaded for each of them [1]
    #[arg(long, value_name = "N", requires = "prompts", value_parser = numbers::from_one)]
    batch: Vec<Numbers>,
    /// Answers go on after their end, to --max-new-tokens
    #[arg(long, requires = "prompts")]
    ignore_eos: bool,
}

impl Args {
    /// Whether this mode is asked for.
    pub fn is_asked(&self) -> bool {
        self.prompts.is_some()
    }

    fn texts(&self) -> Result<Vec<String>, Exit> {
        let file = self.prompts.as_deref().unwrap_or("".as_ref());
        let wrong = |reason: String| Exit::usage(format!("--prompts {}: {reason}", file.display()));
        let bytes = std::fs::read(file).map_err(|e| wrong(e.to_string()))?;
        prompts::parse(&input::text(&file.display().to_string(), bytes)?).map_err(wrong)
    }
}

/// What is asked for.
struct Recipe {
    texts: Vec<String>,
    limit: usize,
    ignore_eos: bool,
}

impl Recipe {
    /// The prompts in the model's own form.
    fn prompt_set(&self, engine: &Engine) -> Result<PromptSet, Exit> {
        let tokens = |text: &String| {
            let rendered = engine.render(&[Message::new("user", text)], &Render::default());
            Ok(engine.prompt(&rendered.transpose()?.unwrap_or_else(|| text.clone()))?)
        };
        let prompts = self.texts.iter().map(tokens).collect::<Result<Vec<_>, Exit>>()?;
        Ok(PromptSet { prompts, limit: self.limit, ignore_eos: self.ignore_eos })
    }
}

pub fn run(
    args: &Args,
    limit: Option<usize>,
    outputs: &Outputs,
    (source, machine): (&Source, &Machine),
) -> Result<(), Exit> {
    let recipe = Recipe { texts: args.texts()?, limit: limit.unwrap_or(LIMIT), ignore_eos: args.ignore_eos };
    let given = counts(&args.batch);
    let batches = if given.is_empty() { vec![1] } else { given };
    let setting = machine.setting()?;
    // How long the prompts are is known once the vocabulary is; the context depends on it.
    let engine = source.open(&setting, (SMALLEST, 1))?;
    if let Ok(None) = engine.template() {
        say("note: the model has no chat template: the prompts are continued as raw text");
    }
    let set = recipe.prompt_set(&engine)?;
    let mut info = RunInfo::new("prompts", &engine);
    info.limits = Limits::measure(&engine);
    let (name, mut limits) = (info.file_name(), info.limits);
    let mut report = PromptsReport::new(info, &engine, recipe.texts.clone(), &set);
    let bar = bar((batches.len() * recipe.texts.len()).saturating_mul(recipe.limit));
    for &batch in &batches {
        bar.set_message(format!("batch {batch}"));
        let n_seq = batch.min(recipe.texts.len());
        let load = || bar.suspend(|| source.load_as(&setting, (set.n_ctx(), n_seq)));
        let (clock, answers) = answer(&recipe, load, &bar)?;
        report.add(batch, clock, &answers, &engine);
    }
    bar.finish_and_clear();
    limits = limits.best(Limits::measure(&engine));
    report.set_roofline(limits);
    outputs.report(&name, &report.json(), &report.markdown())?;
    say(&report.line());
    Ok(())
}

/// All answers with one batch size, from the file's name to the last token: what a process of its own would take, but for
/// the few milliseconds until it reads its command line.
fn answer(
    recipe: &Recipe,
    load: impl FnOnce() -> Result<Loaded, Exit>,
    bar: &ProgressBar,
) -> Result<(Clock, prompts::Answers), Exit> {
    let started = Instant::now();
    let loaded = load()?;
    let load_s = loaded.load_ms / 1e3;
    let engine = loaded.engine.clone();
    let set = recipe.prompt_set(&engine)?;
    let mut tick = |tick| match tick {
        Tick::Token => bar.inc(1),
        Tick::End(unused) => bar.inc(unused as u64),
    };
    let generating = Instant::now();
    let answers = set.run(&mut Scheduler::new(engine, loaded.decoder), &mut tick)?;
    let clock =
        Clock { load_s, generate_s: generating.elapsed().as_secs_f64(), wall_s: started.elapsed().as_secs_f64() };
    Ok((clock, answers))
}
