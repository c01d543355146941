//! A run of this bench as data: what is recorded, and how two records are compared.

use std::collections::BTreeMap;

use qrun::bench::{limits::Limits, machine::Machine, report::decoded};
use serde::{Deserialize, Serialize};

/// How much smaller a share may be than the recorded one before it counts as lost: what shares wander by on a machine
/// that others use as well.
pub const MARGIN: f64 = 0.10;
/// How many more instructions count as lost. One build gives the same number every time; compilers differ a little.
pub const MORE_INSTRUCTIONS: f64 = 0.005;

/// A run of the bench.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Where and when.
    pub machine: Machine,
    /// The instruction set that was chosen.
    pub isa: String,
    /// What the machine can do at most: the best that was measured during the run.
    pub limits: Limits,
    /// Tokens of the products of many.
    pub tokens: usize,
    /// Whether weights were put into the order that the kernels read fastest.
    pub repacked: bool,
    /// One row per format and shape.
    pub rows: Vec<Row>,
    /// `None` where they were not counted.
    pub instructions_per_weight: Option<Counts>,
}

/// How fast the products of one format and shape are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Name of the format.
    pub format: String,
    /// Rows of the matrix.
    pub rows: usize,
    /// Its columns.
    pub cols: usize,
    /// Repacking, 10⁹ bytes of weights per second; `None` of formats that stay as they are.
    pub repack_gb_per_s: Option<f64>,
    /// One token, 10⁹ bytes of weights per second.
    pub one_token_gb_per_s: f64,
    /// That over the bandwidth measured beside it, 1 for all of it.
    pub read_share: f64,
    /// Many tokens, 10⁹ operations per second (a multiplication and an addition are two).
    pub many_tokens_gop_per_s: f64,
    /// That over the peak measured beside it: of int8 dot products, or of f32 multiply-additions for formats of floats;
    /// `None` where it is not known.
    pub peak_share: Option<f64>,
}

/// Instructions of a product of one token on one thread over the number of weights: the kernel, preparing the
/// activations, handing out the work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// The instruction set: the best that the counting machine knows.
    pub isa: String,
    /// Rows of the matrix.
    pub rows: usize,
    /// Its columns.
    pub cols: usize,
    /// By the format's name.
    pub formats: BTreeMap<String, f64>,
}

impl Record {
    /// Reads JSON.
    ///
    /// # Errors
    /// What is missing or of another kind, and where.
    pub fn decode(json: &[u8]) -> Result<Self, String> {
        decoded(json, "a run of `cargo bench --bench kernels -- --save`")
    }

    /// As JSON with one field per line. JSON has finite numbers only: others become `null`.
    ///
    /// # Errors
    /// The serializer's.
    pub fn encode(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// The row of the same product.
    pub fn same_product(&self, row: &Row) -> Option<&Row> {
        self.rows.iter().find(|r| (&r.format, r.rows, r.cols) == (&row.format, row.rows, row.cols))
    }

    /// What was not the same when an older run was made, so that a reader knows what the ratios hold.
    pub fn differences(&self, old: &Self) -> Vec<String> {
        let facts = |r: &Self| {
            [
                ("processor", r.machine.cpu.clone()),
                ("threads", r.machine.threads.to_string()),
                ("instruction set", r.isa.clone()),
                ("tokens", r.tokens.to_string()),
                ("repacked", r.repacked.to_string()),
            ]
        };
        let both = facts(self).into_iter().zip(facts(old)).filter(|(new, old)| new != old);
        both.map(|((what, new), (_, old))| format!("{what}: {new}, in the record {old}")).collect()
    }

    /// Sentences about what is worse than in an older run by more than the margins. What only one of them has is passed
    /// over; what is no number is worse.
    pub fn losses(&self, old: &Self) -> Vec<String> {
        let mut losses = Vec::new();
        for row in &self.rows {
            let Some(change) = old.same_product(row).map(|old| Change::between(old, row)) else { continue };
            for (what, ratio) in [("one token", Some(change.read)), ("many tokens", change.peak)] {
                if let Some(ratio) = ratio.filter(|ratio| lost(*ratio)) {
                    let (format, rows, cols) = (&row.format, row.rows, row.cols);
                    losses.push(format!("{format} {rows} x {cols}, {what}: {ratio:.2} of the recorded share"));
                }
            }
        }
        if let (Some(new), Some(old)) = (&self.instructions_per_weight, &old.instructions_per_weight) {
            losses.extend(new.losses(old));
        }
        losses
    }
}

/// Shares of the limits over the recorded ones. Speeds themselves wander with the machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// Of the read bandwidth, one token.
    pub read: f64,
    /// Of the arithmetic peak, many tokens; `None` where one of the two is not known.
    pub peak: Option<f64>,
}

impl Change {
    /// From an older row to a newer one.
    pub fn between(old: &Row, new: &Row) -> Self {
        let peak = new.peak_share.zip(old.peak_share).map(|(new, old)| new / old);
        Self { read: new.read_share / old.read_share, peak }
    }
}

/// Whether a ratio of shares is below the margin, or no number.
fn lost(ratio: f64) -> bool {
    ratio.is_nan() || ratio < 1.0 - MARGIN
}

impl Counts {
    /// Formats that execute more than in an older count of the same product with the same instruction set.
    fn losses(&self, old: &Self) -> Vec<String> {
        if (&self.isa, self.rows, self.cols) != (&old.isa, old.rows, old.cols) {
            return Vec::new();
        }
        let both = self.formats.iter().filter_map(|(format, new)| Some((format, *new, *old.formats.get(format)?)));
        let more = both.filter(|(_, new, old)| (new / old).is_nan() || *new > old * (1.0 + MORE_INSTRUCTIONS));
        more.map(|(format, new, old)| format!("{format}: {new:.3} instructions per weight, recorded {old:.3}"))
            .collect()
    }
}
