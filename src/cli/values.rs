//! Values that flags take, each read in one place.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use crate::{
    sampler::{parse_logit_bias, parse_samplers},
    tools::quantize::FileType,
};
use clap::{
    Arg, Command,
    builder::{PossibleValue, TypedValueParser},
};
use qrun_quant::cpu::physical_cores;

use super::{exit::Exit, named};

/// Reads file types of `quantize` and `synth`, with the names for completions.
#[derive(Debug, Clone)]
pub struct FileTypes;

impl TypedValueParser for FileTypes {
    type Value = FileType;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<FileType, clap::Error> {
        TypedValueParser::parse_ref(&str::parse::<FileType>, command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(FileType::all().map(|file_type| PossibleValue::new(file_type.name()))))
    }
}

/// `ID+BIAS` or `ID-BIAS`.
///
/// # Errors
/// What was expected, for anything else and for a bias of NaN or +infinity.
pub fn logit_bias(text: &str) -> Result<(u32, f32), String> {
    parse_logit_bias(text).map_err(|_| "expected ID+BIAS or ID-BIAS, as 15043+1 or 15043-inf".into())
}

/// Threads: the number asked for; at 0 or without one, one per physical core.
pub fn threads(asked: Option<usize>) -> usize {
    asked.filter(|&n| n > 0).unwrap_or_else(physical_cores)
}

/// A number that is not 0.
///
/// # Errors
/// What was expected, for 0 and what is no whole number.
pub fn at_least_one(number: &str) -> Result<usize, String> {
    number.parse().ok().filter(|&n| n > 0).ok_or_else(|| "expected a whole number from 1".to_owned())
}

/// The samplers to apply, by llama.cpp's names separated by `;`, in its order; those left out are switched off.
///
/// # Errors
/// What was expected: a name is none of them, or not in their order.
pub fn samplers(text: &str) -> Result<Vec<&'static str>, String> {
    parse_samplers(text.split(';')).map_err(|expected| format!("expected {expected}, with a ; between them"))
}

/// Whether a file of this name may be written.
///
/// # Errors
/// Exit code 2: it is `-`, which would be a file of that name.
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
    fn samplers_stand_in_order() {
        assert_eq!(samplers("top_k;temperature"), Ok(vec!["top_k", "temperature"]));
        assert_eq!(samplers(" top-k; typical_p"), Ok(vec!["top_k", "typ_p"]));
        assert!(samplers("temperature;top_k").is_err());
        assert!(samplers("top_k;frobnicate").is_err());
    }
}
