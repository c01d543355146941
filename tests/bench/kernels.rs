//! Records of `cargo bench --bench kernels`: what is in them, and how two are compared.

use std::path::Path;

use qrun_quant::GgmlType;
use serde_json::{Value, json};

#[path = "../../benches/kernels/record.rs"]
mod record;

use record::{Change, Record};

/// A record of one row and one count.
fn sample() -> Value {
    json!({
        "machine": {
            "device": "cpu", "cpu": "A processor", "cpu_mhz": null, "threads": 2, "gpu": null, "os": "linux",
            "qrun": "0.1.0", "commit": "0123456789ab", "timestamp": "2026-11-21T12:00:00Z",
        },
        "isa": "Avx512Vnni",
        "limits": { "read_gb_per_s": 30.0, "dot_gop_per_s": 1000.0, "fma_gop_per_s": 200.0 },
        "tokens": 512,
        "repacked": true,
        "rows": [{
            "format": "Q4_K", "rows": 8192, "cols": 2048, "repack_gb_per_s": 4.0, "one_token_gb_per_s": 24.0,
            "read_share": 0.8, "many_tokens_gop_per_s": 500.0, "peak_share": 0.5,
        }],
        "instructions_per_weight": { "isa": "Avx2", "rows": 2048, "cols": 2048, "formats": { "Q4_K": 0.5 } },
    })
}

/// The record with something else at a JSON pointer.
fn with(pointer: &str, value: Value) -> Value {
    let mut record = sample();
    *record.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer} is in a record")) = value;
    record
}

fn decoded(json: &Value) -> Record {
    Record::decode(json.to_string().as_bytes()).expect("a record")
}

#[test]
fn records_are_read_as_they_were_written() {
    for json in [sample(), with("/instructions_per_weight", Value::Null), with("/rows/0/peak_share", Value::Null)] {
        let written = decoded(&json).encode().expect("JSON");
        assert_eq!(serde_json::from_str::<Value>(&written).expect("JSON"), json);
    }
}

#[test]
fn what_is_no_record_is_refused_by_the_field() {
    for (pointer, value, words) in [
        ("/rows/0/read_share", Value::Null, "rows[0].read_share"),
        ("/rows/0/cols", json!(-1), "rows[0].cols"),
        ("/limits", json!([]), "limits"),
        ("/machine/commit", json!(7), "machine.commit"),
        ("/instructions_per_weight/formats/Q4_K", json!("few"), "instructions_per_weight.formats.Q4_K"),
    ] {
        let said = Record::decode(with(pointer, value).to_string().as_bytes()).expect_err(pointer);
        assert!(said.contains(words) && said.contains("--save"), "{pointer}: {said}");
    }
    assert!(Record::decode(b"format rows x cols").is_err());
}

#[test]
fn shares_are_compared_and_speeds_are_not() {
    let old = decoded(&sample());
    for (read, peak, expected, losses) in [
        (0.8, Some(0.5), (1.0, Some(1.0)), vec![]),
        (0.88, Some(0.46), (1.1, Some(0.92)), vec![]),
        (0.68, Some(0.5), (0.85, Some(1.0)), vec!["one token: 0.85"]),
        (0.8, Some(0.4), (1.0, Some(0.8)), vec!["many tokens: 0.80"]),
        (0.4, Some(0.25), (0.5, Some(0.5)), vec!["one token: 0.50", "many tokens: 0.50"]),
        (0.8, None, (1.0, None), vec![]),
        (f64::NAN, Some(0.5), (f64::NAN, Some(1.0)), vec!["one token: NaN"]),
    ] {
        let mut new = old.clone();
        // A machine that is half as fast at everything has lost nothing.
        new.rows[0].one_token_gb_per_s /= 2.0;
        new.rows[0].many_tokens_gop_per_s /= 2.0;
        (new.rows[0].read_share, new.rows[0].peak_share) = (read, peak);
        let change = Change::between(&old.rows[0], &new.rows[0]);
        let near = |a: f64, b: f64| (a - b).abs() < 1e-12 || a.is_nan() && b.is_nan();
        assert!(near(change.read, expected.0), "{change:?}");
        assert_eq!(change.peak.is_some(), expected.1.is_some(), "{change:?}");
        assert!(change.peak.zip(expected.1).is_none_or(|(a, b)| near(a, b)), "{change:?}");
        let said = new.losses(&old);
        assert_eq!(said.len(), losses.len(), "{said:?}");
        for (said, loss) in said.iter().zip(losses) {
            assert!(said.starts_with("Q4_K 8192 x 2048") && said.contains(loss), "{said}");
        }
    }
}

#[test]
fn only_the_same_product_is_compared() {
    let mut old = sample();
    old["rows"][0]["read_share"] = json!(8.0);
    assert_eq!(decoded(&sample()).losses(&decoded(&old)).len(), 1);
    for (field, value) in [("format", json!("Q5_K")), ("rows", json!(1)), ("cols", json!(256))] {
        let mut old = old.clone();
        old["rows"][0][field] = value;
        assert_eq!(decoded(&sample()).losses(&decoded(&old)), Vec::<String>::new(), "{field}");
    }
}

#[test]
fn instructions_are_compared_where_the_same_code_was_counted() {
    let more = with("/instructions_per_weight/formats/Q4_K", json!(0.51));
    let said = decoded(&more).losses(&decoded(&sample()));
    assert_eq!(said, ["Q4_K: 0.510 instructions per weight, recorded 0.500"]);
    for (pointer, value) in [
        ("/instructions_per_weight/formats/Q4_K", json!(0.501)),
        ("/instructions_per_weight/formats/Q4_K", json!(0.3)),
        ("/instructions_per_weight/formats", json!({ "Q5_K": 9.0 })),
        ("/instructions_per_weight", Value::Null),
    ] {
        assert_eq!(decoded(&with(pointer, value)).losses(&decoded(&sample())), Vec::<String>::new(), "{pointer}");
    }
    for (field, value) in [("isa", json!("AvxVnni")), ("rows", json!(1)), ("cols", json!(1))] {
        let mut other = more.clone();
        other["instructions_per_weight"][field] = value;
        assert_eq!(decoded(&other).losses(&decoded(&sample())), Vec::<String>::new(), "{field}");
    }
}

#[test]
fn what_was_not_the_same_is_said() {
    assert_eq!(decoded(&sample()).differences(&decoded(&sample())), Vec::<String>::new());
    for (pointer, value, said) in [
        ("/machine/cpu", json!("Another"), "processor: Another, in the record A processor"),
        ("/machine/threads", json!(4), "threads: 4, in the record 2"),
        ("/isa", json!("Avx2"), "instruction set: Avx2, in the record Avx512Vnni"),
        ("/tokens", json!(64), "tokens: 64, in the record 512"),
        ("/repacked", json!(false), "repacked: false, in the record true"),
    ] {
        assert_eq!(decoded(&with(pointer, value)).differences(&decoded(&sample())), [said]);
    }
}

/// What a record that is kept must be.
fn faults(record: &Record) -> Vec<String> {
    let mut faults = Vec::new();
    if record.machine.commit.ends_with("-dirty") {
        faults.push(format!("commit {}", record.machine.commit));
    }
    for ty in GgmlType::all() {
        let mut rows = record.rows.iter().filter(|row| row.format == ty.name()).peekable();
        if rows.peek().is_none() {
            faults.push(format!("no row of {}", ty.name()));
        }
        for row in rows {
            let numbers = [row.one_token_gb_per_s, row.read_share, row.many_tokens_gop_per_s];
            let mut numbers = numbers.into_iter().chain(row.repack_gb_per_s).chain(row.peak_share);
            if !numbers.all(|n| n.is_finite() && n > 0.0) {
                faults.push(format!("{row:?}"));
            }
        }
    }
    faults
}

#[test]
fn recorded_runs_are_complete_and_of_a_commit() {
    let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/runs");
    for file in std::fs::read_dir(runs).expect("benches/runs").map(|entry| entry.expect("an entry").path()) {
        if file.to_string_lossy().ends_with("-kernels.json") {
            let record = Record::decode(&std::fs::read(&file).expect("a readable file"));
            let record = record.unwrap_or_else(|e| panic!("{}: {e}", file.display()));
            assert_eq!(faults(&record), Vec::<String>::new(), "{}", file.display());
        }
    }
    // And these are found.
    let mut wrong = decoded(&with("/machine/commit", json!("0123456789ab-dirty")));
    wrong.rows[0].peak_share = Some(f64::NAN);
    assert_eq!(faults(&wrong).len(), 2 + GgmlType::all().count() - 1);
}
