//! `qrun bench`: what it runs, what it counts, what it says. No test asserts on a time: a machine may be busy.

mod kernels;
mod peers;
mod plot;
mod prompts;
mod recipe;
mod rows;
mod serve;
mod startup;
mod suite;

use std::{
    path::PathBuf,
    process::{Command, Output},
};

use serde_json::Value;
use tempfile::TempDir;

/// The embedded model's own file: small, trained, and with every kind of layer.
const MODEL: &str = "models/demo/qrun-demo-Q4_K_M.gguf";

/// `qrun bench`; words are separated by single spaces.
fn bench(line: &str) -> Output {
    start(Command::new(env!("CARGO_BIN_EXE_qrun")), line)
}

/// The same on a computer with an emulated GPU.
fn bench_on_gpu(line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_qrun"));
    command.env("LD_LIBRARY_PATH", qrun_emulator::library()).env("QRUN_EMULATOR", "sm=75,memory=320m");
    start(command, line)
}

fn start(mut command: Command, line: &str) -> Output {
    command.current_dir(env!("CARGO_MANIFEST_DIR")).arg("bench");
    command.args(line.split(' ').filter(|w| !w.is_empty())).output().expect("qrun starts")
}

/// What it printed, when all went well.
#[track_caller]
fn printed(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

/// The JSON that it printed.
#[track_caller]
fn json(output: &Output) -> Value {
    serde_json::from_str(&printed(output)).expect("JSON")
}

/// What it printed, and the report that it kept and said so: its content, its file, and the folder for as long as it is held.
#[track_caller]
fn kept(line: &str) -> (String, Value, PathBuf, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let output = bench(&format!("{line} --reports {}", folder.path().display()));
    let files = std::fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let [file] = <[PathBuf; 1]>::try_from(files.collect::<Vec<_>>()).expect("one file");
    assert!(String::from_utf8_lossy(&output.stderr).contains(&format!("report: {}", file.display())), "{line}");
    let report = serde_json::from_slice(&std::fs::read(&file).expect("a file")).expect("JSON");
    (printed(&output), report, file, folder)
}

/// Recorded runs whose names end so, the newest last.
fn runs(end: &str) -> Vec<PathBuf> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/runs");
    let files = std::fs::read_dir(folder).expect("benches/runs").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<_> = files.filter(|file| file.to_string_lossy().ends_with(end)).collect();
    files.sort();
    files
}

/// That it refuses with exit 2, nothing on stdout, and one line that has these words.
#[track_caller]
fn refused(line: &str, words: &[&str]) {
    let output = bench(line);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{line}: {said}");
    assert!(!said.contains("panicked"), "{line}: {said}");
    for word in words {
        assert!(said.contains(word), "{line}: {word:?} is not in {said}");
    }
}

/// A number of a row that a clock gave: finite and positive.
#[track_caller]
fn measured(row: &Value, field: &str) -> f64 {
    let value = row[field].as_f64().filter(|v| v.is_finite() && *v > 0.0);
    value.unwrap_or_else(|| panic!("{field} is no measured number in {row}"))
}

/// The cells of a line of Markdown.
fn cells(line: &str) -> Vec<String> {
    line.trim_matches('|').split('|').map(|c| c.trim().to_owned()).collect()
}
