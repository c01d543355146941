//! Reports read back, and runs beside other engines as `benches/peers.rs` records them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::super::report::{Report, decoded};

/// A file of measurements.
#[derive(Debug, Clone)]
pub enum Recorded {
    /// Of `qrun bench`.
    Report(Box<Report>),
    /// Of `cargo bench --bench peers`.
    Peers(Peers),
}

/// The same work through several engines, interleaved on one machine.
#[derive(Debug, Clone, Deserialize)]
pub struct Peers {
    machine: Machine,
    prefill: usize,
    decode: usize,
    rows: Vec<Row>,
}

#[derive(Debug, Clone, Deserialize)]
struct Machine {
    cpu: String,
    threads: usize,
    date: String,
    commit: String,
}

#[derive(Debug, Clone, Deserialize)]
struct Row {
    model: String,
    #[serde(rename = "type")]
    ty: String,
    engines: serde_json::Map<String, Value>,
}

/// Tokens per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speed {
    /// Of the prompt.
    pub prompt: f64,
    /// After it.
    pub decode: f64,
}

/// The fastest of an engine's turns, in tokens per second of its `prefill` or `decode`; `None` where it has none.
pub fn best(engine: &Value, what: &str) -> Option<f64> {
    engine["turns"].as_array()?.iter().filter_map(|turn| turn[what].as_f64()).reduce(f64::max)
}

impl Recorded {
    /// Reads either kind.
    ///
    /// # Errors
    /// What is missing or of another kind, and where.
    pub fn read(json: &[u8]) -> Result<Self, String> {
        let kind: BTreeMap<String, Value> =
            serde_json::from_slice(json).map_err(|e| format!("expected a report in JSON: {e}"))?;
        if kind.contains_key("rows") && !kind.contains_key("configs") {
            return Ok(Self::Peers(decoded(json, "a run of `cargo bench --bench peers`")?));
        }
        Report::decode(json).map(|report| Self::Report(Box::new(report)))
    }
}

impl Peers {
    /// What was run, and on what.
    pub fn described(&self) -> String {
        format!(
            "{}, {} threads. {} tokens of prompt and {} after it; each engine's best turn.",
            self.machine.cpu, self.machine.threads, self.prefill, self.decode
        )
    }

    /// The commit that was measured, and when.
    pub fn footer(&self) -> String {
        format!("commit {} · {}", self.machine.commit, self.machine.date)
    }

    /// A heading for the comparison.
    pub fn title(&self) -> String {
        format!("The same work through other engines, {} tokens of prompt and {} after it", self.prefill, self.decode)
    }

    /// The engines, in the order in which they took turns.
    pub fn engines(&self) -> Vec<String> {
        let mut engines: Vec<String> = Vec::new();
        for name in self.rows.iter().flat_map(|row| row.engines.keys()) {
            if !engines.contains(name) {
                engines.push(name.clone());
            }
        }
        engines
    }

    /// Each model, and how fast each of the engines was: the best of its turns.
    pub fn rows(&self) -> Vec<([String; 2], Vec<Option<Speed>>)> {
        let (engines, mut rows) = (self.engines(), Vec::new());
        for row in &self.rows {
            let speed = |name: &String| {
                let engine = row.engines.get(name)?;
                Some(Speed { prompt: best(engine, "prefill")?, decode: best(engine, "decode")? })
            };
            rows.push(([row.model.clone(), row.ty.clone()], engines.iter().map(speed).collect()));
        }
        rows
    }
}
