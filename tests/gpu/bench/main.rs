//! Everything that is to be known of a GPU, by one command that needs its driver and nothing else.
//!
//! Each part runs in a process of its own, so that one that fails, hangs or takes the device's context with it leaves
//! the others alone. DIR gets `results.json`, `results.md`, `models.json` and `log.txt`: a machine that is lent gives few
//! files back. `--dry` takes tiny sizes and few tests: the numbers mean nothing then, but every part has run.

mod guesses;
mod kernels;
mod latent;
mod machine;
mod models;
mod norms;
mod programs;
mod recurrent;

use std::{
    fs,
    io::{Write, stderr, stdout},
    path::PathBuf,
    process::{Command, ExitCode},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use qrun::bench::{Column, child, fields::distinct, record, table};
use serde_json::{Map, Value, json};

/// What the parts are told.
#[derive(Parser)]
#[command(args_override_self = true)]
pub struct Setup {
    /// Where results go.
    #[arg(long)]
    pub out: PathBuf,
    /// Tiny sizes, for an emulated device.
    #[arg(long)]
    pub dry: bool,
    /// Parts to run, not all.
    #[arg(long, value_parser = PARTS.map(|part| part.name))]
    pub only: Vec<String>,
    /// The part that this process is.
    #[arg(long, hide = true, value_parser = PARTS.map(|part| part.name))]
    pub part: Option<String>,
}

struct Part {
    name: &'static str,
    seconds: u64,
    run: fn(&Setup) -> Result<Value>,
}

/// In the order of their worth, should the machine be taken away in the middle.
const PARTS: [Part; 11] = [
    Part { name: "device", seconds: 10, run: machine::device },
    Part { name: "bandwidth", seconds: 10, run: machine::bandwidth },
    Part { name: "launches", seconds: 10, run: machine::launches },
    Part { name: "models", seconds: 105, run: models::speed },
    Part { name: "guesses", seconds: 45, run: guesses::speed },
    Part { name: "startup", seconds: 20, run: programs::startup },
    Part { name: "kernels", seconds: 20, run: kernels::speed },
    Part { name: "tests", seconds: 130, run: programs::tests },
    Part { name: "tests-compute_80", seconds: 100, run: programs::compiled },
    // The driver is asked in which module a kernel is, and most say that they have none: no error.
    Part { name: "memcheck", seconds: 15, run: |s| programs::sanitized(s, "memcheck", &["--report-api-errors", "no"]) },
    Part { name: "racecheck", seconds: 15, run: |s| programs::sanitized(s, "racecheck", &[]) },
];

fn run() -> Result<ExitCode> {
    let setup = Setup::parse();
    if let Some(name) = &setup.part {
        let part = PARTS.iter().find(|p| p.name == name).context("a part")?;
        writeln!(stdout(), "{}", (part.run)(&setup)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    fs::create_dir_all(&setup.out)?;
    let started = Instant::now();
    let (mut results, mut failed) = (Map::new(), Vec::new());
    let mut log = fs::File::create(setup.out.join("log.txt"))?;
    for part in PARTS.iter().filter(|p| setup.only.is_empty() || setup.only.iter().any(|o| o == p.name)) {
        let began = Instant::now();
        let result = isolated(part, &setup, &mut log);
        let seconds = (began.elapsed().as_secs_f64() * 10.0).round() / 10.0;
        let result = result.unwrap_or_else(|error| json!({ "failed": format!("{error:#}") }));
        let wrong = result["failed"].as_str().map(|why| format!("  FAILED: {why}")).unwrap_or_default();
        writeln!(stdout(), "{:16} {seconds:6.1} s{wrong}", part.name)?;
        failed.extend((!wrong.is_empty()).then_some(part.name));
        // A part that was stopped leaves its files behind: gigabytes.
        let _ = fs::remove_dir_all(setup.out.join(models::FOLDER));
        results.insert(part.name.into(), json!({ "seconds": seconds, "result": result }));
        // After each part, so that what is there survives whatever comes.
        let all = json!({ "version": env!("CARGO_PKG_VERSION"), "dry": setup.dry, "parts": results });
        fs::write(setup.out.join("results.json"), record::json(&all))?;
        fs::write(setup.out.join("results.md"), markdown(&results, setup.dry))?;
    }
    writeln!(stdout(), "{:.0} s, results in {}", started.elapsed().as_secs_f64(), setup.out.display())?;
    if !failed.is_empty() {
        writeln!(stdout(), "failed: {}", failed.join(", "))?;
    }
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The results for people: a table or a list per part, whatever a part has found.
fn markdown(parts: &Map<String, Value>, dry: bool) -> String {
    let note = if dry { "\nA dry run with tiny sizes: the numbers mean nothing.\n" } else { "" };
    let part = |(name, part): (&String, &Value)| {
        let result = match &part["result"] {
            Value::Array(rows) => of_objects(rows),
            Value::Object(facts) => facts.iter().map(|(key, value)| format!("- {key}: {}\n", words(value))).collect(),
            other => format!("{other}\n"),
        };
        format!("\n## {name} ({} s)\n\n{result}", part["seconds"])
    };
    format!("# qrun on a GPU\n{note}{}", parts.iter().map(part).collect::<String>())
}

/// The table of objects, with a column for each key that one of them has.
fn of_objects(rows: &[Value]) -> String {
    let keys = distinct(rows.iter().filter_map(Value::as_object).flat_map(|row| row.keys()), |&key| key);
    let column = |key| Column::left(key, 0, move |row: &Value| row.get(key).map(words).unwrap_or_default());
    table(&keys.into_iter().map(column).collect::<Vec<_>>(), rows)
}

/// A value in words, with what lies inside of it.
fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(words).collect::<Vec<_>>().join(", "),
        Value::Object(all) => all.iter().map(|(k, v)| format!("{k} {}", words(v))).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// Runs a part in a process of its own, at most for as long as it may take. What it says goes into the log.
fn isolated(part: &Part, setup: &Setup, log: &mut fs::File) -> Result<Value> {
    // A device's limits are not those of a busy machine that emulates one: no dry run fails for its time.
    let limit = Duration::from_secs(part.seconds) * if setup.dry { 6 } else { 1 };
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--out").arg(&setup.out).args(["--part", part.name]).args(setup.dry.then_some("--dry"));
    let ended = child::run(programs::ends_with_us(&mut command), limit)?;
    writeln!(log, "== {}\n{}{}", part.name, ended.stdout, ended.stderr)?;
    let last = child::last_line(&ended.stderr);
    let status = ended.status.with_context(|| format!("stopped after {} s ({last})", limit.as_secs()))?;
    ensure!(status.success(), "{last}");
    Ok(serde_json::from_str(child::last_line(&ended.stdout))?)
}

fn main() -> ExitCode {
    run().unwrap_or_else(|error| {
        let _ = writeln!(stderr(), "{error:#}");
        ExitCode::FAILURE
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn every_key_is_a_column_and_what_would_break_a_line_is_not_in_it() {
        let rows = [json!({ "a": 1, "b": "x|y" }), json!({ "b": null, "c": [2, "no\nmore"] })];
        let expected = "| a | b | c |\n|---|---|---|\n| 1 | x\\|y |  |\n|  | null | 2, no more |\n";
        assert_eq!(super::of_objects(&rows), expected);
    }

    #[test]
    fn a_machine_lends_ten_minutes_to_a_command() {
        assert!(super::PARTS.iter().map(|part| part.seconds).sum::<u64>() < 540, "all parts at their limits");
    }
}
