//! Everything that is to be known of a GPU, by one command that needs its driver and nothing else.
//!
//! ```text
//! gpu-bench --out DIR [--tests "FILE ARG..."]... [--only PART]... [--dry]
//! ```
//! Each part runs in a process of its own, so that one that fails, hangs or takes the device's context with it leaves
//! the others alone. DIR gets `results.json`, `results.md` and a log per part. `--dry` takes tiny sizes: the numbers
//! mean nothing then, but every part has run.

mod kernels;
mod machine;
mod models;
mod programs;
mod report;

use std::{
    fs::{self, File},
    io::{Write, stderr, stdout},
    path::PathBuf,
    process::{Command, ExitCode},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value, json};

const USAGE: &str = "usage: gpu-bench --out DIR [--tests \"FILE ARG...\"]... [--only PART]... [--dry]";

/// What the parts are told.
pub struct Setup {
    /// Where results go.
    pub out: PathBuf,
    /// Test programs with their arguments, parted by spaces.
    pub tests: Vec<String>,
    /// Tiny sizes, for an emulated device.
    pub dry: bool,
}

struct Part {
    name: &'static str,
    seconds: u64,
    run: fn(&Setup) -> Result<Value>,
}

/// In the order of their worth: who runs out of time has the most important ones. Right before fast.
const PARTS: [Part; 10] = [
    Part { name: "device", seconds: 20, run: machine::device },
    Part { name: "tests", seconds: 120, run: programs::tests },
    Part { name: "tests-compute_75", seconds: 90, run: programs::tests_as_sm_75 },
    Part { name: "tests-compute_80", seconds: 90, run: programs::tests_as_sm_80 },
    Part { name: "bandwidth", seconds: 30, run: machine::bandwidth },
    Part { name: "launches", seconds: 20, run: machine::launches },
    Part { name: "models", seconds: 180, run: models::speed },
    Part { name: "kernels", seconds: 60, run: kernels::speed },
    Part { name: "memcheck", seconds: 90, run: programs::memcheck },
    Part { name: "racecheck", seconds: 90, run: programs::racecheck },
];

/// All parts together; what does not fit any more is left out and said. A machine lends ten minutes to a command.
const ALL: Duration = Duration::from_secs(470);

struct Args {
    setup: Setup,
    only: Vec<String>,
    part: Option<String>,
}

fn args() -> Result<Args> {
    let mut words = std::env::args().skip(1);
    let (mut out, mut only, mut part) = (None, Vec::new(), None);
    let (mut tests, mut dry) = (Vec::new(), false);
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} needs a value\n{USAGE}"));
        match word.as_str() {
            "--out" => out = Some(PathBuf::from(value()?)),
            "--tests" => tests.push(value()?),
            "--only" => only.push(value()?),
            "--part" => part = Some(value()?),
            "--dry" => dry = true,
            _ => bail!("unexpected {word}\n{USAGE}"),
        }
    }
    let known = |name: &String| PARTS.iter().any(|p| p.name == name);
    if let Some(odd) = only.iter().chain(&part).find(|n| !known(n)) {
        bail!("no part {odd}: expected one of {}", PARTS.map(|p| p.name).join(", "));
    }
    let out = out.context(USAGE)?;
    Ok(Args { setup: Setup { out, tests, dry }, only, part })
}

fn run() -> Result<ExitCode> {
    let args = args()?;
    if let Some(name) = &args.part {
        let part = PARTS.iter().find(|p| p.name == name).context("a part")?;
        let result = (part.run)(&args.setup)?;
        fs::write(args.setup.out.join(format!("{name}.json")), result.to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    fs::create_dir_all(&args.setup.out)?;
    let started = Instant::now();
    let mut results = Map::new();
    for part in PARTS.iter().filter(|p| args.only.is_empty() || args.only.iter().any(|o| o == p.name)) {
        let began = Instant::now();
        let left = ALL.saturating_sub(started.elapsed());
        let result = isolated(part, &args.setup, left);
        let seconds = (began.elapsed().as_secs_f64() * 10.0).round() / 10.0;
        let line = match &result {
            Ok(_) => format!("{:16} {seconds:6.1} s", part.name),
            Err(error) => format!("{:16} {seconds:6.1} s  FAILED: {error:#}", part.name),
        };
        writeln!(stdout(), "{line}")?;
        let result = result.unwrap_or_else(|error| json!({ "failed": format!("{error:#}") }));
        // A part that was stopped leaves its files behind: gigabytes.
        let _ = fs::remove_dir_all(args.setup.out.join(models::FOLDER));
        results.insert(part.name.into(), json!({ "seconds": seconds, "result": result }));
        // After each part, so that what is there survives whatever comes.
        let all = json!({ "version": env!("CARGO_PKG_VERSION"), "dry": args.setup.dry, "parts": results });
        fs::write(args.setup.out.join("results.json"), format!("{all:#}\n"))?;
        fs::write(args.setup.out.join("results.md"), report::markdown(&all))?;
    }
    let failed: Vec<&str> = results.iter().filter(|(_, r)| failed(r)).map(|(n, _)| n.as_str()).collect();
    writeln!(stdout(), "{:.0} s, results in {}", started.elapsed().as_secs_f64(), args.setup.out.display())?;
    if failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(stdout(), "failed: {}", failed.join(", "))?;
    Ok(ExitCode::FAILURE)
}

fn failed(part: &Value) -> bool {
    part["result"].get("failed").is_some()
}

/// Runs a part in a process of its own, at most for as long as it may take and as is left.
fn isolated(part: &Part, setup: &Setup, left: Duration) -> Result<Value> {
    let limit = Duration::from_secs(part.seconds).min(left);
    ensure!(limit > Duration::from_secs(5), "left out: the {} s for all parts are over", ALL.as_secs());
    let file = setup.out.join(format!("{}.json", part.name));
    let _ = fs::remove_file(&file);
    let log = setup.out.join(format!("{}.log", part.name));
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--out").arg(&setup.out).args(["--part", part.name]).args(setup.dry.then_some("--dry"));
    for tests in &setup.tests {
        command.arg("--tests").arg(tests);
    }
    let output = File::create(&log)?;
    command.stdout(output.try_clone()?).stderr(output);
    let ended = programs::within(&mut command, limit)?;
    let words = fs::read_to_string(&log).unwrap_or_default();
    let last = words.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or("no word");
    let status = ended.with_context(|| format!("stopped after {} s ({last})", limit.as_secs()))?;
    ensure!(status.success(), "{last}");
    let result = serde_json::from_str(&fs::read_to_string(&file)?)?;
    fs::remove_file(&file)?;
    Ok(result)
}

fn main() -> ExitCode {
    run().unwrap_or_else(|error| {
        let _ = writeln!(stderr(), "{error:#}");
        ExitCode::FAILURE
    })
}
