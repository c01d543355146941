//! Records of `cargo bench --bench kernels`: what is in them, and how two are compared.

use std::path::Path;

use qrun_quant::GgmlType;
use serde_json::{Value, json};

#[path = "../../benches/kernels/record.rs"]
mod record;

use record::{differences, losses, ratios, read};

/// A record of one row and one count, with something else at a JSON pointer.
fn with(pointer: &str, value: Value) -> Value {
    let mut record = json!({
        "machine": { "cpu": "A processor", "threads": 2, "commit": "0123456789ab", "timestamp": "2026-11-21T12:00:00Z" },
        "isa": "Avx512Vnni",
        "limits": { "read_gb_per_s": 30.0, "dot_gop_per_s": 1000.0, "fma_gop_per_s": 200.0 },
        "tokens": 512,
        "repacked": true,
        "rows": [{
            "format": "Q4_K", "rows": 8192, "cols": 2048, "repack_gb_per_s": 4.0, "one_token_gb_per_s": 24.0,
            "read_share": 0.8, "many_tokens_gop_per_s": 500.0, "peak_share": 0.5,
        }],
        "instructions_per_weight": { "isa": "Avx2", "rows": 2048, "cols": 2048, "formats": { "Q4_K": 0.5 } },
    });
    *record.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer} is in a record")) = value;
    record
}

fn sample() -> Value {
    with("/tokens", json!(512))
}

#[test]
fn what_is_no_record_is_refused_by_the_field() {
    for record in [sample(), with("/instructions_per_weight", Value::Null), with("/rows/0/peak_share", Value::Null)] {
        assert_eq!(read(record.to_string().as_bytes()), Ok(record));
    }
    for (pointer, value, words) in [
        ("/rows/0/read_share", Value::Null, "rows[0].read_share"),
        ("/rows/0/cols", json!("-1"), "rows[0].cols"),
        ("/limits", json!([]), "limits"),
        ("/machine/commit", json!(7), "machine.commit"),
        ("/instructions_per_weight/formats/Q4_K", json!("few"), "instructions_per_weight.formats.Q4_K"),
    ] {
        let said = read(with(pointer, value).to_string().as_bytes()).expect_err(pointer);
        assert!(said.contains(words) && said.contains("--save"), "{pointer}: {said}");
    }
    assert!(read(b"format rows x cols").is_err());
}

#[test]
fn shares_are_compared_and_speeds_are_not() {
    let old = sample();
    for (read, peak, expected, said) in [
        (json!(0.8), json!(0.5), "1.00 1.00", vec![]),
        (json!(0.88), json!(0.46), "1.10 0.92", vec![]),
        (json!(0.68), json!(0.5), "0.85 1.00", vec!["one token: 0.85"]),
        (json!(0.8), json!(0.4), "1.00 0.80", vec!["many tokens: 0.80"]),
        (json!(0.4), json!(0.25), "0.50 0.50", vec!["one token: 0.50", "many tokens: 0.50"]),
        (json!(0.8), json!(null), "1.00 –", vec![]),
        (json!(f64::NAN), json!(0.5), "NaN 1.00", vec!["one token: NaN"]),
    ] {
        // A machine that is half as fast at everything has lost nothing.
        let mut new = with("/rows/0/one_token_gb_per_s", json!(12.0));
        (new["rows"][0]["read_share"], new["rows"][0]["peak_share"]) = (read, peak);
        let shown = ratios(&new["rows"][0], &old).expect("the same product");
        assert_eq!(shown.map(|ratio| qrun::bench::table::fixed(ratio, 2)).join(" "), expected);
        let expected = said.into_iter().map(|said| format!("Q4_K 8192 x 2048, {said} of the recorded share"));
        assert_eq!(losses(&new, &old), expected.collect::<Vec<_>>());
    }
    // Only the same product is compared.
    let old = with("/rows/0/read_share", json!(8.0));
    assert_eq!(losses(&sample(), &old).len(), 1);
    for (field, value) in [("format", json!("Q5_K")), ("rows", json!(1)), ("cols", json!(256))] {
        let mut old = old.clone();
        old["rows"][0][field] = value;
        assert_eq!(losses(&sample(), &old), Vec::<String>::new(), "{field}");
    }
}

#[test]
fn instructions_are_compared_where_the_same_code_was_counted() {
    let more = with("/instructions_per_weight/formats/Q4_K", json!(0.51));
    assert_eq!(losses(&more, &sample()), ["Q4_K: 0.510 instructions per weight, recorded 0.500"]);
    for (pointer, value) in [
        ("/instructions_per_weight/formats/Q4_K", json!(0.501)),
        ("/instructions_per_weight/formats/Q4_K", json!(0.3)),
        ("/instructions_per_weight/formats", json!({ "Q5_K": 9.0 })),
        ("/instructions_per_weight", Value::Null),
    ] {
        assert_eq!(losses(&with(pointer, value), &sample()), Vec::<String>::new(), "{pointer}");
    }
    for (field, value) in [("isa", json!("AvxVnni")), ("rows", json!(1)), ("cols", json!(1))] {
        let mut other = more.clone();
        other["instructions_per_weight"][field] = value;
        assert_eq!(losses(&other, &sample()), Vec::<String>::new(), "{field}");
    }
}

#[test]
fn what_was_not_the_same_is_said() {
    assert_eq!(differences(&sample(), &sample()), Vec::<String>::new());
    for (pointer, value, said) in [
        ("/machine/cpu", json!("Another"), "processor: Another, in the record A processor"),
        ("/machine/threads", json!(4), "threads: 4, in the record 2"),
        ("/isa", json!("Avx2"), "instruction set: Avx2, in the record Avx512Vnni"),
        ("/tokens", json!(64), "tokens: 64, in the record 512"),
        ("/repacked", json!(false), "repacked: false, in the record true"),
    ] {
        assert_eq!(differences(&with(pointer, value), &sample()), [said]);
    }
}

/// Formats that came after the first record: those made until that day have no row of them.
const SINCE: [(GgmlType, &str); 1] = [(GgmlType::MXFP4, "2026-11-23")];

/// What is wrong with a record that is to be kept: a tree that was changed, a format without a row, a number that is none.
fn faults(record: &Value) -> Vec<String> {
    let rows = record["rows"].as_array().expect("rows");
    let made = record["machine"]["timestamp"].as_str().expect("a time");
    let known = GgmlType::all().filter(|ty| SINCE.iter().all(|(later, day)| later != ty || made >= *day));
    let missing = known.filter(|ty| rows.iter().all(|row| row["format"] != ty.name()));
    let mut faults: Vec<_> = missing.map(|ty| format!("no row of {}", ty.name())).collect();
    let fields = ["one_token_gb_per_s", "read_share", "many_tokens_gop_per_s"];
    let odd = rows.iter().filter(|row| fields.iter().any(|field| row[*field].as_f64().is_none_or(|x| x <= 0.0)));
    faults.extend(odd.map(Value::to_string));
    let commit = record["machine"]["commit"].as_str().expect("a commit");
    faults.extend(commit.ends_with("-dirty").then(|| commit.to_owned()));
    faults
}

#[test]
fn recorded_runs_are_complete_and_of_a_commit() {
    let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/runs");
    for file in std::fs::read_dir(runs).expect("benches/runs").map(|entry| entry.expect("an entry").path()) {
        if file.to_string_lossy().ends_with("-kernels.json") {
            let record = read(&std::fs::read(&file).expect("a readable file"));
            let record = record.unwrap_or_else(|e| panic!("{}: {e}", file.display()));
            assert_eq!(faults(&record), Vec::<String>::new(), "{}", file.display());
        }
    }
    // And these are found.
    let mut wrong = with("/machine/commit", json!("0123456789ab-dirty"));
    wrong["rows"][0]["read_share"] = json!(f64::NAN);
    assert_eq!(faults(&wrong).len(), 2 + GgmlType::all().count() - 1 - SINCE.len());
}
