//! The commit that a program was built from, for the reports of `qrun bench`.

#![allow(clippy::print_stdout)] // This is how cargo is spoken to.

use std::process::Command;

fn main() {
    let described =
        Command::new("git").args(["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]).output();
    let commit = described.ok().filter(|o| o.status.success()).and_then(|o| String::from_utf8(o.stdout).ok());
    println!("cargo::rustc-env=QRUN_COMMIT={}", commit.as_deref().map_or("unknown", str::trim));
    // Where there is no repository these files are missing, and nothing is to be watched.
    for file in [".git/HEAD", ".git/index", ".git/logs/HEAD"] {
        if std::path::Path::new(file).exists() {
            println!("cargo::rerun-if-changed={file}");
        }
    }
    println!("cargo::rerun-if-changed=src/build.rs");
}
