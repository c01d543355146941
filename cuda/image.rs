//! The kernels inside this binary, and which of them a GPU gets.
//!
//! NVRTC's output for every target is committed as one archive (`kernels.lzma`, made by the package
//! `qrun-kernels`), so that a user needs the driver and nothing else. A run unpacks the frame with what its own GPU
//! can execute; most hold nothing else.

mod archive;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

pub use archive::{ArchiveError, Frame, Kind, Part, Target, parts, write};

/// The archive, as committed.
pub static ARCHIVE: &[u8] = include_bytes!("kernels.lzma");

/// SMs that have machine code in the archive. Other minors of these majors run the nearest lower one.
pub const CUBINS: [u32; 7] = [75, 80, 86, 89, 90, 100, 120];
/// The architecture that has PTX in the archive, for newer GPUs of no listed major: the driver compiles it.
pub const PTX: u32 = 80;

/// Which code a GPU runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Machine code for exactly this SM.
    Exact(u32),
    /// Machine code of a lower minor of the same major, which the GPU executes as it is.
    SameMajor(u32),
    /// PTX for [`PTX`], compiled by the driver when it is loaded.
    Ptx,
    /// The GPU is older than every kernel.
    TooOld,
}

/// Chooses code for a GPU of compute capability `sm` (`10 * major + minor`).
pub fn pick(sm: u32) -> Choice {
    let same_major = CUBINS.into_iter().filter(|c| c / 10 == sm / 10 && *c <= sm).max();
    match same_major {
        Some(cubin) if cubin == sm => Choice::Exact(cubin),
        Some(cubin) => Choice::SameMajor(cubin),
        None if sm >= PTX => Choice::Ptx,
        None => Choice::TooOld,
    }
}

impl Choice {
    /// The part of the archive to load; none where the GPU is too old.
    pub fn target(self) -> Option<Target> {
        match self {
            Choice::Exact(sm) | Choice::SameMajor(sm) => Some(Target { kind: Kind::Cubin, sm }),
            Choice::Ptx => Some(Target { kind: Kind::Ptx, sm: PTX }),
            Choice::TooOld => None,
        }
    }
}

/// One module for `cuModuleLoadData`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Name of the source file without its suffix: `gemv` for `gemv.cu`.
    pub name: String,
    /// An ELF file, or PTX text that ends with a NUL.
    pub bytes: Vec<u8>,
    /// Whether `bytes` is machine code or PTX.
    pub kind: Kind,
}

/// Why the embedded kernels do not run on a GPU.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// No kernel runs on a GPU as old as this.
    #[error("this GPU is SM {}.{}: qrun's kernels need SM 7.5 (Turing, 2018) or newer", .sm / 10, .sm % 10)]
    TooOld {
        /// Compute capability of the GPU.
        sm: u32,
    },
    /// The environment asks for code that is not in the archive.
    #[error("{FORCE}={found}: expected one of {expected}")]
    Force {
        /// What the variable holds.
        found: String,
        /// What it may hold.
        expected: String,
    },
    /// The archive in this binary is damaged or does not fit this version of the code.
    #[error("the kernels inside this binary: {0}; the binary was built wrong, `cargo run -p qrun-kernels -- check`")]
    Archive(#[from] ArchiveError),
}

/// Environment variable that forces one part of the archive (`sm_80`, `compute_80`, …) on every GPU, so that a
/// card that has machine code can check the PTX that others run.
pub const FORCE: &str = "QRUN_KERNELS";

/// The part of the archive that a GPU of compute capability `sm` gets.
///
/// # Errors
/// A GPU too old, or a wrong [`FORCE`].
pub fn target(sm: u32) -> Result<Target, ImageError> {
    match std::env::var(FORCE) {
        Ok(name) => forced(&name),
        Err(_) => pick(sm).target().ok_or(ImageError::TooOld { sm }),
    }
}

/// The modules of one part of the archive; a kernel is in exactly one of them. They are unpacked once for all that hold
/// them at one time, and gone after the last: 6 MB of machine code, or 13 of PTX.
///
/// # Errors
/// A damaged archive, or one without this part.
pub fn modules(target: Target) -> Result<Arc<[Image]>, ArchiveError> {
    static UNPACKED: Mutex<BTreeMap<Target, Weak<[Image]>>> = Mutex::new(BTreeMap::new());
    let mut unpacked = UNPACKED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(images) = unpacked.get(&target).and_then(Weak::upgrade) {
        return Ok(images);
    }
    let part = parts(ARCHIVE)?.into_iter().find(|p| p.target == target);
    let images = part.ok_or_else(|| ArchiveError(format!("no part {target}")))?.unpack(ARCHIVE)?.into();
    unpacked.insert(target, Arc::downgrade(&images));
    Ok(images)
}

fn forced(name: &str) -> Result<Target, ImageError> {
    let all = targets();
    all.iter().copied().find(|t| t.to_string() == name).ok_or_else(|| ImageError::Force {
        found: name.into(),
        expected: all.iter().map(Target::to_string).collect::<Vec<_>>().join(", "),
    })
}

/// Every part that the archive has, in its order.
pub fn targets() -> Vec<Target> {
    let cubins = CUBINS.into_iter().map(|sm| Target { kind: Kind::Cubin, sm });
    cubins.chain([Target { kind: Kind::Ptx, sm: PTX }]).collect()
}

/// Whether the archive has two targets in one frame, where the second costs little: sm_89's machine code packed after
/// sm_86's takes next to nothing (2 kB; alone 789 kB).
pub fn alike(a: Target, b: Target) -> bool {
    [a, b] == [86, 89].map(|sm| Target { kind: Kind::Cubin, sm })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_gpu_gets_the_nearest_code() {
        for (sm, expected) in [
            (35, Choice::TooOld),
            (70, Choice::TooOld),
            (72, Choice::TooOld),
            (75, Choice::Exact(75)),
            (80, Choice::Exact(80)),
            (86, Choice::Exact(86)),
            (87, Choice::SameMajor(86)),
            (88, Choice::SameMajor(86)),
            (89, Choice::Exact(89)),
            (90, Choice::Exact(90)),
            (100, Choice::Exact(100)),
            (101, Choice::SameMajor(100)),
            (103, Choice::SameMajor(100)),
            (110, Choice::Ptx),
            (120, Choice::Exact(120)),
            (121, Choice::SameMajor(120)),
            (130, Choice::Ptx),
        ] {
            assert_eq!(pick(sm), expected, "SM {sm}");
        }
    }

    #[test]
    fn the_embedded_archive_has_the_same_modules_for_every_target() {
        let found: Vec<Target> = parts(ARCHIVE).expect("an index").iter().map(|p| p.target).collect();
        assert_eq!(found, targets());
        let names = |t| modules(t).expect("a part").iter().map(|m| m.name.clone()).collect::<Vec<_>>();
        let first = names(found[0]);
        assert!(!first.is_empty(), "at least one module");
        for target in found {
            assert_eq!(names(target), first, "{target}");
            for image in modules(target).expect("a part").iter() {
                match image.kind {
                    Kind::Cubin => assert!(image.bytes.starts_with(b"\x7fELF"), "{target} {}", image.name),
                    Kind::Ptx => {
                        assert_eq!(image.bytes.iter().position(|b| *b == 0), Some(image.bytes.len() - 1), "one NUL");
                        let head = format!(".target sm_{}", target.sm);
                        assert!(String::from_utf8_lossy(&image.bytes).contains(&head), "{target} {}", image.name);
                    }
                }
            }
        }
    }

    #[test]
    fn a_wrong_force_says_what_it_may_be() {
        assert_eq!(forced("compute_80").expect("a part"), Target { kind: Kind::Ptx, sm: 80 });
        let error = forced("sm_70").expect_err("not there").to_string();
        assert!(error.starts_with("QRUN_KERNELS=sm_70: expected one of sm_75, ") && error.contains("compute_80"));
        let old = ImageError::TooOld { sm: 61 }.to_string();
        assert!(old.starts_with("this GPU is SM 6.1"), "{old}");
    }
}
