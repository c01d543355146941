//! Who takes a turn when.

use anyhow::Result;
use serde_json::{Map, Value, json};

/// Lets engines take turns at `what`: what each of them gave, and who took turns in each round. Of an engine there are
/// its `turns`, and where one of them gave nothing `failed`, which says why; it is left out of later rounds. Round r begins
/// with engine r mod n of those n that are left, for the first one finds the machine in another state than those who follow.
pub fn rounds<'a>(
    what: &str,
    names: &[&'a str],
    n: usize,
    mut turn: impl FnMut(usize, &str) -> Result<Value>,
) -> (Map<String, Value>, Vec<Vec<&'a str>>) {
    let mut engines: Map<_, _> = names.iter().map(|name| (name.to_string(), json!({ "turns": [] }))).collect();
    let mut order = Vec::new();
    for round in 0..n {
        let mut left: Vec<&str> = names.iter().copied().filter(|name| engines[*name]["failed"].is_null()).collect();
        let first = round % left.len().max(1);
        left.rotate_left(first);
        for &name in &left {
            match turn(round, name) {
                Ok(turn) => {
                    eprintln!("{what} round {round}: {name} {turn}");
                    engines[name]["turns"].as_array_mut().expect("a list").push(turn);
                }
                Err(error) => {
                    eprintln!("{what} round {round}: {name} failed: {error:#}");
                    engines[name]["failed"] = format!("{error:#}").into();
                }
            }
        }
        order.push(left);
    }
    (engines, order)
}
