//! Why a model was not opened, or not loaded.

use std::{error::Error as StdError, fmt, path::PathBuf};

use qrun_cuda::{DeviceError, device::NoDevice};
use qrun_quant::Error;

use super::plan::TooLarge;
use crate::text::template::TemplateError;

/// Why a model cannot be used: which file, what was being done, and what was wrong.
///
/// Shown as its `source` alone, which names the file where the file is at fault.
#[derive(Debug)]
pub struct LoadError {
    /// The model file, as it was named.
    pub path: PathBuf,
    /// What was being done.
    pub stage: Stage,
    /// What was wrong.
    pub source: Box<LoadCause>,
}

/// What is done from a model file to a decoder, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Reading configuration and tensor directory.
    Model,
    /// Reading the vocabulary.
    Tokenizer,
    /// Compiling the chat template.
    Template,
    /// Choosing the device, and planning the memory there.
    Device,
    /// Loading weights and kernels, starting threads.
    Weights,
}

/// What is wrong with a model, or with where it was to run.
#[derive(Debug, thiserror::Error)]
pub enum LoadCause {
    /// The file is damaged, or no model that qrun knows.
    #[error(transparent)]
    File(#[from] Error),
    /// The model that was to guess with its draft head has none that runs.
    #[error("{0}; without --spec-type draft-mtp the model runs, and ngram-simple guesses without such a block")]
    DraftHead(Error),
    /// It does not fit into memory.
    #[error(transparent)]
    Memory(#[from] TooLarge),
    /// It does not run on the GPU that it was to run on.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The GPU failed while weights were uploaded or kernels loaded.
    #[error("GPU: {0}")]
    Device(#[from] DeviceError),
    /// The template that was asked for.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// Text is wanted of a model that gives embeddings alone.
    #[error("{model}: a model for embeddings ({arch}), which writes no text; qrun embed {model} -p TEXT makes vectors")]
    NoText {
        /// Path of the model file.
        model: String,
        /// `general.architecture` of that file.
        arch: &'static str,
    },
    /// The system gives no threads.
    #[error(transparent)]
    Threads(#[from] std::io::Error),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl StdError for LoadError {
    // The cause is what is shown, so the chain goes on behind it.
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.source()
    }
}

/// Why a model does not run where it was asked to.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum BackendError {
    /// No GPU, no driver, kernels that do not fit it, or a failed call.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The model and its context do not fit into the GPU's memory.
    #[error("GPU: {0}")]
    Memory(TooLarge),
    /// The device has no kernel for something this model does.
    #[error("GPU: {0}")]
    Unsupported(String),
    /// Exact arithmetic, which only the CPU has.
    #[error("exact arithmetic is the CPU's")]
    Exact,
}

impl BackendError {
    /// Whether nothing is wrong: there is no GPU, or what was asked for needs the CPU.
    pub fn is_ordinary(&self) -> bool {
        let absent = |e: &DeviceError| matches!(e, DeviceError::NoDevice(NoDevice::DriverMissing | NoDevice::NoGpu));
        match self {
            Self::Device(error) => absent(error),
            Self::Exact => true,
            Self::Memory(_) | Self::Unsupported(_) => false,
        }
    }
}
