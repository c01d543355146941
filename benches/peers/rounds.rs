//! Who takes a turn when.

use anyhow::Result;
use serde::Serialize;
use serde_json::Value;

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
