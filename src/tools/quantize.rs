//! `qrun quantize`: a model file into a smaller one.
//!
//! The file passes through in chunks of a few megabytes: a model may be larger than memory.

pub mod mixture;

use std::{fs, path::Path};

pub use mixture::{FileType, Mixture};
use qrun_quant::{
    Error, GgmlType, Gguf, Result,
    formats::convert,
    gguf::{Tensor, write::Header},
};

/// Weights per chunk: 4 MB as f32. A multiple of every block, so that chunks need no rows.
const CHUNK: usize = 1 << 20;
/// Value of `general.quantization_version` for the formats as they are since 2023.
const QUANTIZATION_VERSION: u32 = 2;

/// What kind of file to make, and what may be done for it.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Which mix of formats: `Q4_K_M`, `Q8_0`, …
    pub file_type: FileType,
    /// Accept tensors that are quantized already. The errors of both quantizations add up.
    pub allow_requantize: bool,
    /// Replace an existing output file.
    pub force: bool,
}

impl Options {
    /// From full precision into a file that does not exist yet.
    pub fn new(file_type: FileType) -> Self {
        Self { file_type, allow_requantize: false, force: false }
    }
}

/// How far it is.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// The tensor that is being converted.
    pub tensor: &'a str,
    /// Bytes of input that are done.
    pub done: u64,
    /// Bytes of input altogether.
    pub total: u64,
}

/// What the written file holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Bytes of tensor data read.
    pub bytes_in: u64,
    /// Bytes of tensor data written.
    pub bytes_out: u64,
    /// Tensors and bytes written per format, most bytes first.
    pub formats: Vec<(GgmlType, usize, u64)>,
    /// Tensors whose rows are not whole blocks of the recipe's format: name, wanted, taken instead.
    pub fallbacks: Vec<(String, GgmlType, GgmlType)>,
}

/// Quantizes the model `input` into the new file `output`, on the threads of the current pool.
///
/// Metadata passes through, except for the file type and what describes shards: the result is one
/// file. Nothing appears under the name `output` unless all went well.
///
/// # Errors
/// `input` is damaged, or lacks the number of its layers; `output` is a folder, the input, or there already without
/// `force`; a tensor is quantized already without `allow_requantize`; a write fails.
pub fn quantize(input: &Path, output: &Path, options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Summary> {
    let model = Gguf::open(input)?;
    check_output(input, output, options)?;
    let mixture = mixture_of(&model, options.file_type)?;
    let mut header = Header::new();
    header.metadata.extend(model.metadata().iter().filter(|(key, _)| !key.starts_with("split.")).cloned());
    header.set("general.file_type", options.file_type.number());
    header.set("general.quantization_version", QUANTIZATION_VERSION);
    let mut summary = Summary::default();
    for tensor in model.tensors() {
        let ty = target(&model, tensor, &mixture, options)?;
        if let Some(wanted) = mixture.fallen_back_from(&tensor.name, &tensor.shape) {
            summary.fallbacks.push((tensor.name.clone(), wanted, ty));
        }
        summary.count(tensor, ty);
        header.tensor(tensor.name.clone(), ty, &tensor.shape);
    }
    summary.formats.sort_by_key(|row| std::cmp::Reverse(row.2));

    let mut writer = header.create(output)?;
    let (mut done, mut out) = (0, Vec::new());
    for (tensor, entry) in model.tensors().iter().zip(&header.tensors) {
        let size = tensor.ty.bytes_of(CHUNK);
        for start in (0..tensor.data.len()).step_by(size) {
            progress(Progress { tensor: &tensor.name, done, total: summary.bytes_in });
            let chunk = tensor.data.slice(start..tensor.data.len().min(start + size));
            if entry.ty == tensor.ty {
                writer.write(&chunk)?;
            } else {
                let from = tensor.ty.format();
                out.resize(entry.ty.bytes_of(chunk.len() / from.bytes * from.block), 0);
                convert(tensor.ty, &chunk, entry.ty, &mut out);
                writer.write(&out)?;
            }
            chunk.release_pages();
            done += chunk.len() as u64;
        }
    }
    writer.finish()?;
    progress(Progress { tensor: "", done, total: summary.bytes_in });
    Ok(summary)
}

impl Summary {
    fn count(&mut self, tensor: &Tensor, ty: GgmlType) {
        let bytes = ty.bytes_of(tensor.len()) as u64;
        self.bytes_in += tensor.data.len() as u64;
        self.bytes_out += bytes;
        match self.formats.iter_mut().find(|row| row.0 == ty) {
            Some(row) => (row.1, row.2) = (row.1 + 1, row.2 + bytes),
            None => self.formats.push((ty, 1, bytes)),
        }
    }
}

/// Refuses to write over the input, and over another file unless that was asked for.
fn check_output(input: &Path, output: &Path, options: &Options) -> Result<()> {
    if let (Ok(a), Ok(b)) = (input.canonicalize(), output.canonicalize())
        && a == b
    {
        return Err(Error::new(output, "output", "another file than the input", "the input"));
    }
    check_free(output, options.force)
}

/// Refuses to write to a folder, and over an existing file unless `force` allows that.
///
/// # Errors
/// At the place `output`, with what to do.
pub fn check_free(output: &Path, force: bool) -> Result<()> {
    let Ok(found) = fs::metadata(output) else { return Ok(()) };
    let refuse = |expected: &str, found: &str| Err(Error::new(output, "output", expected, found));
    if found.is_dir() {
        return refuse("the name of a file", "a directory");
    }
    if found.is_file() && !force {
        return refuse("a name that is free (--force replaces the file)", "an existing file");
    }
    Ok(())
}

/// The recipe for this model's shape.
fn mixture_of(model: &Gguf, file_type: FileType) -> Result<Mixture> {
    let need = |key: String, value: Option<u64>| {
        value.ok_or_else(|| model.error(format!("key {key}"), "an unsigned integer", "no such key"))
    };
    let arch = model.str("general.architecture")?;
    let arch =
        arch.ok_or_else(|| model.error("key general.architecture", "the name of an architecture", "no such key"))?;
    let key = |name: &str| format!("{arch}.{name}");
    let layers = need(key("block_count"), model.u64(&key("block_count"))?)?;
    let mixture = Mixture::new(file_type, layers as usize, model.tensor("output.weight").is_none());
    // As llama.cpp recognizes the 70B shape.
    let heads = |name: &str| model.get(&key(name)).and_then(|v| v.as_u64());
    let shared = arch == "llama" && layers == 80 && heads("attention.head_count") != heads("attention.head_count_kv");
    Ok(if shared { mixture.with_shared_values() } else { mixture })
}

/// The format that a tensor is written in.
fn target(model: &Gguf, tensor: &Tensor, mixture: &Mixture, options: &Options) -> Result<GgmlType> {
    if !Mixture::quantizes(&tensor.name, &tensor.shape) {
        return Ok(tensor.ty);
    }
    let ty = mixture.choose(&tensor.name, &tensor.shape);
    let full = matches!(tensor.ty, GgmlType::F32 | GgmlType::F16 | GgmlType::BF16);
    if full || ty == tensor.ty || options.allow_requantize {
        return Ok(ty);
    }
    let expected = "F32, F16 or BF16 (--allow-requantize takes quantized weights too, at the price of more error)";
    Err(model.error(format!("tensor {}", tensor.name), expected, tensor.ty.name()))
}
