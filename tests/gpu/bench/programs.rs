//! Parts that are programs of their own: the test suites, and NVIDIA's checker around them.

use std::{
    io::Write,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use nix::sys::{prctl, signal};
use qrun_cuda::image;
use serde_json::{Value, json};

use crate::Setup;

/// A test program beside this one, and which of its tests run.
struct Suite {
    program: &'static str,
    filters: &'static [&'static str],
}

/// All tests of a device.
const ALL: [Suite; 2] = [
    Suite { program: "ops", filters: &[] },
    Suite { program: "tests", filters: &["device::", "device_sampling::", "generate::a_gpu", "--skip", "cli::"] },
];
/// Some of each kind, where an emulated device takes the time of a real one a thousandfold.
const DRY: [Suite; 2] = [
    Suite { program: "ops", filters: &["image::", "mma::", "probe::", "sample::"] },
    Suite { program: "tests", filters: &["device::demo::", "device::memory::", "device::taps::", "--skip", "cli::"] },
];
/// Enough to meet every kind of kernel, where a checker slows each a hundredfold.
const CHECKED: [Suite; 1] =
    [Suite { program: "ops", filters: &["attention::windows", "gemm::three_segments", "gemv::three_segments"] }];
const DRY_CHECKED: [Suite; 1] = [Suite { program: "ops", filters: &["probe::"] }];

/// A program that is killed where this one is, by whomever.
pub fn ends_with_us(command: &mut Command) -> &mut Command {
    let ask = || Ok(prctl::set_pdeathsig(signal::Signal::SIGKILL)?);
    // SAFETY: one system call, as is allowed between fork and exec.
    unsafe { command.pre_exec(ask) }
}

/// The test programs against the device's driver.
pub fn tests(setup: &Setup) -> Result<Value> {
    suites(if setup.dry { &DRY } else { &ALL }, |program| Command::new(program), None)
}

/// The same with the kernels for SM 7.5, which the driver compiles from PTX for whatever this GPU is.
pub fn tests_as_sm_75(setup: &Setup) -> Result<Value> {
    suites(if setup.dry { &DRY } else { &ALL }, |program| Command::new(program), Some("compute_75"))
}

/// The same with those for SM 8.0.
pub fn tests_as_sm_80(setup: &Setup) -> Result<Value> {
    suites(if setup.dry { &DRY } else { &ALL }, |program| Command::new(program), Some("compute_80"))
}

/// Some tests under compute-sanitizer's memory checker, where it is installed.
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
    suites(if setup.dry { &DRY_CHECKED } else { &CHECKED }, under, None)
}

/// Runs each test program and reads its summary; all of them, also after a failure, whose words go into the part's log.
fn suites(suites: &[Suite], start: impl Fn(&Path) -> Command, kernels: Option<&str>) -> Result<Value> {
    let (mut results, mut wrong) = (Vec::new(), Vec::new());
    for suite in suites {
        let program = std::env::current_exe()?.with_file_name(suite.program);
        let mut command = start(&program);
        // One test at a time: they share the device, and a failure then names its cause. What only an emulated device can
        // show is skipped here, which a CI does not allow.
        command.args(suite.filters).arg("--test-threads=1").env("QRUN_GPU", "1").env_remove("CI");
        command.envs(kernels.map(|kernels| (image::FORCE, kernels)));
        let output = ends_with_us(&mut command).output().with_context(|| program.display().to_string())?;
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        let summary = said.lines().rev().find(|l| l.starts_with("test result:")).unwrap_or("no summary");
        let failed = said.lines().filter_map(|l| l.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
        let failed: Vec<&str> = failed.collect();
        // A filter that no test has any more would pass.
        let passed = output.status.success() && !summary.contains(" 0 passed");
        if !passed {
            std::io::stderr().write_all(said.as_bytes())?;
            wrong.push(format!("{}: {summary} [{}]", suite.program, failed.join(", ")));
        }
        let skipped = said.matches("SKIPPED: ").count();
        results.push(json!({
            "program": suite.program,
            "passed": passed,
            "summary": summary,
            "skipped": skipped,
            "failed_tests": failed,
        }));
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("; "));
    Ok(Value::Array(results))
}
