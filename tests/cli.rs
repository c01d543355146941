//! The program as people and scripts use it: black-box tests of the binary on tiny models.

mod bad_input;
#[cfg(unix)]
mod chat;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod device;
mod embed;
mod files;
mod flags;
mod jobs;
mod man;
mod mistakes;
mod one_turn;
mod speculative;
#[cfg(unix)]
mod terminal;
#[cfg(unix)]
mod typing;

use std::{
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::OnceLock,
};

use qrun::{tools::quantize::FileType, tools::synth};

/// A folder with tiny models, made once and left to the system's temporary files.
fn models() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder").keep();
        for name in ["tiny-llama", "tiny-gemma3", "tiny-deepseek2"] {
            let path = folder.join(format!("{name}.gguf"));
            synth::synth(name, FileType::Q8_0, 7, &path, &mut |_, _| {}).expect("a tiny model");
        }
        folder
    })
}

fn model(name: &str) -> PathBuf {
    models().join(format!("{name}.gguf"))
}

/// `qrun` with an environment of its own.
fn qrun() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_qrun"));
    for (name, value) in std::env::vars_os() {
        // Machine code is for one SM, and tests name the computer that they ask for: each gets its own.
        let forced = name == "QRUN_KERNELS" && value.to_string_lossy().starts_with("sm_");
        if forced || name.to_string_lossy().starts_with("LLAMA_ARG_") {
            command.env_remove(name);
        }
    }
    // What is typed in tests goes into no one's history.
    command.env("XDG_STATE_HOME", models());
    // No test asks a hub; those of `download` have one of their own.
    command.env("HF_HUB_OFFLINE", "1").env("HF_HUB_CACHE", models().join("hub")).env_remove("LLAMA_CACHE");
    command.current_dir(env!("CARGO_MANIFEST_DIR")).env_remove("NO_COLOR").stdin(Stdio::null());
    command
}

/// Runs to the end; words are separated by single spaces.
fn run(line: &str) -> Output {
    qrun().args(line.split(' ').filter(|w| !w.is_empty())).output().expect("qrun starts")
}

/// Runs the tiny model with these words.
fn tiny(line: &str) -> Output {
    run(&format!("{} {line}", model("tiny-llama").display()))
}

/// Runs with this on stdin.
fn piped(mut command: Command, input: &[u8]) -> Output {
    use std::io::Write;
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("qrun starts");
    // A program that ends early closes the pipe: that is for the test to see in its output.
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    child.wait_with_output().expect("qrun ends")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Asserts the exit code and that the message holds all the parts.
fn assert_fails(output: &Output, code: i32, parts: &[&str]) {
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{message}");
    assert!(output.stdout.is_empty(), "stdout carries {:?}", text(&output.stdout));
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
}
