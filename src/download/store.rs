//! All of it: from a name to a path, with the settings of the environment.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool, mpsc},
    time::Duration,
};

use super::{
    aliases,
    cache::{self, Cached, Folder, Removed},
    choose::{Asked, choose},
    error::DownloadError,
    fetch::Fetch,
    http::{Fault, Http, Refusal},
    hub::{self, Refused},
    listing::{Listing, Remote},
    name::{Name, Source},
    ollama,
    refusal::{Asked as Whom, of_fault},
    settings::Settings,
    token::Token,
    transfer,
    wanted::{Progress, Wanted},
};

/// How often a caller is heard while the hub is asked for a listing.
const TICK: Duration = Duration::from_millis(100);

/// Where models come from and where they are kept.
#[derive(Debug, Clone)]
pub struct Store {
    settings: Settings,
}

/// What of a name, its settings and its folder belongs together.
struct Job {
    name: Name,
    settings: Settings,
    folder: Folder,
    cache: PathBuf,
    file: Option<String>,
    revision: String,
}

impl Store {
    /// With the settings of the environment.
    pub fn of_environment() -> Self {
        Store::new(Settings::read(|name| std::env::var_os(name)))
    }

    /// With these settings, whatever the environment says.
    pub fn new(settings: Settings) -> Self {
        Store { settings }
    }

    /// [`super::find`] with these settings in place of the environment's.
    ///
    /// # Errors
    /// Those of [`super::find`].
    pub fn find(&self, wanted: &Wanted) -> Result<Option<PathBuf>, DownloadError> {
        Ok(self.job(wanted)?.found())
    }

    /// [`super::fetch`] with these settings in place of the environment's.
    ///
    /// # Errors
    /// Those of [`super::fetch`].
    pub fn fetch(
        &self,
        wanted: &Wanted,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<PathBuf, DownloadError> {
        let job = self.job(wanted)?;
        if job.settings.offline {
            let missing = || DownloadError::Offline { name: job.shown(), cache: job.cache.clone() };
            return job.found().ok_or_else(missing);
        }
        job.refuse_known()?;
        if job.name.source == Source::Ollama
            && let Some(path) = ollama::stored(&job.settings.ollama_stores, &job.name)
        {
            return Ok(path);
        }
        match job.fetch(progress) {
            // The hub is away, and the cache has it.
            Err(error) if error.is_unreachable() => job.found().ok_or(error),
            done => done,
        }
    }

    /// What would be fetched, as the server has it now: `USER/REPO: file`. Nothing is fetched, the cache is not asked.
    ///
    /// # Errors
    /// As [`Store::fetch`].
    pub fn has(&self, wanted: &Wanted) -> Result<String, DownloadError> {
        let job = self.job(wanted)?;
        job.refuse_known()?;
        if job.settings.offline {
            return Err(DownloadError::Offline { name: job.shown(), cache: job.cache.clone() });
        }
        let listing = job.listing(&Arc::new(Http::new(&job.settings)), &mut || ControlFlow::Continue(()))?;
        let paths: Vec<&str> = listing.files.iter().map(|file| file.path.as_str()).collect();
        Ok(format!("{}: {}", job.name.shown(), job.choose(&paths)?.join(" ")))
    }

    /// [`super::cached`] with these settings in place of the environment's.
    ///
    /// # Errors
    /// Those of [`super::cached`].
    pub fn cached(&self, cache: Option<&Path>) -> Result<Vec<Cached>, DownloadError> {
        cache::all(&self.cache(cache)?)
    }

    /// [`super::remove`] with these settings in place of the environment's.
    ///
    /// # Errors
    /// Those of [`super::remove`].
    pub fn remove(&self, name: &str, cache: Option<&Path>) -> Result<Removed, DownloadError> {
        let wanted = Wanted { cache: cache.map(Path::to_owned), ..Wanted::named(name) };
        let job = self.job(&wanted)?;
        let nothing = || DownloadError::NotFound {
            name: job.shown(),
            place: format!("the cache {}", job.cache.display()),
            what: match job.name.source {
                Source::Hub | Source::ModelScope => "repository",
                Source::Ollama => "model",
                Source::Url => "file",
            },
            hint: "; qrun models lists what is there".to_owned(),
        };
        if !job.folder.root().is_dir() {
            return Err(nothing());
        }
        // `qrun rm ALIAS` means the alias's file, `qrun rm USER/REPO` all of it.
        if job.name.source == Source::Url || job.name.tag.is_none() && job.file.is_none() {
            return job.folder.remove();
        }
        let cached = cache::all(&job.cache)?;
        let own = cached.iter().filter(|cached| cached.path.starts_with(job.folder.root()));
        let commits: std::collections::BTreeSet<&str> = own.map(|cached| cached.commit.as_str()).collect();
        let mut files: Vec<String> = commits.into_iter().filter_map(|commit| job.chosen(commit)).flatten().collect();
        files.sort();
        files.dedup();
        if files.is_empty() {
            return Err(nothing());
        }
        job.folder.remove_files(&files)
    }

    fn cache(&self, said: Option<&Path>) -> Result<PathBuf, DownloadError> {
        let none = || DownloadError::Setting {
            variable: "HF_HUB_CACHE".to_owned(),
            expected: "the folder for models (HOME is not set either)".to_owned(),
        };
        said.map(Path::to_owned).or_else(|| self.settings.cache.clone()).ok_or_else(none)
    }

    fn job(&self, wanted: &Wanted) -> Result<Job, DownloadError> {
        let unknown = || {
            let hint = aliases::nearest(&wanted.name).map(|alias| format!("; did you mean {alias}?"));
            DownloadError::NotAName { word: wanted.name.clone(), hint: hint.unwrap_or_default() }
        };
        let name = Name::parse(&wanted.name).ok_or_else(unknown)?;
        let mut settings = self.settings.clone();
        settings.offline |= wanted.offline;
        if let Some(token) = &wanted.token {
            settings.token = Token::new(token);
        }
        if settings.token.as_ref().is_some_and(|token| token.header().is_none()) {
            let expected = "a token of letters, digits and signs, without spaces".to_owned();
            return Err(DownloadError::Setting {
                variable: "HF_TOKEN (or -hft, or the token file)".to_owned(),
                expected,
            });
        }
        if !["http://", "https://"].iter().any(|scheme| settings.endpoint.starts_with(scheme)) {
            let expected = format!("a URL, as https://huggingface.co, found {:?}", settings.endpoint);
            return Err(DownloadError::Setting { variable: "HF_ENDPOINT (or MODEL_ENDPOINT)".to_owned(), expected });
        }
        let cache = self.cache(wanted.cache.as_deref())?;
        let file = wanted.file.clone().or_else(|| name.file.clone());
        let usual = if name.source == Source::ModelScope { "master" } else { "main" };
        // Ollama's tags are versions; of a URL there is one.
        let usual = if name.source == Source::Ollama { name.tag.as_deref().unwrap_or(usual) } else { usual };
        let revision = wanted.revision.clone().or_else(|| name.revision.clone()).unwrap_or_else(|| usual.to_owned());
        Ok(Job { folder: Folder::new(&cache, &name), settings, cache, file, revision, name })
    }
}

impl Job {
    /// The repository with what is asked of it, for messages.
    fn shown(&self) -> String {
        let what = self.file.as_ref().or(self.name.tag.as_ref()).filter(|_| self.name.source != Source::Url);
        what.map_or_else(|| self.name.shown(), |what| format!("{}:{what}", self.name.shown()))
    }

    /// Refuses what an alias says that qrun does not run.
    fn refuse_known(&self) -> Result<(), DownloadError> {
        match self.name.arch {
            Some(arch) if qrun_models::arch::find(arch).is_none() => {
                let known: Vec<_> = qrun_models::arch::ARCHITECTURES.iter().map(|arch| arch.name).collect();
                let expected = format!("an architecture that qrun runs ({})", known.join(", "));
                Err(DownloadError::Unsupported { file: self.shown(), expected, found: format!("{arch:?}") })
            }
            _ => Ok(()),
        }
    }

    /// The file of a commit in the cache, with its shards.
    fn chosen(&self, commit: &str) -> Option<Vec<String>> {
        let files = self.folder.files(commit);
        let paths: Vec<&str> = files.iter().map(String::as_str).collect();
        Some(self.choose(&paths).ok()?.into_iter().map(str::to_owned).collect())
    }

    fn choose<'a>(&self, paths: &[&'a str]) -> Result<Vec<&'a str>, DownloadError> {
        // Ollama's tag and a URL have chosen already.
        let alone = matches!(self.name.source, Source::Ollama | Source::Url);
        let name = self.name.shown();
        let own = ollama::file(&self.name);
        let file = if self.name.source == Source::Ollama { Some(own.as_str()) } else { self.file.as_deref() };
        choose(paths, &Asked { name: &name, tag: self.name.tag.as_deref().filter(|_| !alone), file })
    }

    /// The path in the cache, without the network.
    fn found(&self) -> Option<PathBuf> {
        if self.name.source == Source::Ollama
            && let Some(path) = ollama::stored(&self.settings.ollama_stores, &self.name)
        {
            return Some(path);
        }
        let commit = self.folder.commit(&self.revision)?;
        let files = self.chosen(&commit)?;
        files.first().map(|first| self.folder.pointer(&commit, first))
    }

    fn fetch(&self, progress: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Result<PathBuf, DownloadError> {
        let http = Arc::new(Http::new(&self.settings));
        let waiting = Progress { file: self.shown(), done: 0, total: None };
        let listing = self.listing(&http, &mut || progress(waiting.clone()))?;
        let paths: Vec<&str> = listing.files.iter().map(|file| file.path.as_str()).collect();
        let chosen = self.choose(&paths)?;
        let remotes: Vec<&Remote> =
            chosen.iter().filter_map(|path| listing.files.iter().find(|file| file.path == *path)).collect();
        for remote in &remotes {
            let pointer = self.folder.pointer(&listing.commit, &remote.path);
            let there = pointer.metadata().is_ok_and(|meta| remote.size.is_none_or(|size| size == meta.len()));
            if there {
                continue;
            }
            let shown = format!("{}: {}", self.name.shown(), remote.path);
            let shown = if self.name.source == Source::Url { self.name.shown() } else { shown };
            let (name, settings, folder) = (&self.name, &self.settings, &self.folder);
            let one = Fetch { http: &http, settings, folder, remote, shown, name };
            let mut tick = |done| progress(Progress { file: remote.path.clone(), done, total: remote.size });
            one.blob(&mut tick)?;
            self.folder.link(&listing.commit, &remote.path, &remote.id)?;
        }
        let first = remotes.first().map(|remote| self.folder.pointer(&listing.commit, &remote.path));
        // Of no use where the cache cannot be written, and of no harm.
        match self.folder.set_commit(&self.revision, &listing.commit) {
            Err(error) if first.as_ref().is_none_or(|path| !path.exists()) => return Err(error),
            _ => {}
        }
        first.ok_or_else(|| DownloadError::NoFile {
            name: self.shown(),
            wanted: "GGUF file".to_owned(),
            available: vec![],
        })
    }

    /// What the server has; it is asked on a thread of its own, so that the caller can end it at any time.
    fn listing(&self, http: &Arc<Http>, tick: &mut dyn FnMut() -> ControlFlow<()>) -> Result<Listing, DownloadError> {
        let patience = self.settings.patience;
        let mut failures = 0;
        loop {
            let (sender, receiver) = mpsc::channel();
            let (http, name, revision, settings) =
                (http.clone(), self.name.clone(), self.revision.clone(), self.settings.clone());
            std::thread::spawn(move || sender.send(ask(&http, &settings, &name, &revision)));
            let answer = loop {
                match receiver.recv_timeout(TICK) {
                    Ok(answer) => break answer,
                    Err(mpsc::RecvTimeoutError::Disconnected) => {
                        let fault = Fault::Cut { host: String::new(), reason: "its thread ended".to_owned() };
                        break Err(Refused::Fault(fault));
                    }
                    Err(mpsc::RecvTimeoutError::Timeout) => {}
                }
                if tick().is_break() {
                    return Err(DownloadError::Interrupted);
                }
            };
            let fault = match answer {
                Ok(listing) => return Ok(listing),
                Err(Refused::Answer(error)) => return Err(error),
                Err(Refused::Fault(fault)) => fault,
            };
            failures += 1;
            match transfer::pause(&fault, failures, false, &patience) {
                Some(wait) => self.rest(wait, tick)?,
                None => return Err(self.of_listing(fault)),
            }
        }
    }

    fn rest(&self, wait: Duration, tick: &mut dyn FnMut() -> ControlFlow<()>) -> Result<(), DownloadError> {
        let mut left = wait;
        while !left.is_zero() {
            if tick().is_break() {
                return Err(DownloadError::Interrupted);
            }
            let part = left.min(TICK);
            transfer::sleep(part, &AtomicBool::new(false));
            left -= part;
        }
        Ok(())
    }

    fn of_listing(&self, fault: Fault) -> DownloadError {
        let name = self.name.shown();
        match fault {
            Fault::Status(Refusal { code, .. }) if code == "RevisionNotFound" => {
                DownloadError::NoRevision { name, revision: self.revision.clone() }
            }
            fault => {
                // The registry is asked for a tag, the others for all that they have.
                let shown = if self.name.source == Source::Ollama { self.shown() } else { name };
                let (source, repo, hub) = (self.name.source, &self.name.repo, &self.settings.endpoint);
                of_fault(fault, &Whom { source, shown: &shown, repo, hub, listed: false })
            }
        }
    }
}

/// Asks whoever has it.
fn ask(http: &Http, settings: &Settings, name: &Name, revision: &str) -> Result<Listing, Refused> {
    match name.source {
        Source::Hub => hub::hub(http, &settings.endpoint, name, revision),
        Source::ModelScope => hub::modelscope(http, &settings.modelscope, name, revision),
        Source::Ollama => ollama::registry(http, &settings.ollama, name),
        Source::Url => hub::url(http, name),
    }
}
