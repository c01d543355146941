//! Parts that are programs of their own: the test suites, and NVIDIA's checker around them.

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use qrun_cuda::image;
use serde_json::{Value, json};

use crate::Setup;

/// Runs a command to its end, or ends it: none where its time was up.
pub fn within(command: &mut Command, limit: Duration) -> Result<Option<ExitStatus>> {
    let began = Instant::now();
    let mut child = command.spawn().with_context(|| format!("starting {:?}", command.get_program()))?;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if began.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// The test programs against the device's driver.
pub fn tests(setup: &Setup) -> Result<Value> {
    suites(setup, |program| Command::new(program), None)
}

/// The same with the kernels for SM 7.5, which the driver compiles from PTX for whatever this GPU is.
pub fn tests_as_sm_75(setup: &Setup) -> Result<Value> {
    suites(setup, |program| Command::new(program), Some("compute_75"))
}

/// The same with those for SM 8.0.
pub fn tests_as_sm_80(setup: &Setup) -> Result<Value> {
    suites(setup, |program| Command::new(program), Some("compute_80"))
}

/// The test programs under compute-sanitizer's memory checker, where it is installed.
pub fn memcheck(setup: &Setup) -> Result<Value> {
    sanitized(setup, "memcheck")
}

/// The same under its checker for races in shared memory.
pub fn racecheck(setup: &Setup) -> Result<Value> {
    sanitized(setup, "racecheck")
}

fn sanitized(setup: &Setup, tool: &str) -> Result<Value> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/local/cuda/bin")]);
    let Some(sanitizer) = folders.map(|f| f.join("compute-sanitizer")).find(|p| p.is_file()) else {
        return Ok(json!({ "skipped": "compute-sanitizer is not installed" }));
    };
    let under = |program: &Path| {
        let mut command = Command::new(&sanitizer);
        command.args(["--tool", tool, "--error-exitcode", "9"]).arg(program);
        command
    };
    suites(setup, under, None)
}

/// Runs each test program and reads its summary; all of them, also after a failure.
fn suites(setup: &Setup, start: impl Fn(&Path) -> Command, kernels: Option<&str>) -> Result<Value> {
    ensure!(!setup.tests.is_empty(), "no test programs (--tests FILE)");
    let mut results = Vec::new();
    for suite in &setup.tests {
        let mut words = suite.split_whitespace();
        let program = Path::new(words.next().unwrap_or_default());
        let mut command = start(program);
        // One test at a time: they share the device, and a failure then names its cause.
        command.args(words).arg("--test-threads=1").env("QRUN_GPU", "1");
        if let Some(kernels) = kernels {
            command.env(image::FORCE, kernels);
        }
        let output = command.output().with_context(|| program.display().to_string())?;
        let words = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        let summary = words.lines().rev().find(|l| l.starts_with("test result:")).unwrap_or("no summary").to_owned();
        let failed: Vec<&str> =
            words.lines().filter_map(|l| l.strip_prefix("test ")?.strip_suffix(" ... FAILED")).collect();
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !output.status.success() {
            eprint_all(&words);
        }
        results.push(json!({
            "program": name,
            "passed": output.status.success(),
            "summary": summary,
            "failed_tests": failed,
        }));
    }
    let wrong: Vec<String> = results.iter().filter(|r| r["passed"] != true).map(describe).collect();
    if !wrong.is_empty() {
        bail!("{}", wrong.join("; "));
    }
    Ok(Value::Array(results))
}

fn describe(suite: &Value) -> String {
    let names: Vec<&str> = suite["failed_tests"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let text = |key: &str| suite[key].as_str().unwrap_or_default().to_owned();
    format!("{}: {} [{}]", text("program"), text("summary"), names.join(", "))
}

/// Into the part's log.
fn eprint_all(words: &str) {
    use std::io::Write;
    let _ = std::io::stderr().write_all(words.as_bytes());
}
