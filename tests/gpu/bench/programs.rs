//! Parts that are programs of their own: the test suites, and NVIDIA's checker around them.

use std::{
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use nix::{
    sys::{prctl, signal},
    unistd::Pid,
};
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

/// Runs a command to its end, or ends it with all that it has started: none where its time was up.
pub fn within(command: &mut Command, limit: Duration) -> Result<Option<ExitStatus>> {
    let began = Instant::now();
    // A group of its own, so that nothing goes on using the device after it.
    let mut child = ends_with_us(command).process_group(0).spawn();
    let child = child.as_mut().map_err(|e| anyhow::anyhow!("starting {:?}: {e}", command.get_program()))?;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if began.elapsed() > limit {
            signal::killpg(Pid::from_raw(child.id() as i32), signal::Signal::SIGKILL)?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// A program that is killed where this one is, by whomever.
fn ends_with_us(command: &mut Command) -> &mut Command {
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

/// Runs each test program and reads its summary; all of them, also after a failure.
fn suites(suites: &[Suite], start: impl Fn(&Path) -> Command, kernels: Option<&str>) -> Result<Value> {
    let mut results = Vec::new();
    for suite in suites {
        let program = std::env::current_exe()?.with_file_name(suite.program);
        let mut command = start(&program);
        // One test at a time: they share the device, and a failure then names its cause. What only an emulated device can
        // show is skipped here, which a CI does not allow.
        command.args(suite.filters).arg("--test-threads=1").env("QRUN_GPU", "1").env_remove("CI");
        if let Some(kernels) = kernels {
            command.env(image::FORCE, kernels);
        }
        let output = ends_with_us(&mut command).output().with_context(|| program.display().to_string())?;
        let words = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        let summary = words.lines().rev().find(|l| l.starts_with("test result:")).unwrap_or("no summary").to_owned();
        let failed: Vec<&str> =
            words.lines().filter_map(|l| l.strip_prefix("test ")?.strip_suffix(" ... FAILED")).collect();
        // A filter that no test has any more would pass.
        let passed = output.status.success() && !summary.contains(" 0 passed");
        if !passed {
            eprint_all(&words);
        }
        results.push(json!({
            "program": suite.program,
            "passed": passed,
            "summary": summary,
            "skipped": words.matches("SKIPPED: ").count(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stopped_leaves_nothing_running() {
        let name = std::env::temp_dir().join(format!("qrun-within-{}", std::process::id()));
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 300 & echo $! >\"$0\"; wait"]).arg(&name);
        let began = Instant::now();
        assert_eq!(within(&mut command, Duration::from_millis(500)).expect("a shell"), None);
        assert!(began.elapsed() < Duration::from_secs(20));
        let id = std::fs::read_to_string(&name).expect("the shell wrote it");
        std::fs::remove_file(&name).expect("it is there");
        // Gone, or dead and not yet buried by whoever inherits it.
        let status = std::fs::read_to_string(format!("/proc/{}/status", id.trim())).unwrap_or_default();
        assert!(status.is_empty() || status.contains("State:\tZ"), "{status}");
        let ended = within(Command::new("sh").args(["-c", "exit 3"]), Duration::from_secs(20)).expect("a shell");
        assert_eq!(ended.and_then(|status| status.code()), Some(3));
    }
}
