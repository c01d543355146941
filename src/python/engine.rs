//! A model and the thread that runs it.

use std::{
    mem,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak, mpsc::channel},
};

use pyo3::{
    prelude::*,
    types::{PyBytes, PyDict},
};
use qrun::{
    engine::Engine,
    generate::{Cancel, Generator, Request},
    sampler::SamplerParams,
    text::tokenizer::Encode,
    tools::quality::Chunks,
};

use crate::{
    answer::{About, Answer, Waker},
    constraint,
    errors::{self, usage},
    fields::Fields,
    held::{self, Held},
    inbox::Inbox,
    opening::{Opening, Warnings},
    prompt::Prepared,
    sampling, work,
};

pub mod describe;
mod saved;

/// A model and its thread.
#[pyclass(module = "qrun._qrun", frozen)]
pub struct Model {
    held: Held<Open>,
}

/// What there is until the model is closed.
pub struct Open {
    pub engine: Arc<Engine>,
    pub generator: Generator,
    /// llama.cpp's, then the file's.
    params: SamplerParams,
    warnings: Warnings,
    waker: OnceLock<Waker>,
    /// The answers that may still run.
    answers: Mutex<Vec<Weak<Inbox>>>,
}

/// A prompt: tokens, or a conversation.
#[derive(FromPyObject)]
enum Prompt<'py> {
    Prepared(PyRef<'py, Prepared>),
    Tokens(Vec<u32>),
}

impl Model {
    /// # Errors
    /// The engine is closed, or belongs to another process.
    fn open(&self) -> PyResult<Arc<Open>> {
        self.held.get()
    }

    /// Panics on the thread of the scheduler.
    ///
    /// # Errors
    /// The engine is closed, or belongs to another process.
    pub fn panic(&self) -> PyResult<()> {
        self.open()?.generator.between(0, Box::new(|_| panic!("as the tests ask for")));
        Ok(())
    }
}

#[pymethods]
impl Model {
    /// Opens a file, or the demo model where none is named. The keywords are those of qrun.Engine.
    #[new]
    fn new(py: Python, path: Option<PathBuf>, options: &Bound<'_, PyDict>) -> PyResult<Self> {
        let opening = Opening::of(path, &Fields(options))?;
        let opened = work::run(py, "opening the model", move |stop| opening.open(stop))?;
        let open = Open {
            engine: opened.engine,
            generator: opened.generator,
            params: opened.params,
            warnings: opened.warnings,
            waker: OnceLock::new(),
            answers: Mutex::default(),
        };
        Ok(Self { held: Held::new(open) })
    }

    /// The tokens of a text.
    fn tokenize(&self, py: Python, text: &str, add_special: bool, parse_special: bool) -> PyResult<Vec<u32>> {
        let open = self.open()?;
        let how = Encode { add_special, parse_special };
        py.detach(|| open.engine.tokenizer().encode(text, how)).map_err(errors::of)
    }

    /// The tokens of a text that is to be gone on with.
    fn prompt(&self, py: Python, text: &str) -> PyResult<Vec<u32>> {
        let open = self.open()?;
        py.detach(|| open.engine.prompt(text)).map_err(errors::of)
    }

    /// The text of tokens; with `special` control tokens are written out.
    fn detokenize(&self, py: Python, tokens: Vec<u32>, special: bool) -> PyResult<String> {
        let open = self.open()?;
        Ok(py.detach(|| {
            let tokenizer = open.engine.tokenizer();
            if !special {
                return tokenizer.decode(&tokens);
            }
            let bytes = tokens.iter().flat_map(|&id| match tokenizer.piece(id) {
                piece if piece.is_empty() => tokenizer.text(id).as_bytes().to_vec(),
                piece => piece.into_owned(),
            });
            String::from_utf8_lossy(&bytes.collect::<Vec<_>>()).into_owned()
        }))
    }

    /// The bytes of each token.
    fn pieces<'py>(&self, py: Python<'py>, tokens: Vec<u32>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let open = self.open()?;
        let tokenizer = open.engine.tokenizer();
        Ok(tokens.iter().map(|&id| PyBytes::new(py, &tokenizer.piece(id))).collect())
    }

    /// A conversation in the model's own form. `messages` and `extra` are JSON.
    fn chat(&self, py: Python, messages: String, extra: String) -> PyResult<Prepared> {
        let open = self.open()?;
        work::run(py, "the chat template", move |_| Prepared::of(&open.engine, &messages, &extra))
    }

    /// Whether the model has a chat template.
    #[getter]
    fn has_template(&self) -> PyResult<bool> {
        Ok(!matches!(self.open()?.engine.template(), Ok(None)))
    }

    /// Begins an answer.
    fn submit(&self, py: Python, prompt: Prompt, sampling: &Bound<'_, PyDict>) -> PyResult<Answer> {
        let open = self.open()?;
        let (mut request, params) = sampling::read(&open.engine, &open.params, &Fields(sampling))?;
        let mut about = About { seed: params.seed, ..About::default() };
        request.processor = sampling::processor(&Fields(sampling), &about.raised)?;
        match prompt {
            Prompt::Tokens(tokens) => {
                request.prompt = tokens;
                // Of a conversation it is in its mask.
                if let Some(text) = Fields(sampling).text("constraint")? {
                    request.mask = Some(py.detach(|| constraint::mask(&open.engine, &text))?);
                }
            }
            Prompt::Prepared(prepared) => {
                request.prompt = prepared.tokens.clone();
                request.mask = prepared.mask.clone();
                request.stops.extend(prepared.stops.iter().cloned());
                request.marks = prepared.marks.clone();
                (about.parser, about.chat) = (prepared.parser.clone(), true);
            }
        }
        Ok(open.begin(request, params, about))
    }

    /// Computes a prompt alone. From position `first` on, each of its tokens is scored by the logits before it; with
    /// `whole` the logits after each are kept instead.
    fn evaluate(&self, prompt: Vec<u32>, first: usize, whole: bool) -> PyResult<Answer> {
        let open = self.open()?;
        let end = if whole { prompt.len() } else { prompt.len().saturating_sub(1) };
        let request = Request {
            max_tokens: Some(0),
            // The last token is computed whatever the prefix cache has of the others.
            fresh: !whole || first + 1 < prompt.len(),
            logits: Some(first..end),
            whole_logits: whole,
            prompt,
            ..Request::default()
        };
        Ok(open.begin(request, SamplerParams::default(), About::default()))
    }

    /// A text in chunks of so many tokens, as perplexity is measured on them.
    fn chunks(&self, py: Python, text: String, size: usize) -> PyResult<Vec<Vec<u32>>> {
        let open = self.open()?;
        work::run(py, "the tokenizer", move |_| {
            let tokenizer = open.engine.tokenizer();
            let how = Encode { add_special: true, parse_special: false };
            let mut tokens = tokenizer.encode(&text, how).map_err(errors::of)?;
            if tokenizer.add_eos() && tokens.last().copied() == tokenizer.eos() {
                tokens.pop();
            }
            let bos = tokenizer.bos().filter(|_| tokenizer.add_bos());
            let chunks = Chunks::new(tokens, size, bos).map_err(usage)?;
            Ok(chunks.iter().map(<[u32]>::to_vec).collect())
        })
    }

    /// Writes tokens into a file with what the cache has of them, and notes (JSON) beside them. Returns how many these are.
    fn save(&self, py: Python, path: PathBuf, tokens: Vec<u32>, notes: String) -> PyResult<usize> {
        saved::save(py, self.open()?, path, (tokens, notes))
    }

    /// Reads such a file into the cache. Returns its tokens, its notes (JSON), and why the cache could not be used.
    fn load(&self, py: Python, path: PathBuf) -> PyResult<(Vec<u32>, String, Option<String>)> {
        saved::load(py, self.open()?, path)
    }

    /// What the model has to say since it was asked last: why a GPU was given up.
    fn warnings(&self) -> PyResult<Vec<String>> {
        let open = self.open()?;
        let mut warnings = open.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(mem::take(&mut warnings))
    }

    /// What the model is, as JSON.
    fn info(&self) -> PyResult<String> {
        Ok(describe::info(&self.open()?.engine).to_string())
    }

    /// The memory that it takes, as JSON.
    fn plan(&self) -> PyResult<String> {
        Ok(describe::plan(&self.open()?.engine).to_string())
    }

    /// Ends all answers and frees the memory.
    fn close(&self, py: Python) {
        self.held.close(py);
    }
}

impl held::Open for Open {
    const NAME: &'static str = "engine";

    fn end(&self) {
        let answers = mem::take(&mut *self.answers.lock().unwrap_or_else(PoisonError::into_inner));
        answers.iter().filter_map(Weak::upgrade).for_each(|inbox| inbox.cancel.cancel());
    }
}

impl Open {
    /// Hands a request in.
    pub fn begin(&self, mut request: Request, params: SamplerParams, mut about: About) -> Answer {
        let inbox = Inbox::new(Cancel::default());
        request.cancel = inbox.cancel.clone();
        about.prompt = request.prompt.clone();
        {
            let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
            answers.retain(|answer| answer.strong_count() > 0);
            answers.push(Arc::downgrade(&inbox));
        }
        self.generator.submit_to(request, params, inbox.sink());
        Answer::new(inbox, self.waker(), about)
    }

    fn waker(&self) -> Waker {
        self.waker.get_or_init(waker).clone()
    }
}

/// A thread that calls Python, and ends when nobody can ask it any more.
fn waker() -> Waker {
    let (sender, calls) = channel::<Py<PyAny>>();
    let wake = move || {
        while let Ok(call) = calls.recv() {
            // An event loop that is closed says so by an exception, and nobody is left to hear it.
            if work::in_python(|py| drop(call.call0(py))).is_none() {
                // The interpreter is ending.
                return mem::forget(call);
            }
        }
    };
    // Without a thread nobody is told; readers that wait are not concerned.
    let _ = std::thread::Builder::new().name("qrun-waker".into()).spawn(wake);
    sender
}
