//! llama-bench's rows: its columns, its formats, its flags.

use serde_json::{Value, json};

use super::{MODEL, bench, bench_on_gpu, cells, json, measured, printed, refused};

/// llama-bench's columns in its order, and ours.
const THEIRS: &str = "build_commit build_number cpu_info gpu_info backends model_filename model_type model_size \
    model_n_params n_batch n_ubatch n_threads cpu_mask cpu_strict poll type_k type_v n_gpu_layers n_cpu_moe split_mode \
    main_gpu no_kv_offload flash_attn devices tensor_split tensor_buft_overrides load_mode lazy_mode embeddings \
    no_op_offload no_host repack fit_target fit_min_ctx n_prompt n_gen n_depth test_time avg_ns stddev_ns avg_ts stddev_ts";
const SAMPLES: &str = "samples_ns samples_ts";
const OURS: &str = "gb_per_s limit_ts limit_share precision";

/// What must hold of every row, however fast it was.
#[track_caller]
fn is_consistent(row: &Value, runs: usize) {
    let list = |field: &str| row[field].as_array().map(|all| all.iter().filter_map(Value::as_f64).collect::<Vec<_>>());
    let (ns, ts) = (list("samples_ns").expect("times"), list("samples_ts").expect("speeds"));
    assert_eq!((ns.len(), ts.len()), (runs, runs), "{row}");
    let tokens = row["n_prompt"].as_f64().expect("tokens") + row["n_gen"].as_f64().expect("tokens");
    for (ns, ts) in ns.iter().zip(&ts) {
        assert!((ns * ts / 1e9 / tokens - 1.0).abs() < 1e-6, "{ns} ns, {ts} t/s in {row}");
    }
    let mean = ts.iter().sum::<f64>() / runs as f64;
    assert!((mean / measured(row, "avg_ts") - 1.0).abs() < 1e-9, "{row}");
    assert!(row["stddev_ts"].as_f64().is_some_and(|d| d.is_finite() && d >= 0.0), "{row}");
    measured(row, "gb_per_s");
    assert!((measured(row, "limit_share") * measured(row, "limit_ts") / mean - 1.0).abs() < 1e-9, "{row}");
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

/// Test name as in Markdown.
fn name(row: &Value) -> String {
    let depth = if row["n_depth"] != 0 { format!(" @ d{}", row["n_depth"]) } else { String::new() };
    format!("pp{}+tg{}{depth} ub{}", row["n_prompt"], row["n_gen"], row["n_ubatch"])
}

#[test]
fn every_combination_is_run_in_llama_benchs_order() {
    let line = format!("{MODEL} -p 8-20*2 -n 0,2 -n 3-4 -pg 8,4 -d 0,32 -ub 8-20+8 -r 2 --no-warmup -o jsonl -t 1");
    let output = bench(&line);
    let (rows, said) = (lines(&printed(&output)), String::from_utf8_lossy(&output.stderr));
    let tests = ["pp8+tg0", "pp16+tg0", "pp0+tg2", "pp0+tg3", "pp0+tg4", "pp8+tg4"];
    let at = |ub| ["", " @ d32"].map(|depth| tests.map(|test| format!("{test}{depth} ub{ub}"))).concat();
    assert_eq!(rows.iter().map(name).collect::<Vec<_>>(), [at(8), at(16)].concat());
    for name in ["pp16", "tg3", "pp8+tg4", "pp8 @ d32", "tg2 @ d32", "pp8+tg4 @ d32"] {
        assert!(said.contains(&format!(" {name} ")), "{name}: {said}");
    }
    let columns = [THEIRS, SAMPLES, OURS].join(" ");
    for row in &rows {
        is_consistent(row, 2);
        let keys: Vec<_> = row.as_object().expect("an object").keys().cloned().collect();
        assert_eq!(keys, columns.split_whitespace().collect::<Vec<_>>());
        let names = ["backends", "model_filename", "model_type"].map(|field| row[field].as_str());
        assert_eq!(names, ["CPU", MODEL, "gemma3 ?B Q4_K - Medium"].map(Some));
        assert!(row["precision"].as_str().is_some_and(|p| p.contains("Q4_K_M") && p.contains("int8")), "{row}");
    }
}

#[test]
fn defaults_are_llama_benchs() {
    let rows = lines(&printed(&bench(&format!("-m {MODEL} -o jsonl -r 1 --no-warmup"))));
    assert_eq!(rows.iter().map(name).collect::<Vec<_>>(), ["pp512+tg0 ub512", "pp0+tg128 ub512"]);
    // What can neither be set nor measured is null.
    let expected = json!({
        "n_batch": 2048, "n_depth": 0, "n_gpu_layers": -1, "type_k": "f16", "type_v": "f16", "devices": "auto",
        "poll": null, "flash_attn": null, "cpu_mask": null, "split_mode": null, "fit_target": null,
    });
    for (field, value) in expected.as_object().expect("an object") {
        assert_eq!(&rows[0][field], value, "{field}");
    }
}

#[test]
fn csv_is_well_formed_and_says_what_json_says() {
    // A name that has to be quoted.
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("it's,\"odd\".gguf");
    std::fs::copy(MODEL, &file).expect("a copy");
    let output = bench(&format!("{} -p 8 -n 2 -r 1 -o csv -oe jsonl", file.display()));
    let (csv, said) = (printed(&output), String::from_utf8(output.stderr).expect("UTF-8"));
    let (header, csv) = csv.split_once('\n').expect("a header");
    assert_eq!(header, format!("{THEIRS} {OURS}").replace(' ', ","));
    let json = lines(&said.lines().filter(|line| line.starts_with('{')).collect::<Vec<_>>().join("\n"));
    assert_eq!((csv.lines().count(), json.len()), (2, 2));
    for (csv, json) in csv.lines().zip(&json) {
        let inside = csv.strip_prefix('"').and_then(|l| l.strip_suffix('"')).expect("quotes");
        for (name, cell) in header.split(',').zip(inside.split("\",\"")) {
            let same = match &json[name] {
                Value::Null => cell.is_empty(),
                Value::String(text) => cell == text.replace('"', "\"\""),
                Value::Bool(on) => cell == if *on { "1" } else { "0" },
                number => cell.parse::<f64>().is_ok_and(|x| number.as_f64().is_some_and(|y| (x - y).abs() <= 1e-6)),
            };
            assert!(same, "{name}: {cell} for {}", json[name]);
        }
        assert_eq!(json["model_filename"], file.display().to_string());
    }
}

#[test]
fn markdown_looks_like_llama_benchs() {
    let output = bench(&format!("{MODEL} -p 8 -n 2 -d 16 -r 2 -ctk q8_0 -fa 1 --prio 2 -oe json"));
    let (words, said) = (printed(&output), String::from_utf8_lossy(&output.stderr).into_owned());
    let lines: Vec<_> = words.lines().collect();
    let titles = "model size params backend threads type_k test t/s GB/s limit+t/s share";
    assert_eq!(cells(lines[0]).join(" "), titles.replace('+', " "));
    let widths = |line: &str| line.split('|').map(|cell| cell.chars().count()).collect::<Vec<_>>();
    assert!(lines[..4].iter().all(|line| widths(line) == widths(lines[0])), "{words}");
    for (line, test) in [(lines[2], "pp8 @ d16"), (lines[3], "tg2 @ d16")] {
        let row = cells(line);
        assert_eq!((row[0].as_str(), row[6].as_str(), row[5].as_str()), ("gemma3 ?B Q4_K - Medium", test, "q8_0"));
        let (mean, deviation) = row[7].split_once(" ± ").expect("mean and deviation");
        assert!([mean, deviation].iter().all(|n| n.parse::<f64>().is_ok_and(f64::is_finite)), "{line}");
        assert!(row[1].ends_with(" MiB") && row[2].ends_with(" M") && row[10].ends_with(" %"), "{line}");
    }
    assert!(lines[4].is_empty() && lines[5].starts_with("build: ") && lines[5].ends_with(')'), "{words}");
    for part in ["note: -fa has no effect", "note: --prio has no effect", "tok/s (of the limit) pp8 @ d16 "] {
        assert_eq!(said.matches(part).count(), 1, "{part}: {said}");
    }
    let array = &said[said.find("[\n").expect("an array")..said.find("\n]\n").expect("its end") + 3];
    let rows: Vec<Value> = serde_json::from_str(array).expect("JSON");
    assert_eq!(rows.len(), 2);
    rows.iter().for_each(|row| is_consistent(row, 2));
}

#[test]
fn what_was_measured_before_a_failure_is_whole() {
    let output = bench(&format!("-m {MODEL} -m no-such.gguf -p 4 -n 0 -r 1 --json"));
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(serde_json::from_slice::<Vec<Value>>(&output.stdout).expect("JSON").len(), 1);
    assert!(String::from_utf8_lossy(&output.stderr).contains("no-such.gguf"));
}

#[test]
fn layers_choose_the_device() {
    let output = bench_on_gpu("-o json --synthetic tiny-gemma3 -p 8 -n 4 -r 1 -ngl 0,99 -oe md");
    let rows = json(&output);
    let found: Vec<_> = (0..4).map(|i| (rows[i]["backends"].as_str(), rows[i]["n_gpu_layers"].as_i64())).collect();
    assert_eq!(found, [("CPU", 0), ("CPU", 0), ("CUDA", 99), ("CUDA", 99)].map(|(name, n)| (Some(name), Some(n))));
    assert_eq!(rows[0]["gpu_info"], "");
    assert!(rows[2]["gpu_info"].as_str().is_some_and(|name| !name.is_empty()));
    // The arithmetic limit of a GPU is not measured: the limit of a prompt is not known.
    assert!(rows[2]["limit_ts"].is_null() && rows[2]["limit_share"].is_null());
    is_consistent(&rows[3], 1);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("| ngl |") && said.contains("–"), "{said}");
}

#[test]
fn what_cannot_be_measured_is_refused_by_name() {
    for (flags, words) in [
        ("-p x", &["--n-prompt", "first-last"][..]),
        ("-p 8-4", &["--n-prompt", "below the first"]),
        ("-p 1,", &["--n-prompt", "expected numbers from 0 to 2147483647"]),
        ("-p 1-", &["--n-prompt", "expected numbers"]),
        ("-p 1-x+1", &["--n-prompt", "expected numbers"]),
        ("-p 1-4+", &["--n-prompt", "expected numbers"]),
        ("-p 1-4/2", &["--n-prompt", "expected numbers"]),
        ("-p +5", &["--n-prompt", "expected numbers"]),
        ("-p é-2", &["--n-prompt", "expected numbers"]),
        ("-p 99999999999999999999", &["--n-prompt", "expected numbers"]),
        ("-n 1-9+0", &["--n-gen", "does not lead to 9"]),
        ("-n 0-4*2", &["--n-gen", "does not lead to 4"]),
        ("-n 2-4*1", &["--n-gen", "does not lead to 4"]),
        ("-ngl -2-1", &["--n-gpu-layers", "expected numbers from -1"]),
        ("-n -3", &["-3"]),
        ("-d 1-99999999", &["--n-depth", "more than 1000"]),
        ("-pg 512", &["--pg", "512,128"]),
        ("-pg 1,2,3", &["--pg"]),
        ("-r 0", &["--repetitions"]),
        ("-o yaml", &["--output", "jsonl"]),
        ("-oe sql", &["--output-err"]),
        ("-t 0", &["--threads"]),
        ("-ub 0", &["--ubatch-size"]),
        ("-b 0", &["--batch-size"]),
        ("-ctk q4_0", &["--cache-type-k", "q8_0"]),
        ("-ngl many", &["--n-gpu-layers"]),
        ("-dev Vulkan0", &["--device"]),
        ("-p 0 -n 0", &["nothing to measure"]),
        ("-hf a/b", &["-hf", "in place of the file"]),
        ("-t 1-1000 -ub 1-1000", &["1000000 combinations"]),
        // As many numbers as a list and a range beside it, and one that begins below 0, stand for.
        ("-t 1-1000 -ub 8,1-2,64-100*10 -ngl -1-1", &["12000 combinations"]),
        ("--json -o csv", &["--json", "--output"]),
        // Flags of two modes, and lists where only one value makes sense.
        ("--suite quick -p 8", &["--suite", "--n-prompt"]),
        ("--prompt-tokens 8 -pg 8,8", &["--prompt-tokens", "--pg"]),
        ("--suite quick -t 1,2", &["--threads", "rows"]),
    ] {
        refused(&format!("{MODEL} {flags}"), words);
    }
    refused(&format!("{MODEL} {MODEL} --suite quick"), &["2 models"]);
    refused("-p 8", &["no model named"]);
}

#[test]
fn a_context_that_memory_does_not_hold_is_no_crash() {
    let output = bench(&format!("{MODEL} -p 2000000000 -n 0"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(4), 0), "{said}");
    assert!(said.contains("not enough memory"), "{said}");
}
