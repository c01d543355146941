//! Files made from others, and what this machine can compute with.

use std::path::PathBuf;

use pyo3::{prelude::*, types::PyDict};
use qrun::{
    bench::machine,
    engine::plan::available_memory,
    tools::{
        quantize::{self as quantizer, FileType, Options},
        synth::{self as synthesizer, SynthError},
    },
};
use qrun_cuda::{
    device::{self, MIN_SM},
    image::{self, Choice},
};
use qrun_quant::cpu::{Isa, par::Pool, physical_cores};
use serde_json::{Value, json};

use crate::{
    errors::{self, usage},
    fields::{Fields, Progress},
    opening, work,
};

/// The keyword `type`.
fn file_type(fields: &Fields) -> PyResult<FileType> {
    Ok(fields.parsed("type")?.unwrap_or(FileType::Q4_K_M))
}

/// Makes a smaller model of a model. Returns JSON: bytes before and after, formats, fallbacks.
///
/// # Errors
/// A keyword of a wrong type or value, an input that is missing, damaged or quantized already, an output that may not
/// be replaced or cannot be written; what a signal's handler raises.
#[pyfunction]
pub fn quantize(py: Python, input: PathBuf, output: PathBuf, options: &Bound<'_, PyDict>) -> PyResult<String> {
    let fields = Fields(options);
    let how = Options {
        file_type: file_type(&fields)?,
        allow_requantize: fields.flag("allow_requantize")?,
        force: fields.flag("force")?,
    };
    let threads = fields.threads()?;
    let progress = Progress::of(&fields)?;
    let made = work::run(py, "quantizing", move |stop| {
        // A missing file is Python's own kind of error.
        opening::gguf(Some(&input))?;
        let pool =
            Pool::new(threads.unwrap_or_else(physical_cores)).map_err(|e| errors::Error::new_err(e.to_string()))?;
        let mut watch = |at: quantizer::Progress| {
            stop.here();
            progress.tell(at.done, at.total);
        };
        let made = pool.install(|| quantizer::quantize(&input, &output, &how, &mut watch));
        made.map_err(|error| match error.place.as_str() {
            "output" => usage(error),
            _ => errors::of(error),
        })
    })?;
    let formats = made
        .formats
        .iter()
        .map(|(ty, tensors, bytes)| json!({ "type": ty.name(), "tensors": tensors, "bytes": bytes }));
    let fallbacks = made
        .fallbacks
        .iter()
        .map(|(tensor, wanted, taken)| json!({ "tensor": tensor, "wanted": wanted.name(), "taken": taken.name() }));
    let summary = json!({
        "type": how.file_type.name(),
        "bytes_in": made.bytes_in,
        "bytes_out": made.bytes_out,
        "formats": formats.collect::<Vec<_>>(),
        "fallbacks": fallbacks.collect::<Vec<_>>(),
    });
    Ok(summary.to_string())
}

/// Makes a model of random weights in the shapes of a real one.
///
/// # Errors
/// A keyword of a wrong type or value, an unknown name, an output that may not be replaced or cannot be written; what a
/// signal's handler raises.
#[pyfunction]
pub fn synth(py: Python, name: String, output: PathBuf, options: &Bound<'_, PyDict>) -> PyResult<()> {
    let fields = Fields(options);
    let (ty, force, progress) = (file_type(&fields)?, fields.flag("force")?, Progress::of(&fields)?);
    let seed = fields.whole("seed")?.unwrap_or(0);
    let seed = u64::try_from(seed).map_err(|_| usage(format!("seed: expected 0 or more, found {seed}")))?;
    work::run(py, "making the model", move |stop| {
        quantizer::check_free(&output, force).map_err(usage)?;
        let mut watch = |done, total| {
            stop.here();
            progress.tell(done, total);
        };
        synthesizer::synth(&name, ty, seed, &output, &mut watch).map_err(|error| match error {
            SynthError::File(error) => errors::of(error),
            error => usage(error),
        })
    })
}

/// What this machine can compute with, as JSON.
///
/// # Errors
/// What a signal's handler raises meanwhile.
#[pyfunction]
pub fn machine_facts(py: Python) -> PyResult<String> {
    let facts = work::run(py, "looking at the machine", |_| Ok(facts()))?;
    Ok(facts.to_string())
}

fn facts() -> Value {
    let found = device::list();
    let gpus = found.as_deref().unwrap_or_default();
    let best = device::best(gpus).map(|gpu| format!("cuda{}", gpu.ordinal));
    let listed = gpus.iter().map(|gpu| {
        json!({
            "id": format!("cuda{}", gpu.ordinal),
            "name": gpu.name,
            "compute_capability": format!("{}.{}", gpu.sm / 10, gpu.sm % 10),
            "memory": gpu.memory,
            "multiprocessors": gpu.multiprocessors,
            "usable": gpu.sm >= MIN_SM,
            "kernels": kernels(gpu.sm),
        })
    });
    let driver = device::driver_version().ok().map(|n| format!("{}.{}", n / 1000, n % 1000 / 10));
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "commit": machine::commit(),
        "os": std::env::consts::OS,
        "architecture": std::env::consts::ARCH,
        "cpu": machine::cpu(),
        "instruction_set": Isa::best().to_string(),
        "threads": std::thread::available_parallelism().map_or(1, |n| n.get()),
        "physical_cores": physical_cores(),
        "memory_available": available_memory(),
        "driver_cuda": driver,
        "gpus": listed.collect::<Vec<_>>(),
        "no_gpu": found.as_ref().err().map(ToString::to_string),
        "auto": best.unwrap_or_else(|| "cpu".into()),
    })
}

/// Which of the kernels inside this module a GPU runs.
fn kernels(sm: i32) -> String {
    let dotted = |sm: u32| format!("{}.{}", sm / 10, sm % 10);
    match image::pick(sm as u32) {
        Choice::Exact(_) => "made for it".into(),
        Choice::SameMajor(other) => format!("made for SM {}", dotted(other)),
        Choice::Ptx => format!("compiled by the driver from PTX {}", dotted(image::PTX)),
        Choice::TooOld => format!("none: qrun needs SM {}", dotted(MIN_SM as u32)),
    }
}
