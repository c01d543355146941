//! Who takes a turn when, and what a turn is: a process whose last line is JSON.

use std::{process::Command, time::Duration};

use anyhow::{Context, Result, anyhow, ensure};
use qrun::bench::child::{self, last_line};
use serde::Serialize;
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

/// What an engine's turns gave.
#[derive(Default, Serialize)]
pub struct Taken {
    pub turns: Vec<Value>,
    /// Why one of them gave nothing, and there were no more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// What each engine's turns gave, in the order in which they were named, and who took turns in each round.
pub type Rounds<'a> = (Vec<(&'a str, Taken)>, Vec<Vec<&'a str>>);

/// Lets engines take turns. One that fails says why in its place and is left out of later rounds. Round r begins with
/// engine r mod n of those n that are left, for the first one finds the machine in another state than those who follow it.
pub fn rounds<'a>(names: &[&'a str], n: usize, mut turn: impl FnMut(usize, &str) -> Result<Value>) -> Rounds<'a> {
    let mut engines: Vec<_> = names.iter().map(|name| (*name, Taken::default())).collect();
    let mut order = Vec::new();
    for round in 0..n {
        let mut left: Vec<_> = engines.iter_mut().filter(|(_, taken)| taken.failed.is_none()).collect();
        let first = round % left.len().max(1);
        left.rotate_left(first);
        order.push(left.iter().map(|(name, _)| *name).collect());
        for (name, taken) in left {
            match turn(round, name) {
                Ok(turn) => taken.turns.push(turn),
                Err(error) => taken.failed = Some(format!("{error:#}")),
            }
        }
    }
    (engines, order)
}
