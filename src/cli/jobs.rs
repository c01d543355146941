//! The jobs beside answering: `qrun info`, `tokenize`, `perplexity`, `synth`, `devices`, `completions` ….

use std::path::PathBuf;

use clap::Subcommand;

use super::{bench, completions, devices, exit::Exit, info, perplexity, print, quantize, synth, tokenize};

/// A job by its name.
#[derive(Debug, Subcommand)]
pub enum Job {
    /// What is in a file: metadata, tensor types by bytes, memory need per context size
    Info(info::Info),
    /// Text to tokens
    Tokenize(tokenize::Tokenize),
    /// A model file into a smaller one
    Quantize(quantize::Quantize),
    /// How well a model predicts a text, and how far it is from another one
    Perplexity(perplexity::Perplexity),
    // Described where its flags are.
    Bench(Box<bench::Bench>),
    /// A model of random weights, to measure and to test with
    Synth(synth::Synth),
    /// The devices that can compute
    Devices,
    /// Shell completions
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// A model file, as a word or behind `-m`.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub struct ModelFile {
    /// The GGUF file
    #[arg(value_name = "FILE")]
    word: Option<PathBuf>,
    /// The same, as llama.cpp's tools take it
    #[arg(short = 'm', long = "model", value_name = "FILE")]
    model: Option<PathBuf>,
}

impl ModelFile {
    pub fn open(&self) -> Result<qrun_quant::Gguf, Exit> {
        let path = self.word.as_ref().or(self.model.as_ref());
        let path = path.ok_or_else(|| Exit::usage("no model file named"))?;
        Ok(qrun_quant::Gguf::open(path)?)
    }
}

impl Job {
    pub fn run(self) -> Result<(), Exit> {
        match self {
            Job::Info(job) => job.run(),
            Job::Tokenize(job) => job.run(),
            Job::Quantize(job) => job.run(),
            Job::Perplexity(job) => job.run(),
            Job::Bench(job) => job.run(),
            Job::Synth(job) => job.run(),
            Job::Devices => print(&devices::listing()),
            Job::Completions { shell } => print(&completions::script(shell)),
        }
    }
}
