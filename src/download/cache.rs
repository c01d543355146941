//! The layout of the hub's cache: `models--USER--REPO/{refs/REVISION, blobs/ID, snapshots/COMMIT/path → ../../blobs/ID}`.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use super::{
    error::DownloadError,
    name::{Name, Source, is_inside},
};

/// How the name of an unfinished blob ends.
pub const UNFINISHED: &str = ".qrun.incomplete";

/// A model file in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cached {
    /// The repository, as `qrun` takes it.
    pub name: String,
    /// The file in it; of several shards the first.
    pub file: String,
    /// Hash of the commit that it is from.
    pub commit: String,
    /// Bytes, of all shards.
    pub bytes: u64,
    /// Path of the file (of several shards the first) below `snapshots`.
    pub path: PathBuf,
}

/// How much was removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removed {
    /// Files that are gone, unfinished ones among them.
    pub files: usize,
    /// Bytes that are free again.
    pub bytes: u64,
}

/// A repository's folder in the cache, `models--USER--REPO`.
#[derive(Debug, Clone)]
pub struct Folder {
    root: PathBuf,
    locks: PathBuf,
}

/// Of a name its folder's name. Repositories of other sources than the hub get a word more, which no user of the hub has.
fn folder_name(name: &Name) -> String {
    let repo = name.repo.replace('/', "--");
    match name.source {
        Source::Hub => format!("models--{repo}"),
        Source::ModelScope => format!("models--modelscope.cn--{repo}"),
        Source::Ollama => format!("models--ollama.com--{repo}"),
        Source::Url => {
            let host = name.repo.split('/').nth(2).unwrap_or_default();
            let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' || c == '-' { c } else { '_' };
            let host: String = host.chars().map(plain).collect();
            let sum = super::partial::sha256(name.repo.as_bytes());
            format!("models--url--{}--{}", host.replace("--", "-_"), &sum[..16])
        }
    }
}

/// Of a folder's name the repository, as `qrun` takes it; of a URL only the host is in it.
fn repository(folder: &str) -> Option<String> {
    let rest = folder.strip_prefix("models--")?;
    if let Some(host) = rest.strip_prefix("url--").and_then(|rest| rest.split("--").next()) {
        return Some(format!("https://{host}/…"));
    }
    let prefixes = [("modelscope.cn--", "ms:"), ("ollama.com--library--", "ollama://"), ("ollama.com--", "ollama://")];
    let known = prefixes.iter().find_map(|(prefix, shown)| Some((rest.strip_prefix(prefix)?, *shown)));
    let (rest, shown) = known.unwrap_or((rest, ""));
    Some(format!("{shown}{}", rest.replace("--", "/")))
}

fn is_hex(word: &str) -> bool {
    (32..=64).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_hexdigit())
}

impl Folder {
    /// The folder of a repository below a cache; nothing is made.
    pub fn new(cache: &Path, name: &Name) -> Self {
        let own = folder_name(name);
        Folder { root: cache.join(&own), locks: cache.join(".locks").join(own) }
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }
    /// Path of a whole blob.
    pub fn blob(&self, id: &str) -> PathBuf {
        self.root.join("blobs").join(id)
    }
    /// Path of a blob that is not whole.
    pub fn partial(&self, id: &str) -> PathBuf {
        self.root.join("blobs").join(format!("{id}{UNFINISHED}"))
    }
    /// Path of the file that is locked while a blob is fetched.
    pub fn lock(&self, id: &str) -> PathBuf {
        self.locks.join(format!("{id}.lock"))
    }
    /// Path of a file below `snapshots`.
    pub fn pointer(&self, commit: &str, file: &str) -> PathBuf {
        file.split('/').fold(self.root.join("snapshots").join(commit), |path, part| path.join(part))
    }

    /// Makes the folders that a download needs.
    ///
    /// # Errors
    /// [`DownloadError::Cache`]: one of them cannot be made.
    pub fn make(&self) -> Result<(), DownloadError> {
        [self.root.join("blobs"), self.locks.clone()].iter().try_for_each(|folder| make(folder))
    }

    /// The commit that a revision was when it was last fetched; a commit is itself.
    pub fn commit(&self, revision: &str) -> Option<String> {
        if is_hex(revision) && self.root.join("snapshots").join(revision).is_dir() {
            return Some(revision.to_owned());
        }
        let text = fs::read_to_string(self.reference(revision)?).ok()?;
        Some(text.trim().to_owned()).filter(|commit| is_hex(commit))
    }

    fn reference(&self, revision: &str) -> Option<PathBuf> {
        is_inside(revision).then(|| revision.split('/').fold(self.root.join("refs"), |path, part| path.join(part)))
    }

    /// Remembers what commit a revision is.
    ///
    /// # Errors
    /// [`DownloadError::Cache`]: its file below `refs` cannot be written.
    pub fn set_commit(&self, revision: &str, commit: &str) -> Result<(), DownloadError> {
        let Some(path) = self.reference(revision).filter(|_| revision != commit) else { return Ok(()) };
        if fs::read_to_string(&path).is_ok_and(|known| known == commit) {
            return Ok(());
        }
        path.parent().map_or(Ok(()), make)?;
        // In one step: another process may be reading it.
        let new = path.with_extension(format!("{}.new", std::process::id()));
        let written = fs::write(&new, commit).and_then(|()| fs::rename(&new, &path));
        written.map_err(|error| DownloadError::cache(path, &error))
    }

    /// The GGUF files of a commit that are there to the last link, by their paths in the repository.
    pub fn files(&self, commit: &str) -> Vec<String> {
        let mut found = Vec::new();
        walk(&self.root.join("snapshots").join(commit), "", &mut found);
        found.retain(|path| path.to_ascii_lowercase().ends_with(".gguf"));
        found.sort();
        found
    }

    /// Makes `path` of a commit lead to a blob that is there: a relative link, or where there are no links the file itself.
    ///
    /// # Errors
    /// [`DownloadError::Cache`]: the link cannot be made, or what is in its place cannot be removed.
    pub fn link(&self, commit: &str, file: &str, id: &str) -> Result<(), DownloadError> {
        let (pointer, blob) = (self.pointer(commit, file), self.blob(id));
        let size = |path: &Path| path.metadata().map(|meta| meta.len()).ok();
        // The same file, or its copy where there were no links.
        if pointer.exists() && size(&pointer) == size(&blob) {
            return Ok(());
        }
        let failed = |error: io::Error| DownloadError::cache(&pointer, &error);
        pointer.parent().map_or(Ok(()), make)?;
        // It leads to a blob that is gone, or to other bytes.
        if pointer.symlink_metadata().is_ok() {
            fs::remove_file(&pointer).map_err(failed)?;
        }
        let up = "../".repeat(2 + file.matches('/').count());
        match symlink(Path::new(&format!("{up}blobs/{id}")), &pointer) {
            Ok(()) => Ok(()),
            // Another process was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(_) => fs::rename(blob, &pointer).map_err(failed),
        }
    }

    /// Removes files of all commits: their links, and then those of their blobs that nothing leads to any more.
    ///
    /// # Errors
    /// [`DownloadError::Cache`]: one of them cannot be removed; those before it are gone.
    pub fn remove_files(&self, files: &[String]) -> Result<Removed, DownloadError> {
        let mut removed = Removed::default();
        let mut blobs = BTreeSet::new();
        for commit in names(&self.root.join("snapshots")) {
            for file in files {
                let pointer = self.pointer(&commit, file);
                let Ok(meta) = pointer.symlink_metadata() else { continue };
                // Where there are no links it is the file itself.
                let own = if meta.is_file() { meta.len() } else { 0 };
                blobs.extend(blob_of(&pointer));
                fs::remove_file(&pointer).map_err(|error| DownloadError::cache(&pointer, &error))?;
                removed.files += 1;
                removed.bytes += own;
            }
        }
        let mut kept = BTreeSet::new();
        for commit in names(&self.root.join("snapshots")) {
            let mut found = Vec::new();
            walk(&self.root.join("snapshots").join(&commit), "", &mut found);
            kept.extend(found.iter().filter_map(|file| blob_of(&self.pointer(&commit, file))));
        }
        for blob in blobs.difference(&kept) {
            let path = self.blob(blob);
            let Ok(meta) = path.symlink_metadata() else { continue };
            removed.bytes += meta.len();
            fs::remove_file(&path).map_err(|error| DownloadError::cache(&path, &error))?;
        }
        Ok(removed)
    }

    /// Removes the folder with all its commits and unfinished blobs.
    ///
    /// # Errors
    /// [`DownloadError::Cache`]: something in it cannot be removed.
    pub fn remove(&self) -> Result<Removed, DownloadError> {
        let mut removed = Removed::default();
        for blob in names(&self.root.join("blobs")) {
            removed.files += 1;
            removed.bytes += self.blob(&blob).symlink_metadata().map_or(0, |meta| meta.len());
        }
        fs::remove_dir_all(&self.root).map_err(|error| DownloadError::cache(&self.root, &error))?;
        // Empty files; who waits for one makes it again.
        let _ = fs::remove_dir_all(&self.locks);
        Ok(removed)
    }
}

/// The name of the blob that a link of a commit leads to.
fn blob_of(pointer: &Path) -> Option<String> {
    Some(fs::read_link(pointer).ok()?.file_name()?.to_string_lossy().into_owned())
}

/// Model files of all repositories of a cache, by name; a folder that does not exist has none.
///
/// # Errors
/// [`DownloadError::Cache`]: the folder is there and cannot be read.
pub fn all(cache: &Path) -> Result<Vec<Cached>, DownloadError> {
    let entries = match fs::read_dir(cache) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(DownloadError::cache(cache, &error)),
    };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let own = entry.file_name().to_string_lossy().into_owned();
        let Some(name) = repository(&own) else { continue };
        let folder = Folder { root: entry.path(), locks: cache.join(".locks").join(own) };
        for commit in names(&folder.root.join("snapshots")) {
            let files = folder.files(&commit);
            let size = |file: &str| fs::metadata(folder.pointer(&commit, file)).map_or(0, |meta| meta.len());
            for file in files.iter().filter(|file| !is_further_shard(file)) {
                let stem = file.split_once("-00001-of-").map_or(file.as_str(), |(stem, _)| stem);
                let bytes = match stem == file {
                    true => size(file),
                    false => files.iter().filter(|f| f.starts_with(&format!("{stem}-0"))).map(|f| size(f)).sum(),
                };
                let path = folder.pointer(&commit, file);
                found.push(Cached { name: name.clone(), file: file.clone(), commit: commit.clone(), bytes, path });
            }
        }
    }
    found.sort_by(|a, b| (&a.name, &a.file, &a.commit).cmp(&(&b.name, &b.file, &b.commit)));
    Ok(found)
}

fn is_further_shard(file: &str) -> bool {
    file.rsplit_once("-of-").is_some_and(|(stem, _)| {
        let number = stem.rsplit_once('-').map(|(_, number)| number);
        number.is_some_and(|n| n.len() == 5 && n != "00001" && n.bytes().all(|b| b.is_ascii_digit()))
    })
}

/// Names in a folder, sorted; none where it cannot be read.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Files below a folder that exist, following links to files only.
fn walk(folder: &Path, prefix: &str, found: &mut Vec<String>) {
    for name in names(folder) {
        let (path, shown) = (folder.join(&name), format!("{prefix}{name}"));
        if path.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
            // No deeper than any repository is.
            if prefix.matches('/').count() < 16 {
                walk(&path, &format!("{shown}/"), found);
            }
        } else if path.is_file() {
            found.push(shown);
        }
    }
}

fn make(folder: &Path) -> Result<(), DownloadError> {
    fs::create_dir_all(folder).map_err(|error| DownloadError::cache(folder, &error))
}

#[cfg(unix)]
fn symlink(target: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

#[cfg(windows)]
fn symlink(target: &Path, link: &Path) -> io::Result<()> {
    std::os::windows::fs::symlink_file(target, link)
}

#[cfg(not(any(unix, windows)))]
fn symlink(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
