//! The `qrun` program: its command line is [`qrun::cli`].

use std::{
    alloc::{GlobalAlloc, Layout, System},
    io::Write,
};

use qrun::text::template::SandboxAllocator;

/// The system's allocator, bounded on the threads that render chat templates: a template is a program out of a model file.
#[global_allocator]
static ALLOCATOR: SandboxAllocator<OrExit> = SandboxAllocator(OrExit);

fn main() -> std::process::ExitCode {
    qrun::cli::main(std::env::args_os().collect()).into()
}

/// The system's allocator. Where it has no more, the program ends with words and the exit code of memory, not with SIGABRT.
struct OrExit;

// SAFETY: every call is the system's with the same arguments; a null pointer is never returned.
unsafe impl GlobalAlloc for OrExit {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        or_exit(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        or_exit(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as the caller promises.
        or_exit(unsafe { System.realloc(pointer, layout, size) }, size)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[inline]
fn or_exit(pointer: *mut u8, size: usize) -> *mut u8 {
    if pointer.is_null() { out_of_memory(size) } else { pointer }
}

#[cold]
fn out_of_memory(size: usize) -> ! {
    // Neither the lock of stderr nor these numbers take memory; if it fails, the exit code is left.
    let _ = writeln!(std::io::stderr(), "error: not enough memory: the system refused {size} more bytes");
    #[cfg(unix)]
    // SAFETY: ends the process here; what would run at its end may ask for memory again.
    unsafe {
        nix::libc::_exit(4)
    }
    #[cfg(not(unix))]
    std::process::exit(4)
}
