//! `qrun bench` and what it draws, writes and compares.

mod plot;
mod startup;

use std::process::{Command, Output, Stdio};

/// `qrun bench` with these words, on the CPU.
fn bench(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_qrun"));
    command.current_dir(env!("CARGO_MANIFEST_DIR")).arg("bench").args(words).stdin(Stdio::null());
    command.output().expect("qrun starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
