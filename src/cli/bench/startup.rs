//! `--startup`: the time line of a run.

use std::ffi::OsString;

use qrun::{
    bench::{
        rows::Setting,
        startup::{Job, Startup, StartupError},
    },
    engine::DevicePreference,
};

use super::{Machine, Source, bar};
use crate::cli::{
    exit::{Code, Exit},
    print,
};

/// Flags of this mode.
#[derive(Debug, clap::Args)]
#[group(id = "startup_mode")]
#[command(next_help_heading = "The start")]
pub struct Args {
    /// The time line of a run, from the start of the process to the first token
    #[arg(long)]
    startup: bool,
}

impl Args {
    /// Whether this mode is asked for.
    pub fn is_asked(&self) -> bool {
        self.startup
    }
}

/// One start that finds the page cache as it is, then `trials` more.
pub fn run(source: &Source, machine: &Machine, trials: usize, json: bool) -> Result<(), Exit> {
    let program = std::env::current_exe()?;
    let setting = machine.setting()?;
    let job = Job { program, model: source.path().into(), flags: flags(&setting) };
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
    let startup = Startup::new((source.path(), file_bytes), setting.threads, first, runs);
    if !json {
        return print(&startup.markdown());
    }
    let text = serde_json::to_string_pretty(&startup).map_err(|e| Exit::new(Code::Failure, e.to_string()))?;
    print(&(text + "\n"))
}

/// A setting as words of an ordinary command line.
fn flags(setting: &Setting) -> Vec<OsString> {
    let device = match setting.device() {
        DevicePreference::Auto => "auto".into(),
        DevicePreference::Cpu => "cpu".into(),
        DevicePreference::Cuda(ordinal) => ordinal.map_or("cuda".into(), |n| format!("cuda{n}")),
    };
    let mut flags = vec![
        format!("--device={device}"),
        format!("--ubatch-size={}", setting.n_ubatch.min(setting.n_batch)),
        format!("--threads={}", setting.threads),
        format!("--cache-type-k={}", setting.type_k.name()),
        format!("--cache-type-v={}", setting.type_v.name()),
    ];
    flags.extend((!setting.repack).then(|| "--no-repack".to_owned()));
    flags.into_iter().map(OsString::from).collect()
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
