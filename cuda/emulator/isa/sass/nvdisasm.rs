//! NVIDIA's disassembler: the text of machine code comes from it.

use std::ffi::OsStr;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Names the program, where it is not where `qrun-kernels check --install` puts it.
const VARIABLE: &str = "QRUN_NVDISASM";

/// Where the program is, if it is anywhere.
pub fn nvdisasm() -> Option<&'static Path> {
    static FOUND: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
        if let Some(named) = std::env::var_os(VARIABLE) {
            return Some(PathBuf::from(named));
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let wheels = std::env::var_os("QRUN_NVRTC").map_or_else(|| target.join("nvrtc"), PathBuf::from);
        below(&wheels, OsStr::new("nvdisasm"), 8)
    });
    FOUND.as_deref()
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

/// The listing of a cubin, with encodings.
///
/// # Errors
/// What is missing (the program, room for a temporary file), or what nvdisasm says.
pub fn disassemble(image: &[u8]) -> Result<String, String> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let program = nvdisasm().ok_or_else(|| {
        format!(
            "machine code is read with nvdisasm, which is not installed: `cargo run -p qrun-kernels -- check --install` \
             puts it into target/nvrtc; {VARIABLE} names another one"
        )
    })?;
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
