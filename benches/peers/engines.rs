//! The engines that take turns, and how a turn of each is started.

use std::{ffi::OsString, path::Path, process::Command};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::{Args, table::QRUN, turn};

/// Another engine, behind a Python script (see `turn.py`).
pub struct Peer {
    /// Its name on the command line, in the records and in the table.
    pub name: &'static str,
    script: &'static str,
    flags: &'static [&'static str],
    /// Types of weights it is compared at; nothing: all.
    types: &'static [&'static str],
}

/// All peers.
pub static PEERS: &[Peer] = &[
    Peer { name: "llama-cpp", script: "run_llama_cpp.py", flags: &[], types: &[] },
    Peer { name: "transformers", script: "run_transformers.py", flags: &[], types: &["BF16"] },
    Peer { name: "transformers-compile", script: "run_transformers.py", flags: &["--compile"], types: &["BF16"] },
    Peer { name: "ctranslate2", script: "run_ctranslate2.py", flags: &[], types: &["Q8_0", "BF16"] },
    Peer { name: "vllm", script: "run_vllm.py", flags: &[], types: &["BF16"] },
    Peer { name: "eole", script: "run_eole.py", flags: &[], types: &["BF16"] },
];

impl Peer {
    /// The peer with this name.
    pub fn find(name: &str) -> Result<&'static Self> {
        let names: Vec<_> = PEERS.iter().map(|p| p.name).collect();
        let found = PEERS.iter().find(|p| p.name == name);
        found.with_context(|| format!("peer {name}: expected one of {}", names.join(", ")))
    }

    /// Whether it has something to compare with at this type of weights.
    pub fn takes(&self, ty: &str) -> bool {
        self.types.is_empty() || self.types.contains(&ty)
    }

    /// Why it cannot be run here, if so.
    pub fn skipped(&self, args: &Args) -> Option<String> {
        match self.start(args, &["--check".into()]) {
            Ok(answer) => answer["skipped"].as_str().map(str::to_owned),
            Err(error) => Some(format!("{error:#}")),
        }
    }

    /// One turn on a file.
    fn turn(&self, args: &Args, file: &Path) -> Result<Value> {
        let [prefill, decode, threads] = args.numbers();
        self.start(args, &[file.into(), prefill, decode, threads])
    }

    fn start(&self, args: &Args, words: &[OsString]) -> Result<Value> {
        let python = std::env::var_os("QRUN_PEER_PYTHON").unwrap_or_else(|| "python3".into());
        let script = Path::new("benches/peers").join(self.script);
        let mut command = Command::new(&python);
        command.arg(script).args(words).args(self.flags).args(["--device", &args.device]);
        turn::run(command, args.limit()).with_context(|| self.script)
    }
}

/// One turn of the engine with this name.
pub fn turn_of(name: &str, args: &Args, file: &Path) -> Result<Value> {
    let turn = if name == QRUN { qrun_turn(args, file)? } else { Peer::find(name)?.turn(args, file)? };
    same_work(args, &turn)?;
    Ok(turn)
}

/// One turn of qrun: this program once more.
fn qrun_turn(args: &Args, file: &Path) -> Result<Value> {
    let [prefill, decode, threads] = args.numbers();
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--turn").arg(file).args(["--device", &args.device]);
    command.arg("--prefill").arg(prefill).arg("--decode").arg(decode).arg("--threads").arg(threads);
    turn::run(command, args.limit()).context(QRUN)
}

/// Refuses a turn that did other work than was asked for.
fn same_work(args: &Args, turn: &Value) -> Result<()> {
    for (key, expected) in [("prefill_tokens", args.prefill), ("decode_tokens", args.decode)] {
        if turn[key] != expected {
            bail!("{key}: expected {expected}, found {}", turn[key]);
        }
    }
    let speeds = ["prefill", "decode"].map(|key| turn[key].as_f64());
    ensure!(speeds.iter().all(|s| s.is_some_and(|s| s.is_finite() && s > 0.0)), "speeds: found {speeds:?}");
    Ok(())
}
