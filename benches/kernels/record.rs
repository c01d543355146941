//! Records of this bench: what is in them, and how two are compared.

use qrun::bench::{check, list, number, text};
use serde_json::Value;

/// How much smaller a share may be than the recorded one before it counts as lost: what shares wander by on a machine
/// that others use as well.
pub const MARGIN: f64 = 0.10;
/// How many more instructions count as lost. One build gives the same number every time; compilers differ a little.
const MORE_INSTRUCTIONS: f64 = 0.005;

/// Reads a record; an error says what is missing or of another kind, and where.
pub fn read(json: &[u8]) -> Result<Value, String> {
    let what = "a run of `cargo bench --bench kernels -- --save`";
    let record: Value = serde_json::from_slice(json).map_err(|e| format!("expected {what}: {e}"))?;
    let texts = "machine.cpu machine.commit machine.timestamp isa rows[].format";
    let numbers = "machine.threads limits.read_gb_per_s tokens rows[].rows rows[].cols rows[].one_token_gb_per_s \
         rows[].read_share rows[].many_tokens_gop_per_s";
    let formats = record["instructions_per_weight"]["formats"].as_object().into_iter().flatten();
    let counts = formats.map(|(format, _)| format!(" instructions_per_weight.formats.{format}"));
    check(&record, what, texts, &(numbers.to_owned() + &counts.collect::<String>()))?;
    Ok(record)
}

/// Shares of the limits over those of the same product in an older record: of the read bandwidth with one token, and of
/// the arithmetic peak with many (`None` where one of the two is not known). Speeds themselves wander with the machine.
pub fn ratios(row: &Value, old: &Value) -> Option<[Option<f64>; 2]> {
    let product = |row: &Value| ["format", "rows", "cols"].map(|field| row[field].clone());
    let old = list(&old["rows"]).iter().find(|old| product(old) == product(row))?;
    let ratio = |share| Some(number(row, share)? / number(old, share)?);
    Some([Some(ratio("read_share").unwrap_or(f64::NAN)), ratio("peak_share")])
}

/// What was not the same when an older run was made, so that a reader knows what the ratios hold.
pub fn differences(new: &Value, old: &Value) -> Vec<String> {
    let facts = [
        ("processor", "/machine/cpu"),
        ("threads", "/machine/threads"),
        ("instruction set", "/isa"),
        ("tokens", "/tokens"),
        ("repacked", "/repacked"),
    ];
    let facts = facts.map(|(what, at)| (what, [new, old].map(|record| record.pointer(at).unwrap_or(&Value::Null))));
    let differ = facts.into_iter().filter(|(_, [new, old])| new != old);
    differ.map(|(what, [new, old])| format!("{what}: {new}, in the record {old}").replace('"', "")).collect()
}

/// Sentences about what is worse than in an older run by more than the margins. What only one of them has is passed
/// over; what is no number is worse.
pub fn losses(new: &Value, old: &Value) -> Vec<String> {
    let mut losses = Vec::new();
    for row in list(&new["rows"]) {
        let ratios = ratios(row, old).unwrap_or_default();
        for (ratio, what) in ratios.into_iter().zip(["one token", "many tokens"]) {
            if let Some(ratio) = ratio.filter(|ratio| ratio.is_nan() || *ratio < 1.0 - MARGIN) {
                let (format, rows, cols) = (text(row, "format"), &row["rows"], &row["cols"]);
                losses.push(format!("{format} {rows} x {cols}, {what}: {ratio:.2} of the recorded share"));
            }
        }
    }
    let counts = [new, old].map(|record| &record["instructions_per_weight"]);
    // Of another product, or with other instructions, there is nothing to compare.
    let same = ["isa", "rows", "cols"].into_iter().all(|field| counts[0][field] == counts[1][field]);
    let same = same && new["repacked"] == old["repacked"];
    for (format, new) in counts[0]["formats"].as_object().into_iter().flatten().filter(|_| same) {
        let both = new.as_f64().zip(number(&counts[1]["formats"], format));
        if let Some((new, old)) = both.filter(|(new, old)| *new > old * (1.0 + MORE_INSTRUCTIONS)) {
            losses.push(format!("{format}: {new:.3} instructions per weight, recorded {old:.3}"));
        }
    }
    losses
}
