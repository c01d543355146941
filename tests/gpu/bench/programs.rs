//! Parts that are programs of their own: the test suites, NVIDIA's checker around them, and the program that people install.

use std::{fs, io::Write, os::unix::process::CommandExt, path::PathBuf, process::Command};

use anyhow::{Context, Result, ensure};
use nix::sys::{prctl, signal};
use qrun::{
    bench::{list, median, number, startup, text},
    tools::{quantize::FileType, synth},
};
use qrun_cuda::image::{self, Kind, Target};
use serde_json::{Value, json};

use crate::{Setup, machine::rounded, models};

/// A test program beside this one, and which of its tests run.
type Suite = (&'static str, &'static [&'static str]);

/// All tests of a device.
const ALL: &[Suite] =
    &[("ops", &[]), ("tests", &["device::", "device_sampling::", "generate::a_gpu", "--skip", "cli::"])];
/// Some of each kind, where an emulated device takes the time of a real one a thousandfold.
const DRY: &[Suite] = &[
    ("ops", &["image::", "mma::", "probe::", "sample::"]),
    ("tests", &["device::memory::", "device::sampling::sampling_ends", "--skip", "cli::"]),
];
/// What differs by target, the products and the attention first of all: from PTX the driver compiles every kernel anew for
/// each test, which takes it almost three seconds.
const PTX: &[Suite] = &[(
    "ops",
    &[
        "attention::every_ratio",
        "attention::how_many_blocks",
        "attention::prompts",
        "attention::q8_0",
        "attention::windows",
        "attention_rope::",
        "gemm::",
        "gemv::",
        "glu::",
        "image::",
        "norm::",
        "norm_product::columns",
        "norm_product::every_format",
        "norm_product::gates",
        "norm_product::segments",
        "rope_kv::",
        "sample::the_best",
        "tiles_and_warps",
        "--skip",
        "comparator",
        "--skip",
        "gate_and_up",
        "--skip",
        "in_place",
        "--skip",
        "not_finite",
        "--skip",
        "outliers",
    ],
)];
/// Enough to meet every kind of kernel, where a checker slows each a hundredfold.
const CHECKED: &[Suite] = &[("ops", &["attention::windows", "gemm::three_segments", "gemv::three_segments"])];
const DRY_CHECKED: &[Suite] = &[("ops", &["probe::"])];

/// A program that is killed where this one is, by whomever.
pub fn ends_with_us(command: &mut Command) -> &mut Command {
    let ask = || Ok(prctl::set_pdeathsig(signal::Signal::SIGKILL)?);
    // SAFETY: one system call, as is allowed between fork and exec.
    unsafe { command.pre_exec(ask) }
}

/// The test programs against the device's driver.
pub fn tests(setup: &Setup) -> Result<Value> {
    suites(if setup.dry { DRY } else { ALL }, Command::new, None)
}

/// Some of them with the shipped PTX, which the driver compiles for whatever this GPU is.
pub fn compiled(setup: &Setup) -> Result<Value> {
    let kernels = Target { kind: Kind::Ptx, sm: image::PTX };
    suites(if setup.dry { DRY } else { PTX }, Command::new, Some(kernels))
}

/// Some of them under one of compute-sanitizer's checkers, where it is installed.
pub fn sanitized(setup: &Setup, tool: &str, options: &[&str]) -> Result<Value> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/local/cuda/bin")]);
    let Some(sanitizer) = folders.map(|f| f.join("compute-sanitizer")).find(|p| p.is_file()) else {
        return Ok(json!({ "skipped": "compute-sanitizer is not installed" }));
    };
    let under = |program: PathBuf| {
        let mut command = Command::new(&sanitizer);
        command.args(["--tool", tool, "--error-exitcode", "9"]).args(options).arg(program);
        command
    };
    suites(if setup.dry { DRY_CHECKED } else { CHECKED }, under, None)
}

/// From `exec` to the first token of the program that people install, step by step: the first start, and the median of those
/// after it.
pub fn startup(setup: &Setup) -> Result<Value> {
    let name = if setup.dry { "tiny-gemma3" } else { "gemma-3-1b" };
    let (folder, program) = (setup.out.join(models::FOLDER), std::env::current_exe()?.with_file_name("qrun"));
    fs::create_dir_all(&folder)?;
    let file = folder.join("model.gguf");
    synth::synth(name, FileType::from_name("Q4_K_M").context("a mix of formats")?, 0, &file, &mut |_, _| {})?;
    let start = |_| startup::run(&program, &file, &["--device", "cuda"].map(str::to_owned));
    let starts = (0..4).map(start).collect::<Result<Vec<_>, _>>()?;
    let row = |step: &str, ms: &dyn Fn(&Value) -> Option<f64>| {
        let ms: Vec<f64> = starts.iter().filter_map(ms).collect();
        json!({ "step": step, "first_ms": rounded(ms[0]), "ms": rounded(median(&ms[1..])) })
    };
    let steps = list(&starts[0]["timeline"]).iter().enumerate();
    let steps = steps.map(|(i, step)| row(text(step, "step"), &|run| number(&run["timeline"][i], "ms")));
    let total = row("to the first token", &|run| number(run, "total_ms"));
    Ok(steps.chain([total]).collect())
}

/// Runs each test program and reads its summary; all of them, also after a failure, whose words go into the part's log.
fn suites(suites: &[Suite], start: impl Fn(PathBuf) -> Command, kernels: Option<Target>) -> Result<Value> {
    let (mut results, mut wrong) = (Vec::new(), Vec::new());
    for (name, filters) in suites {
        let program = std::env::current_exe()?.with_file_name(name);
        let mut command = start(program.clone());
        // One test at a time: they share the device, and a failure then names its cause. What only an emulated device can
        // show is skipped here, which a CI does not allow.
        command.args(*filters).arg("--test-threads=1").env("QRUN_GPU", "1").env_remove("CI");
        command.envs(kernels.map(|kernels| (image::FORCE, kernels.to_string())));
        let output = ends_with_us(&mut command).output().with_context(|| program.display().to_string())?;
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        let summary = said.lines().rev().find(|l| l.starts_with("test result:")).unwrap_or("no summary");
        let failed = said.lines().filter_map(|l| l.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
        let failed = failed.collect::<Vec<_>>();
        // A filter that no test has any more would pass.
        let passed = output.status.success() && !summary.contains(" 0 passed");
        if !passed {
            std::io::stderr().write_all(said.as_bytes())?;
            wrong.push(format!("{}: {summary} [{}]", name, failed.join(", ")));
        }
        results.push(json!({
            "program": name, "passed": passed, "summary": summary,
            "skipped": said.matches("SKIPPED: ").count(), "failed_tests": failed,
        }));
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("; "));
    Ok(Value::Array(results))
}
