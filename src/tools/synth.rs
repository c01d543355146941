//! Models with random weights in the exact shapes, metadata and format mix of real ones, so that
//! anyone can measure without a download, and test on shapes that no published model has.
//!
//! Same name, type and seed give the same bytes on every machine: the numbers come from an integer
//! hash (see `weights`), and blocks from the same quantizers that `qrun quantize` uses.

mod divisors;
mod models;
mod shape;
mod templates;
mod vocab;
mod weights;

use std::path::Path;

use qrun_quant::{
    Error,
    gguf::write::{Header, Writer},
};

pub use models::{MODELS, find, names};
pub use shape::{Biases, Experts, Kinds, Latent, Recurrent, Rope, Shape};
pub use vocab::{Family, Vocab};

use crate::tools::quantize::mixture::FileType;

/// Why no model was made.
#[derive(Debug, thiserror::Error)]
pub enum SynthError {
    /// The name is not in the table.
    #[error("model {name:?}: expected one of {}", names().collect::<Vec<_>>().join(", "))]
    UnknownName {
        /// The name that was asked for.
        name: String,
    },
    /// The shape asks for something that does not exist.
    #[error("shape {name}: expected {expected}, found {found}")]
    Shape {
        /// Its name in the table of models.
        name: String,
        /// What a shape may have.
        expected: String,
        /// What this one has.
        found: String,
    },
    /// The file could not be written.
    #[error(transparent)]
    File(#[from] Error),
}

/// Makes the model `name` of the table at `path`; `progress(done, total)` counts bytes of tensors.
///
/// # Errors
/// [`SynthError::UnknownName`]; [`SynthError::Shape`] where qrun does not write a format of `file_type`;
/// [`SynthError::File`] where `path` cannot be written.
pub fn synth(
    name: &str,
    file_type: FileType,
    seed: u64,
    path: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), SynthError> {
    let shape = find(name).ok_or_else(|| SynthError::UnknownName { name: name.into() })?;
    let header = shape.header(file_type)?;
    fill(shape, seed, &header, header.create(path)?, progress)
}

/// Makes a model of any shape at `path`.
///
/// # Errors
/// [`SynthError::Shape`]: the vocabulary is too small for its kind, or qrun does not write a format of `file_type`.
/// [`SynthError::File`]: no reader would take the tensors, or `path` cannot be written.
pub fn write_shape(shape: &Shape, file_type: FileType, seed: u64, path: &Path) -> Result<(), SynthError> {
    let header = shape.header(file_type)?;
    fill(shape, seed, &header, header.create(path)?, &mut |_, _| {})
}

/// Makes a model of any shape in memory.
///
/// # Errors
/// [`SynthError::Shape`]: the vocabulary is too small for its kind, or qrun does not write a format of `file_type`.
/// [`SynthError::File`]: no reader would take the tensors.
pub fn shape_bytes(shape: &Shape, file_type: FileType, seed: u64) -> Result<Vec<u8>, SynthError> {
    let header = shape.header(file_type)?;
    let mut out = Vec::new();
    fill(shape, seed, &header, header.write_to(shape.name.as_ref(), &mut out)?, &mut |_, _| {})?;
    Ok(out)
}

fn fill(
    shape: &Shape,
    seed: u64,
    header: &Header,
    mut writer: Writer,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), SynthError> {
    if let Some(t) = header.tensors.iter().find(|t| t.ty.format().quantize.is_none()) {
        return Err(shape.error("formats that qrun can write".into(), format!("{} for {}", t.ty, t.name)));
    }
    let elements = |dims: &[u64]| dims.iter().product::<u64>() as usize;
    let total = header.tensors.iter().map(|t| t.ty.bytes_of(elements(&t.shape)) as u64).sum();
    let mut generator = weights::Generator::new(seed, shape.parameters());
    let mut done = 0;
    for (entry, tensor) in header.tensors.iter().zip(shape.tensors()) {
        generator.tensor(entry, &tensor.fill, &mut |chunk| {
            done += chunk.len() as u64;
            progress(done, total);
            writer.write(chunk)
        })?;
    }
    Ok(writer.finish()?)
}
