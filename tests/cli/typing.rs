//! Keys at a terminal: none is lost, and none stands where it does not belong.

use std::{os::unix::fs::PermissionsExt, process::Stdio, time::Duration};

use super::{model, qrun, terminal::Terminal, text};

fn chat(line: &str) -> Terminal {
    let mut command = qrun();
    command.arg(model("tiny-llama")).args(line.split(' '));
    Terminal::start(command)
}

#[test]
fn a_chat_opens_with_sizes_that_can_be_read() {
    let mut t = chat("-n 1 -s 1 --device cpu -c 512");
    let opening = t.expect("/help lists the commands");
    assert!(opening.contains("CPU, ") && opening.contains(" MB of ") && opening.contains(", 512 tokens"), "{opening}");
    assert!(!opening.contains("activations"), "{opening}");
    t.prompt();
    t.keys("/exit\r");
    assert_eq!(t.end().0, Some(0));
}

#[test]
fn lines_that_come_at_once_are_all_taken() {
    let mut t = chat("-n 2 -s 1");
    t.prompt();
    t.keys("first\rsecond\rthird\r/tokens\r");
    for _ in 0..3 {
        t.expect("Generation: ");
    }
    t.expect("6 messages");
    t.keys("/exit\r");
    assert_eq!(t.end().0, Some(0));
}

#[test]
fn keys_during_an_answer_wait_for_its_end_and_do_not_stand_in_it() {
    let mut t = chat("-n -1 -s 1 --ignore-eos --verbose-prompt");
    t.prompt();
    t.keys("hello\r");
    t.expect("number of tokens in prompt");
    std::thread::sleep(Duration::from_millis(500));
    t.keys("/tokens\r/set seed 77\r");
    std::thread::sleep(Duration::from_millis(300));
    t.keys("\x03");
    let answer = t.expect("(stopped)");
    assert!(!answer.contains("/tokens") && !answer.contains("seed"), "{answer}");
    t.keys("/exit\r");
    let (code, _) = t.end();
    assert_eq!(code, Some(0));
}

#[test]
fn lines_typed_during_an_answer_are_all_taken() {
    let mut t = chat("-n 40 -s 1 --ignore-eos --verbose-prompt");
    t.prompt();
    t.keys("hello\r");
    t.expect("number of tokens in prompt");
    t.keys("second\r/tokens\r/set seed 77\r");
    t.expect("Generation: ");
    t.expect("Generation: ");
    t.expect("4 messages");
    t.expect("seed = 77");
    t.keys("/exit\r");
    assert_eq!(t.end().0, Some(0));
}

#[test]
fn a_message_that_is_interrupted_before_its_answer_is_taken_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let long = folder.path().join("long.txt");
    std::fs::write(&long, "many words to read ".repeat(800)).expect("a file");
    let mut t = chat("-n 2 -s 1 -ub 1 --exact -t 1 --verbose-prompt");
    t.prompt();
    t.keys(&format!("/read {}\r", long.display()));
    t.expect("Loaded text");
    t.prompt();
    t.keys("what\r");
    t.expect("number of tokens in prompt");
    t.keys("\x03");
    t.expect("the message was not sent");
    t.prompt();
    t.keys("/tokens\r");
    t.expect("0 of ");
    t.expect("0 messages");
    t.prompt();
    // What was read stands in front of the next message again.
    t.keys("and again\r");
    let shown = t.expect("number of tokens in prompt");
    assert!(shown.contains("many words to read \\nand again<|eot_id|>"), "{shown}");
    t.keys("\x03");
    t.expect("the message was not sent");
    t.prompt();
    t.keys("/exit\r");
    assert_eq!(t.end().0, Some(0));
}

#[test]
fn tokens_that_were_not_computed_are_not_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let long = folder.path().join("long.txt");
    std::fs::write(&long, "many words to read ".repeat(800)).expect("a file");
    let mut command = qrun();
    command.arg(model("tiny-llama")).args("-n 3 -ub 1 --exact -t 1 --json -f".split(' ')).arg(&long);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("qrun starts");
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().expect("a pipe")));
    let start = lines.next().expect("an event").expect("UTF-8");
    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::SIGINT).expect("a signal is sent");
    let end = lines.last().expect("an end").expect("UTF-8");
    let event = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("JSON");
    let (start, end) = (event(&start), event(&end));
    assert_eq!(end["stop_type"], "interrupted");
    let number = |v: &serde_json::Value| v.as_u64().expect("a number");
    assert!(number(&end["timings"]["prompt_n"]) < number(&start["tokens_prompt"]), "{start} {end}");
    assert_eq!(end["timings"]["predicted_n"], 0);
    assert_eq!(child.wait().expect("qrun ends").code(), Some(130));
}

#[test]
fn what_was_typed_is_there_the_next_time_unless_that_is_unwanted() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| {
        let mut command = qrun();
        command.env("XDG_STATE_HOME", folder.path().join(name)).arg(model("tiny-llama"));
        command
    };
    let mut command = at("kept");
    command.args("-n 1 -s 1".split(' '));
    let mut t = Terminal::start(command);
    t.prompt();
    t.keys("/tokens of this\r");
    t.expect("tokens: ");
    t.prompt();
    t.keys(" /tokens unseen\r/exit\r");
    t.end();
    let file = folder.path().join("kept/qrun/history");
    let kept = std::fs::read_to_string(&file).expect("a history");
    assert!(kept.contains("/tokens of this") && !kept.contains("unseen"), "{kept}");
    assert_eq!(std::fs::metadata(&file).expect("a history").permissions().mode() & 0o777, 0o600);
    // The arrow key brings it back.
    let mut command = at("kept");
    command.args("-n 1 -s 1".split(' '));
    let mut t = Terminal::start(command);
    t.prompt();
    t.keys("\x1b[A\x1b[A\r");
    t.expect("tokens: ");
    t.keys("/exit\r");
    t.end();
    let mut command = at("none");
    command.args("-n 1 -s 1 --no-history".split(' '));
    let mut t = Terminal::start(command);
    t.prompt();
    t.keys("/tokens of this\r/exit\r");
    t.end();
    assert!(!folder.path().join("none").exists());
}

#[test]
fn times_are_measured() {
    let mut command = qrun();
    command.arg(model("tiny-llama")).args("-p hi -n 4 --perf".split(' '));
    let said = text(&command.output().expect("qrun ends").stderr);
    assert!(!said.contains("samplers time"), "{said}");
    let ms = |what: &str| {
        let line = said.lines().find(|l| l.contains(what)).unwrap_or_else(|| panic!("{what} is not in {said}"));
        line.split('=').nth(1).and_then(|l| l.trim().split(' ').next()?.parse::<f64>().ok()).expect("a number")
    };
    let parts = ms("prompt eval time") + ms("       eval time") + ms("unaccounted time");
    assert!((ms("total time") - parts).abs() < 0.05, "{said}");
}
