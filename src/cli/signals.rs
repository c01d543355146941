//! Signals that end the program: what is left behind is removed, and a model file that changed is named.
//!
//! Handlers here do only what POSIX allows in one (unlink, tcsetattr, write, _exit, raise) and touch only atomics.

/// While it lives, a signal that ends the program removes the unfinished file first.
pub struct Unfinished(());

impl Unfinished {
    /// Watches over the file that `output` is until it is finished: `NAME.part`, as the GGUF writer calls it.
    pub fn watch(output: &std::path::Path) -> Self {
        unix::watch(output);
        Unfinished(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        unix::forget();
    }
}

/// Ends the program with a line and exit code 3 where the mapped model file is truncated or overwritten (SIGBUS).
pub fn watch_model_file() {
    unix::watch_model_file();
}

#[cfg(unix)]
mod unix {
    use std::{
        ffi::{CString, c_char, c_int},
        os::unix::ffi::OsStrExt,
        path::Path,
        ptr::null_mut,
        sync::atomic::{AtomicPtr, Ordering::SeqCst},
    };

    use nix::{
        libc,
        sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction},
    };

    /// The path to remove; it is never freed, for a handler may be reading it.
    static UNFINISHED: AtomicPtr<c_char> = AtomicPtr::new(null_mut());

    /// What ends a job from outside. (Of SIGXFSZ, a file grown too long, the writer would hear as an error, if it lived.)
    const ENDING: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGXFSZ];

    pub fn watch(output: &Path) {
        let mut name = output.as_os_str().to_owned();
        name.push(".part");
        let Ok(path) = CString::new(name.as_bytes()) else { return };
        UNFINISHED.store(path.into_raw(), SeqCst);
        let action = SigAction::new(SigHandler::Handler(remove), SaFlags::SA_RESETHAND, SigSet::empty());
        for signal in ENDING {
            // SAFETY: `remove` is safe to run at any point of the program, see there.
            let _ = unsafe { sigaction(signal, &action) };
        }
    }

    pub fn forget() {
        UNFINISHED.store(null_mut(), SeqCst);
    }

    /// Removes the file, then lets the signal have its default effect: SA_RESETHAND has put that in place.
    extern "C" fn remove(signal: c_int) {
        remove_unfinished();
        // SAFETY: async-signal-safe.
        unsafe { libc::raise(signal) };
    }

    fn remove_unfinished() {
        let path = UNFINISHED.load(SeqCst);
        if !path.is_null() {
            // SAFETY: a string with a zero at its end that lives as long as the process; unlink is async-signal-safe.
            unsafe { libc::unlink(path) };
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub fn watch_model_file() {
        // On other systems SIGBUS has more meanings, the end of the stack among them.
    }

    #[cfg(target_os = "linux")]
    pub fn watch_model_file() {
        let flags = SaFlags::SA_SIGINFO | SaFlags::SA_ONSTACK;
        let action = SigAction::new(SigHandler::SigAction(lost_page), flags, SigSet::empty());
        // SAFETY: `lost_page` is safe to run at any point of the program, see there.
        let _ = unsafe { sigaction(Signal::SIGBUS, &action) };
    }

    /// A page behind the end of a mapped file was read, and the only files that are mapped here are models.
    #[cfg(target_os = "linux")]
    extern "C" fn lost_page(_: c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
        const SAID: &str = "\nerror: the model file changed while it was in use (overwritten or cut short?)\n";
        // SAFETY: the system passes a valid `info` (SA_SIGINFO); write, _exit and signal are async-signal-safe.
        unsafe {
            if (*info).si_code != libc::BUS_ADRERR {
                // Something else: on return it happens again, and ends the program as ever.
                libc::signal(libc::SIGBUS, libc::SIG_DFL);
                return;
            }
            remove_unfinished();
            crate::cli::echo::restore();
            libc::write(libc::STDERR_FILENO, SAID.as_ptr().cast(), SAID.len());
            libc::_exit(crate::cli::exit::Code::File as c_int);
        }
    }
}

#[cfg(not(unix))]
mod unix {
    pub fn watch(_: &std::path::Path) {}
    pub fn forget() {}
    pub fn watch_model_file() {}
}
