//! From keywords to a model with its thread.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use pyo3::prelude::*;
use qrun::{
    embed::{Embedder, Pooling},
    embedded,
    engine::{Backend, Engine, EngineOptions},
    generate::{Generator, Scheduler},
    sampler::SamplerParams,
};
use qrun_models::{EventHandler, LoadEvent, Options};
use qrun_quant::{Bytes, Gguf};

use crate::{
    errors::{self, usage},
    fields::{Fields, MANY, Progress},
    work::Stop,
};

/// What stands for the path of the model inside the module.
pub const DEMO: &str = "the embedded model";

/// Texts of the warnings that Python code is to get: that a GPU is not used, or was given up.
pub type Warnings = Arc<Mutex<Vec<String>>>;

/// How a model is opened.
pub struct Opening {
    pub path: Option<PathBuf>,
    pub options: EngineOptions,
    /// Hears bytes done and bytes in all.
    pub progress: Progress,
}

/// A model that answers.
pub struct Opened {
    pub engine: Arc<Engine>,
    pub generator: Generator,
    pub params: SamplerParams,
    pub warnings: Warnings,
}

impl Opening {
    /// # Errors
    /// A keyword of a wrong type or outside of its range.
    pub fn of(path: Option<PathBuf>, fields: &Fields) -> PyResult<Self> {
        let base = if fields.flag("exact")? { Options::exact() } else { Options::default() };
        let n_seq = fields.count("n_seq", 1..=MANY)?.unwrap_or(1);
        let n_ctx = fields.count("n_ctx", 0..=usize::MAX)?.unwrap_or(0);
        let options = Options {
            n_ctx,
            n_seq,
            n_ubatch: fields.count("n_ubatch", 1..=65536)?.unwrap_or(base.n_ubatch),
            threads: fields.threads()?.unwrap_or(base.threads),
            type_k: fields.parsed("cache_type_k")?.unwrap_or(base.type_k),
            type_v: fields.parsed("cache_type_v")?.unwrap_or(base.type_v),
            swa_full: fields.flag("swa_full")?,
            ..base
        };
        let device = fields.parsed("device")?.unwrap_or_default();
        let options = EngineOptions { options, template: fields.text("chat_template")?, device };
        Ok(Self { path, options, progress: Progress::of(fields)? })
    }

    /// Reads the file, loads the weights, starts the thread.
    ///
    /// # Errors
    /// The file, its template, memory, the device.
    pub fn open(self, stop: &Stop) -> PyResult<Opened> {
        let engine = Arc::new(Engine::open(gguf(self.path.as_deref())?, self.options).map_err(errors::open)?);
        let mut params = SamplerParams::default();
        params.take_from(engine.gguf(), |_| false).map_err(errors::of)?;
        let warnings = Warnings::default();
        if let Backend::Cpu { reason: Some(reason) } = engine.backend()
            && !reason.is_ordinary()
        {
            warn(&warnings, &format!("the model runs on the CPU: {reason}"));
        }
        let on_event = event_handler(&warnings, self.progress, stop);
        let scheduler = Scheduler::open(engine.clone(), on_event).map_err(errors::of)?;
        let generator = Generator::start(scheduler).map_err(|error| errors::Error::new_err(error.to_string()))?;
        Ok(Opened { engine, generator, params, warnings })
    }

    /// Reads the file and loads the weights, to make vectors of texts.
    ///
    /// # Errors
    /// The file, memory, the device; no pooling.
    pub fn open_for_embeddings(self, pooling: PoolingChoice, stop: &Stop) -> PyResult<(Embedder, Warnings)> {
        let engine = Embedder::engine(gguf(self.path.as_deref())?, self.options).map_err(errors::open)?;
        // Vectors are always computed on the CPU: no warning.
        let warnings = Warnings::default();
        let on_event = event_handler(&warnings, self.progress, stop);
        let pooling = pooling.of_model(engine.model().config.pooling);
        let embedder = Embedder::new(Arc::new(engine), pooling, on_event).map_err(errors::embed)?;
        Ok((embedder, warnings))
    }
}

/// How hidden states are to become a vector.
#[derive(Clone, Copy)]
pub enum PoolingChoice {
    /// As the model says.
    Models,
    /// As the model says, and where it does not a vector for each token: llama.cpp's "unspecified".
    ModelsOrNone,
    /// Whatever the model says.
    Given(Pooling),
}

impl PoolingChoice {
    /// The keyword `pooling`.
    ///
    /// # Errors
    /// There is no such way.
    pub fn of(fields: &Fields) -> PyResult<Self> {
        let Some(name) = fields.text("pooling")? else { return Ok(Self::Models) };
        match Pooling::from_name(&name) {
            Some(pooling) if pooling != Pooling::Rank => Ok(Self::Given(pooling)),
            _ if name == "unspecified" => Ok(Self::ModelsOrNone),
            _ => Err(usage(format!("pooling: expected \"none\", \"mean\", \"cls\" or \"last\", found {name:?}"))),
        }
    }

    /// Of a model that says this.
    fn of_model(self, models: Option<Pooling>) -> Option<Pooling> {
        match self {
            Self::Models => models,
            Self::ModelsOrNone => models.or(Some(Pooling::None)),
            Self::Given(pooling) => Some(pooling),
        }
    }
}

/// Passes on events while weights are loaded, and later.
fn event_handler(warnings: &Warnings, progress: Progress, stop: &Stop) -> EventHandler {
    let (warnings, stop) = (warnings.clone(), stop.clone());
    Box::new(move |event: LoadEvent| match event {
        LoadEvent::FellBack(text) => warn(&warnings, text),
        LoadEvent::Loading { done, total } => {
            stop.here();
            progress.tell(done, total);
        }
    })
}

fn warn(warnings: &Warnings, text: &str) {
    warnings.lock().unwrap_or_else(PoisonError::into_inner).push(text.to_owned());
}

/// A model file, or the demo where none is named.
///
/// # Errors
/// No such file; one that is damaged or no GGUF.
pub fn gguf(path: Option<&Path>) -> PyResult<Gguf> {
    match (path, embedded::model()) {
        (Some(path), _) => {
            if let Err(error) = std::fs::metadata(path) {
                return Err(match error.kind() {
                    std::io::ErrorKind::NotFound => errors::not_found(path),
                    _ => errors::io_error(path, &error),
                });
            }
            Gguf::open(path).map_err(errors::of)
        }
        (None, Some(bytes)) => Gguf::from_bytes(DEMO, Bytes::new(bytes)).map_err(errors::of),
        (None, None) => Err(usage("model: this build has no demo model inside; give a path")),
    }
}
