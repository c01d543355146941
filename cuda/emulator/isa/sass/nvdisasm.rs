//! NVIDIA's disassembler: the text of machine code comes from it.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use super::listings::listing;

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

/// The listing of a cubin, with encodings. It is kept in target/listings.
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
    listing(program, image, &target().join("listings"))
}
