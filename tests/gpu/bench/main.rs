//! Everything that is to be known of a GPU, by one command that needs its driver and nothing else.
//!
//! ```text
//! gpu-bench --out DIR [--only PART]... [--dry]
//! ```
//! Each part runs in a process of its own, so that one that fails, hangs or takes the device's context with it leaves
//! the others alone. DIR gets `results.json`, `results.md`, `models.json` and `log.txt`: a machine that is lent gives few
//! files back. `--dry` takes tiny sizes and few tests: the numbers mean nothing then, but every part has run.

mod kernels;
mod machine;
mod models;
mod programs;
mod report;

use std::{
    fs::{self, File},
    io::{Write, stderr, stdout},
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value, json};

const USAGE: &str = "usage: gpu-bench --out DIR [--only PART]... [--dry]";

/// What the parts are told.
pub struct Setup {
    /// Where results go.
    pub out: PathBuf,
    /// Tiny sizes, for an emulated device.
    pub dry: bool,
}

struct Part {
    name: &'static str,
    seconds: u64,
    run: fn(&Setup) -> Result<Value>,
}

/// In the order of their worth, should the machine be taken away in the middle.
const PARTS: [Part; 10] = [
    Part { name: "device", seconds: 20, run: machine::device },
    Part { name: "bandwidth", seconds: 25, run: machine::bandwidth },
    Part { name: "launches", seconds: 15, run: machine::launches },
    Part { name: "models", seconds: 170, run: models::speed },
    Part { name: "kernels", seconds: 60, run: kernels::speed },
    Part { name: "tests", seconds: 80, run: programs::tests },
    Part { name: "tests-compute_75", seconds: 50, run: programs::tests_as_sm_75 },
    Part { name: "tests-compute_80", seconds: 50, run: programs::tests_as_sm_80 },
    Part { name: "memcheck", seconds: 30, run: programs::memcheck },
    Part { name: "racecheck", seconds: 30, run: programs::racecheck },
];

// A machine lends ten minutes to a command: all parts at their limits take less than nine.
const _: () = {
    let (mut seconds, mut i) = (0, 0);
    while i < PARTS.len() {
        seconds += PARTS[i].seconds;
        i += 1;
    }
    assert!(seconds < 540);
};

/// Bytes of a part's words that are kept, the last ones.
const WORDS: usize = 1 << 20;

struct Args {
    setup: Setup,
    only: Vec<String>,
    part: Option<String>,
}

fn args() -> Result<Args> {
    let mut words = std::env::args().skip(1);
    let (mut out, mut only, mut part) = (None, Vec::new(), None);
    let mut dry = false;
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} needs a value\n{USAGE}"));
        match word.as_str() {
            "--out" => out = Some(PathBuf::from(value()?)),
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
    Ok(Args { setup: Setup { out, dry }, only, part })
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
    let mut log = File::create(args.setup.out.join("log.txt"))?;
    let mut results = Map::new();
    for part in PARTS.iter().filter(|p| args.only.is_empty() || args.only.iter().any(|o| o == p.name)) {
        let began = Instant::now();
        let result = isolated(part, &args.setup, &mut log);
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

/// Runs a part in a process of its own, at most for as long as it may take. What it says goes into the log.
fn isolated(part: &Part, setup: &Setup, log: &mut File) -> Result<Value> {
    let limit = Duration::from_secs(part.seconds);
    let file = setup.out.join(format!("{}.json", part.name));
    let said = setup.out.join("part.log");
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--out").arg(&setup.out).args(["--part", part.name]).args(setup.dry.then_some("--dry"));
    let output = File::create(&said)?;
    command.stdout(output.try_clone()?).stderr(output);
    let ended = programs::within(&mut command, limit);
    let (result, words) = (taken(&file), taken(&said).unwrap_or_default());
    writeln!(log, "== {}", part.name)?;
    log.write_all(&words[words.len().saturating_sub(WORDS)..])?;
    let words = String::from_utf8_lossy(&words);
    let last = words.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or("no word");
    let status = ended?.with_context(|| format!("stopped after {} s ({last})", limit.as_secs()))?;
    ensure!(status.success(), "{last}");
    Ok(serde_json::from_slice(&result.context("no result")?)?)
}

/// What a file holds, which is gone then.
fn taken(file: &Path) -> Option<Vec<u8>> {
    let bytes = fs::read(file).ok()?;
    fs::remove_file(file).ok()?;
    Some(bytes)
}

fn main() -> ExitCode {
    run().unwrap_or_else(|error| {
        let _ = writeln!(stderr(), "{error:#}");
        ExitCode::FAILURE
    })
}
