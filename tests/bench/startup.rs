//! The time line of a start.

use std::process::Command;

use serde_json::Value;

use super::{MODEL, bench, printed, text};

/// Every step of a run on the CPU, in its order.
const STEPS: [&str; 13] = [
    "exec",
    "command line",
    "open, map",
    "parse",
    "model",
    "tokenizer",
    "template",
    "device, plan",
    "sampler",
    "repack",
    "prompt",
    "prefill",
    "first token",
];

#[test]
fn a_start_is_told_step_by_step() {
    let output = bench(&format!("{MODEL} --startup --trials 2 --device cpu --json"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let startup: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(startup["file_bytes"], std::fs::metadata(MODEL).expect("the demo model").len());
    let runs: Vec<&Value> = startup["runs"].as_array().expect("runs").iter().collect();
    assert_eq!(runs.len(), 2);
    for run in runs.into_iter().chain([&startup["first"]]) {
        let steps = run["timeline"].as_array().expect("a timeline");
        assert_eq!(steps.iter().map(|s| s["step"].as_str().expect("a name")).collect::<Vec<_>>(), STEPS);
        let times: Vec<f64> = steps.iter().map(|s| s["ms"].as_f64().expect("a number")).collect();
        let total = run["total_ms"].as_f64().expect("a number");
        assert!(times.iter().all(|ms| *ms >= 0.0) && total.is_finite(), "{run}");
        // The child's last step may end a moment after its parent has read the line.
        assert!(times.iter().sum::<f64>() <= total * 1.05 + 1.0, "{run}");
        assert!(run["next_step_ms"].as_f64().is_some_and(|ms| ms > 0.0), "{run}");
        assert!(run["n_prompt"].as_u64().is_some_and(|n| (10..40).contains(&n)), "{run}");
        assert_eq!(run["device"], "CPU");
        if cfg!(target_os = "linux") {
            let held = |what: &str| run["memory"][what].as_u64().expect(what);
            assert!(held("peak") > held("files") && held("files") > 0, "{run}");
        }
    }
}

#[test]
fn a_start_is_a_table() {
    let output = bench(&format!("{MODEL} --startup --trials 1 --device cpu"));
    let table = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for step in STEPS.into_iter().chain(["**total to the first token**", "then: first step"]) {
        assert!(table.contains(&format!("\n| {step} | ")), "{step:?} is not in {table}");
    }
}

#[test]
fn a_start_that_fails_ends_as_it_does() {
    let output = bench("no-such-file.gguf --startup");
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(3), ""), "{said}");
    assert!(said.starts_with("error: no-such-file.gguf: No such file"), "{said}");
}

#[test]
fn a_start_on_a_gpu_has_its_own_steps() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_qrun"));
    command.env("LD_LIBRARY_PATH", qrun_emulator::library()).env("QRUN_EMULATOR", "sm=80");
    command.current_dir(env!("CARGO_MANIFEST_DIR")).args(["bench", MODEL, "--startup", "--trials", "1"]);
    let table = printed(&command.args(["--device", "cuda"]).output().expect("qrun starts"));
    for part in [" on GPU 0 (", "\n| upload | ", "\n| prefill | ", "\n| then: graph (first recorded step) | "] {
        assert!(table.contains(part), "{part:?} is not in {table}");
    }
}
