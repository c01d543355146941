//! What the cache holds of a conversation, in a file and back.

use std::{
    io,
    path::PathBuf,
    sync::{Arc, mpsc::sync_channel},
};

use pyo3::prelude::*;
use qrun::generate::{Draft, SaveError, Saved, Scheduler, may_be_saved_to};

use super::Open;
use crate::{
    errors::{self, usage},
    work,
};

/// The sequence that is lent for it, between two answers.
const SLOT: usize = 0;

/// Does `job` between two steps of the scheduler, and waits for it.
fn between<T: Send + 'static>(
    py: Python,
    open: Arc<Open>,
    job: impl FnOnce(&mut Scheduler) -> T + Send + 'static,
) -> PyResult<T> {
    work::run(py, "the engine", move |_| {
        let (sender, done) = sync_channel(1);
        open.generator.between(SLOT, Box::new(move |scheduler| drop(sender.send(job(scheduler)))));
        done.recv().map_err(|_| work::panicked("the engine"))
    })
}

/// Writes tokens, notes and the cache of the tokens; returns how many of them the cache still had. Replaces sessions
/// only.
///
/// # Errors
/// `UsageError`: the file is none that may be replaced, or the notes are no JSON. `OSError`: it cannot be written.
pub fn save(py: Python, open: Arc<Open>, path: PathBuf, (tokens, notes): (Vec<u32>, String)) -> PyResult<usize> {
    let model = open.engine.gguf().path();
    py.detach(|| may_be_saved_to(&path, model, "remove it or name another file")).map_err(usage)?;
    let notes = serde_json::from_str(&notes).map_err(usage)?;
    let fingerprint = open.engine.fingerprint();
    let name = path.clone();
    let write = move |scheduler: &mut Scheduler| -> io::Result<usize> {
        let mut part = path.clone().into_os_string();
        part.push(".part");
        let mut draft = Draft::new(&path, part.into())?;
        let (held, _) = scheduler.save_tokens(SLOT, &None, &tokens, (&mut draft, fingerprint, &notes))?;
        draft.finish()?;
        Ok(held)
    };
    between(py, open, write)?.map_err(|error| errors::io_error(&name, &error))
}

/// Returns the tokens of the file, its notes, and why its cache could not be used.
///
/// # Errors
/// `OSError`: the file cannot be read. `UsageError`: it is no session.
pub fn load(py: Python, open: Arc<Open>, path: PathBuf) -> PyResult<(Vec<u32>, String, Option<String>)> {
    let read = |error: SaveError| match error {
        SaveError::Io { source, file } => errors::io_error(file.as_ref(), &source),
        other => usage(other),
    };
    let Saved { fingerprint, tokens, notes, mut cache, .. } =
        work::run(py, "reading the session", move |_| Saved::open(&path).map_err(read))?;
    let n_ctx = open.engine.options().n_ctx;
    let why = if fingerprint != open.engine.fingerprint() {
        Some("it was saved with another model".to_owned())
    } else if tokens.len() > n_ctx {
        Some(format!("it holds {} tokens, the context has room for {n_ctx}", tokens.len()))
    } else {
        let given = tokens.clone();
        let put = move |scheduler: &mut Scheduler| scheduler.restore_slot(SLOT, None, (given, &mut cache));
        between(py, open, put)?.err().map(|error| error.to_string())
    };
    Ok((tokens, notes.to_string(), why))
}
