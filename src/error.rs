//! What went wrong, by kind: one for each exit code of the program and each exception in Python.

use qrun_models::ForwardError;

#[cfg(feature = "download")]
use crate::download::DownloadError;
use crate::{
    embed::EmbedError,
    engine::{BackendError, LoadCause, LoadError},
    generate::{GenerateError, SaveError},
    sampler::SamplerError,
    text::{template::TemplateError, tokenizer::TokenizeError},
};

/// Who can do something about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// What was asked for is wrong: a parameter, a prompt that is too long.
    Usage,
    /// The model file is missing or damaged, or holds what qrun does not implement.
    File,
    /// It does not fit into memory.
    Memory,
    /// The device that was asked for cannot be used.
    Device,
    /// The model's chat template failed, or refuses the conversation.
    Template,
    /// A model that is asked for by name was not fetched.
    Network,
    /// Something outside of all these failed.
    Failure,
}

/// Of an error: who can do something about it.
pub trait Kinded: std::error::Error {
    /// Decides the exit code of the program and the exception in Python.
    fn kind(&self) -> Kind;
}

/// How an error of the system that means "no memory" ends (ENOMEM): a file that cannot be mapped is not a bad file.
const OUT_OF_MEMORY: &str = "(os error 12)";

impl Kinded for qrun_quant::Error {
    fn kind(&self) -> Kind {
        if self.found.contains(OUT_OF_MEMORY) { Kind::Memory } else { Kind::File }
    }
}

impl Kinded for LoadError {
    fn kind(&self) -> Kind {
        match &*self.source {
            LoadCause::File(error) => error.kind(),
            LoadCause::Memory(_) => Kind::Memory,
            LoadCause::Backend(error) => error.kind(),
            LoadCause::Device(_) => Kind::Device,
            // Only the one that was asked for is read here.
            LoadCause::Template(_) | LoadCause::NoText { .. } | LoadCause::DraftHead(_) => Kind::Usage,
            LoadCause::Threads(_) => Kind::Failure,
        }
    }
}

impl Kinded for BackendError {
    fn kind(&self) -> Kind {
        match self {
            BackendError::Memory(_) => Kind::Memory,
            _ => Kind::Device,
        }
    }
}

impl Kinded for SamplerError {
    fn kind(&self) -> Kind {
        match self {
            SamplerError::Parameter { .. } => Kind::Usage,
            _ => Kind::File,
        }
    }
}

impl Kinded for GenerateError {
    fn kind(&self) -> Kind {
        match self {
            GenerateError::EmptyPrompt | GenerateError::PromptTooLong { .. } => Kind::Usage,
            GenerateError::Sampler(error) => error.kind(),
            GenerateError::Forward(ForwardError::Device(_)) => Kind::Device,
            GenerateError::Forward(_)
            | GenerateError::Mask(_)
            | GenerateError::Processor(_)
            | GenerateError::Panicked => Kind::Failure,
        }
    }
}

impl Kinded for EmbedError {
    fn kind(&self) -> Kind {
        match self {
            EmbedError::NoPooling { .. } | EmbedError::Rank | EmbedError::Empty { .. } | EmbedError::TooLong { .. } => {
                Kind::Usage
            }
            EmbedError::Tokens { error, .. } => error.kind(),
            EmbedError::NotFinite { .. } => Kind::File,
            EmbedError::Load(error) => error.kind(),
            EmbedError::Forward(ForwardError::Device(_)) => Kind::Device,
            EmbedError::Forward(_) => Kind::Failure,
        }
    }
}

impl Kinded for TemplateError {
    fn kind(&self) -> Kind {
        match self {
            // A thread needs address space, and there is none left.
            TemplateError::Stopped { reason, .. } if reason.starts_with("no thread") => Kind::Memory,
            _ => Kind::Template,
        }
    }
}

impl Kinded for TokenizeError {
    fn kind(&self) -> Kind {
        Kind::Usage
    }
}

impl Kinded for SaveError {
    fn kind(&self) -> Kind {
        Kind::Failure
    }
}

#[cfg(feature = "download")]
impl Kinded for DownloadError {
    fn kind(&self) -> Kind {
        match self {
            DownloadError::NotAName { .. } | DownloadError::Setting { .. } => Kind::Usage,
            // As of a file that is here.
            DownloadError::Unsupported { .. } => Kind::File,
            _ => Kind::Network,
        }
    }
}
