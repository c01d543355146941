//! `--startup`: the time line of a run.

use std::ffi::OsString;

use qrun::{
    bench::startup::{Job, Startup, StartupError},
    session::Wish,
};

use super::{Machine, Source, bar};
use crate::cli::{
    exit::{Code, Exit},
    print,
};

#[derive(Debug, clap::Args)]
pub struct Start {
    /// The time line of a run, from the start of the process to the first token
    #[arg(long, conflicts_with_all = ["suite", "prompt_tokens", "prompt", "max_new_tokens", "temperature", "plot"])]
    startup: bool,
}

impl Start {
    /// Whether this mode is asked for.
    pub fn asked(&self) -> bool {
        self.startup
    }
}

/// One start that finds the page cache as it is, then `trials` more.
pub fn run(source: &Source, machine: &Machine, trials: usize, json: bool) -> Result<(), Exit> {
    let program = std::env::current_exe()?;
    let job = Job { program, model: source.path().into(), flags: machine.flags() };
    let bar = bar(trials + 1);
    let start = || {
        let run = job.run();
        bar.inc(1);
        run
    };
    let first = start()?;
    let runs = (0..trials).map(|_| start()).collect::<Result<Vec<_>, _>>()?;
    bar.finish_and_clear();
    let file_bytes = qrun_quant::Gguf::open(source.path())?.file_bytes();
    let startup = Startup::new(source.path(), file_bytes, first, runs);
    if !json {
        return print(&startup.markdown());
    }
    let text = serde_json::to_string_pretty(&startup).map_err(|e| Exit::new(Code::Failure, e.to_string()))?;
    print(&(text + "\n"))
}

impl Machine {
    /// As words of an ordinary command line.
    fn flags(&self) -> Vec<OsString> {
        let device = match self.device {
            Wish::Auto => "auto",
            Wish::Cpu => "cpu",
            Wish::Cuda => "cuda",
        };
        let mut flags = vec![format!("--device={device}"), format!("--ubatch-size={}", self.ubatch_size)];
        flags.extend(self.threads.map(|n| format!("--threads={n}")));
        flags.extend(self.cache_type_k.map(|ty| format!("--cache-type-k={}", ty.name())));
        flags.extend(self.cache_type_v.map(|ty| format!("--cache-type-v={}", ty.name())));
        flags.extend(self.no_repack.then(|| "--no-repack".to_owned()));
        flags.into_iter().map(OsString::from).collect()
    }
}

/// The child's exit code is this one's.
impl From<StartupError> for Exit {
    fn from(error: StartupError) -> Self {
        let code = match &error {
            StartupError::Failed { code, .. } => {
                let known = [Code::Usage, Code::File, Code::Memory, Code::Device];
                known.into_iter().find(|&known| *code == Some(known as i32)).unwrap_or(Code::Failure)
            }
            _ => Code::Failure,
        };
        Exit::new(code, error.to_string())
    }
}
