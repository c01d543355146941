//! The configurations of the generation log.

use qrun::bench::{record, suite};
use serde_json::Value;

use super::{MODEL, bench, bench_on_gpu, json, kept, measured, printed, refused, runs};

/// The fields that the log's own reports have for each configuration.
const LOG_FIELDS: &str = "config_name prompt_tokens generated_tokens temperature top_k top_p repetition_penalty seed \
    ttft_median_ms prompt_throughput_median_tps decode_throughput_median_tps e2e_throughput_tps per_step_latency_mean_ms \
    per_step_latency_p50_ms per_step_latency_p90_ms per_step_latency_p95_ms per_step_latency_p99_ms \
    per_step_latency_min_ms per_step_latency_max_ms wall_time_median_s cache_memory_mb eos_count";

/// What must hold of every measured configuration, however fast it was.
#[track_caller]
fn is_consistent(m: &Value) {
    for field in LOG_FIELDS.split_whitespace() {
        assert!(!m[field].is_null(), "{field} is missing in {m}");
        if ["_ms", "_tps", "_mb"].iter().any(|end| field.ends_with(end)) {
            measured(m, field);
        }
    }
    assert_eq!(m["generated_tokens"], m["max_new_tokens"], "fixed length");
    let (tokens, trials) = (measured(m, "generated_tokens"), m["wall_s"].as_array().expect("trials"));
    let steps = tokens - 1.0;
    assert_eq!(measured(m, "per_step_latency_n"), steps * trials.len() as f64, "n - 1 steps for n tokens");
    assert_eq!(m["step_ms_by_position"].as_array().map(Vec::len), Some((steps as usize).min(16)), "{m}");
    let ordered = ["min", "p50", "p90", "p95", "p99", "max"].map(|p| measured(m, &format!("per_step_latency_{p}_ms")));
    assert!(ordered.is_sorted(), "{ordered:?}");
    // A trial takes at least as long as its parts, however long each of them took.
    if let [wall] = trials.as_slice() {
        let parts = measured(m, "ttft_median_ms") + steps * measured(m, "per_step_latency_mean_ms");
        let wall = 1e3 * wall.as_f64().expect("a time");
        assert!(wall > parts - 1e-6, "{wall} ms for {parts}: {m}");
        assert!((measured(m, "e2e_throughput_tps") * wall / 1e3 - tokens).abs() < 1e-6, "{m}");
    }
    // The limits belong to the same positions as the speeds: what is read per second is bytes times speed.
    let gb = measured(m, "decode_throughput_median_tps") * measured(m, "step_bytes") / 1e9;
    assert!((gb / measured(m, "decode_gb_per_s") - 1.0).abs() < 1e-9, "{m}");
    measured(m, "decode_limit_tps");
}

#[test]
fn a_suite_has_the_logs_configurations_and_fields() {
    let line = format!("{MODEL} --suite standard --decode-tokens 100 --trials 2 --warmup-runs 1 --json");
    let report = json(&bench(&line));
    let configs = report["configs"].as_array().expect("configurations");
    configs.iter().for_each(is_consistent);
    let shape = |m: &Value| ["config_name", "prompt_tokens", "generated_tokens"].map(|field| m[field].to_string());
    let shapes: Vec<_> = configs.iter().map(|m| shape(m).join(" ").replace('"', "")).collect();
    assert_eq!(shapes, ["short 64 64", "medium 256 256", "prefill 1024 64", "decode 64 100", "sampled 256 256"]);
    assert_eq!((&report["trials"], &report["warmup_runs"]), (&2.into(), &1.into()));
    assert_eq!((&report["suite"], &report["dtype"]), (&"standard".into(), &"Q4_K_M".into()));
    for field in ["cpu", "commit", "timestamp", "device", "qrun"] {
        assert!(report["machine"][field].as_str().is_some_and(|s| !s.is_empty()), "{field}: {}", report["machine"]);
    }
    measured(&report["limits"], "read_gb_per_s");
}

#[test]
fn the_tiers_are_the_logs() {
    let all = |tier, n| {
        let shown = |c: suite::Config| format!("{} {}", c.config_name, c.max_new_tokens);
        suite::configs(tier, n).into_iter().map(shown).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(all("quick", 512), "short 64, medium 256");
    assert_eq!(all("standard", 1024), "short 64, medium 256, prefill 64, decode 1024, sampled 256");
    let full = "short 64, medium 256, prefill 64, decode 512, long 512, sampled 256, full-pipe 256";
    assert_eq!(all("full", 512), full);
}

#[test]
fn one_configuration_of_ones_own() {
    let line = format!("-m {MODEL} --prompt-tokens 40 --max-new-tokens 30 --temperature 0.8 --seed 7 --trials 1");
    let m = &json(&bench(&format!("{line} --json")))["configs"][0];
    is_consistent(m);
    assert_eq!((&m["prompt_tokens"], &m["generated_tokens"], &m["seed"]), (&40.into(), &30.into(), &7.into()));
    let words = printed(&bench(&format!("{MODEL} --prompt hello --max-new-tokens 1 --trials 1")));
    // A single token has no step: nothing is divided by it.
    assert!(words.contains("| custom |") && !words.contains("NaN") && !words.contains("inf"), "{words}");
}

#[test]
fn reports_are_kept_and_shown_again_beside_each_other() {
    let (shown, report, file, _folder) =
        kept(&format!("{MODEL} --prompt-tokens 8 --max-new-tokens 4 --trials 1 --warmup-runs 0"));
    let name = file.file_name().expect("a name").to_string_lossy();
    // A time like 2026-11-21T12-00-00Z: another run does not replace it.
    assert!(name.starts_with("qrun-demo_Q4_K_M_custom_cpu_20") && name.ends_with("Z.json"), "{name}");
    assert_eq!(record::read(report.to_string().as_bytes()).as_ref(), Ok(&report));
    assert_eq!(shown, suite::markdown(std::slice::from_ref(&report)), "what was shown is what was kept");
    let both = printed(&bench(&format!("--tables {0} {0}", file.display())));
    assert_eq!(both, suite::markdown(&[report.clone(), report]));
    std::fs::write(&file, "{}").expect("a file");
    refused(&format!("--tables {}", file.display()), &["expected a report", "missing field"]);
}

#[cfg(target_os = "linux")]
#[test]
fn endless_files_are_refused() {
    let prompts = format!("{MODEL} --prompts");
    for flags in ["--tables", "--plot out.svg --compare", prompts.as_str()] {
        refused(&format!("{flags} /dev/zero"), &["/dev/zero", "too long"]);
    }
}

#[test]
fn what_cannot_be_measured_or_kept_is_refused_before_it_is_measured() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("file"), "precious").expect("a file");
    let reports = format!("{MODEL} --suite full --reports {}", path("file"));
    let plot = format!("{MODEL} --suite full --plot {}/x.png", path("file"));
    let tables = format!("--tables {}", path("gone.json"));
    let of_model = |flags: &str| format!("{MODEL} {flags}");
    let cases: [(&str, &[&str]); 10] = [
        (&reports, &["--reports", &path("file")]),
        (&plot, &["--plot", &path("file")]),
        (&tables, &["gone.json: No such file or directory\n"]),
        ("", &["no model named", "--synthetic"]),
        ("--synthetic gpt-5", &["--synthetic", "gemma-3-1b"]),
        ("--synthetic tiny-llama:Q9", &["--synthetic", "Q4_K_M"]),
        (&of_model("--suite huge"), &["--suite", "quick, standard, full"]),
        (&of_model("--suite quick --prompt-tokens 8"), &["--suite", "--prompt-tokens"]),
        (&of_model("--suite quick --trials 0"), &["--trials"]),
        (&of_model("--decode-tokens 8"), &["--suite"]),
    ];
    for (line, words) in cases {
        refused(line, words);
    }
    assert_eq!(std::fs::read_to_string(path("file")).expect("a file"), "precious");
}

#[test]
fn synthetic_models_need_no_file_and_a_gpu_is_measured_in_the_same_way() {
    let sizes = "--prompt-tokens 8 --max-new-tokens 4 --trials 1 --json";
    let report = json(&bench(&format!("--synthetic tiny-qwen3:BF16 {sizes}")));
    is_consistent(&report["configs"][0]);
    assert_eq!(report["dtype"], "BF16");
    let report = json(&bench_on_gpu(&format!("--synthetic tiny-gemma3 {sizes} --device cuda")));
    is_consistent(&report["configs"][0]);
    assert_eq!((&report["machine"]["device"], &report["machine"]["gpu"]["sm"]), (&"cuda".into(), &75.into()));
    assert!(report["configs"][0]["prompt_limit_tps"].is_null(), "the arithmetic limit of a GPU is not measured");
}

#[test]
fn the_page_of_tables_is_made_from_the_recorded_reports() {
    let page = include_str!("../../benches/log.md");
    for ty in ["BF16", "Q4_K_M"] {
        let reports = ["llama-3.2-1b", "qwen3-1.7b", "gemma-3-1b"].map(|model| {
            let newest = runs(&format!("-log-{ty}-{model}.json")).pop().expect("a record");
            record::read(&std::fs::read(newest).expect("a record")).expect("a report")
        });
        assert!(page.contains(&suite::markdown(&reports)), "{ty}: benches/log.sh --write");
        for report in &reports {
            let rows = suite::rows(std::slice::from_ref(report));
            let complete: Vec<_> = rows.iter().map(|m| m["config_name"].as_str().expect("a name")).collect();
            assert_eq!(complete, ["short", "medium", "prefill", "decode", "long", "sampled", "full-pipe"]);
            let commit = report["machine"]["commit"].as_str().expect("a commit");
            assert_eq!((&report["dtype"], commit.ends_with("-dirty")), (&ty.into(), false));
        }
    }
}
