//! Whole answers to the prompts of a file, in batches.

use std::{fs, path::Path};

use serde_json::Value;

use super::{MODEL, bench, bench_on_gpu, cells, json, kept, measured, refused};
use crate::tiny;

/// The fields of a report, in its order.
const FIELDS: &str = "suite model dtype arithmetic kv_types machine limits n_params model_size weight_bytes_per_token \
    template prompts prompt_tokens max_new_tokens ignore_eos batches";

/// A file with these bytes in a folder of its own.
fn file(folder: &Path, name: &str, bytes: impl AsRef<[u8]>) -> String {
    let path = folder.join(name);
    fs::write(&path, bytes).expect("a file");
    path.display().to_string()
}

fn numbers(value: &Value) -> Vec<u64> {
    value.as_array().expect("numbers").iter().map(|n| n.as_u64().expect("a number")).collect()
}

/// The batches of a report, in which everything holds that must, however fast it was.
#[track_caller]
fn batches(report: &Value) -> &Vec<Value> {
    let batches = report["batches"].as_array().expect("batches");
    for batch in batches {
        let number = |field: &str| batch[field].as_f64().unwrap_or_else(|| panic!("{field} in {batch}"));
        let total: u64 = numbers(&batch["tokens"]).iter().sum();
        assert_eq!(batch["total_tokens"], total);
        for (speed, time) in [("generate_tps", "generate_s"), ("wall_tps", "wall_s")] {
            let counted = measured(batch, speed) * measured(batch, time);
            assert!((counted / total as f64 - 1.0).abs() < 1e-9, "{speed}: {batch}");
        }
        assert!(number("wall_s") >= measured(batch, "load_s") + number("generate_s"), "all of it: {batch}");
        assert!(number("generate_s") >= measured(batch, "prefill_s") + number("decode_s"), "{batch}");
        if number("steps") > 0.0 {
            measured(batch, "decode_limit_tps");
            assert!(measured(batch, "decode_tps") * number("decode_s") >= number("steps") - 1e-6, "{batch}");
        } else {
            assert_eq!((number("decode_tps"), number("decode_gb_per_s")), (0.0, 0.0));
        }
    }
    batches
}

#[test]
fn a_batch_gives_the_answers_that_single_prompts_get() {
    let line = format!("{MODEL} --prompts benches/prompts/four.txt --batch 1,2-4 --max-new-tokens 40 --json");
    let report = json(&bench(&line));
    let batches = batches(&report);
    assert_eq!(batches.iter().map(|b| b["batch"].as_u64()).collect::<Vec<_>>(), [1, 2, 3, 4].map(Some));
    let alone = &batches[0];
    let tokens = numbers(&alone["tokens"]);
    // The answers end by themselves and at different lengths: places are freed and taken again.
    assert!(tokens.iter().all(|&n| n <= 40) && tokens.iter().any(|&n| n != tokens[0]), "{tokens:?}");
    assert!(alone["texts"].as_array().is_some_and(|t| t.iter().all(|t| t.as_str().is_some_and(|t| !t.is_empty()))));
    let stepped: u64 = tokens.iter().map(|n| n - 1).sum();
    assert_eq!(alone["steps"], stepped, "a step for each token but the first of an answer");
    for batch in batches {
        for field in ["texts", "tokens", "finish"] {
            assert_eq!(batch[field], alone[field], "{field} of batch {}", batch["batch"]);
        }
        assert_eq!(batch["same_texts"], true);
    }
    // All at once: as many steps as the longest answer has, and weights are read once per step for the whole batch.
    assert_eq!(batches[3]["steps"], tokens.iter().max().expect("an answer") - 1);
    let saved = measured(&report, "weight_bytes_per_token") * (stepped as f64 - measured(&batches[3], "steps"));
    let bytes = [0, 3].map(|i| measured(&batches[i], "decode_bytes"));
    assert!(((bytes[0] - bytes[1]) / saved - 1.0).abs() < 1e-9);
    assert_eq!(report["prompts"][3], "What is beyond the milky way?");
    let on_gpu = json(&bench_on_gpu(&format!("{} --device cuda", line.replace("1,2-4", "1,3").replace("40", "6"))));
    assert_eq!(on_gpu["machine"]["device"], "cuda");
    // Sums run in another order in a batch, which six sure tokens do not feel.
    assert_eq!(self::batches(&on_gpu)[0]["texts"], on_gpu["batches"][1]["texts"]);
}

#[test]
fn answers_are_as_long_as_they_are_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let prompts = file(folder.path(), "p.json", " [\n\"one\", \"two and a little more\",\n\"three\"]\n");
    let line = |flags: &str| format!("{MODEL} --prompts {prompts} --json {flags}");
    let report = json(&bench(&line("--batch 2,9 --max-new-tokens 90 --ignore-eos")));
    for (batch, steps) in batches(&report).iter().zip([2 * 89, 89]) {
        assert_eq!((numbers(&batch["tokens"]), &batch["steps"]), (vec![90; 3], &steps.into()));
        assert_eq!(batch["finish"], serde_json::json!(["limit", "limit", "limit"]));
    }
    assert_eq!(report["prompts"], serde_json::json!(["one", "two and a little more", "three"]));
    for batch in batches(&json(&bench(&line("--batch 1,2 --max-new-tokens 1")))) {
        assert_eq!((numbers(&batch["tokens"]), &batch["steps"]), (vec![1; 3], &0.into()));
    }
}

#[test]
fn a_model_without_a_template_continues_raw_text() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = file(folder.path(), "raw.gguf", tiny::TINY.bytes());
    let prompts = file(folder.path(), "p.txt", "\n w300 w301 \r\n\n\tw302\n");
    let output = bench(&format!("{model} --prompts {prompts} --batch 1,2 --max-new-tokens 8 --json"));
    let report = json(&output);
    assert!(String::from_utf8_lossy(&output.stderr).contains("no chat template") && report["template"].is_null());
    assert_eq!(batches(&report)[0]["texts"], report["batches"][1]["texts"]);
    assert_eq!(report["prompts"], serde_json::json!(["w300 w301", "w302"]));
}

#[test]
fn the_report_is_kept_and_the_table_says_the_same() {
    let line = format!("{MODEL} --prompts benches/prompts/four.txt --batch 1,4 --max-new-tokens 6 --ignore-eos");
    let (table, report, ..) = kept(&line);
    let fields: Vec<_> = report.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(fields.join(" "), FIELDS);
    let lines: Vec<_> = table.lines().filter(|line| line.starts_with('|')).map(cells).collect();
    assert_eq!(lines.len(), 4);
    for (row, batch) in lines[2..].iter().zip(batches(&report)) {
        let [wall, decode] =
            [("wall_s", 2), ("decode_tps", 1)].map(|(field, n)| format!("{:.n$}", measured(batch, field)));
        let expected = [&batch["batch"].to_string(), "6 + 6 + 6 + 6 = 24", &wall, &decode, "yes"];
        let column = |title: &str| lines[0].iter().position(|name| name == title).expect("a column");
        let columns = ["batch", "tokens", "wall s", "decode tok/s", "same texts"].map(column);
        assert_eq!(columns.map(|at| row[at].as_str()), expected);
    }
}

#[test]
fn what_is_no_work_is_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str, bytes: &[u8]| format!("--prompts {}", file(folder.path(), name, bytes));
    let four = |flags: &str| format!("--prompts benches/prompts/four.txt {flags}");
    let cases: [(String, &[&str]); 15] = [
        ("--prompts no-such-file.txt".into(), &["--prompts", "no-such-file.txt: No such file or directory\n"]),
        (at("empty", b"\n \n"), &["--prompts", "empty", "none"]),
        (at("no", b"[]"), &["--prompts", "none"]),
        (at("json", b"[1, 2]"), &["--prompts", "JSON array of strings"]),
        (at("letters", b"[a]"), &["--prompts", "JSON array of strings"]),
        (at("bytes", b"\xff\xfe"), &["bytes", "UTF-8"]),
        (four("--batch 0"), &["--batch"]),
        (four("--batch many"), &["--batch"]),
        (four("--suite quick"), &["--prompts", "--suite"]),
        (four("-n 64"), &["--prompts", "--n-gen"]),
        (four("--threads 1,2"), &["--threads"]),
        (four("--max-new-tokens 0"), &["--max-new-tokens"]),
        (four("--max-new-tokens 99999999999999999999"), &["--max-new-tokens", "2147483647"]),
        ("--batch 4".into(), &["--prompts"]),
        ("--ignore-eos".into(), &["--prompts"]),
    ];
    for (flags, words) in cases {
        refused(&format!("{MODEL} {flags}"), words);
    }
}
