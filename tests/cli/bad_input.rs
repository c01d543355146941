//! What is wrong is named: flag, value, what was expected; each kind with its exit code.

use super::{assert_fails, model, piped, qrun, run, text, tiny};

#[test]
fn usage_is_exit_2() {
    let cases: &[(&str, &[&str])] = &[
        ("-p x --temp nan", &["--temp", "nan", "finite number"]),
        ("-p x --temp inf", &["--temp", "finite number"]),
        ("-p x --top-p 1.5", &["--top-p", "1.5", "from 0 to 1"]),
        ("-p x --top-k many", &["--top-k", "many", "whole number"]),
        ("-p x -c -1", &["--ctx-size", "-1", "from 0"]),
        ("-p x -n -3", &["--predict", "from -2"]),
        ("-p x -s 4294967296", &["--seed", "4294967295"]),
        ("-p x -ctk q4_0", &["--cache-type-k", "q4_0", "f16, q8_0"]),
        ("-p x -ngl some", &["--gpu-layers", "some", "auto, all"]),
        ("-p x -l 5", &["logit-bias", "ID+BIAS"]),
        ("-p x -l 15+inf", &["logit-bias", "15+inf", "ID+BIAS"]),
        ("-p x --samplers temperature;top_k", &["--samplers", "in this order"]),
        ("-p x --device cuda1x", &["--device", "cuda1x", "qrun devices"]),
        ("-p x -l 99999999+1", &["99999999", "vocabulary"]),
        ("-p x --repeat-penalty 0", &["repeat-penalty", "more than 0"]),
        ("-p x --color=blue", &["--color", "blue", "on, off, auto"]),
        ("-p x --chat-template no-such-template", &["no-such-template", "chatml"]),
        ("-p x --chat-template-kwargs [1]", &["--chat-template-kwargs", "JSON object"]),
        ("-p x -c", &["-c needs a value"]),
        ("-p -n 5", &["-p needs a value", "-n"]),
        ("-p x --tmep 1", &["unknown flag --tmep", "--temp"]),
        ("-p x other.gguf", &["unexpected word", "other.gguf"]),
        ("-p x -m other.gguf", &["two models"]),
        ("-p x -f Cargo.toml", &["two prompts"]),
        ("-f no-such-file", &["-f no-such-file"]),
        ("", &["no prompt"]),
        ("-p x -r", &["-r needs a value"]),
    ];
    for (line, parts) in cases {
        assert_fails(&tiny(line), 2, parts);
    }
    assert_fails(&run("info"), 2, &["FILE"]);
    assert_fails(&run("synth"), 2, &["required"]);
    assert_fails(&run("synth no-such-model /tmp/x.gguf"), 2, &["no-such-model", "tiny-llama"]);
}

#[test]
fn prompts_that_do_not_fit_are_refused_with_both_numbers() {
    assert_fails(&tiny("-f src/cli/args.rs -c 64"), 2, &["tokens, max 63"]);
}

#[test]
fn files_that_are_no_models_are_exit_3() {
    let folder = tempfile::tempdir().expect("a folder");
    let good = std::fs::read(model("tiny-llama")).expect("the model");
    let half = folder.path().join("half.gguf");
    std::fs::write(&half, &good[..good.len() / 2]).expect("half a model");
    let empty = folder.path().join("empty.gguf");
    std::fs::write(&empty, b"").expect("an empty file");
    for (file, part) in [("Cargo.toml", "GGUF"), ("missing.gguf", "missing.gguf"), ("src", "directory")] {
        assert_fails(&run(&format!("{file} -p x")), 3, &[part]);
        assert_fails(&run(&format!("info {file}")), 3, &[part]);
        assert_fails(&run(&format!("tokenize {file} -p x")), 3, &[part]);
    }
    for file in [half, empty] {
        assert_fails(&run(&format!("{} -p x", file.display())), 3, &[&file.display().to_string()]);
    }
}

#[test]
fn what_does_not_fit_is_exit_4_with_the_numbers() {
    let output = tiny("-p x -c 2000000000");
    assert_fails(
        &output,
        4,
        &["weights 2.6 MB", "2000000000 tokens", "available", "the largest context that fits is -c "],
    );
    // What is said to fit does.
    let message = text(&output.stderr);
    let fits: u64 = message.trim().rsplit(' ').next().and_then(|n| n.parse().ok()).expect("a number");
    assert!(fits > 1000 && fits < 2_000_000_000, "{fits}");
}

#[test]
fn a_device_that_is_not_there_is_exit_5() {
    // With a driver or without one: this version has no decoder for it.
    assert_fails(&tiny("-p x --device cuda"), 5, &["--device cuda", "--device cpu"]);
}

#[test]
fn bytes_that_are_no_text_are_refused_with_their_place() {
    let mut command = qrun();
    command.arg(model("tiny-llama")).args(["-n", "1"]);
    assert_fails(&piped(command, b"abc\xffdef"), 2, &["stdin", "0xff", "offset 3"]);
    let mut command = qrun();
    command.arg("tokenize").arg(model("tiny-llama"));
    assert_fails(&piped(command, b"\xf0\x9f"), 2, &["0xf0", "offset 0"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_said() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let mut command = qrun();
    // Greedy: from a random seed an answer may be empty, and then nothing is written.
    command.arg(model("tiny-llama")).args(["-p", "hi", "-n", "4", "--temp", "0"]).stdout(full);
    let output = command.output().expect("qrun starts");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("No space left"), "{}", text(&output.stderr));
}
