//! The `qrun` program. Everything a person sees is made under `cli`; the library prints nothing.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main(std::env::args_os().collect())
}
