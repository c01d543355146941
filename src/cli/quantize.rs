//! `qrun quantize IN OUT TYPE`.

use std::path::PathBuf;

use qrun::quantize::{self, FileType, Options, Progress, Summary};
use qrun_quant::cpu::par::Pool;

use super::{
    exit::{Code, Exit},
    info, progress, synth,
};

/// A model file into a smaller one.
#[derive(Debug, clap::Args)]
pub struct Quantize {
    /// The model to read
    input: PathBuf,
    /// The file to write
    output: PathBuf,
    /// Q4_K_M, Q5_K_M, Q6_K, Q8_0, Q4_0, F16, BF16 …
    #[arg(value_name = "TYPE", value_parser = synth::file_type)]
    file_type: FileType,
    /// Threads [all]
    #[arg(value_name = "THREADS")]
    n_threads: Option<usize>,
    /// Also from tensors that are quantized already; the errors add up
    #[arg(long)]
    allow_requantize: bool,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    /// The same as the last word
    #[arg(short, long, value_name = "N", conflicts_with = "n_threads")]
    threads: Option<usize>,
}

impl Quantize {
    pub fn run(self) -> Result<(), Exit> {
        let threads = self.threads.or(self.n_threads).filter(|&n| n > 0);
        let threads = threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()));
        let pool = Pool::new(threads).map_err(|e| Exit::new(Code::Failure, e.to_string()))?;
        let options = Options { file_type: self.file_type, allow_requantize: self.allow_requantize, force: self.force };
        let bar = progress::bytes("quantizing");
        let mut watch = |p: Progress| {
            bar.set_length(p.total);
            bar.set_position(p.done);
            bar.set_message(p.tensor.to_owned());
        };
        let made = pool.install(|| quantize::quantize(&self.input, &self.output, &options, &mut watch));
        bar.finish_and_clear();
        let summary = made.map_err(|error| self.exit(error))?;
        self.say(&summary);
        Ok(())
    }

    /// An output that cannot be written is no fault of the model.
    fn exit(&self, error: qrun_quant::Error) -> Exit {
        let code = match error.place.as_str() {
            "output" => Code::Usage,
            _ if error.file == self.output => Code::Failure,
            _ => Code::File,
        };
        Exit::new(code, error.to_string())
    }

    fn say(&self, made: &Summary) {
        for (name, wanted, taken) in &made.fallbacks {
            progress::done(&format!("note: {name}: rows are no whole blocks of {wanted}, {taken} instead"));
        }
        for (ty, tensors, bytes) in &made.formats {
            let percent = 100.0 * *bytes as f64 / made.bytes_out.max(1) as f64;
            progress::done(&format!("{:<8} {tensors:5} tensors {bytes:14} bytes {percent:6.1} %", ty.name()));
        }
        let (before, after) = (info::bytes(made.bytes_in), info::bytes(made.bytes_out));
        progress::done(&format!("{}: {} ({before} → {after})", self.output.display(), self.file_type));
    }
}
