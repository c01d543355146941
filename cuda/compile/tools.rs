//! Where NVIDIA's programs are: a folder with the wheels from PyPI, or an unpacked toolkit.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};

/// Exactly these: the committed bytes and counts come from them.
const WHEELS: [&str; 4] = [
    "nvidia-cuda-nvrtc-cu12==12.8.93",
    // The assembler of the oldest driver that qrun accepts (550 = CUDA 12.4): it judges the PTX.
    "nvidia-cuda-nvcc-cu12==12.4.131",
    "nvidia-cuda-cuobjdump==13.2.86",
    "nvidia-cuda-nvdisasm==13.2.86",
];

/// Paths of the programs.
pub struct Tools {
    pub nvrtc: PathBuf,
    pub ptxas: Option<PathBuf>,
    pub nvdisasm: Option<PathBuf>,
}

impl Tools {
    /// Looks below `folder`, else below `$QRUN_NVRTC`, else where [`install`] puts them.
    ///
    /// # Errors
    /// There is no `libnvrtc.so.12` below that folder, eight folders deep.
    pub fn find(folder: Option<PathBuf>, root: &Path) -> Result<Self> {
        let folder = folder.or_else(|| env::var_os("QRUN_NVRTC").map(Into::into)).unwrap_or_else(|| home(root));
        let search = |name: &str| find_below(&folder, name, 8);
        let Some(nvrtc) = search("libnvrtc.so.12") else {
            bail!(
                "no libnvrtc.so.12 below {}: pass --install (needs python3 and its package index), --nvrtc DIR or QRUN_NVRTC",
                folder.display()
            );
        };
        Ok(Self { nvrtc, ptxas: search("ptxas"), nvdisasm: search("nvdisasm") })
    }

    /// The assembler; checks need it, making the archive does not.
    ///
    /// # Errors
    /// It is not beside NVRTC; the message says how to install it.
    pub fn ptxas(&self) -> Result<&Path> {
        self.ptxas.as_deref().context("no ptxas beside NVRTC: install nvidia-cuda-nvcc-cu12==12.4.131 there")
    }

    /// The disassembler.
    ///
    /// # Errors
    /// It is not beside NVRTC; the message says how to install it.
    pub fn nvdisasm(&self) -> Result<&Path> {
        self.nvdisasm.as_deref().context("no nvdisasm beside NVRTC: install nvidia-cuda-nvdisasm==13.2.86 there")
    }
}

/// Where cargo builds.
pub fn target_folder(root: &Path) -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

fn home(root: &Path) -> PathBuf {
    target_folder(root).join("nvrtc")
}

/// Makes a Python environment with the pinned wheels, once.
///
/// # Errors
/// `python3` cannot make the environment, or pip cannot fetch the wheels.
pub fn install(root: &Path) -> Result<()> {
    let home = home(root);
    let pip = home.join("bin/pip");
    let done = home.join("installed");
    let wanted = WHEELS.join("\n");
    if fs::read_to_string(&done).is_ok_and(|found| found == wanted) {
        return Ok(());
    }
    run(Command::new("python3").args(["-m", "venv"]).arg(&home))?;
    run(Command::new(pip).args(["install", "--quiet", "--disable-pip-version-check", "--no-deps"]).args(WHEELS))?;
    Ok(fs::write(done, wanted)?)
}

/// Runs a program to its end and returns what it printed.
///
/// # Errors
/// It does not start, or ends with another status than 0; the message has what it printed.
pub fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("starting {:?}", command.get_program()))?;
    ensure!(
        output.status.success(),
        "{:?} {:?}: {}\n{}{}",
        command.get_program(),
        command.get_args().collect::<Vec<_>>(),
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn find_below(folder: &Path, name: &str, depth: u32) -> Option<PathBuf> {
    let mut entries: Vec<_> = fs::read_dir(folder).ok()?.filter_map(|e| Some(e.ok()?.path())).collect();
    entries.sort();
    if let Some(found) = entries.iter().find(|p| p.is_file() && p.file_name().is_some_and(|n| n == name)) {
        return Some(found.clone());
    }
    // Links are not followed: a virtual environment has `lib64 -> lib`.
    let folders = entries.iter().filter(|p| depth > 0 && p.is_dir() && !p.is_symlink());
    folders.into_iter().find_map(|p| find_below(p, name, depth - 1))
}
