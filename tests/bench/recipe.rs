//! Published measurements, repeated on random weights or on the model inside: the figures stand beside what was measured.

use serde_json::Value;

use super::{bench, json, measured, printed, refused};

/// The report of a recipe, in which everything holds that must, however fast it was.
#[track_caller]
fn recipe(line: &str) -> Value {
    let report = json(&bench(&format!("{line} --json")));
    for field in ["source", "card", "precision", "counts"] {
        assert!(report[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {report}");
    }
    measured(&report, "card_gb_per_s");
    assert!(report["figures"].as_array().is_some_and(|figures| !figures.is_empty()));
    report
}

#[test]
fn the_notebooks_requests_are_made_one_by_one() {
    let report = recipe("demo --recipe llcuda --seed 7");
    let run = &report["reports"][0];
    let requests = run["requests"].as_array().expect("requests");
    let limits = [200, 300, 80, 80, 80, 80, 100, 30];
    assert_eq!(requests.len(), limits.len());
    let mut total = 0;
    for (request, limit) in requests.iter().zip(limits) {
        let n = request["tokens"].as_u64().expect("a number");
        assert!((1..=limit).contains(&n), "{request}");
        assert!(measured(request, "ttft_ms") <= measured(request, "latency_ms"), "{request}");
        total += n;
    }
    let (latency, all) = (&run["metrics"]["latency"], &run["metrics"]["throughput"]);
    assert_eq!([&all["total_tokens"], &all["total_requests"]], [total, 8]);
    let [least, p50, p95, most] = ["min_ms", "p50_ms", "p95_ms", "max_ms"].map(|field| measured(latency, field));
    assert!(least <= p50 && p50 <= p95 && p95 <= most, "{latency}");
    // The same seed gives the same answers.
    let again = recipe("demo --recipe llcuda --seed 7");
    let tokens =
        |run: &Value| run["requests"].as_array().map(|r| r.iter().map(|r| r["tokens"].clone()).collect::<Vec<_>>());
    assert_eq!(tokens(&again["reports"][0]), tokens(run));
    // A model that the recipe does not have stands beside no figure.
    assert!(report["figures"][0]["qrun_tps"].is_null() && report["figures"][0]["tps"] == 134.2);
}

#[test]
fn a_recipe_is_its_modes_presets() {
    let infer = recipe("--synthetic tiny-llama:Q8_0 --recipe infer --trials 1 --warmup-runs 0");
    let run = &infer["reports"][0];
    let configs: Vec<_> =
        run["configs"].as_array().expect("rows").iter().map(|row| row["config_name"].clone()).collect();
    assert_eq!(configs, ["short", "medium", "prefill", "decode", "long", "sampled", "full-pipe"]);
    assert_eq!([&run["suite"], &run["trials"], &run["warmup_runs"]], [&Value::from("full"), &1.into(), &0.into()]);
    assert!(run["configs"].as_array().is_some_and(|rows| rows.iter().all(|row| row["seed"] == 42)));
    let eole = recipe("demo --recipe eole --max-new-tokens 12");
    let batches = eole["reports"][0]["batches"].as_array().expect("batches");
    assert_eq!(batches.iter().map(|batch| batch["batch"].as_u64()).collect::<Vec<_>>(), [Some(1), Some(4)]);
    let prompts = std::fs::read_to_string("benches/prompts/four.txt").expect("the prompts");
    assert_eq!(eole["reports"][0]["prompts"], Value::from(prompts.lines().collect::<Vec<_>>()));
}

#[test]
fn the_table_names_source_card_and_precision() {
    let table = printed(&bench("demo --recipe eole --max-new-tokens 4"));
    let words =
        ["eole-nlp/eole", "RTX 5090", "BF16", "| gemma-3-1b | batch 1 | HF Transformers | 31.0 |", "tok/s generating"];
    for word in words {
        assert!(table.contains(word), "{word:?} is not in {table}");
    }
}

#[test]
fn what_is_no_recipe_is_refused_by_name() {
    let cases: [(&str, &[&str]); 6] = [
        ("demo --recipe vllm", &["--recipe", "llcuda"]),
        ("--recipe infer", &["no model named", "--synthetic"]),
        ("demo --recipe infer --suite quick", &["--recipe", "--suite"]),
        ("demo --recipe eole --prompts benches/prompts/four.txt", &["--recipe", "--prompts"]),
        ("demo --recipe llcuda -p 8", &["--recipe", "--n-prompt"]),
        ("--synthetic", &["--synthetic", "no model named"]),
    ];
    for (line, words) in cases {
        refused(line, words);
    }
}
