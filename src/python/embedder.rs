//! A model that makes vectors of texts.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use pyo3::{
    prelude::*,
    types::{PyByteArray, PyDict},
};
use qrun::{
    embed::{self, EmbedError, Normalize, Pooling},
    engine::Engine,
    text::tokenizer::Encode,
};

use crate::{
    answer,
    engine::describe,
    errors::{self, Error, usage},
    fields::Fields,
    opening::{Notices, Opening},
    work,
};

/// Texts of several threads go through it one call after the other.
#[pyclass(module = "qrun._qrun", frozen)]
pub struct Embedder {
    /// The process that has the threads.
    process: u32,
    open: Mutex<Option<Arc<Open>>>,
}

struct Open {
    engine: Arc<Engine>,
    embedder: Mutex<embed::Embedder>,
    notices: Notices,
}

impl Open {
    fn embedder(&self) -> MutexGuard<'_, embed::Embedder> {
        // Who left it by a signal did so between two batches.
        self.embedder.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Embedder {
    /// # Errors
    /// It is closed, or belongs to another process.
    fn open(&self) -> PyResult<Arc<Open>> {
        if self.process != std::process::id() {
            return Err(answer::forked());
        }
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).clone();
        open.ok_or_else(|| Error::new_err("this embedder is closed"))
    }
}

#[pymethods]
impl Embedder {
    /// Opens a file, or the demo model where none is named. The keywords are those of qrun.Embedder.
    #[new]
    fn new(py: Python, path: Option<PathBuf>, options: &Bound<'_, PyDict>) -> PyResult<Self> {
        let fields = Fields(options);
        let pooling = match fields.text("pooling")? {
            Some(name) => {
                Some(Pooling::from_name(&name).filter(|&pooling| pooling != Pooling::Rank).ok_or_else(|| {
                    usage(format!("pooling: expected \"none\", \"mean\", \"cls\" or \"last\", found {name:?}"))
                })?)
            }
            None => None,
        };
        let opening = Opening::of(path, &fields)?;
        let open = work::run(py, "opening the model", move |stop| {
            let (embedder, notices) = opening.open_for_embeddings(pooling, stop)?;
            Ok(Open { engine: embedder.shared_model(), embedder: Mutex::new(embedder), notices })
        })?;
        Ok(Self { process: std::process::id(), open: Mutex::new(Some(Arc::new(open))) })
    }

    /// The tokens of each text, with those that the model puts around it.
    fn tokenize(&self, py: Python, texts: Vec<String>) -> PyResult<Vec<Vec<u32>>> {
        let open = self.open()?;
        work::run(py, "the tokenizer", move |stop| {
            let tokens = texts.iter().enumerate().map(|(text, of)| {
                stop.here();
                let tokens = open.engine.tokenizer().encode(of, Encode::default());
                tokens.map_err(|error| errors::of(EmbedError::Tokens { text, error }))
            });
            tokens.collect()
        })
    }

    /// The vector of each text as bytes of f32 in the machine's order; with pooling "none" those of its tokens one behind
    /// the other. `normalize`: their Euclidean length is 1.
    fn embed<'py>(
        &self,
        py: Python<'py>,
        texts: Vec<Vec<u32>>,
        normalize: bool,
    ) -> PyResult<Vec<Bound<'py, PyByteArray>>> {
        let open = self.open()?;
        let vectors = work::run(py, "embedding", move |stop| {
            let mut embedder = open.embedder();
            let mut vectors = embedder.embed_tokens(&texts, &mut |_| stop.here()).map_err(errors::of)?;
            let width = embedder.width();
            if normalize {
                let each = vectors.iter_mut().flat_map(|vectors| vectors.chunks_exact_mut(width));
                each.for_each(|vector| Normalize::default().apply(vector));
            }
            Ok(vectors)
        })?;
        let bytes = |vector: &Vec<f32>| vector.iter().flat_map(|x| x.to_ne_bytes()).collect::<Vec<u8>>();
        Ok(vectors.iter().map(|vector| PyByteArray::new(py, &bytes(vector))).collect())
    }

    /// Elements of a vector.
    #[getter]
    fn width(&self) -> PyResult<usize> {
        Ok(self.open()?.embedder().width())
    }

    /// How the hidden states of a text become one vector.
    #[getter]
    fn pooling(&self) -> PyResult<&'static str> {
        Ok(self.open()?.embedder().pooling().name())
    }

    /// Most tokens of a text.
    #[getter]
    fn n_ctx(&self) -> PyResult<usize> {
        Ok(self.open()?.embedder().n_ctx())
    }

    /// As [`crate::engine::Model`]'s.
    fn notices(&self) -> PyResult<Vec<String>> {
        let open = self.open()?;
        let mut notices = open.notices.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(std::mem::take(&mut notices))
    }

    /// What the model is, as JSON.
    fn info(&self) -> PyResult<String> {
        Ok(describe::info(&self.open()?.engine).to_string())
    }

    /// Frees the memory, once the calls that run have ended.
    fn close(&self, py: Python) {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
        match self.process == std::process::id() {
            true => py.detach(|| drop(open)),
            // After a fork there is no thread to wait for.
            false => std::mem::forget(open),
        }
    }
}
