//! The `qrun` program. Everything a person sees is made under `cli`; the library prints nothing.

mod cli;

/// The system's allocator, bounded on the threads that render chat templates: a template is a program out of a model file.
#[global_allocator]
static ALLOCATOR: qrun::text::template::SandboxAllocator = qrun::text::template::SandboxAllocator(std::alloc::System);

fn main() -> std::process::ExitCode {
    cli::main(std::env::args_os().collect())
}
