//! Files that qrun writes and reads: nothing is lost, nothing is read without end.

use std::{fs, path::Path};

use super::{assert_fails, model, piped, qrun, run, text};

fn chat(input: &str) -> String {
    let mut command = qrun();
    command.arg(model("tiny-llama")).args("-n 2 -s 1 -cnv".split(' '));
    text(&piped(command, input.as_bytes()).stderr)
}

#[test]
fn a_chat_saves_over_sessions_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let (precious, session, used) = (at("precious.txt"), at("chat.qrun"), at("in-use.gguf"));
    fs::write(&precious, "years of work").expect("a file");
    fs::write(at("free.part"), "another one").expect("a file");
    fs::copy(model("tiny-llama"), &used).expect("a model");
    let said = chat(&format!("hello\n/save {}\n", precious.display()));
    assert!(said.contains("not a session") && said.contains("/save! FILE"), "{said}");
    let said = chat(&format!("hello\n/save {}\n", at("free").display()));
    assert!(said.contains("free.part exists") && !at("free").exists(), "{said}");
    assert_eq!(fs::read_to_string(&precious).expect("the file"), "years of work");
    let twice = format!("hello\n/save {0}\n/save {0}\n", session.display());
    assert_eq!(chat(&twice).matches("Saved 2 messages").count(), 2);
    let said = chat(&format!("hello\n/save! {}\n", precious.display()));
    assert!(said.contains("Saved 2 messages"), "{said}");
    assert!(fs::read(&precious).expect("the file").starts_with(b"qrunsess"));
    // The model in use is not given up, not even for `/save!`, and no folder or device either.
    let before = fs::read(&used).expect("the model");
    let mut command = qrun();
    command.arg(&used).args("-n 2 -s 1 -cnv".split(' '));
    let input = format!("hello\n/save {0}\n/save! {0}\n/save! {1}\n", used.display(), folder.path().display());
    let said = text(&piped(command, input.as_bytes()).stderr);
    assert_eq!(said.matches("is the model in use").count(), 2, "{said}");
    assert!(said.contains("is a folder") && fs::read(&used).expect("the model") == before, "{said}");
}

#[test]
fn synth_and_quantize_write_over_nothing_unless_told_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("notes.gguf");
    fs::write(&file, "notes").expect("a file");
    assert_fails(&run(&format!("synth tiny-llama {}", file.display())), 2, &["--force", "existing file"]);
    assert_eq!(fs::read_to_string(&file).expect("the file"), "notes");
    assert!(run(&format!("synth tiny-llama {} --force", file.display())).status.success());
    assert!(fs::read(&file).expect("the file").starts_with(b"GGUF"));
    assert_fails(&run("synth tiny-llama -"), 2, &["name a file"]);
    assert_fails(&run(&format!("quantize {} - Q4_0", model("tiny-llama").display())), 2, &["name a file"]);
}

#[cfg(unix)]
#[test]
fn a_signal_removes_the_unfinished_file() {
    use nix::sys::signal::{Signal, kill};
    use std::os::unix::process::ExitStatusExt;
    let folder = tempfile::tempdir().expect("a folder");
    let (file, part) = (folder.path().join("big.gguf"), folder.path().join("big.gguf.part"));
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let mut command = qrun();
        command.args(["synth", "llama-3.1-8b"]).arg(&file).args(["--type", "F16"]);
        let mut child = command.stderr(std::process::Stdio::null()).spawn().expect("qrun starts");
        while !part.exists() {
            assert!(child.try_wait().expect("a child").is_none(), "it ended without a file");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        kill(nix::unistd::Pid::from_raw(child.id() as i32), signal).expect("a signal is sent");
        let status = child.wait().expect("qrun ends");
        assert_eq!(status.signal(), Some(signal as i32), "{status:?}");
        assert!(!part.exists() && !file.exists(), "{signal} leaves a file");
    }
}

/// What comes in has an end, or is given one.
#[cfg(target_os = "linux")]
#[test]
fn endless_input_is_refused() {
    let endless = |mut command: std::process::Command| {
        let zero = fs::File::open("/dev/zero").expect("/dev/zero");
        // Through a pipe, as `yes | qrun`.
        let mut cat = std::process::Command::new("cat");
        let mut cat = cat.stdin(zero).stdout(std::process::Stdio::piped()).spawn().expect("cat starts");
        let output = command.stdin(cat.stdout.take().expect("a pipe")).output().expect("qrun ends");
        cat.wait().expect("cat ends");
        output
    };
    let tiny = |line: &str| {
        let mut command = qrun();
        command.arg(model("tiny-llama")).args(line.split(' '));
        command
    };
    assert_fails(&endless(tiny("-n 1")), 2, &["stdin", "too long"]);
    assert_fails(&endless(tiny("-n 1 -cnv")), 2, &["a line of stdin", "too long"]);
    assert_fails(&tiny("-n 1 -f /dev/zero").output().expect("qrun ends"), 2, &["/dev/zero", "too long"]);
    assert_fails(&tiny("-p x -sysf /dev/zero").output().expect("qrun ends"), 2, &["/dev/zero", "too long"]);
    assert_fails(&tiny("-p x -f src").output().expect("qrun ends"), 2, &["two prompts"]);
    assert_fails(&tiny("-n 1 -f src").output().expect("qrun ends"), 2, &["-f src", "folder"]);
}

#[cfg(unix)]
#[test]
fn a_chat_reads_text_files_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let fifo = folder.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let cut = folder.path().join("cut.txt");
    // A character lies across the end of what is looked at first.
    fs::write(&cut, "x".repeat(4095) + "é and more").expect("a file");
    let said = chat(&format!(
        "/read {}\n/read /dev/zero\n/read {}\n/load {}\n/read {}\n",
        fifo.display(),
        model("tiny-llama").display(),
        fifo.display(),
        cut.display()
    ));
    assert_eq!(said.matches("expected a file, found").count(), 2, "{said}");
    assert!(said.contains("expected UTF-8 text") && said.contains("expected a qrun session"), "{said}");
    assert!(said.contains(&format!("({} bytes)", 4095 + "é and more".len())), "{said}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_model_that_is_cut_short_while_it_runs_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("model.gguf");
    fs::copy(model("tiny-llama"), &file).expect("a model");
    let mut command = qrun();
    command.arg(&file).args("-n 4 -s 1 --no-repack".split(' '));
    let mut t = super::terminal::Terminal::start(command);
    t.prompt();
    fs::File::options().write(true).open(&file).and_then(|f| f.set_len(4096)).expect("a shorter file");
    t.keys("hello\r");
    let (code, screen) = t.end();
    assert_eq!(code, Some(3), "{screen}");
    assert!(screen.contains("the model file changed while it was in use"), "{screen}");
}

#[test]
fn names_from_files_cannot_speak_to_the_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a\u{1b}[31mb.gguf");
    fs::copy(model("tiny-llama"), &file).expect("a model");
    let info = |file: &Path| qrun().arg("info").arg(file).output().expect("qrun ends");
    let output = info(&file);
    assert!(output.status.success() && !output.stdout.contains(&0x1b), "{}", text(&output.stdout));
    assert!(text(&output.stdout).contains("a\\u001b[31mb.gguf"), "{}", text(&output.stdout));
    let output = info(&folder.path().join("missing\u{1b}[2J.gguf"));
    assert!(!output.stderr.contains(&0x1b) && output.status.code() == Some(3), "{}", text(&output.stderr));
}
