//! Records of `cargo bench --bench kernels`: what is in them, and how two are compared.

use qrun_quant::GgmlType;
use serde_json::{Value, json};

use super::{measured, runs};

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
    for (read, peak, expected, said) in [
        (json!(0.8), json!(0.5), "1.00 1.00", ""),
        (json!(0.88), json!(0.46), "1.10 0.92", ""),
        (json!(0.68), json!(0.5), "0.85 1.00", "one token: 0.85"),
        (json!(0.8), json!(0.4), "1.00 0.80", "many tokens: 0.80"),
        (json!(0.4), json!(0.25), "0.50 0.50", "one token: 0.50, many tokens: 0.50"),
        (json!(0.8), json!(null), "1.00 –", ""),
        (json!(f64::NAN), json!(0.5), "NaN 1.00", "one token: NaN"),
    ] {
        // A machine that is half as fast at everything has lost nothing.
        let mut new = with("/rows/0/one_token_gb_per_s", json!(12.0));
        (new["rows"][0]["read_share"], new["rows"][0]["peak_share"]) = (read, peak);
        let shown = ratios(&new["rows"][0], &sample()).expect("the same product");
        assert_eq!(shown.map(|ratio| qrun::bench::table::fixed(ratio, 2)).join(" "), expected);
        let expected = said.split(", ").filter(|said| !said.is_empty());
        let expected = expected.map(|said| format!("Q4_K 8192 x 2048, {said} of the recorded share"));
        assert_eq!(losses(&new, &sample()), expected.collect::<Vec<_>>());
    }
}

#[test]
fn only_the_same_work_is_compared() {
    const COUNT: &str = "/instructions_per_weight/formats/Q4_K";
    let share = "Q4_K 8192 x 2048, one token: 0.10 of the recorded share";
    let count = "Q4_K: 0.510 instructions per weight, recorded 0.500";
    // What is changed in a record of a share ten times as large, and of fewer instructions; what is said all the same.
    for (pointer, value, said) in [
        ("/rows/0/one_token_gb_per_s", json!(1.0), vec![share, count]),
        ("/rows/0/format", json!("Q5_K"), vec![count]),
        ("/rows/0/rows", json!(1), vec![count]),
        ("/rows/0/cols", json!(256), vec![count]),
        ("/instructions_per_weight/isa", json!("AvxVnni"), vec![share]),
        ("/instructions_per_weight/rows", json!(1), vec![share]),
        ("/instructions_per_weight/cols", json!(1), vec![share]),
        ("/instructions_per_weight/formats", json!({ "Q5_K": 0.1 }), vec![share]),
        ("/instructions_per_weight", Value::Null, vec![share]),
        (COUNT, json!(0.509), vec![share]),
        (COUNT, json!(0.6), vec![share]),
    ] {
        let mut old = with(pointer, value);
        old["rows"][0]["read_share"] = json!(8.0);
        assert_eq!(losses(&with(COUNT, json!(0.51)), &old), said, "{pointer}");
    }
}

#[test]
fn what_was_not_the_same_is_said() {
    assert_eq!(differences(&sample(), &sample()), Vec::<String>::new());
    let mut new = with("/machine/cpu", json!("Another"));
    (new["machine"]["threads"], new["isa"], new["tokens"]) = (json!(4), json!("Avx2"), json!(64));
    let said = ["processor: Another, in the record A processor", "threads: 4, in the record 2"];
    let more = ["instruction set: Avx2, in the record Avx512Vnni", "tokens: 64, in the record 512"];
    assert_eq!(differences(&new, &sample()), [said, more].concat());
}

/// Formats that came after the first record: those made until that day have no row of them.
const SINCE: [(GgmlType, &str); 13] = [
    (GgmlType::MXFP4, "2026-11-23"),
    (GgmlType::IQ2_XXS, "2026-11-24"),
    (GgmlType::IQ2_XS, "2026-11-24"),
    (GgmlType::IQ2_S, "2026-11-24"),
    (GgmlType::IQ3_XXS, "2026-11-24"),
    (GgmlType::IQ3_S, "2026-11-24"),
    (GgmlType::NVFP4, "2026-11-26"),
    (GgmlType::Q2_0, "2026-11-26"),
    (GgmlType::TQ2_0, "2026-11-26"),
    (GgmlType::TQ1_0, "2026-11-26"),
    (GgmlType::Q1_0, "2026-11-26"),
    (GgmlType::IQ1_S, "2026-11-26"),
    (GgmlType::IQ1_M, "2026-11-26"),
];

#[test]
fn recorded_runs_are_complete_and_of_a_commit() {
    for file in runs("-kernels.json") {
        let record = read(&std::fs::read(&file).expect("a readable file")).expect("a record");
        let (rows, machine) = (record["rows"].as_array().expect("rows"), &record["machine"]);
        let made = machine["timestamp"].as_str().expect("a time");
        for ty in GgmlType::all().filter(|ty| SINCE.iter().all(|(later, day)| later != ty || made >= *day)) {
            assert!(rows.iter().any(|row| row["format"] == ty.name()), "{}: no row of {}", file.display(), ty.name());
        }
        for field in ["one_token_gb_per_s", "read_share", "many_tokens_gop_per_s"] {
            rows.iter().for_each(|row| assert!(measured(row, field) > 0.0));
        }
        let commit = machine["commit"].as_str().expect("a commit");
        assert!(!commit.ends_with("-dirty"), "{}: {commit}", file.display());
    }
}
