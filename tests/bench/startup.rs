//! The time line of a start.

use serde_json::Value;

use super::{MODEL, bench, bench_on_gpu, json, measured, printed};

/// Every step of a run on the CPU, in its order.
#[rustfmt::skip]
const STEPS: [&str; 13] = [
    "exec", "command line", "open, map", "parse", "model", "tokenizer", "template", "device, plan", "sampler", "repack",
    "prompt", "prefill", "first token",
];

#[test]
fn a_start_is_told_step_by_step() {
    let startup = json(&bench(&format!("{MODEL} --startup --trials 2 --device cpu --json")));
    assert_eq!(startup["file_bytes"], std::fs::metadata(MODEL).expect("the demo model").len());
    let runs: Vec<&Value> = startup["runs"].as_array().expect("runs").iter().collect();
    assert_eq!(runs.len(), 2);
    for run in runs.into_iter().chain([&startup["first"]]) {
        let steps = run["timeline"].as_array().expect("a timeline");
        assert_eq!(steps.iter().map(|s| s["step"].as_str().expect("a name")).collect::<Vec<_>>(), STEPS);
        let times: Vec<f64> = steps.iter().map(|s| s["ms"].as_f64().expect("a number")).collect();
        assert!(times.iter().all(|ms| *ms >= 0.0), "{run}");
        // The child's last step may end a moment after its parent has read the line.
        assert!(times.iter().sum::<f64>() <= measured(run, "total_ms") * 1.05 + 1.0, "{run}");
        measured(run, "next_step_ms");
        assert!((10.0..40.0).contains(&measured(run, "n_prompt")), "{run}");
        assert_eq!(run["device"], "CPU");
        if cfg!(target_os = "linux") {
            assert!(measured(&run["memory"], "peak") > measured(&run["memory"], "files"), "{run}");
        }
    }
}

#[test]
fn a_start_is_a_table() {
    let on_cpu = printed(&bench(&format!("{MODEL} --startup --trials 1 --device cpu")));
    for step in STEPS.into_iter().chain(["**total to the first token**", "then: first step"]) {
        assert!(on_cpu.contains(&format!("\n| {step} | ")), "{step:?} is not in {on_cpu}");
    }
    let on_gpu = printed(&bench_on_gpu(&format!("{MODEL} --startup --trials 1 --device cuda")));
    for part in [" on GPU 0 (", "\n| upload | ", "\n| prefill | ", "\n| then: graph (first recorded step) | "] {
        assert!(on_gpu.contains(part), "{part:?} is not in {on_gpu}");
    }
}

#[test]
fn a_start_that_fails_ends_as_it_does() {
    let output = bench("no-such-file.gguf --startup");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(3), 0), "{said}");
    assert!(said.starts_with("error: no-such-file.gguf: No such file"), "{said}");
}
