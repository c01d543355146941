//! Every flag of llama.cpp, in every spelling, does what `tests/data/llama-flags.tsv` says.

use super::{run, text};

#[test]
fn flags_of_llama_cpp() {
    let table = include_str!("../data/llama-flags.tsv");
    let rows: Vec<&str> = table.lines().filter(|l| !l.starts_with('#')).collect();
    assert!(rows.len() > 280, "{} rows", rows.len());
    for row in rows {
        let [names, value, outcome] = row.split('\t').collect::<Vec<_>>()[..] else { panic!("bad row {row:?}") };
        for name in names.split(", ") {
            check(name, value, outcome);
        }
    }
}

/// A missing model file stands at the end of the way: exit 3 means that all flags were accepted. Names end there too:
/// tests of the command line have no network and an empty cache (exit 6).
fn check(name: &str, value: &str, outcome: &str) {
    let names_a_model = ["-m", "--model", "-hf", "-hfr", "--hf-repo", "-mu", "--model-url"].contains(&name);
    let model = if names_a_model { "" } else { "missing.gguf" };
    let prompt =
        if matches!(name, "-p" | "--prompt" | "-f" | "--file" | "-bf" | "--binary-file") { "" } else { "-p x" };
    let value = if value == "-" { "" } else { value };
    let output = run(&format!("{model} {prompt} {name} {value}"));
    let (code, said) = (output.status.code(), text(&output.stderr));
    let found = match code {
        Some(0) => "answered",
        Some(2) => "refused",
        Some(3) if said.contains(" has no effect") => "noted",
        Some(3) => "accepted",
        Some(6) if said.contains("not in the cache") => "offline",
        _ => "something else",
    };
    assert_eq!(found, outcome, "{name} {value}: exit {code:?}, {said}");
    match outcome {
        "refused" => assert!(said.starts_with(&format!("error: {name}")), "{name} is not named: {said}"),
        "noted" => assert!(said.contains(&format!("note: {name} has no effect: ")), "{name}: {said}"),
        _ => {}
    }
}

#[test]
fn values_that_change_nothing_are_accepted() {
    for flag in [
        "--mirostat 0",
        "--dry-multiplier 0.0",
        "--xtc-probability 0",
        "--dynatemp-range 0.00",
        "--top-nsigma -1",
        "--rope-scale 1.0",
        "-np 1",
        "--sampler-seq edskypmxt",
        "-gan 1",
        "-mg 0",
        "--reasoning-budget -1",
    ] {
        let output = run(&format!("missing.gguf -p x {flag}"));
        assert_eq!(output.status.code(), Some(3), "{flag}: {}", text(&output.stderr));
    }
}

#[test]
fn the_environment_of_llama_cpp_is_heard_and_the_command_line_wins() {
    let mut command = super::qrun();
    command.args(["-p", "x"]).env("LLAMA_ARG_MODEL", "from-environment.gguf");
    let output = command.output().expect("qrun starts");
    super::assert_fails(&output, 3, &["from-environment.gguf"]);
    let mut command = super::qrun();
    command.args(["-p", "x", "-m", "named.gguf"]).env("LLAMA_ARG_MODEL", "from-environment.gguf");
    let output = command.output().expect("qrun starts");
    super::assert_fails(&output, 3, &["error: named.gguf"]);
    let mut command = super::qrun();
    command.args(["missing.gguf", "-p", "x"]).env("LLAMA_ARG_TOP_K", "many");
    super::assert_fails(&command.output().expect("qrun starts"), 2, &["top-k", "whole number"]);
    // That of a flag of the server is the server's alone.
    for (job, code) in [(&["serve"][..], 2), (&[], 3)] {
        let mut command = super::qrun();
        command.args(job).args(["missing.gguf", "-p", "x"]).env("LLAMA_ARG_THINK", "loud");
        let part = if code == 2 { "reasoning-format" } else { "missing.gguf" };
        super::assert_fails(&command.output().expect("qrun starts"), code, &[part]);
    }
}

#[test]
fn completions_for_all_shells_know_the_flags() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = run(&format!("completions {shell}"));
        assert!(output.status.success(), "{shell}");
        assert!(text(&output.stdout).contains("ctx-size"), "{shell}");
    }
}

#[test]
fn help_fits_a_screen() {
    for spelling in ["-h", "--help", "--usage"] {
        let output = run(spelling);
        assert!(output.status.success());
        let help = text(&output.stdout);
        assert!(help.lines().count() <= 52 && help.lines().all(|l| l.chars().count() <= 100), "{help}");
        assert!(output.stderr.is_empty());
    }
}
