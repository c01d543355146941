//! The `qrun` program. Everything a person sees is made under `cli`; the library prints nothing.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod cli;

fn main() -> std::process::ExitCode {
    cli::main(std::env::args_os().collect())
}
