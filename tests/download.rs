//! Models by name, from a hub that a test plays: no network. `tests/download/run.sh` asks huggingface_hub's opinion.

mod access;
mod cuts;
mod disk;
mod faults;
mod names;
mod program;
mod stub;
mod together;

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    time::Duration,
};

use qrun::download::{DownloadError, Progress, Settings, Store, Wanted};

use stub::Hub;

/// A model that runs: 3.3 MB.
pub static DEMO: &[u8] = include_bytes!("../models/demo/qrun-demo-Q4_K_M.gguf");

/// A cache of its own, and settings that wait for nothing between two tries.
pub struct Home {
    folder: tempfile::TempDir,
    pub settings: Settings,
}

impl Home {
    pub fn new(hub: &Hub) -> Self {
        Home::with(hub, &[])
    }

    /// With these variables besides.
    pub fn with(hub: &Hub, vars: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = folder.path().join("hub");
        let mut settings = Settings::read(|name| match name {
            "HF_HUB_CACHE" => Some(cache.clone().into()),
            "HF_ENDPOINT" => Some(hub.url().into()),
            _ => vars.iter().find(|var| var.0 == name).map(|var| var.1.into()),
        });
        settings.patience.pause = Duration::from_millis(1);
        settings.ollama_stores.clear();
        Home { folder, settings }
    }

    pub fn cache(&self) -> PathBuf {
        self.folder.path().join("hub")
    }
    pub fn store(&self) -> Store {
        Store::new(self.settings.clone())
    }
    pub fn fetch(&self, name: &str) -> Result<PathBuf, DownloadError> {
        self.fetch_as(&Wanted::named(name))
    }
    pub fn fetch_as(&self, wanted: &Wanted) -> Result<PathBuf, DownloadError> {
        self.store().fetch(wanted, &mut |_: Progress| ControlFlow::Continue(()))
    }
    pub fn find(&self, name: &str) -> Option<PathBuf> {
        self.store().find(&Wanted::named(name)).expect("a name")
    }
    /// All files below the cache but the locks, with their sizes; links by what they lead to.
    pub fn files(&self) -> Vec<String> {
        let mut found = Vec::new();
        walk(&self.cache(), &self.cache(), &mut found);
        found.sort();
        found
    }
}

fn walk(root: &Path, folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let shown = path.strip_prefix(root).expect("below the cache").display().to_string();
        if path.symlink_metadata().expect("metadata").is_symlink() {
            found.push(format!("{shown} -> {}", std::fs::read_link(&path).expect("a link").display()));
        } else if path.is_dir() {
            if entry.file_name() != ".locks" {
                walk(root, &path, found);
            }
        } else {
            found.push(format!("{shown} {}", path.metadata().expect("metadata").len()));
        }
    }
}

/// Bytes of a GGUF file of this architecture whose head qrun reads; then noise.
pub fn gguf(arch: &str, size: usize) -> Vec<u8> {
    let mut file = b"GGUF\x03\0\0\0".to_vec();
    let text = |file: &mut Vec<u8>, text: &str| {
        file.extend((text.len() as u64).to_le_bytes());
        file.extend(text.as_bytes());
    };
    file.extend(0u64.to_le_bytes());
    file.extend(1u64.to_le_bytes());
    text(&mut file, "general.architecture");
    file.extend(8u32.to_le_bytes());
    text(&mut file, arch);
    let mut state = 1u32;
    while file.len() < size {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        file.extend(state.to_be_bytes());
    }
    file.truncate(size);
    file
}

/// The bytes at a path are these.
#[track_caller]
pub fn assert_bytes(path: &Path, wanted: &[u8]) {
    let found = std::fs::read(path).expect("a file");
    assert_eq!(found.len(), wanted.len(), "{}", path.display());
    assert!(found == wanted, "{}: other bytes", path.display());
}
