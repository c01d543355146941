//! The Python module `qrun._qrun`: the thin native half of the package `qrun` beside it.
//!
//! Names, defaults, checks of keywords and async are in Python; here are a model and its thread ([`engine`]), a running
//! answer ([`answer`]) and the tools. Whoever waits has let go of the interpreter's lock, and asks for signals 40 times a
//! second. No lock of ours is held while Python runs.

mod answer;
mod constraint;
mod embedder;
mod engine;
mod errors;
mod fields;
mod gguf;
mod held;
mod inbox;
mod models;
mod opening;
mod prompt;
mod sampling;
mod tools;
mod work;

use std::ffi::OsString;

use pyo3::prelude::*;

/// The system's allocator, bounded on the threads that render chat templates: a template is a program out of a model file.
#[global_allocator]
static ALLOCATOR: qrun::text::template::SandboxAllocator = qrun::text::template::SandboxAllocator(std::alloc::System);

/// Runs the program with a whole command line, its own name first; returns its exit code.
#[pyfunction]
fn main(py: Python, argv: Vec<OsString>) -> u8 {
    work::panics_to_stderr();
    py.detach(|| qrun::cli::main(argv))
}

/// For the tests: panics, here or on the thread of a model.
#[pyfunction]
#[pyo3(signature = (model = None))]
fn _panic(model: Option<&engine::Model>) -> PyResult<()> {
    match model {
        Some(model) => model.panic(),
        None => panic!("as the tests ask for"),
    }
}

#[pymodule(gil_used = false)]
mod _qrun {
    #[pymodule_export]
    use super::{
        _panic,
        answer::Answer,
        embedder::Embedder,
        engine::Model,
        gguf::File,
        main,
        models::{cached, find, is_name, pull, remove},
        prompt::{Content, Prepared},
        tools::{machine_facts, quantize, synth},
    };
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::work::panics_to_exceptions();
        let end = pyo3::wrap_pyfunction!(super::work::_end, module)?;
        module.py().import("atexit")?.call_method1("register", (end,))?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
