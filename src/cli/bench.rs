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
    io::{IsTerminal, stderr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use indicatif::ProgressBar;
use qrun::{
    bench::rows::Setting,
    quantize::FileType,
    sampler::SamplerParams,
    session::{Backend, Engine, EngineOptions, Session},
    synth,
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
    suite: suite::Args,
    #[command(flatten)]
    prompts: prompts::Args,
    #[command(flatten)]
    startup: startup::Args,
    #[command(flatten)]
    plot: plot::Args,
    #[command(flatten)]
    keep: Keep,
}

/// What becomes of the numbers.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Output")]
pub struct Keep {
    /// JSON on stdout, in place of tables
    #[arg(long)]
    json: bool,
    /// Where reports are kept
    #[arg(long, value_name = "DIR", default_value = "benches/reports")]
    reports: PathBuf,
    /// Keep no report
    #[arg(long)]
    no_save: bool,
}

impl Keep {
    /// Keeps a report, unless none is wanted.
    fn report(&self, name: &str, json: &str) -> Result<(), Exit> {
        if self.no_save {
            return Ok(());
        }
        let file = self.reports.join(name);
        let failed = |e| Exit::new(Code::Failure, format!("{}: {e}; --no-save keeps no report", file.display()));
        std::fs::create_dir_all(&self.reports).and_then(|()| std::fs::write(&file, json)).map_err(failed)?;
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
    pub fn run(self) -> Result<(), Exit> {
        if !self.suite.tables.is_empty() {
            return suite::tables(&self.suite.tables);
        }
        if self.rows.list_devices {
            return print(&devices::listing());
        }
        let mode = self.mode()?;
        // Before hours of measuring, whatever is wrong with the files to compare with.
        let compared = self.plot.read()?;
        if self.model.is_unnamed() && self.plot.compares() {
            return self.plot.draw(None, compared);
        }
        match mode {
            Mode::Rows => rows::run(&self.rows, &self.model.sources()?, &self.machine, self.keep.json),
            Mode::Suite => {
                let report = suite::run(&self.suite, &self.keep, &self.model.source()?, &self.machine)?;
                self.plot.draw(Some(report), compared)
            }
            Mode::Prompts => {
                let place = (&self.model.source()?, &self.machine);
                prompts::run(&self.prompts, self.suite.max_new_tokens, &self.keep, place)
            }
            Mode::Startup => startup::run(&self.model.source()?, &self.machine, self.suite.trials(), self.keep.json),
        }
    }

    /// The mode that the flags belong to.
    fn mode(&self) -> Result<Mode, Exit> {
        let (prompts, startup) = (self.prompts.asked(), self.startup.asked());
        // What other modes have in common with the suite.
        let shared: &[&str] = match (prompts, startup) {
            (Some(_), _) => &["--max-new-tokens"],
            (_, Some(_)) => &["--trials"],
            _ => &[],
        };
        let suite = self.suite.asked(shared).or(self.plot.asked());
        let modes = [Mode::Prompts, Mode::Startup, Mode::Suite, Mode::Rows];
        let flags = [prompts, startup, suite, self.rows.asked()];
        let mut asked = modes.into_iter().zip(flags).filter_map(|(mode, flag)| Some((mode, flag?)));
        match (asked.next(), asked.next()) {
            (Some((_, one)), Some((_, other))) => {
                Err(Exit::usage(format!("{one} and {other} belong to different measurements: give one of them")))
            }
            (Some((mode, _)), None) => Ok(mode),
            _ => Ok(Mode::Rows),
        }
    }
}

/// The command line for clap; notes on llama-bench's flags that have no effect here go to stderr.
pub fn rewrite(words: &[OsString]) -> Result<Vec<OsString>, Exit> {
    let (words, notes) = words::rewrite(words)?;
    notes.iter().for_each(|note| say(&format!("note: {note}")));
    Ok(words)
}

/// What is measured.
#[derive(Debug, Clone, Copy)]
enum Mode {
    Rows,
    Suite,
    Prompts,
    Startup,
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
        let wishes = EngineOptions { options: setting.options(n_ctx, n_seq), template: None, device: setting.wish() };
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
