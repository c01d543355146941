//! `qrun bench`: how fast a model is here, beside what the machine could do at most.

mod plot;
mod startup;
mod suite;

use std::{
    io::{IsTerminal, stderr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use indicatif::ProgressBar;
use qrun::{
    quantize::FileType,
    sampler::SamplerParams,
    session::{Engine, Place, Session, Wish, Wishes},
    synth,
};
use qrun_models::{Forward, KvType, Options};
use qrun_quant::Gguf;

use super::{
    exit::{Code, Exit},
    open, progress,
    synth::file_type,
    terminal::say,
};

/// How fast a model is here, beside what the machine could do at most.
///
/// Without a mode: llama-bench's rows (pp512, tg128). --suite or --prompt-tokens: the configurations of the public
/// generation log. --prompts: whole answers to the prompts of a file, in batches. --startup: the time line of a run.
#[derive(Debug, clap::Args)]
pub struct Bench {
    #[command(flatten)]
    model: Model,
    #[command(flatten)]
    machine: Machine,
    #[command(flatten)]
    suite: suite::Args,
    #[command(flatten)]
    plot: plot::Picture,
    #[command(flatten)]
    startup: startup::Start,
}

/// Which model.
#[derive(Debug, clap::Args)]
#[group(required = false, multiple = false)]
pub struct Model {
    /// The GGUF file
    #[arg(value_name = "FILE")]
    word: Option<PathBuf>,
    /// The same, as llama.cpp's tools take it
    #[arg(short = 'm', long = "model", value_name = "FILE")]
    model: Option<PathBuf>,
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

/// Where and how it runs.
#[derive(Debug, clap::Args)]
pub struct Machine {
    /// auto (the GPU if the model runs there), cuda or cpu
    #[arg(long, value_name = "WHERE", default_value = "auto", value_parser = super::perplexity::wish)]
    device: Wish,
    /// CPU threads [physical cores]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Tokens that go through the layers together in a prompt
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = at_least_one)]
    ubatch_size: usize,
    /// Type of cached keys
    #[arg(long, value_name = "TYPE", value_parser = super::perplexity::cache_type)]
    cache_type_k: Option<KvType>,
    /// Type of cached values
    #[arg(long, value_name = "TYPE", value_parser = super::perplexity::cache_type)]
    cache_type_v: Option<KvType>,
    /// Do not repack weights at load
    #[arg(long)]
    no_repack: bool,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&n| n > 0).ok_or_else(|| "expected a whole number from 1 on".into())
}

impl Bench {
    pub fn run(self) -> Result<(), Exit> {
        if !self.suite.tables.is_empty() {
            return suite::tables(&self.suite.tables);
        }
        // Before hours of measuring, whatever is wrong with the files to compare with.
        let compared = self.plot.read()?;
        if self.model.is_unnamed() && self.plot.compares() {
            return self.plot.draw(None, compared);
        }
        let source = self.model.source()?;
        if self.startup.asked() {
            let (trials, json) = self.suite.measured();
            return startup::run(&source, &self.machine, trials, json);
        }
        let report = suite::run(&self.suite, &source, &self.machine)?;
        self.plot.draw(Some(report), compared)
    }
}

/// A model file; a synthetic one lies in a folder that goes away with this.
pub struct Source {
    path: PathBuf,
    _folder: Option<tempfile::TempDir>,
}

impl Model {
    fn is_unnamed(&self) -> bool {
        self.word.is_none() && self.model.is_none() && self.synthetic.is_none()
    }

    fn source(&self) -> Result<Source, Exit> {
        if let Some(path) = self.word.as_ref().or(self.model.as_ref()) {
            return Ok(Source { path: path.clone(), _folder: None });
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
        Ok(Source { path, _folder: Some(folder) })
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
    pub fn load(&self, machine: &Machine, (n_ctx, n_seq): (usize, usize)) -> Result<Loaded, Exit> {
        let started = Instant::now();
        let options = machine.options(n_ctx, n_seq);
        let wishes = Wishes { options, template: None, device: machine.device };
        let engine = Arc::new(Engine::open(Gguf::open(&self.path)?, wishes)?);
        if let Place::Cpu { reason: Some(reason) } = engine.place()
            && !reason.is_ordinary()
        {
            say(&format!("note: device: CPU ({reason})"));
        }
        if stderr().is_terminal() {
            say(&open::plan_line(&engine));
        }
        let decoder = engine.decoder(Box::new(say))?;
        Ok(Loaded { engine, decoder, load_ms: started.elapsed().as_secs_f64() * 1e3 })
    }
}

impl Machine {
    fn options(&self, n_ctx: usize, n_seq: usize) -> Options {
        let base = Options::default();
        Options {
            n_ctx,
            n_seq,
            n_ubatch: self.ubatch_size,
            threads: self.threads.map_or_else(open::physical_cores, usize::from),
            type_k: self.cache_type_k.unwrap_or(base.type_k),
            type_v: self.cache_type_v.unwrap_or(base.type_v),
            repack: !self.no_repack,
            ..base
        }
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
