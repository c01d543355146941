//! Errors of the library as exceptions of the package.

use std::{io, path::Path};

use pyo3::{PyErr, exceptions::PyTypeError};
use qrun::{
    embed::EmbedError,
    engine::{LoadCause, LoadError},
    error::{Kind, Kinded},
    generate::GenerateError,
    text::chat::ChatError,
};
use qrun_models::ForwardError;

/// The exceptions of the package.
mod python {
    use pyo3::import_exception;

    import_exception!(qrun._errors, DeviceError);
    import_exception!(qrun._errors, DownloadError);
    import_exception!(qrun._errors, Error);
    import_exception!(qrun._errors, GatedModel);
    import_exception!(qrun._errors, ModelFileError);
    import_exception!(qrun._errors, ModelNotFound);
    import_exception!(qrun._errors, OutOfMemory);
    import_exception!(qrun._errors, TemplateError);
    import_exception!(qrun._errors, UsageError);
}

pub use python::{
    DeviceError, DownloadError as DownloadFailed, Error, GatedModel, ModelFileError, ModelNotFound, OutOfMemory,
    TemplateError as TemplateFailed, UsageError,
};

/// "No such file or directory", the same number on every system.
const ENOENT: i32 = 2;

/// A value of a wrong type.
pub fn wrong_type(name: &str, expected: &str, found: impl std::fmt::Display) -> PyErr {
    PyTypeError::new_err(format!("{name}: expected {expected}, found {found}"))
}

/// A value that cannot be.
pub fn usage(text: impl std::fmt::Display) -> PyErr {
    UsageError::new_err(text.to_string())
}

/// A file that is not there, by the system's own number and words.
pub fn not_found(path: &Path) -> PyErr {
    ModelNotFound::new_err((ENOENT, "no such file", path.display().to_string()))
}

/// An error of the library, by its kind.
pub fn of(error: impl Kinded) -> PyErr {
    let text = error.to_string();
    match error.kind() {
        Kind::Usage => UsageError::new_err(text),
        Kind::File => ModelFileError::new_err(text),
        Kind::Memory => OutOfMemory::new_err(text),
        Kind::Device => DeviceError::new_err(text),
        Kind::Template => TemplateFailed::new_err(text),
        Kind::Network => DownloadFailed::new_err(text),
        Kind::Failure => Error::new_err(text),
    }
}

pub fn open(error: LoadError) -> PyErr {
    match &*error.source {
        LoadCause::Backend(inner) if inner.kind() == Kind::Device => {
            DeviceError::new_err(format!("{error}; device=\"cpu\" computes on the CPU"))
        }
        LoadCause::Template(inner) => TemplateFailed::new_err(inner.to_string()),
        _ => of(error),
    }
}

pub fn chat(error: ChatError) -> PyErr {
    match error {
        ChatError::Template(error) => of(error),
        ChatError::NoTemplate => TemplateFailed::new_err(
            "this model has no chat template: chat_template=\"chatml\" (or another) gives it one, raw=True takes a text as it stands",
        ),
        ChatError::Grammar(_) | ChatError::Field { .. } => usage(error),
    }
}

pub fn generate(error: GenerateError) -> PyErr {
    match &error {
        GenerateError::PromptTooLong { tokens, max } => {
            usage(format!("the prompt is too long: {tokens} tokens, and at most {max} fit; a larger n_ctx holds more"))
        }
        GenerateError::Forward(ForwardError::Token { .. }) => usage(error),
        _ => of(error),
    }
}

/// In the words of qrun.Embedder.
pub fn embed(error: EmbedError) -> PyErr {
    match &error {
        EmbedError::NoPooling { model, arch } => usage(format!(
            "pooling: {model} does not say how a text becomes one vector (no key {arch}.pooling_type); give pooling=\"mean\", \"cls\" or \"last\", or \"none\" for a vector of each token"
        )),
        EmbedError::Rank => usage(
            "pooling: scores of a reranker (\"rank\", as the file says) are not implemented; pooling=\"mean\", \"cls\", \"last\" or \"none\" gives vectors",
        ),
        EmbedError::TooLong { text, tokens, n_ctx, longer } => usage(format!(
            "texts: text {text} has {tokens} tokens, more than the context of {n_ctx}; truncate=True takes its beginning{}",
            if *longer { ", a larger n_ctx holds more" } else { "" }
        )),
        EmbedError::Empty { .. } => usage(format!("texts: {error}")),
        _ => of(error),
    }
}

/// What the system said about a file, as Python's own OSError.
pub fn io_error(path: &Path, error: &io::Error) -> PyErr {
    match error.raw_os_error() {
        Some(number) => {
            let words = error.to_string();
            let words = words.split(" (os error").next().unwrap_or(&words).to_owned();
            pyo3::exceptions::PyOSError::new_err((number, words, path.display().to_string()))
        }
        None => pyo3::exceptions::PyOSError::new_err(format!("{}: {error}", path.display())),
    }
}
