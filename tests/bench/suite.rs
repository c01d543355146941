//! The configurations of the generation log.

use std::{path::Path, process::Command};

use qrun::bench::{report::Report, tables};
use serde_json::Value;

use super::{MODEL, bench, bench_on_gpu, is_measured, printed, refused};

/// The fields that the log's own reports have for each configuration.
const LOG_FIELDS: [&str; 22] = [
    "config_name",
    "prompt_tokens",
    "generated_tokens",
    "temperature",
    "top_k",
    "top_p",
    "repetition_penalty",
    "seed",
    "ttft_median_ms",
    "prompt_throughput_median_tps",
    "decode_throughput_median_tps",
    "e2e_throughput_tps",
    "per_step_latency_mean_ms",
    "per_step_latency_p50_ms",
    "per_step_latency_p90_ms",
    "per_step_latency_p95_ms",
    "per_step_latency_p99_ms",
    "per_step_latency_min_ms",
    "per_step_latency_max_ms",
    "wall_time_median_s",
    "cache_memory_mb",
    "eos_count",
];

/// What must hold of every measured configuration, however fast it was.
#[track_caller]
fn is_consistent(m: &Value) {
    for field in LOG_FIELDS {
        assert!(!m[field].is_null(), "{field} is missing in {m}");
    }
    for field in LOG_FIELDS.iter().filter(|f| f.ends_with("_ms") || f.ends_with("_tps") || f.ends_with("_mb")) {
        is_measured(&m[*field]);
    }
    let number = |field: &str| m[field].as_f64().unwrap_or_else(|| panic!("{field} in {m}"));
    assert_eq!(m["generated_tokens"], m["max_new_tokens"], "fixed length");
    let (steps, trials) = (number("generated_tokens") - 1.0, m["wall_s"].as_array().expect("trials"));
    assert_eq!(number("per_step_latency_n"), steps * trials.len() as f64, "n - 1 steps for n tokens");
    assert_eq!(m["step_ms_by_position"].as_array().map(Vec::len), Some((steps as usize).min(16)), "{m}");
    let ordered = ["min", "p50", "p90", "p95", "p99", "max"].map(|p| number(&format!("per_step_latency_{p}_ms")));
    assert!(ordered.is_sorted(), "{ordered:?}");
    // A trial takes at least as long as its parts, however long each of them took.
    if let [wall] = trials.as_slice() {
        let parts = number("ttft_median_ms") + steps * number("per_step_latency_mean_ms");
        let wall = 1e3 * wall.as_f64().expect("a time");
        assert!(wall > parts - 1e-6, "{wall} ms for {parts}: {m}");
        assert!((number("e2e_throughput_tps") * wall / 1e3 - number("generated_tokens")).abs() < 1e-6, "{m}");
    }
    // The limits belong to the same positions as the speeds: what is read per second is bytes times speed.
    let gb = number("decode_throughput_median_tps") * number("step_bytes") / 1e9;
    assert!((gb / number("decode_gb_per_s") - 1.0).abs() < 1e-9, "{m}");
    is_measured(&m["decode_limit_tps"]);
}

#[test]
fn a_suite_has_the_logs_configurations_and_fields() {
    let line = format!("{MODEL} --suite standard --decode-tokens 100 --trials 2 --warmup-runs 1 --json");
    let report: Value = serde_json::from_str(&printed(&bench(&line))).expect("JSON");
    let configs = report["configs"].as_array().expect("configurations");
    let shape = |m: &Value| {
        let number = |field: &str| m[field].as_u64().expect("a number");
        (m["config_name"].as_str().expect("a name").to_owned(), number("prompt_tokens"), number("generated_tokens"))
    };
    let expected =
        [("short", 64, 64), ("medium", 256, 256), ("prefill", 1024, 64), ("decode", 64, 100), ("sampled", 256, 256)];
    assert_eq!(configs.iter().map(shape).collect::<Vec<_>>(), expected.map(|(n, p, g)| (n.to_owned(), p, g)));
    configs.iter().for_each(is_consistent);
    assert_eq!(report["suite"], "standard");
    assert_eq!((&report["trials"], &report["warmup_runs"]), (&2.into(), &1.into()));
    assert_eq!(report["dtype"], "Q4_K_M");
    for field in ["cpu", "commit", "timestamp", "device", "qrun"] {
        assert!(report["machine"][field].as_str().is_some_and(|s| !s.is_empty()), "{field}: {}", report["machine"]);
    }
    is_measured(&report["limits"]["read_gb_per_s"]);
}

#[test]
fn one_configuration_of_ones_own() {
    let line = format!("-m {MODEL} --prompt-tokens 40 --max-new-tokens 30 --temperature 0.8 --seed 7 --trials 1");
    let report: Value = serde_json::from_str(&printed(&bench(&format!("{line} --json")))).expect("JSON");
    let m = &report["configs"][0];
    is_consistent(m);
    assert_eq!((&m["prompt_tokens"], &m["generated_tokens"], &m["seed"]), (&40.into(), &30.into(), &7.into()));
    let words = printed(&bench(&format!("{MODEL} --prompt hello --max-new-tokens 1 --trials 1")));
    // A single token has no step: nothing is divided by it.
    assert!(words.contains("| custom |") && !words.contains("NaN") && !words.contains("inf"), "{words}");
}

#[test]
fn reports_are_kept_and_shown_again_beside_each_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let kept = folder.path().display();
    let line = format!("{MODEL} --prompt-tokens 8 --max-new-tokens 4 --trials 1 --warmup-runs 0 --reports {kept}");
    let output = bench(&line);
    let shown = printed(&output);
    let files = || std::fs::read_dir(folder.path()).expect("the folder").map(|e| e.expect("an entry").path());
    let file = files().next().expect("a report");
    let (name, said) = (file.file_name().expect("a name").to_string_lossy(), String::from_utf8_lossy(&output.stderr));
    // A time like 2026-11-21T12-00-00Z: another run does not replace it.
    assert!(name.starts_with("qrun-demo_Q4_K_M_custom_cpu_20") && name.ends_with("Z.json"), "{name}");
    assert!(said.contains(&file.display().to_string()) && files().count() == 1, "{said}");
    let report = Report::read(&file).expect("the report");
    assert_eq!(shown, tables::markdown(std::slice::from_ref(&report)), "what was shown is what was kept");
    let both = printed(&bench(&format!("--tables {0} {0}", file.display())));
    assert_eq!(both, tables::markdown(&[report.clone(), report]));
    std::fs::write(&file, "{}").expect("a file");
    refused(&format!("--tables {}", file.display()), &["expected a report", "missing field"]);
}

#[test]
fn what_could_not_be_kept_is_refused_before_it_is_measured() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "precious").expect("a file");
    for flags in [format!("--reports {}", file.display()), format!("--plot {}/x.png", file.display())] {
        let flag = flags.split(' ').next().expect("a flag");
        refused(&format!("{MODEL} --suite full {flags}"), &[flag, &file.display().to_string()]);
    }
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), "precious");
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let gone = folder.path().join("gone.json");
    refused("", &["no model named", "--synthetic"]);
    refused(&format!("{MODEL} --suite huge"), &["--suite", "quick, standard or full"]);
    refused(&format!("{MODEL} --suite quick --prompt-tokens 8"), &["--suite", "--prompt-tokens"]);
    refused(&format!("{MODEL} --suite quick --trials 0"), &["--trials"]);
    refused("--synthetic gpt-5", &["--synthetic", "gemma-3-1b"]);
    refused("--synthetic tiny-llama:Q9", &["--synthetic", "Q4_K_M"]);
    refused(&format!("--tables {}", gone.display()), &["gone.json"]);
}

#[test]
fn synthetic_models_need_no_file_and_leave_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_qrun"));
    command.env("TMPDIR", folder.path()).args(["bench", "--synthetic", "tiny-qwen3:BF16", "--json"]);
    command.args(["--prompt-tokens", "8", "--max-new-tokens", "4", "--trials", "1"]);
    let report: Value = serde_json::from_str(&printed(&command.output().expect("qrun starts"))).expect("JSON");
    is_consistent(&report["configs"][0]);
    assert_eq!(report["dtype"], "BF16");
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 0, "nothing is left");
}

#[test]
fn a_gpu_is_measured_in_the_same_way() {
    let line = "--synthetic tiny-gemma3 --prompt-tokens 8 --max-new-tokens 4 --trials 1 --json";
    let output = bench_on_gpu(line);
    let report: Value = serde_json::from_str(&printed(&output)).expect("JSON");
    is_consistent(&report["configs"][0]);
    assert_eq!((&report["machine"]["device"], &report["machine"]["gpu"]["sm"]), (&"cuda".into(), &75.into()));
    assert!(report["configs"][0]["prompt_limit_tps"].is_null(), "the arithmetic limit of a GPU is not measured");
}

#[test]
fn the_page_of_tables_is_made_from_the_recorded_reports() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches");
    let page = std::fs::read_to_string(root.join("log.md")).expect("benches/log.md");
    let entries = std::fs::read_dir(root.join("runs")).expect("benches/runs");
    let names: Vec<String> =
        entries.map(|e| e.expect("an entry").file_name().into_string().expect("a plain name")).collect();
    for ty in ["BF16", "Q4_K_M"] {
        let reports = ["llama-3.2-1b", "qwen3-1.7b", "gemma-3-1b"].map(|model| {
            let end = format!("-log-{ty}-{model}.json");
            let newest = root.join("runs").join(names.iter().filter(|n| n.ends_with(&end)).max().expect("a record"));
            let report = Report::read(&newest).expect("a report");
            let value = |json: &str| serde_json::from_str::<Value>(json).expect("JSON");
            let recorded = std::fs::read_to_string(&newest).expect("a record");
            assert_eq!(value(&report.json()), value(&recorded), "a report that is read and written stays as it was");
            report
        });
        assert!(page.contains(&tables::markdown(&reports)), "{ty}: benches/log.sh --write");
        for report in &reports {
            let complete: Vec<_> = report.configs.iter().map(|m| m.config.name.as_str()).collect();
            assert_eq!(complete, ["short", "medium", "prefill", "decode", "long", "sampled", "full-pipe"]);
            assert_eq!((report.info.dtype.as_str(), report.info.machine.commit.ends_with("-dirty")), (ty, false));
        }
    }
}
