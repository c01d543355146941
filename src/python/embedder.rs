//! A model that makes vectors of texts.

use std::{
    mem,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use pyo3::{
    prelude::*,
    types::{PyByteArray, PyDict},
};
use qrun::{
    embed::{self, EmbedError, Normalize},
    engine::Engine,
    text::tokenizer::Encode,
};

use crate::{
    engine::describe,
    errors,
    fields::Fields,
    held::{self, Held},
    opening::{Opening, PoolingChoice, Warnings},
    work,
};

/// Texts of several threads go through it one call after the other.
#[pyclass(module = "qrun._qrun", frozen)]
pub struct Embedder {
    /// Elements of a vector.
    #[pyo3(get)]
    width: usize,
    /// How the hidden states of a text become one vector.
    #[pyo3(get)]
    pooling: &'static str,
    /// Most tokens of a text.
    #[pyo3(get)]
    n_ctx: usize,
    held: Held<Open>,
}

struct Open {
    engine: Arc<Engine>,
    embedder: Mutex<embed::Embedder>,
    warnings: Warnings,
}

impl Open {
    /// Only on a thread of ours: it waits for the calls of others, and Python would wait with it.
    fn embedder(&self) -> MutexGuard<'_, embed::Embedder> {
        // Whoever was interrupted has left between two steps; the next call forgets what is there of its texts.
        self.embedder.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl held::Open for Open {
    const NAME: &'static str = "embedder";
}

#[pymethods]
impl Embedder {
    /// Opens a file, or the demo model where none is named. The keywords are those of qrun.Embedder.
    #[new]
    fn new(py: Python, path: Option<PathBuf>, options: &Bound<'_, PyDict>) -> PyResult<Self> {
        let fields = Fields(options);
        let (pooling, opening) = (PoolingChoice::of(&fields)?, Opening::of(path, &fields)?);
        let (embedder, warnings) =
            work::run(py, "opening the model", move |stop| opening.open_for_embeddings(pooling, stop))?;
        let (width, pooling, n_ctx) = (embedder.width(), embedder.pooling().name(), embedder.n_ctx());
        let open = Open { engine: embedder.shared_model(), embedder: Mutex::new(embedder), warnings };
        Ok(Self { width, pooling, n_ctx, held: Held::new(open) })
    }

    /// The tokens of each text; `add_special`: with those that the model puts around it, `parse_special`: control tokens
    /// that are written out are taken as such.
    fn tokenize(
        &self,
        py: Python,
        texts: Vec<String>,
        add_special: bool,
        parse_special: bool,
    ) -> PyResult<Vec<Vec<u32>>> {
        let open = self.held.get()?;
        let how = Encode { add_special, parse_special };
        work::run(py, "the tokenizer", move |stop| {
            let tokens = texts.iter().enumerate().map(|(text, of)| {
                stop.here();
                let tokens = open.engine.tokenizer().encode(of, how);
                tokens.map_err(|error| errors::embed(EmbedError::Tokens { text, error }))
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
        let open = self.held.get()?;
        let vectors = work::run(py, "embedding", move |stop| {
            let mut embedder = open.embedder();
            stop.here();
            let mut vectors = embedder.embed_tokens(&texts, &mut |_| stop.here()).map_err(errors::embed)?;
            let width = embedder.width();
            drop(embedder);
            if normalize {
                let each = vectors.iter_mut().flat_map(|vectors| vectors.chunks_exact_mut(width));
                each.for_each(|vector| Normalize::default().apply(vector));
            }
            let bytes = |vector: Vec<f32>| vector.iter().flat_map(|x| x.to_ne_bytes()).collect();
            Ok(vectors.into_iter().map(bytes).collect::<Vec<Vec<u8>>>())
        })?;
        Ok(vectors.iter().map(|bytes| PyByteArray::new(py, bytes)).collect())
    }

    /// As [`crate::engine::Model`]'s.
    fn warnings(&self) -> PyResult<Vec<String>> {
        let open = self.held.get()?;
        let mut warnings = open.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(mem::take(&mut warnings))
    }

    /// What the model is, as JSON.
    fn info(&self) -> PyResult<String> {
        let mut info = describe::info(&self.held.get()?.engine);
        info["n_ctx"] = self.n_ctx.into();
        Ok(info.to_string())
    }

    /// Frees the memory, once the calls that run have ended.
    fn close(&self, py: Python) {
        self.held.close(py);
    }
}
