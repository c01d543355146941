//! Values that flags take, each read in one place.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use crate::{engine::DevicePreference, sampler::parse_logit_bias, tools::quantize::FileType};
use clap::{
    Arg, Command,
    builder::{PossibleValue, TypedValueParser},
};
use qrun_models::KvType;
use qrun_quant::cpu::physical_cores;

use super::{exit::Exit, named};

/// llama.cpp's samplers in its order.
pub const SAMPLERS: [&str; 9] =
    ["penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"];

/// Where a model runs: `auto`, `cpu` (or `none`), `cuda` (the best GPU), or `cudaN`, the N-th as `qrun devices` counts.
pub fn device(name: &str) -> Result<DevicePreference, String> {
    let name = name.to_ascii_lowercase();
    let expected = || "expected auto, cuda, cpu, or cuda0, cuda1 … as `qrun devices` lists them".to_owned();
    match name.as_str() {
        "auto" => Ok(DevicePreference::Auto),
        "cpu" | "none" => Ok(DevicePreference::Cpu),
        "cuda" => Ok(DevicePreference::Cuda(None)),
        _ => {
            let ordinal = name.strip_prefix("cuda").filter(|n| n.bytes().all(|b| b.is_ascii_digit()));
            ordinal.and_then(|n| n.parse().ok()).map(|n| DevicePreference::Cuda(Some(n))).ok_or_else(expected)
        }
    }
}

/// A type of the KV cache.
pub fn cache_type(name: &str) -> Result<KvType, String> {
    let names = || KvType::ALL.map(KvType::name).join(", ");
    KvType::from_name(&name.to_ascii_lowercase()).ok_or_else(|| format!("expected one of {}", names()))
}

/// [`file_type`] for clap, with the names for completions.
#[derive(Debug, Clone)]
pub struct FileTypes;

impl TypedValueParser for FileTypes {
    type Value = FileType;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<FileType, clap::Error> {
        TypedValueParser::parse_ref(&file_type, command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(FileType::all().map(|file_type| PossibleValue::new(file_type.name()))))
    }
}

/// A file type of `quantize` and `synth`.
pub fn file_type(name: &str) -> Result<FileType, String> {
    let names = || FileType::all().map(FileType::name).collect::<Vec<_>>().join(", ");
    FileType::from_name(name).ok_or_else(|| format!("expected one of {}", names()))
}

/// `ID+BIAS` or `ID-BIAS`.
pub fn logit_bias(text: &str) -> Result<(u32, f32), String> {
    parse_logit_bias(text).map_err(|_| "expected ID+BIAS or ID-BIAS, as 15043+1 or 15043-inf".into())
}

/// Threads: the number asked for; at 0 or without one, one per physical core.
pub fn threads(asked: Option<usize>) -> usize {
    asked.filter(|&n| n > 0).unwrap_or_else(physical_cores)
}

/// A number that is not 0.
pub fn at_least_one(number: &str) -> Result<usize, String> {
    number.parse().ok().filter(|&n| n > 0).ok_or_else(|| "expected a whole number from 1".to_owned())
}

/// The samplers to apply, by llama.cpp's names separated by `;`, in its order; those left out are switched off.
pub fn samplers(text: &str) -> Result<Vec<&'static str>, String> {
    let expected = || format!("expected names of {} in this order", SAMPLERS.join(";"));
    let mut rest = SAMPLERS.iter();
    let names = text.split(';').map(|name| name.trim().replace('-', "_"));
    names.map(|name| rest.find(|known| **known == name).copied().ok_or_else(expected)).collect()
}

/// The name of a file to be written; `-` would be a file of that name.
pub fn output_name(path: &Path) -> Result<(), Exit> {
    match path.as_os_str() == "-" {
        true => Err(Exit::usage("the output is -: name a file (./- for one of that name, /dev/stdout for a pipe)")),
        false => Ok(()),
    }
}

/// A model file, as a word or behind `-m`.
#[derive(Debug, clap::Args)]
pub struct ModelFile {
    /// The GGUF file, or a model's name
    #[arg(value_name = "FILE", required_unless_present = "model", conflicts_with = "model")]
    word: Option<PathBuf>,
    /// The same, as llama.cpp's tools take it
    #[arg(short = 'm', long = "model", value_name = "FILE")]
    model: Option<PathBuf>,
    /// Use no network: a name is a model in the cache
    #[arg(long)]
    offline: bool,
}

impl ModelFile {
    /// Maps the file and reads its head; a model that is named is fetched where the cache does not have it.
    ///
    /// # Errors
    /// Exit code 3 where it is not a model, 6 where it was not fetched.
    pub fn open(&self) -> Result<qrun_quant::Gguf, Exit> {
        let path = self.word.as_ref().or(self.model.as_ref());
        let path = path.ok_or_else(|| Exit::usage("no model file named"))?;
        Ok(qrun_quant::Gguf::open(&named::file(path, self.offline)?)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_counted() {
        assert_eq!(device("CUDA1"), Ok(DevicePreference::Cuda(Some(1))));
        assert_eq!(device("cuda"), Ok(DevicePreference::Cuda(None)));
        for wrong in ["cuda-1", "cudax", "gpu", "", "cuda99999999999"] {
            assert!(device(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn samplers_stand_in_order() {
        assert_eq!(samplers("top_k;temperature"), Ok(vec!["top_k", "temperature"]));
        assert!(samplers("temperature;top_k").is_err());
        assert!(samplers("top_k;frobnicate").is_err());
    }
}
