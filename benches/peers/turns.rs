//! What a turn is: a process whose last line is JSON.

use std::{process::Command, time::Duration};

use anyhow::{Context, Result, anyhow, ensure};
use qrun::bench::child::{self, last_line};
use serde_json::Value;

/// Runs a command and reads the JSON of its last line. One that does not start, crashes, is not done in time, or does not
/// end with JSON is an error, which says how long it ran; what it said goes to stderr.
pub fn run(command: &mut Command, limit: Duration) -> Result<Value> {
    let ended = child::run(command, limit).with_context(|| command.get_program().display().to_string())?;
    let (seconds, hint) = (ended.seconds, "all that it said is on stderr");
    let late = || anyhow!("still running after {seconds:.1} s and stopped; --limit SECONDS gives it longer");
    let answer = ended.status.ok_or_else(late).and_then(|status| {
        ensure!(status.success(), "{status} after {seconds:.1} s: {}; {hint}", last_line(&ended.stderr));
        let answer = last_line(&ended.stdout);
        serde_json::from_str(answer).with_context(|| format!("expected JSON, found {answer}; {hint}"))
    });
    if answer.is_err() {
        eprint!("{}", ended.stderr);
    }
    answer
}
