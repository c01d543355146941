//! Chats: at a pseudo-terminal, and through pipes.

use super::{model, piped, qrun, terminal::Terminal, text};

fn chat(line: &str) -> Terminal {
    let mut command = qrun();
    command.arg(model("tiny-llama")).args(line.split(' ').filter(|w| !w.is_empty()));
    Terminal::start(command)
}

#[test]
fn a_terminal_chats_and_exit_leaves() {
    let mut t = chat("-n 5 -s 1");
    t.expect("/help lists the commands");
    t.prompt();
    t.keys("hello\r");
    t.expect("[ Prompt: ");
    t.expect("Generation: ");
    t.prompt();
    t.keys("/exit\r");
    assert_eq!(t.end().0, Some(0));
}

#[test]
fn ctrl_c_stops_the_answer_then_warns_then_leaves() {
    let mut t = chat("-n -1 -s 1 --ignore-eos --verbose-prompt");
    t.prompt();
    t.keys("hello\r");
    t.expect("number of tokens in prompt");
    std::thread::sleep(std::time::Duration::from_millis(700));
    t.keys("\x03");
    t.expect("(stopped)");
    t.prompt();
    // A line in the making is given up, and that does not count; nor does one press count for the next line.
    for _ in 0..3 {
        t.keys("half a line\x03");
        t.prompt();
    }
    t.keys("\x03");
    t.expect("Ctrl-C again or /exit to leave");
    t.prompt();
    t.keys("another line\x03");
    t.prompt();
    t.keys("\x03");
    t.expect("Ctrl-C again or /exit to leave");
    t.prompt();
    t.keys("\x03");
    assert_eq!(t.end().0, Some(0));
}

#[test]
fn an_input_between_two_ctrl_c_keeps_the_chat() {
    let mut t = chat("-n 2 -s 1");
    t.prompt();
    t.keys("\x03");
    t.expect("Ctrl-C again");
    t.prompt();
    t.keys("hello\r");
    // The answer has ended and the prompt is not there yet: the press was meant for the answer, and must
    // not end the program. Whether it was in time to be answered is up to the machine.
    t.expect("Generation: ");
    t.keys("\x03");
    std::thread::sleep(std::time::Duration::from_millis(300));
    t.keys("/tokens\r");
    t.expect("tokens used");
    t.prompt();
    t.keys("\x03");
    t.expect("Ctrl-C again");
    t.prompt();
    t.keys("\x04");
    assert_eq!(t.end().0, Some(0));
}

#[test]
fn unknown_commands_never_reach_the_model_and_two_slashes_do() {
    let mut t = chat("-n 3 -s 1 --verbose-prompt");
    t.prompt();
    t.keys("/quti\r");
    t.expect("unknown command /quti; did you mean /quit?");
    t.prompt();
    t.keys("//etc is a folder\r");
    let shown = t.expect("number of tokens in prompt");
    assert!(shown.contains("user<|end_header_id|>\\n\\n/etc is a folder<|eot_id|>"), "{shown}");
    assert!(!shown.contains("\\n\\n/quti"), "{shown}");
    t.prompt();
    t.keys("/bye\r");
    assert_eq!(t.end().0, Some(0));
}

#[test]
fn regen_answers_again_and_never_drops_a_message_of_the_user() {
    let mut t = chat("-n 4 -s 1 --verbose-prompt");
    t.prompt();
    t.keys("/regen\r");
    t.expect("Nothing to answer again.");
    t.prompt();
    t.keys("first\r");
    let once = t.expect("number of tokens in prompt");
    t.expect("Generation: ");
    t.prompt();
    t.keys("/regen\r");
    let again = t.expect("number of tokens in prompt");
    let prompt = |s: &str| s.split("prompt: \"").last().map(str::to_owned);
    assert_eq!(prompt(&once), prompt(&again));
    t.expect("Generation: ");
    t.prompt();
    t.keys("/clear\r");
    t.expect("Chat history cleared.");
    t.prompt();
    t.keys("/regen\r");
    t.expect("Nothing to answer again.");
    t.prompt();
    t.keys("\x04");
    assert_eq!(t.end().0, Some(0));
}

#[test]
fn lines_that_end_in_a_backslash_go_on() {
    let mut t = chat("-n 2 -s 1 --verbose-prompt");
    t.prompt();
    t.keys("one\\\r");
    t.prompt();
    t.keys("see http://x.y/\r");
    let shown = t.expect("number of tokens in prompt");
    assert!(shown.contains("one\\nsee http://x.y/<|eot_id|>"), "{shown}");
    t.prompt();
    t.keys("/exit\r");
    t.end();
}

#[test]
fn the_first_turn_may_come_from_the_flags() {
    let mut t = chat("-n 2 -s 1 -p hello");
    t.expect("> hello");
    t.expect("Generation: ");
    t.prompt();
    t.keys("/quit\r");
    assert_eq!(t.end().0, Some(0));
    // -st: one turn, then the end, also at a terminal.
    assert_eq!(chat("-n 2 -s 1 -p hello -st").end().0, Some(0));
}

/// A chat through a pipe: each line is one turn.
fn lines(flags: &str, input: &str) -> (String, String) {
    let mut command = qrun();
    command.arg(model("tiny-llama")).args(flags.split(' ')).arg("-cnv");
    let output = piped(command, input.as_bytes());
    assert!(output.status.success(), "{}", text(&output.stderr));
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn each_line_of_a_pipe_is_a_turn_and_only_answers_are_on_stdout() {
    let (one, said) = lines("-n 4 -s 1", "hello\n");
    assert_eq!(said, "");
    let (two, _) = lines("-n 4 -s 1", "hello\n\nhow are you\n");
    assert!(two.starts_with(&one) && two.len() > one.len(), "{one:?} {two:?}");
    let (none, said) = lines("-n 4 -s 1", "/set temp 0\n/stats\n/tokens\n/help\n");
    assert_eq!(none, "");
    assert!(said.contains("temp = 0") && said.contains("KV cache") && said.contains("/regen"), "{said}");
}

#[test]
fn a_saved_chat_goes_on_as_if_it_had_never_stopped() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("chat.qrun");
    let (unbroken, _) = lines("-n 6 -s 1", "hello\nand then\n");
    let (first, _) = lines("-n 6 -s 1", &format!("hello\n/save {}\n", file.display()));
    let (second, said) = lines("-n 6 -s 1", &format!("/load {}\nand then\n/stats\n", file.display()));
    assert_eq!(format!("{first}{second}"), unbroken);
    assert!(said.contains("Loaded 2 messages"), "{said}");
    let cached = said.split(" prompt tokens (").nth(1).and_then(|s| s.split(' ').next()?.parse::<u32>().ok());
    assert!(cached.is_some_and(|n| n > 20), "the cache was used: {said}");
}

#[test]
fn a_session_file_that_is_damaged_or_foreign_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let good = folder.path().join("good.qrun");
    lines("-n 6 -s 1", &format!("hello\n/save {}\n", good.display()));
    let bytes = std::fs::read(&good).expect("a session");
    let bad = folder.path().join("bad.qrun");
    let (unbroken, _) = lines("-n 6 -s 1", "hello\nand then\n");
    let mut damages: Vec<Vec<u8>> = vec![vec![], b"something else".to_vec(), [&bytes[..], b"x"].concat()];
    damages.extend([7, 12, 40, 200, bytes.len() / 2, bytes.len() - 1].map(|n| bytes[..n].to_vec()));
    damages.extend([0, 9, 21, 29, 37, 60, bytes.len() / 2, bytes.len() - 1].map(|at| {
        let mut flipped = bytes.clone();
        flipped[at] ^= 0x40;
        flipped
    }));
    for damaged in damages {
        std::fs::write(&bad, &damaged).expect("a bad session");
        let (answers, said) = lines("-n 6 -s 1", &format!("hello\n/load {}\nand then\n", bad.display()));
        assert!(said.contains("error: ") && said.contains("the conversation is as it was"), "{said}");
        assert_eq!(answers, unbroken);
    }
}

#[test]
fn a_session_of_another_model_or_cache_is_its_text() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("chat.qrun");
    lines("-n 6 -s 1", &format!("hello\n/save {}\n", file.display()));
    let mut command = qrun();
    command.arg(model("tiny-gemma3")).args("-n 1 -s 1 -cnv --verbose-prompt".split(' '));
    let output = piped(command, format!("/load {}\nand then\n", file.display()).as_bytes());
    let said = text(&output.stderr);
    assert!(said.contains("Loaded 2 messages, but not their cache") && said.contains("another model"), "{said}");
    assert!(said.contains("user\\nhello<end_of_turn>"), "{said}");
    // The same conversation as one that was never saved, where only the types of the cache are others.
    let types = "-n 6 -s 1 -ctk q8_0 -ctv q8_0";
    let (first, _) = lines("-n 6 -s 1", "hello\n");
    let (second, said) = lines(types, &format!("/load {}\nand then\n/tokens\n", file.display()));
    assert!(said.contains("Loaded 2 messages, but not their cache") && said.contains("4 messages"), "{said}");
    assert!(!second.is_empty() && !second.starts_with(&first), "{second}");
}

#[test]
fn files_go_in_front_of_the_next_message() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("sub")).expect("a folder");
    for (name, content) in [("a.txt", "alpha"), ("b.txt", "beta\n"), ("sub/c.txt", "gamma"), ("d.md", "delta")] {
        std::fs::write(folder.path().join(name), content).expect("a file");
    }
    let at = folder.path().display();
    let (_, said) =
        lines("-n 1 -s 1 --verbose-prompt", &format!("/read {at}/a.txt\n/glob {at}/**/*.txt\nwhat is it\n"));
    let prompt = said.lines().find(|l| l.starts_with("prompt: ")).expect("the prompt");
    let place = |part: &str| prompt.find(part).unwrap_or_else(|| panic!("{part} is not in {prompt}"));
    assert!(place("alpha\\n---") < place("beta\\n---") && place("beta") < place("gamma\\nwhat is it"), "{prompt}");
    assert!(!prompt.contains("delta"));
    let (_, said) = lines("-n 1 -s 1 --verbose-prompt", &format!("/read {at}/a.txt\n/clear\nhello\n"));
    assert!(!said.lines().any(|l| l.starts_with("prompt: ") && l.contains("alpha")), "/clear forgets it: {said}");
}

#[test]
fn a_message_that_does_not_fit_is_given_back() {
    let long = "word ".repeat(200);
    let (answers, said) = lines("-n 2 -s 1 -c 128", &format!("{long}\nhello\n"));
    assert!(said.contains("prompt is too long") && said.contains("max 127"), "{said}");
    let (wanted, _) = lines("-n 2 -s 1 -c 128", "hello\n");
    assert_eq!(answers, wanted, "the message that was refused is not part of the history");
}

/// What `/read` has put before a message that is too long waits for the next one, until it is taken back.
#[test]
fn text_of_read_outlives_a_message_that_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.txt");
    std::fs::write(&file, "alphabet").expect("a file");
    let (read, long) = (format!("/read {}", file.display()), "word ".repeat(1000));
    let talk = format!("{read}\n{long}\nwhat is it\n{read}\n{long}\n/read -\nhello\n");
    let (_, said) = lines("-n 1 -s 1 -c 512 --verbose-prompt", &talk);
    assert_eq!(said.matches("prompt is too long").count(), 2, "{said}");
    assert_eq!(said.matches("/read - forgets it").count(), 2, "{said}");
    let prompts: Vec<&str> = said.lines().filter(|l| l.starts_with("prompt: ")).collect();
    assert_eq!(prompts.len(), 2, "{said}");
    assert!(prompts[0].contains("alphabet\\nwhat is it"), "{prompts:?}");
    assert_eq!(prompts[1].matches("alphabet").count(), 1, "that of the first message: {prompts:?}");
}

#[test]
fn a_full_context_has_ways_out() {
    let talk = "hello there friend\n".repeat(12);
    let (_, said) = lines("-n 4 -s 1 -c 128", &format!("{talk}/drop 3\nhello\n/tokens\n"));
    for part in ["prompt is too long", "/drop forgets", "/save FILE", "larger -c", "Dropped the 3 oldest turns; "] {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
    let after = said.split("Dropped").nth(1).expect("what follows");
    assert!(!after.contains("too long"), "{said}");
    let (_, said) = lines("-n 4 -s 1 -c 128 --drop-oldest", &talk);
    assert!(said.contains("(dropped the oldest turn to make room)") && !said.contains("too long"), "{said}");
    // One message that is longer than the context drops nothing.
    let long = "word ".repeat(200);
    let (_, said) = lines("-n 2 -s 1 -c 128 --drop-oldest", &format!("hello\n{long}\n/tokens\n"));
    assert!(said.contains("too long") && said.contains("2 messages"), "{said}");
    let (_, said) = lines("-n 2 -s 1", "/drop\n/drop x\n");
    assert!(said.contains("Nothing to drop.") && said.contains("needs a number"), "{said}");
}

#[test]
fn what_is_set_is_shown_and_can_be_taken_back() {
    let (_, said) = lines(
        "-n 1 -s 1 --verbose-prompt",
        "/set system Be brief.\n/set\nhello\n/clear\n/tokens\n/set system -\n/set system\n/clear\n/tokens\nhow\n/set seed -1\n",
    );
    assert!(said.contains("system Be brief.\n"), "{said}");
    let prompts: Vec<&str> = said.lines().filter(|l| l.starts_with("prompt: ")).collect();
    assert!(prompts[0].contains("Be brief.") && !prompts[1].contains("Be brief."), "{prompts:?}");
    assert!(said.contains("system: none") && said.contains("0 of ") && said.contains(", 1 message\n"), "{said}");
    assert!(said.contains("seed = "), "{said}");
}

#[test]
fn commands_may_be_cut_short() {
    let (answers, said) = lines("-n 2 -s 1", "/?\n/TOKENS\n/regex\n/hel\n");
    assert_eq!(answers, "");
    assert_eq!(said.matches("/drop [N]").count(), 2, "{said}");
    assert!(said.contains("tokens used, 0 messages") && said.contains("did you mean /regen?"), "{said}");
}

#[test]
fn sigterm_ends_a_chat() {
    let mut t = chat("-n 2 -s 1");
    t.prompt();
    t.signal(nix::sys::signal::SIGTERM);
    assert_eq!(t.end().0, None, "ended by the signal");
}
