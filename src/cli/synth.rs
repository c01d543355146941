//! `qrun synth NAME OUT`: a model of random weights.

use std::path::PathBuf;

use qrun::{
    quantize::FileType,
    synth::{self, SynthError},
};

use super::{
    exit::{Code, Exit},
    progress,
};

/// A model of random weights in the shapes of a real one, to measure and to test with.
#[derive(Debug, clap::Args)]
pub struct Synth {
    /// The model
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(synth::names()))]
    name: String,
    /// The file to write
    out: PathBuf,
    /// Mix of formats
    #[arg(long = "type", value_name = "TYPE", default_value = "Q4_K_M", value_parser = file_type)]
    file_type: FileType,
    /// Same seed, same file
    #[arg(long, short, default_value_t = 0)]
    seed: u64,
}

/// A file type by its name, for clap.
pub fn file_type(name: &str) -> Result<FileType, String> {
    let names = || FileType::all().map(FileType::name).collect::<Vec<_>>().join(", ");
    FileType::from_name(name).ok_or_else(|| format!("expected one of {}", names()))
}

impl Synth {
    pub fn run(self) -> Result<(), Exit> {
        let bar = progress::bytes("writing");
        let made = synth::synth(&self.name, self.file_type, self.seed, &self.out, &mut |done, total| {
            bar.set_length(total);
            bar.set_position(done);
        });
        bar.finish_and_clear();
        made.map_err(|error| match error {
            SynthError::File(_) => Exit::new(Code::Failure, error.to_string()),
            _ => Exit::usage(error.to_string()),
        })?;
        let bytes = std::fs::metadata(&self.out).map_or(0, |m| m.len());
        progress::done(&format!("{}: {} {}, {bytes} bytes", self.out.display(), self.name, self.file_type));
        Ok(())
    }
}
