//! What is measured: files, the model inside the program, random weights in a known shape.

use std::{
    io::{IsTerminal, stderr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use clap::Args;
use qrun_quant::Gguf;

use crate::{
    bench::{recipe::Recipe, rows::Setting},
    cli::exit::{Code, Exit},
    cli::{named, open, progress, terminal::say},
    embedded,
    engine::{Backend, Engine},
    generate::Session,
    sampler::SamplerParams,
    tools::{quantize::FileType, synth},
};

/// The word for the model inside the program, where no file has this name.
const DEMO: &str = "demo";

#[derive(Debug, Args)]
#[command(next_help_heading = "Model and machine")]
#[group(skip)]
pub struct Model {
    /// The GGUF file, a model's name, or demo for the model inside qrun; llama-bench's rows take several
    #[arg(value_name = "FILE", conflicts_with_all = ["model", "synthetic"])]
    pub word: Vec<PathBuf>,
    /// The same, as llama.cpp's tools take it
    #[arg(short = 'm', long = "model", value_name = "FILE", conflicts_with = "synthetic")]
    pub model: Vec<PathBuf>,
    /// Use no network: a name is a model in the cache
    #[arg(long)]
    pub offline: bool,
    /// Random weights in the exact shapes and mix of a named model, made for the moment: gemma-3-1b:Q4_K_M; with --recipe and
    /// no name: those of its models
    #[arg(long, value_name = "NAME[:TYPE]", value_parser = synthetic)]
    pub synthetic: Option<Option<(&'static str, FileType)>>,
}

fn synthetic(text: &str) -> Result<(&'static str, FileType), String> {
    let (name, ty) = text.split_once(':').unwrap_or((text, "Q4_K_M"));
    let known = || synth::names().collect::<Vec<_>>().join(", ");
    let shape = synth::find(name).ok_or_else(|| format!("expected one of {}", known()))?;
    Ok((shape.name, ty.parse()?))
}

/// A model that was asked for.
pub enum Wanted {
    Demo,
    File(PathBuf),
    Synthetic(&'static str, FileType),
}

/// A model file; one that is made for the moment lies in a folder that goes away with this.
pub struct Source {
    pub path: PathBuf,
    _folder: Option<tempfile::TempDir>,
}

impl Model {
    pub fn is_unnamed(&self) -> bool {
        self.word.is_empty() && self.model.is_empty() && self.synthetic.is_none()
    }

    /// The only model.
    pub fn source(&self) -> Result<Source, Exit> {
        let several = |n: usize| Exit::usage(format!("{n} models, but only llama-bench's rows take more than one"));
        let [source] = <[Source; 1]>::try_from(self.sources()?).map_err(|sources| several(sources.len()))?;
        Ok(source)
    }

    /// All models.
    pub fn sources(&self) -> Result<Vec<Source>, Exit> {
        self.wanted(None)?.iter().map(Wanted::source).collect()
    }

    /// What was asked for, before anything is made; without a name behind `--synthetic` the models of a recipe.
    pub fn wanted(&self, recipe: Option<&Recipe>) -> Result<Vec<Wanted>, Exit> {
        if self.is_unnamed() {
            return Err(Exit::usage("no model named: qrun bench MODEL.gguf, or --synthetic gemma-3-1b:Q4_K_M"));
        }
        match (self.synthetic, recipe) {
            (Some(Some((name, ty))), _) => Ok(vec![Wanted::Synthetic(name, ty)]),
            (Some(None), Some(Recipe { models: (names, ty), .. })) => {
                Ok(names.iter().map(|name| Wanted::Synthetic(name, *ty)).collect())
            }
            (Some(None), None) => Err(Exit::usage("--synthetic: no model named: --synthetic gemma-3-1b:Q4_K_M")),
            (None, _) => self.word.iter().chain(&self.model).map(|word| self.file(word)).collect(),
        }
    }

    /// A word for a model: the one inside the program, a file, or a name.
    fn file(&self, word: &Path) -> Result<Wanted, Exit> {
        let demo = word.as_os_str() == DEMO && !word.exists();
        Ok(if demo { Wanted::Demo } else { Wanted::File(named::file(word, self.offline)?) })
    }
}

impl Wanted {
    /// The file, which is made where it has to be.
    pub fn source(&self) -> Result<Source, Exit> {
        let (name, ty) = match self {
            Self::Demo => return demo(embedded::model().ok_or_else(|| Exit::usage("demo: no model is inside"))?),
            Self::File(path) => return Ok(Source { path: path.clone(), _folder: None }),
            Self::Synthetic(name, ty) => (*name, *ty),
        };
        let folder = tempfile::tempdir()?;
        let path = folder.path().join(format!("{name}-{ty}.gguf"));
        let bar = progress::bytes("making the model");
        let made = synth::synth(name, ty, 0, &path, &mut |done, total| {
            bar.set_length(total);
            bar.set_position(done);
        });
        made.map_err(|error| Exit::new(Code::Failure, error.to_string()))?;
        Ok(Source { path, _folder: Some(folder) })
    }
}

/// The model inside the program, as a file.
fn demo(bytes: &[u8]) -> Result<Source, Exit> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("qrun-demo.gguf");
    std::fs::write(&path, bytes)?;
    Ok(Source { path, _folder: Some(folder) })
}

impl Source {
    /// Opens and loads the model for `n_seq` sequences of `n_ctx` tokens; how long that took, in milliseconds.
    pub fn load(&self, setting: &Setting, n_ctx: usize, n_seq: usize) -> Result<(Session, f64), Exit> {
        let started = Instant::now();
        let engine = self.open(setting, n_ctx, n_seq)?;
        if let Backend::Cpu { reason: Some(reason) } = engine.backend()
            && !reason.is_ordinary()
        {
            say(&format!("note: device: CPU ({reason})"));
        }
        if stderr().is_terminal() {
            say(&open::plan_line(&engine));
        }
        let session = Session::open(engine, SamplerParams::default(), open::say_if_fell_back())?;
        Ok((session, started.elapsed().as_secs_f64() * 1e3))
    }

    /// Everything but the weights.
    pub fn open(&self, setting: &Setting, n_ctx: usize, n_seq: usize) -> Result<Arc<Engine>, Exit> {
        Ok(Arc::new(Engine::open(Gguf::open(&self.path)?, setting.engine(n_ctx, n_seq))?))
    }
}
