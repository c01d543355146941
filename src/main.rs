//! The `qrun` program: its command line is [`qrun::cli`].

/// The system's allocator, bounded on the threads that render chat templates: a template is a program out of a model file.
#[global_allocator]
static ALLOCATOR: qrun::text::template::SandboxAllocator = qrun::text::template::SandboxAllocator(std::alloc::System);

fn main() -> std::process::ExitCode {
    qrun::cli::main(std::env::args_os().collect()).into()
}
