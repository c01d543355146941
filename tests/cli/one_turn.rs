//! One turn through pipes: what is on stdout, what is on stderr.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Command, Stdio},
};

use serde_json::Value;

use super::{model, piped, qrun, text, tiny};

fn command(line: &str) -> Command {
    let mut command = qrun();
    command.arg(model("tiny-llama")).args(line.split(' '));
    command
}

#[test]
fn stdout_carries_the_text_and_nothing_else() {
    let quiet = tiny("-p hi -n 12 -s 5");
    assert!(quiet.status.success());
    assert!(quiet.stderr.is_empty(), "nothing is said beside the text into a pipe: {}", text(&quiet.stderr));
    assert!(quiet.stdout.ends_with(b"\n"));
    // Everything that can be said at once, and the text is the same.
    let loud = tiny("-p hi -n 12 -s 5 -v --perf --verbose-prompt --show-timings --color on --mlock");
    assert_eq!(text(&loud.stdout), text(&quiet.stdout));
    let said = text(&loud.stderr);
    for part in [
        "plan: CPU: weights 2646016 ",
        "seed: 5",
        "number of tokens in prompt",
        "prompt eval time",
        "12 tokens",
        "--mlock",
    ] {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
    let timed = tiny("-p hi -n 12 -s 5 --show-timings");
    assert_eq!(text(&timed.stdout), text(&quiet.stdout));
    let said = text(&timed.stderr);
    assert!(
        said.starts_with("[ Prompt: ") && said.contains(" t/s | Generation: ") && said.ends_with(" t/s ]\n"),
        "{said}"
    );
}

#[test]
fn same_seed_same_text_on_any_number_of_threads() {
    let wanted = tiny("-p hi -n 24 -s 5 -t 1").stdout;
    for line in ["-t 2", "-t 3 -ub 7", "-ub 1", "-c 256"] {
        assert_eq!(text(&tiny(&format!("-p hi -n 24 -s 5 {line}")).stdout), text(&wanted), "{line}");
    }
    assert_ne!(tiny("-p hi -n 24 -s 6").stdout, wanted, "another seed, another text");
    let greedy = tiny("-p hi -n 24 -s 5 --temp 0").stdout;
    assert_eq!(tiny("-p hi -n 24 -s 6 --temp 0").stdout, greedy);
    assert_eq!(tiny("-p hi -n 24 -s 7 --top-k 1").stdout, greedy);
}

#[test]
fn prompts_from_everywhere_are_the_same_prompt() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("prompt.txt");
    std::fs::write(&file, "Hello\nworld\n").expect("a prompt");
    let wanted = tiny("-p Hello\\nworld -n 8 -s 1").stdout;
    assert_eq!(tiny(&format!("-f {} -n 8 -s 1", file.display())).stdout, wanted);
    assert_eq!(piped(command("-n 8 -s 1"), b"Hello\nworld\n").stdout, wanted);
    assert_eq!(piped(command("-f - -n 8 -s 1"), b"Hello\nworld\n").stdout, wanted);
    assert_eq!(piped(command("-p Hello -n 8 -s 1"), b"").stdout, tiny("-p Hello -n 8 -s 1").stdout);
    // Piped text follows -p after an empty line.
    assert_eq!(piped(command("-p Hello -n 8 -s 1"), b"world\n").stdout, tiny("-p Hello\\n\\nworld -n 8 -s 1").stdout);
    let raw = tiny("--no-escape -p Hello\\nworld -n 1 --verbose-prompt");
    assert!(text(&raw.stderr).contains(r"Hello\\nworld"), "{}", text(&raw.stderr));
    let bytes = tiny(&format!("-no-cnv -bf {} -n 1 --verbose-prompt", file.display()));
    assert!(text(&bytes.stderr).contains(r"Hello\nworld\n"), "{}", text(&bytes.stderr));
}

#[test]
fn bos_stands_once() {
    for (name, line) in [
        ("tiny-llama", "-p hi"),
        ("tiny-gemma3", "-p hi"),
        ("tiny-gemma3", "-no-cnv -p hi"),
        ("tiny-gemma3", "-no-cnv -p <bos>hi"),
    ] {
        let mut command = qrun();
        command.arg(model(name)).args(line.split(' ')).args(["-n", "1", "--verbose-prompt"]);
        let said = text(&command.output().expect("qrun starts").stderr);
        let bos = if name == "tiny-llama" { "<|begin_of_text|>" } else { "<bos>" };
        let rows = said.lines().filter(|l| l.ends_with(&format!("-> {bos:?}"))).count();
        assert_eq!(rows, 1, "{name} {line}: {said}");
    }
}

#[test]
fn raw_text_has_no_template_and_a_turn_has_its_own() {
    let raw = text(&tiny("-no-cnv -p hi -n 1 --verbose-prompt").stderr);
    assert!(raw.contains("prompt: \"hi\"\n"), "{raw}");
    let turn = text(&tiny("-sys Short. -p hi -n 1 --verbose-prompt").stderr);
    assert!(turn.contains("Short.") && turn.contains("<|start_header_id|>user"), "{turn}");
    let other = text(&tiny("--chat-template chatml -p hi -n 1 --verbose-prompt").stderr);
    assert!(other.contains("<|im_start|>user\\nhi<|im_end|>"), "{other}");
}

#[test]
fn json_is_one_event_per_line() {
    let output = tiny("-p hi -n 6 -s 9 --json");
    let events: Vec<Value> = text(&output.stdout).lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    let kind = |e: &Value| e["type"].as_str().unwrap_or_default().to_owned();
    assert_eq!(kind(&events[0]), "start");
    assert_eq!(events[0]["seed"], 9);
    assert_eq!(events[0]["sampling"]["top_p"].to_string(), "0.95");
    let end = events.last().expect("events");
    assert_eq!(kind(end), "end");
    assert_eq!(end["stop_type"], "limit");
    assert_eq!(end["timings"]["predicted_n"], 6);
    assert_eq!(end["timings"]["prompt_n"], events[0]["tokens_prompt"]);
    let tokens = events.iter().filter(|e| kind(e) == "token");
    let shown: String = tokens.map(|e| e["text"].as_str().expect("text")).collect();
    assert_eq!(end["content"], shown.as_str());
    let plain = text(&tiny("-p hi -n 6 -s 9").stdout);
    assert_eq!(plain.trim_end_matches('\n'), shown.trim_end_matches('\n'));
}

#[test]
fn stop_texts_end_the_answer_and_are_not_part_of_it() {
    let whole = text(&tiny("-p hi -n 30 -s 3 -no-cnv").stdout);
    let letters: Vec<char> = whole.chars().filter(|c| c.is_ascii_alphabetic()).collect();
    let stop = letters[letters.len() / 2].to_string();
    let before = whole.split(&stop).next().expect("the text before it");
    let cut = text(&tiny(&format!("-p hi -n 30 -s 3 -no-cnv -r {stop}")).stdout);
    assert_eq!(cut.trim_end_matches('\n'), before.trim_end_matches('\n'));
}

#[test]
fn the_context_ends_the_answer_and_that_is_said() {
    for n in ["-1", "-2"] {
        let output = tiny(&format!("-p hi -n {n} -c 64 --ignore-eos --json"));
        assert!(output.status.success());
        let end: Value = serde_json::from_str(text(&output.stdout).lines().last().expect("end")).expect("JSON");
        assert_eq!(end["stop_type"], "context");
        let (prompt, made) = (&end["timings"]["prompt_n"], &end["timings"]["predicted_n"]);
        // Every cell of the context is used, and the token after the last one is known too.
        assert_eq!(prompt.as_u64().zip(made.as_u64()).map(|(a, b)| a + b), Some(65));
        assert!(text(&output.stderr).contains("context full (64 tokens)"), "{}", text(&output.stderr));
    }
}

#[test]
fn nothing_is_asked_for_and_nothing_is_written() {
    let output = tiny("-p hi -n 0");
    assert!(output.status.success());
    assert_eq!(text(&output.stdout).trim(), "");
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let mut child = command("-p hi -n -1 --ignore-eos -c 8192")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("qrun starts");
    let mut first = [0];
    let mut out = child.stdout.take().expect("a pipe");
    out.read_exact(&mut first).expect("a byte");
    drop(out);
    let output = child.wait_with_output().expect("qrun ends");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn a_closed_stderr_is_no_failure() {
    let wanted = tiny("-p hi -n 8 -s 2").stdout;
    let mut child = command("-p hi -n 8 -s 2 -v --perf --verbose-prompt --mlock")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("qrun starts");
    drop(child.stderr.take());
    let output = child.wait_with_output().expect("qrun ends");
    assert_eq!((output.status.code(), output.stdout), (Some(0), wanted));
}

#[cfg(unix)]
#[test]
fn ctrl_c_in_one_turn_is_130_and_keeps_what_was_written() {
    let mut child = command("-p hi -n -1 --ignore-eos --json").stdout(Stdio::piped()).spawn().expect("qrun starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    for _ in 0..4 {
        lines.next().expect("an event").expect("UTF-8");
    }
    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::SIGINT).expect("a signal is sent");
    let last = lines.map(|l| l.expect("UTF-8")).last().expect("an end");
    let end: Value = serde_json::from_str(&last).expect("JSON");
    assert_eq!(end["stop_type"], "interrupted");
    assert_eq!(child.wait().expect("qrun ends").code(), Some(130));
}
