//! Whole answers to the prompts of a file, in batches.

use std::{collections::HashMap, fs, path::Path};

use serde_json::Value;

use super::{MODEL, bench, bench_on_gpu, is_measured, printed, refused};
use crate::tiny;

/// The fields of a report, in its order.
const FIELDS: [&str; 16] = [
    "suite",
    "model",
    "dtype",
    "arithmetic",
    "kv_types",
    "machine",
    "limits",
    "n_params",
    "model_size",
    "weight_bytes_per_token",
    "template",
    "prompts",
    "prompt_tokens",
    "max_new_tokens",
    "ignore_eos",
    "batches",
];

/// A file with these bytes in a folder of its own.
fn file(folder: &Path, name: &str, bytes: impl AsRef<[u8]>) -> String {
    let path = folder.join(name);
    fs::write(&path, bytes).expect("a file");
    path.display().to_string()
}

fn report(line: &str) -> Value {
    serde_json::from_str(&printed(&bench(&format!("{line} --json")))).expect("JSON")
}

fn numbers(value: &Value) -> Vec<u64> {
    value.as_array().expect("numbers").iter().map(|n| n.as_u64().expect("a number")).collect()
}

/// What must hold of every batch size, however fast it was.
#[track_caller]
fn is_consistent(batch: &Value) {
    let number = |field: &str| batch[field].as_f64().unwrap_or_else(|| panic!("{field} in {batch}"));
    for field in ["load_s", "prefill_s", "generate_s", "wall_s", "generate_tps", "wall_tps"] {
        is_measured(&batch[field]);
    }
    let tokens = numbers(&batch["tokens"]);
    assert_eq!(batch["total_tokens"], tokens.iter().sum::<u64>());
    let total = tokens.iter().sum::<u64>() as f64;
    for (speed, time) in [("generate_tps", "generate_s"), ("wall_tps", "wall_s")] {
        assert!((number(speed) * number(time) / total - 1.0).abs() < 1e-9, "{speed}: {batch}");
    }
    assert!(number("wall_s") >= number("load_s") + number("generate_s"), "the wall clock holds all of it: {batch}");
    assert!(number("generate_s") >= number("prefill_s") + number("decode_s"), "{batch}");
    if number("steps") > 0.0 {
        ["decode_tps", "decode_gb_per_s", "decode_limit_tps"].iter().for_each(|field| is_measured(&batch[*field]));
    }
}

#[test]
fn a_gpu_answers_in_batches_too() {
    let line = format!("{MODEL} --prompts benches/prompts/four.txt --batch 1,3 --max-new-tokens 6 --json");
    let report: Value = serde_json::from_str(&printed(&bench_on_gpu(&line))).expect("JSON");
    let batches = report["batches"].as_array().expect("batches");
    batches.iter().for_each(is_consistent);
    assert_eq!(report["machine"]["device"], "cuda");
    // Sums run in another order in a batch, which six sure tokens do not feel.
    assert_eq!((batches.len(), &batches[0]["texts"]), (2, &batches[1]["texts"]));
}

#[test]
fn a_batch_gives_the_answers_that_single_prompts_get() {
    let line = format!("{MODEL} --prompts benches/prompts/four.txt --batch 1,2-4 --max-new-tokens 40");
    let report = report(&line);
    let batches = report["batches"].as_array().expect("batches");
    assert_eq!(batches.iter().map(|b| b["batch"].as_u64()).collect::<Vec<_>>(), [1, 2, 3, 4].map(Some));
    batches.iter().for_each(is_consistent);
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
    // All at once: as many steps as the longest answer has.
    assert_eq!(batches[3]["steps"], tokens.iter().max().expect("an answer") - 1);
    // Weights are read once per step for the whole batch.
    let bytes = |i: usize| batches[i]["decode_bytes"].as_f64().expect("bytes");
    let weights = report["weight_bytes_per_token"].as_f64().expect("bytes");
    let saved = weights * (stepped as f64 - batches[3]["steps"].as_f64().expect("steps"));
    assert!(((bytes(0) - bytes(3)) / saved - 1.0).abs() < 1e-9);
    assert_eq!(report["prompts"][3], "What is beyond the milky way?");
    assert!(report["template"].is_string() && report["limits"]["read_gb_per_s"].is_number());
}

#[test]
fn answers_go_on_past_their_end_when_asked_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let prompts = file(folder.path(), "p.json", r#"["one", "two and a little more", "three"]"#);
    let report = report(&format!("{MODEL} --prompts {prompts} --batch 2,9 --max-new-tokens 90 --ignore-eos"));
    for (batch, steps) in report["batches"].as_array().expect("batches").iter().zip([2 * 89, 89]) {
        is_consistent(batch);
        assert_eq!(numbers(&batch["tokens"]), [90; 3]);
        assert_eq!(batch["steps"], steps);
        assert_eq!(batch["finish"], serde_json::json!(["limit", "limit", "limit"]));
    }
    assert_eq!(report["prompts"], serde_json::json!(["one", "two and a little more", "three"]));
}

#[test]
fn an_answer_of_one_token_has_no_step() {
    let report = report(&format!("{MODEL} --prompts benches/prompts/four.txt --batch 1,2 --max-new-tokens 1"));
    for batch in report["batches"].as_array().expect("batches") {
        is_consistent(batch);
        assert_eq!((numbers(&batch["tokens"]), &batch["steps"]), (vec![1; 4], &0.into()));
        assert_eq!((&batch["decode_tps"], &batch["decode_gb_per_s"]), (&0.0.into(), &0.0.into()));
    }
}

#[test]
fn a_model_without_a_template_continues_raw_text() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = file(folder.path(), "raw.gguf", tiny::TINY.bytes());
    let prompts = file(folder.path(), "p.txt", "w300 w301\n\nw302\n");
    let output = bench(&format!("{model} --prompts {prompts} --batch 1,2 --max-new-tokens 8 --json"));
    let report: Value = serde_json::from_str(&printed(&output)).expect("JSON");
    assert!(String::from_utf8_lossy(&output.stderr).contains("no chat template"));
    assert!(report["template"].is_null());
    let batches = report["batches"].as_array().expect("batches");
    batches.iter().for_each(is_consistent);
    assert_eq!(batches[0]["texts"], batches[1]["texts"]);
    assert_eq!(report["prompts"], serde_json::json!(["w300 w301", "w302"]));
}

#[test]
fn the_report_is_kept_and_the_table_says_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let line = format!("{MODEL} --prompts benches/prompts/four.txt --batch 1,4 --max-new-tokens 6 --ignore-eos");
    let output = bench(&format!("{line} --reports {}", folder.path().display()));
    let table = printed(&output);
    let kept = fs::read_dir(folder.path()).expect("the folder").next().expect("a report").expect("an entry").path();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(&kept.display().to_string()) && said.contains("batch 4 "), "{said}");
    let report: Value = serde_json::from_slice(&fs::read(kept).expect("a report")).expect("JSON");
    let fields: Vec<_> = report.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(fields, FIELDS);
    let lines: Vec<_> = table.lines().filter(|line| line.starts_with('|')).collect();
    let cells = |line: &str| line.trim_matches('|').split('|').map(|c| c.trim().to_owned()).collect::<Vec<_>>();
    let titles = cells(lines[0]);
    for (line, batch) in lines[2..].iter().zip(report["batches"].as_array().expect("batches")) {
        let row: HashMap<_, _> = titles.iter().cloned().zip(cells(line)).collect();
        assert_eq!(row["batch"], batch["batch"].to_string());
        assert_eq!(row["tokens"], "6 + 6 + 6 + 6 = 24");
        assert_eq!(row["wall s"], format!("{:.2}", batch["wall_s"].as_f64().expect("seconds")));
        assert_eq!(row["decode tok/s"], format!("{:.1}", batch["decode_tps"].as_f64().expect("a speed")));
        assert_eq!(row["same texts"], "yes");
    }
    assert_eq!(lines.len(), 4);
}

#[test]
fn what_is_no_work_is_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str, bytes: &[u8]| file(folder.path(), name, bytes);
    let cases = [
        ("no-such-file.txt".to_owned(), vec!["--prompts", "no-such-file.txt"]),
        (at("empty", b"\n \n"), vec!["--prompts", "empty", "none"]),
        (at("json", b"[1, 2]"), vec!["--prompts", "JSON array of strings"]),
        (at("bytes", b"\xff\xfe"), vec!["bytes", "UTF-8"]),
    ];
    for (path, words) in cases {
        refused(&format!("{MODEL} --prompts {path}"), &words);
    }
    let four = format!("{MODEL} --prompts benches/prompts/four.txt");
    refused(&format!("{four} --batch 0"), &["--batch"]);
    refused(&format!("{four} --batch many"), &["--batch"]);
    refused(&format!("{four} --suite quick"), &["--prompts", "--suite"]);
    refused(&format!("{four} -n 64"), &["--prompts", "--n-gen"]);
    refused(&format!("{four} --threads 1,2"), &["--threads"]);
    refused(&format!("{four} --max-new-tokens 0"), &["--max-new-tokens"]);
    refused(&format!("{four} --max-new-tokens 99999999999999999999"), &["--max-new-tokens", "2147483647"]);
    refused(&format!("{MODEL} --batch 4"), &["--prompts"]);
    refused(&format!("{MODEL} --ignore-eos"), &["--prompts"]);
}
