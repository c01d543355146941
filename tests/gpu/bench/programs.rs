//! Parts that are programs of their own: the test suites, and NVIDIA's checker around them.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use qrun_cuda::image;
use serde_json::{Value, json};

use crate::Setup;

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

/// Runs each test program and reads its summary; all of them, also after a failure, whose words go into the part's log.
fn suites(setup: &Setup, start: impl Fn(&Path) -> Command, kernels: Option<&str>) -> Result<Value> {
    ensure!(!setup.tests.is_empty(), "no test programs (--tests FILE)");
    let (mut results, mut wrong) = (Vec::new(), Vec::new());
    for suite in &setup.tests {
        let mut words = suite.split_whitespace();
        let program = Path::new(words.next().unwrap_or_default());
        let mut command = start(program);
        // One test at a time: they share the device, and a failure then names its cause.
        command.args(words).arg("--test-threads=1").env("QRUN_GPU", "1");
        command.envs(kernels.map(|kernels| (image::FORCE, kernels)));
        let output = command.output().with_context(|| program.display().to_string())?;
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        let summary = said.lines().rev().find(|l| l.starts_with("test result:")).unwrap_or("no summary");
        let failed = said.lines().filter_map(|l| l.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
        let failed: Vec<&str> = failed.collect();
        let (name, passed) = (program.file_name().unwrap_or_default().to_string_lossy(), output.status.success());
        if !passed {
            std::io::stderr().write_all(said.as_bytes())?;
            wrong.push(format!("{name}: {summary} [{}]", failed.join(", ")));
        }
        results.push(json!({ "program": name, "passed": passed, "summary": summary, "failed_tests": failed }));
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("; "));
    Ok(Value::Array(results))
}
