//! `qrun quantize IN OUT TYPE`.

use std::path::PathBuf;

use crate::{
    engine::plan::human_bytes,
    tools::quantize::{self, FileType, Options, Progress, Summary},
};
use qrun_quant::{GgmlType, Gguf, cpu::par::Pool};

use super::{
    exit::{Code, Exit},
    named, progress,
    signals::Unfinished,
    values,
};

/// A model file into a smaller one.
#[derive(Debug, clap::Args)]
pub struct Quantize {
    /// The model to read: a file, or a name
    input: PathBuf,
    /// The file to write
    output: PathBuf,
    /// Q4_K_M, Q5_K_M, Q6_K, Q8_0, Q4_0, F16, BF16 …
    #[arg(value_name = "TYPE", value_parser = values::FileTypes)]
    file_type: FileType,
    /// Threads [physical cores]
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
    /// Makes the file, and says what is in it.
    ///
    /// # Errors
    /// Exit code 2: the output is `-`, the input, or there already without `--force`. 3: the input. 6: it was not
    /// fetched. 1: the output cannot be written.
    pub fn run(mut self) -> Result<(), Exit> {
        values::output_name(&self.output)?;
        self.input = named::file(&self.input, false)?;
        let pool = Pool::new(values::threads(self.threads.or(self.n_threads)))
            .map_err(|e| Exit::new(Code::Failure, e.to_string()))?;
        let options = Options { file_type: self.file_type, allow_requantize: self.allow_requantize, force: self.force };
        let bar = progress::bytes("quantizing");
        let mut watch = |p: Progress| {
            bar.set_length(p.total);
            bar.set_position(p.done);
            bar.set_message(p.tensor.to_owned());
        };
        let unfinished = Unfinished::watch(&self.output);
        let made = pool.install(|| quantize::quantize(&self.input, &self.output, &options, &mut watch));
        drop(unfinished);
        bar.finish_and_clear();
        let summary = made.map_err(|error| self.exit(error))?;
        self.say(&summary);
        Ok(())
    }

    /// An output that cannot be written is not the model's fault.
    fn exit(&self, error: qrun_quant::Error) -> Exit {
        let code = match error.place.as_str() {
            "output" => Some(Code::Usage),
            _ if error.file == self.output => Some(Code::Failure),
            _ => None,
        };
        let exit = Exit::from(error);
        Exit { code: code.unwrap_or(exit.code), ..exit }
    }

    fn say(&self, made: &Summary) {
        // Dozens of tensors fall back for the same reason.
        let mut kinds: Vec<(GgmlType, GgmlType, Vec<&str>)> = Vec::new();
        for (name, wanted, taken) in &made.fallbacks {
            match kinds.iter_mut().find(|kind| (kind.0, kind.1) == (*wanted, *taken)) {
                Some(kind) => kind.2.push(name),
                None => kinds.push((*wanted, *taken, vec![name])),
            }
        }
        for (wanted, taken, names) in kinds {
            let n = match names.len() {
                1 => names[0].to_owned(),
                n => format!("{n} tensors ({} …)", names[0]),
            };
            progress::done(&format!("note: {n}: rows are not whole blocks of {wanted}; {taken} instead"));
        }
        for (ty, tensors, bytes) in &made.formats {
            let percent = 100.0 * *bytes as f64 / made.bytes_out.max(1) as f64;
            progress::done(&format!(
                "{:<8} {tensors:5} tensors {:>10} {percent:6.1} %",
                ty.name(),
                human_bytes(*bytes)
            ));
        }
        let size = |path| std::fs::metadata(path).map_or(0, |m| m.len());
        let before = Gguf::open(&self.input).map_or_else(|_| size(&self.input), |gguf| gguf.file_bytes());
        let (before, after) = (human_bytes(before), human_bytes(size(&self.output)));
        progress::done(&format!("{}: {} ({before} → {after})", self.output.display(), self.file_type));
    }
}
