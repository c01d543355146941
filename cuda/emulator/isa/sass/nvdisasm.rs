//! NVIDIA's disassembler: the text of machine code comes from it.

use std::ffi::OsStr;
use std::fmt::Display;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Names the program, where it is not where `qrun-kernels check --install` puts it.
const VARIABLE: &str = "QRUN_NVDISASM";

/// Where the program is, if it is anywhere.
pub fn nvdisasm() -> Option<&'static Path> {
    static FOUND: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
        if let Some(named) = std::env::var_os(VARIABLE) {
            return Some(PathBuf::from(named));
        }
        let wheels = std::env::var_os("QRUN_NVRTC").map_or_else(|| target().join("nvrtc"), PathBuf::from);
        below(&wheels, OsStr::new("nvdisasm"), 8)
    });
    FOUND.as_deref()
}

fn target() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

fn below(folder: &Path, name: &OsStr, depth: u32) -> Option<PathBuf> {
    let entries: Vec<PathBuf> = fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    if let Some(found) = entries.iter().find(|path| path.file_name() == Some(name) && path.is_file()) {
        return Some(found.clone());
    }
    // Links are not followed: a virtual environment has `lib64 -> lib`.
    let folders = entries.iter().filter(|path| depth > 0 && path.is_dir() && !path.is_symlink());
    folders.into_iter().find_map(|path| below(path, name, depth - 1))
}

/// The listing of a cubin, with encodings. It is kept in target/listings: nvdisasm takes seconds for each, and several
/// programs ask for the same.
///
/// # Errors
/// What is missing (the program, room for a temporary file), or what nvdisasm says.
pub fn disassemble(image: &[u8]) -> Result<String, String> {
    let program = nvdisasm().ok_or_else(|| {
        format!(
            "machine code is read with nvdisasm, which is not installed: `cargo run -p qrun-kernels -- check --install` \
             puts it into target/nvrtc; {VARIABLE} names another one"
        )
    })?;
    let mut hasher = DefaultHasher::new();
    (image, fs::metadata(program).map(|found| found.len()).ok()).hash(&mut hasher);
    let kept = target().join("listings").join(format!("{:016x}.txt", hasher.finish()));
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
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.metadata()?.modified()?.elapsed().is_ok_and(|age| age > WEEK) {
            fs::remove_file(entry.path())?;
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
