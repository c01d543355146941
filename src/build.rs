//! The commit that a program was built from, and its number, for the reports of `qrun bench` and for clients of `qrun serve`.

#![allow(clippy::print_stdout)] // This is how cargo is spoken to.

use std::process::Command;

fn main() {
    let commit = git(&["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]);
    println!("cargo::rustc-env=QRUN_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
    let number = git(&["rev-list", "--count", "HEAD"]);
    println!("cargo::rustc-env=QRUN_BUILD_NUMBER={}", number.as_deref().unwrap_or("0"));
    // Where there is no repository these files are missing, and nothing is to be watched.
    for file in [".git/HEAD", ".git/index", ".git/logs/HEAD"] {
        if std::path::Path::new(file).exists() {
            println!("cargo::rerun-if-changed={file}");
        }
    }
    // A file that is edited after a build of the clean tree must not leave its commit without `-dirty`.
    let sources = git(&["ls-files", "src", "quant", "models", "cuda", "benches/*.rs", "Cargo.*"]);
    for file in sources.iter().flat_map(|files| files.lines()) {
        println!("cargo::rerun-if-changed={file}");
    }
    println!("cargo::rerun-if-changed=src/build.rs");
}

/// What git answers, if it does.
fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok().filter(|o| o.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
