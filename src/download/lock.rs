//! One process at a time for a file: the lock that huggingface_hub takes too (flock on the same path).

use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    ops::ControlFlow,
    path::Path,
    time::Duration,
};

use super::error::DownloadError;

/// How often a lock that another process has is asked for.
const EVERY: Duration = Duration::from_millis(100);

/// Held until it is dropped; `None` inside where the file system has no locks, as huggingface_hub goes on there too.
pub struct Lock(#[expect(dead_code, reason = "closing the file ends the lock")] Option<File>);

/// Takes the lock, waiting for whoever has it; `tick` is called meanwhile. The file stays, as filelock's does.
///
/// # Errors
/// The file cannot be made; `tick` breaks.
pub fn take(path: &Path, tick: &mut dyn FnMut() -> ControlFlow<()>) -> Result<Lock, DownloadError> {
    loop {
        let file = open(path).map_err(|error| DownloadError::cache(path, &error))?;
        match file.try_lock() {
            // Someone may have removed the path meanwhile: a lock that nobody else can find holds nobody.
            Ok(()) if is_still(path, &file) => return Ok(Lock(Some(file))),
            Ok(()) => continue,
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => return Ok(Lock(None)),
            Err(TryLockError::Error(error)) => return Err(DownloadError::cache(path, &error)),
        }
        drop(file);
        if tick().is_break() {
            return Err(DownloadError::Interrupted);
        }
        std::thread::sleep(EVERY);
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // Users that share a cache wait for each other.
        options.mode(0o664);
    }
    options.open(path)
}

#[cfg(unix)]
fn is_still(path: &Path, file: &File) -> bool {
    use std::os::unix::fs::MetadataExt;
    let id = |meta: std::fs::Metadata| (meta.dev(), meta.ino());
    file.metadata().map(id).ok() == path.metadata().map(id).ok()
}

#[cfg(not(unix))]
fn is_still(_: &Path, _: &File) -> bool {
    true
}
