//! `qrun synth NAME OUT`: a model of random weights.

use std::path::PathBuf;

use crate::{
    engine::plan::human_bytes,
    tools::quantize::{self, FileType},
    tools::synth::{self, SynthError},
};

use super::{
    exit::{Code, Exit},
    progress,
    signals::Unfinished,
    values,
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
    #[arg(long = "type", value_name = "TYPE", default_value = "Q4_K_M", value_parser = values::FileTypes)]
    file_type: FileType,
    /// Same seed, same file
    #[arg(long, short, default_value_t = 0)]
    seed: u64,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

impl Synth {
    /// Makes the file.
    ///
    /// # Errors
    /// Exit code 2: the output is `-`, a folder, or there already without `--force`. 1: it cannot be written.
    pub fn run(self) -> Result<(), Exit> {
        values::output_name(&self.out)?;
        quantize::check_free(&self.out, self.force).map_err(|e| Exit::usage(e.to_string()))?;
        let unfinished = Unfinished::watch(&self.out);
        let bar = progress::bytes("writing");
        let made = synth::synth(&self.name, self.file_type, self.seed, &self.out, &mut |done, total| {
            bar.set_length(total);
            bar.set_position(done);
        });
        drop(unfinished);
        bar.finish_and_clear();
        made.map_err(|error| match error {
            SynthError::File(_) => Exit::new(Code::Failure, error.to_string()),
            _ => Exit::usage(error.to_string()),
        })?;
        let bytes = std::fs::metadata(&self.out).map_or(0, |m| m.len());
        let (file, bytes) = (self.out.display(), human_bytes(bytes));
        progress::done(&format!("{file}: {} {}, {bytes}", self.name, self.file_type));
        Ok(())
    }
}
