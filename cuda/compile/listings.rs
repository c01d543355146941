//! What nvdisasm prints of a cubin: it takes seconds for each, so that is kept for all who ask for the same, of this package
//! and of the emulator, which reads it to execute it.

use std::{
    fmt::Display,
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::Path,
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

/// The listing of a cubin by this nvdisasm, with encodings; kept in a folder for a week.
///
/// # Errors
/// There is no room for a temporary file, or what nvdisasm says.
pub fn listing(program: &Path, image: &[u8], folder: &Path) -> Result<String, String> {
    let mut hasher = DefaultHasher::new();
    (image, fs::metadata(program).map(|found| found.len()).ok()).hash(&mut hasher);
    let kept = folder.join(format!("{:016x}.txt", hasher.finish()));
    if let Ok(listing) = fs::read_to_string(&kept) {
        return Ok(listing);
    }
    let listing = ask(program, image)?;
    // Where it cannot be kept it is made again.
    let _ = keep(&kept, &listing);
    Ok(listing)
}

/// Writes a listing, whole or not at all, and removes those of kernels that are no more.
fn keep(file: &Path, listing: &str) -> std::io::Result<()> {
    const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
    let folder = file.parent().expect("it has a folder");
    fs::create_dir_all(folder)?;
    for entry in fs::read_dir(folder)?.flatten() {
        // Others write here, too: one may be gone by now.
        let written = entry.metadata().and_then(|found| found.modified());
        if written.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > WEEK)) {
            let _ = fs::remove_file(entry.path());
        }
    }
    let part = file.with_extension(format!("{}-{:?}", std::process::id(), std::thread::current().id()));
    fs::write(&part, listing)?;
    fs::rename(part, file)
}

fn ask(program: &Path, image: &[u8]) -> Result<String, String> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let file = std::env::temp_dir().join(format!("qrun-{}-{number}.cubin", std::process::id()));
    let wrote = fs::write(&file, image).map_err(|error| format!("{}: {error}", file.display()));
    let wrong = |what: &dyn Display| format!("nvdisasm ({}): {what}", program.display());
    let run = || Command::new(program).args(["-c", "-hex"]).arg(&file).output();
    let output = wrote.and_then(|()| run().map_err(|error| wrong(&error)));
    let _ = fs::remove_file(&file);
    let output = output?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(wrong(&format_args!("{}: {}", output.status, said.trim())));
    }
    String::from_utf8(output.stdout).map_err(|error| wrong(&error))
}
