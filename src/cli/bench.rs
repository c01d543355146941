//! `qrun bench`: how fast a model is here, beside what the machine could do at most.

mod machine;
mod numbers;
mod plot;
mod prompts;
mod rows;
mod startup;
mod suite;
mod words;

use std::{
    ffi::OsString,
    fs::File,
    io::{IsTerminal, Write, stderr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use indicatif::ProgressBar;
use qrun::{
    bench::rows::Setting,
    engine::{Backend, Engine, EngineOptions},
    generate::Session,
    sampler::SamplerParams,
    tools::quantize::FileType,
    tools::synth,
};
use qrun_models::Forward;
use qrun_quant::Gguf;

use machine::Machine;

use super::{
    devices,
    exit::{Code, Exit},
    open, print, progress,
    terminal::say,
    values::file_type,
};

/// How fast a model is here, beside what the machine could do at most.
///
/// Without a mode: llama-bench's rows (pp512, tg128), with its flags and formats. --suite or --prompt-tokens: the
/// configurations of the public generation log. --prompts: whole answers to the prompts of a file, in batches. --startup:
/// the time line of a run.
///
/// llama-bench's rows take lists (512,1024) and ranges (1-4, 1-9+2, 256-4096*2) wherever a number stands, and a flag that
/// is given again adds to its list; every combination is run.
#[derive(Debug, clap::Args)]
pub struct Bench {
    #[command(flatten)]
    model: Model,
    #[command(flatten)]
    machine: Machine,
    #[command(flatten)]
    rows: rows::Args,
    #[command(flatten)]
    suite: Option<suite::Args>,
    #[command(flatten)]
    shared: Shared,
    #[command(flatten)]
    prompts: prompts::Args,
    #[command(flatten)]
    startup: startup::Args,
    #[command(flatten)]
    plot: plot::Args,
    #[command(flatten)]
    outputs: Outputs,
}

/// Flags of more than one mode.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "The generation log's configurations, or one of one's own")]
pub struct Shared {
    /// One configuration: tokens to generate [256]; --prompts: tokens of an answer at most [2048]
    #[arg(long, value_name = "N", conflicts_with_all = ["suite", "rows_mode", "startup_mode"], value_parser = at_least_one)]
    max_new_tokens: Option<usize>,
    /// Timed runs of each configuration, or starts behind the first one [3]
    #[arg(long, value_name = "N", conflicts_with_all = ["rows_mode", "prompts_mode"], value_parser = at_least_one)]
    trials: Option<usize>,
}

impl Shared {
    /// Timed runs.
    fn trials(&self) -> usize {
        self.trials.unwrap_or(3)
    }
}

/// Where the numbers go.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Output")]
pub struct Outputs {
    /// JSON on stdout, in place of tables
    #[arg(long)]
    json: bool,
    /// Keep the report in this folder too; its name says the model, the device and the time
    #[arg(long, value_name = "DIR")]
    reports: Option<PathBuf>,
    /// What is done anyway without --reports
    #[arg(long, hide = true, conflicts_with = "reports")]
    no_save: bool,
}

impl Outputs {
    /// Refuses a folder that cannot be written to, before hours of measuring.
    fn check(&self) -> Result<(), Exit> {
        let Some(folder) = &self.reports else { return Ok(()) };
        let made = std::fs::create_dir_all(folder).and_then(|()| tempfile::tempfile_in(folder));
        made.map(drop).map_err(|e| Exit::usage(format!("--reports {}: {e}", folder.display())))
    }

    /// Prints a report, then keeps it where that was asked for.
    fn report(&self, name: &str, json: &str, tables: &str) -> Result<(), Exit> {
        print(if self.json { json } else { tables })?;
        let Some(folder) = &self.reports else { return Ok(()) };
        let file = folder.join(name);
        let written = File::create_new(&file).and_then(|mut open| open.write_all(json.as_bytes()));
        written.map_err(|e| Exit::new(Code::Failure, format!("--reports {}: {e}", file.display())))?;
        say(&format!("report: {}", file.display()));
        Ok(())
    }
}

/// Which model.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Model and machine")]
#[group(required = false, multiple = false)]
pub struct Model {
    /// The GGUF file; llama-bench's rows take several
    #[arg(value_name = "FILE")]
    word: Vec<PathBuf>,
    /// The same, as llama.cpp's tools take it
    #[arg(short = 'm', long = "model", value_name = "FILE")]
    model: Vec<PathBuf>,
    /// Random weights in the exact shapes and mix of a named model, made for the moment: gemma-3-1b:Q4_K_M
    #[arg(long, value_name = "NAME[:TYPE]", value_parser = synthetic)]
    synthetic: Option<Synthetic>,
}

/// A model of the synth table.
#[derive(Debug, Clone)]
struct Synthetic {
    name: &'static str,
    file_type: FileType,
}

fn synthetic(text: &str) -> Result<Synthetic, String> {
    let (name, ty) = text.split_once(':').unwrap_or((text, "Q4_K_M"));
    let known = || synth::names().collect::<Vec<_>>().join(", ");
    let shape = synth::find(name).ok_or_else(|| format!("expected one of {}", known()))?;
    Ok(Synthetic { name: shape.name, file_type: file_type(ty)? })
}

fn at_least_one(text: &str) -> Result<usize, String> {
    // More tokens than that no memory holds.
    let allowed = 1..=i32::MAX as usize;
    text.parse().ok().filter(|n| allowed.contains(n)).ok_or_else(|| format!("expected 1 to {}", i32::MAX))
}

impl Bench {
    /// Runs the mode that the flags belong to; clap has refused flags of two of them.
    pub fn run(self) -> Result<(), Exit> {
        let Self { model, machine, rows, suite, shared, prompts, startup, plot, outputs } = self;
        let own = suite.is_some() || shared.max_new_tokens.is_some() || shared.trials.is_some() || plot.is_asked();
        let suite = suite.unwrap_or_default();
        if !suite.tables.is_empty() {
            return suite::tables(&suite.tables);
        }
        if rows.list_devices {
            return print(&devices::listing());
        }
        outputs.check()?;
        let compared = plot.check()?;
        if model.is_unnamed() && plot.compares() {
            return plot.draw(None, compared);
        }
        if prompts.is_asked() {
            prompts::run(&prompts, shared.max_new_tokens, &outputs, (&model.source()?, &machine))
        } else if startup.is_asked() {
            startup::run(&model.source()?, &machine, shared.trials(), outputs.json)
        } else if own {
            let report = suite::run(&suite, &shared, &outputs, (&model.source()?, &machine))?;
            plot.draw(Some(report), compared)
        } else {
            rows::run(&rows, &model.sources()?, &machine, outputs.json)
        }
    }
}

/// The command line for clap; notes on llama-bench's flags that have no effect here go to stderr.
pub fn rewrite(words: &[OsString]) -> Result<Vec<OsString>, Exit> {
    let (words, notes) = words::rewrite(words)?;
    notes.iter().for_each(|note| say(&format!("note: {note}")));
    Ok(words)
}

/// A model file; a synthetic one lies in a folder that goes away with this.
pub struct Source {
    path: PathBuf,
    _folder: Option<tempfile::TempDir>,
}

impl Model {
    fn is_unnamed(&self) -> bool {
        self.word.is_empty() && self.model.is_empty() && self.synthetic.is_none()
    }

    /// The only model.
    fn source(&self) -> Result<Source, Exit> {
        let mut sources = self.sources()?;
        match sources.len() {
            1 => Ok(sources.remove(0)),
            n => Err(Exit::usage(format!("{n} models, but only llama-bench's rows take more than one"))),
        }
    }

    /// All models.
    fn sources(&self) -> Result<Vec<Source>, Exit> {
        let files = self.word.iter().chain(&self.model);
        let sources: Vec<_> = files.map(|path| Source { path: path.clone(), _folder: None }).collect();
        if !sources.is_empty() {
            return Ok(sources);
        }
        let Some(Synthetic { name, file_type }) = &self.synthetic else {
            return Err(Exit::usage("no model named: qrun bench MODEL.gguf, or --synthetic gemma-3-1b:Q4_K_M"));
        };
        let folder = tempfile::tempdir()?;
        let path = folder.path().join(format!("{name}-{file_type}.gguf"));
        let bar = progress::bytes("making the model");
        let made = synth::synth(name, *file_type, 0, &path, &mut |done, total| {
            bar.set_length(total);
            bar.set_position(done);
        });
        bar.finish_and_clear();
        made.map_err(|error| Exit::new(Code::Failure, error.to_string()))?;
        Ok(vec![Source { path, _folder: Some(folder) }])
    }
}

/// An engine with a decoder, and how long it took.
pub struct Loaded {
    pub engine: Arc<Engine>,
    pub decoder: Box<dyn Forward>,
    /// From the file's name to here.
    pub load_ms: f64,
}

impl Source {
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens and loads the model for `n_seq` sequences of `n_ctx` tokens.
    pub fn load(&self, machine: &Machine, size: (usize, usize)) -> Result<Loaded, Exit> {
        self.load_as(&machine.setting()?, size)
    }

    /// The same with one of several settings.
    pub fn load_as(&self, setting: &Setting, size: (usize, usize)) -> Result<Loaded, Exit> {
        let started = Instant::now();
        let engine = self.open(setting, size)?;
        if let Backend::Cpu { reason: Some(reason) } = engine.place()
            && !reason.is_ordinary()
        {
            say(&format!("note: device: CPU ({reason})"));
        }
        if stderr().is_terminal() {
            say(&open::plan_line(&engine));
        }
        let decoder = engine.decoder(open::plain_notices())?;
        Ok(Loaded { engine, decoder, load_ms: started.elapsed().as_secs_f64() * 1e3 })
    }

    /// Everything but the weights.
    fn open(&self, setting: &Setting, (n_ctx, n_seq): (usize, usize)) -> Result<Arc<Engine>, Exit> {
        let wishes = EngineOptions { options: setting.options(n_ctx, n_seq), template: None, device: setting.device() };
        Ok(Arc::new(Engine::open(Gguf::open(&self.path)?, wishes)?))
    }
}

impl Loaded {
    /// The session that is measured.
    pub fn session(self) -> Session {
        Session::new(self.engine, self.decoder, SamplerParams::default())
    }
}

/// Progress of a measurement in steps that take about equally long, with an estimate of the time left; invisible where
/// nobody watches. It is drawn by a thread of its own, not by the one that is measured.
pub fn bar(steps: usize) -> ProgressBar {
    progress::estimate(steps as u64)
}
