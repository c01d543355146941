//! Models by name: the cache of the hub, and what fills it.

use std::{ops::ControlFlow, path::PathBuf};

use pyo3::{prelude::*, types::PyDict};
use qrun::{
    download::{self, DownloadError, Wanted},
    error::{Kind, Kinded},
};

use crate::{
    errors::{self, DownloadFailed, GatedModel, ModelNotFound},
    fields::{Fields, Progress},
    work,
};

fn failed(error: DownloadError) -> PyErr {
    let text = error.to_string();
    match error {
        DownloadError::Gated { .. } | DownloadError::Token { .. } => GatedModel::new_err(text),
        DownloadError::NotFound { .. } | DownloadError::NoRevision { .. } | DownloadError::NoFile { .. } => {
            ModelNotFound::new_err(text)
        }
        error if error.kind() == Kind::Network => DownloadFailed::new_err(text),
        error => errors::of(error),
    }
}

fn wanted(name: String, fields: &Fields) -> PyResult<Wanted> {
    Ok(Wanted {
        name,
        file: fields.text("filename")?,
        revision: fields.text("revision")?,
        token: fields.text("token")?,
        cache: fields.get::<PathBuf>("cache_dir", "a path")?,
        offline: fields.flag("offline")?,
    })
}

/// Whether a word names a model and not a file. Uses no network.
#[pyfunction]
pub fn is_name(word: &str) -> bool {
    download::is_name(word)
}

/// Fetches a model where the cache does not have it; returns its path.
///
/// # Errors
/// A keyword of a wrong type, a word that is no name, why the model was not fetched; what a signal's handler raises.
#[pyfunction]
pub fn pull(py: Python, name: String, options: &Bound<'_, PyDict>) -> PyResult<String> {
    let fields = Fields(options);
    let (wanted, progress) = (wanted(name, &fields)?, Progress::of(&fields)?);
    work::run(py, "fetching the model", move |stop| {
        let mut watch = |at: download::Progress| {
            if stop.asked() {
                return ControlFlow::Break(());
            }
            progress.tell(at.done, at.total.unwrap_or(0));
            ControlFlow::Continue(())
        };
        Ok(download::fetch(&wanted, &mut watch).map_err(failed)?.display().to_string())
    })
}

/// The path of a model in the cache, where it is there. Uses no network.
///
/// # Errors
/// A keyword of a wrong type, a word that is no name, or no folder for a cache.
#[pyfunction]
pub fn find(py: Python, name: String, options: &Bound<'_, PyDict>) -> PyResult<Option<String>> {
    let wanted = wanted(name, &Fields(options))?;
    let found = py.detach(|| download::find(&wanted)).map_err(failed)?;
    Ok(found.map(|path| path.display().to_string()))
}

/// A model in the cache: name, file, commit, bytes, path.
type Cached = (String, String, String, u64, String);

/// The models in the cache.
///
/// # Errors
/// The folder cannot be read, or there is none for a cache.
#[pyfunction]
pub fn cached(py: Python, cache: Option<PathBuf>) -> PyResult<Vec<Cached>> {
    let found = py.detach(|| download::cached(cache.as_deref())).map_err(failed)?;
    Ok(found.into_iter().map(|m| (m.name, m.file, m.commit, m.bytes, m.path.display().to_string())).collect())
}

/// Removes a model from the cache; returns files and bytes that are gone.
///
/// # Errors
/// The cache has nothing of this name, or cannot be changed.
#[pyfunction]
pub fn remove(py: Python, name: &str, cache: Option<PathBuf>) -> PyResult<(usize, u64)> {
    let gone = py.detach(|| download::remove(name, cache.as_deref())).map_err(failed)?;
    Ok((gone.files, gone.bytes))
}
