//! One file: from the lock to its name in the cache.

use std::{ops::ControlFlow, path::Path, sync::Arc};

use super::{
    body::Origin,
    cache::Folder,
    error::DownloadError,
    head::{self, Head},
    http::Http,
    listing::Remote,
    lock,
    name::Name,
    partial::Partial,
    refusal::{Asked, of_fault},
    room,
    settings::Settings,
    transfer::{Stop, Transfer},
};

/// Bytes of a file that come first, to be judged.
const FIRST: u64 = 1 << 20;
/// A head that is longer is not judged: the loader does it.
const LONGEST_HEAD: u64 = 64 << 20;

/// What one file needs to be fetched.
pub struct Fetch<'a> {
    pub http: &'a Arc<Http>,
    pub settings: &'a Settings,
    pub folder: &'a Folder,
    pub remote: &'a Remote,
    /// Repository and file, for messages.
    pub shown: String,
    pub name: &'a Name,
}

impl Fetch<'_> {
    /// Makes the blob be there. `tick` hears how many of its bytes are.
    ///
    /// # Errors
    /// The cache cannot be written or has no room, the server fails, the model is none that qrun runs, its bytes are
    /// twice not those that are listed, or `tick` breaks.
    pub fn blob(&self, tick: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<(), DownloadError> {
        let (id, size) = (&self.remote.id, self.remote.size);
        let (blob, path) = (self.folder.blob(id), self.folder.partial(id));
        if is_whole(&blob, size) {
            return Ok(());
        }
        self.folder.make()?;
        // While another process fetches it, its progress is ours.
        let mut wait = || tick(path.metadata().map_or(0, |meta| meta.len()));
        let _lock = lock::take(&self.folder.lock(id), &mut wait)?;
        if is_whole(&blob, size) {
            return Ok(());
        }
        if !self.remote.lasting {
            let _ = std::fs::remove_file(&path);
        }
        let mut wrong = None;
        for _ in 0..2 {
            let partial = self.whole(&path, tick)?;
            let found = partial.sha256();
            match &self.remote.sha256 {
                Some(expected) if *expected != found => {
                    partial.discard().map_err(|error| DownloadError::cache(&path, &error))?;
                    wrong = Some((expected.clone(), found));
                }
                _ => return self.name(partial, &blob),
            }
        }
        let (expected, found) = wrong.unwrap_or_default();
        Err(DownloadError::WrongBytes { file: self.shown.clone(), expected, found })
    }

    fn name(&self, partial: Partial, blob: &Path) -> Result<(), DownloadError> {
        // A link that leads to other bytes belongs to someone else's store.
        if blob.symlink_metadata().is_ok_and(|meta| meta.is_symlink()) {
            let reason = "is a link to a file of another size; remove it".to_owned();
            return Err(DownloadError::Cache { path: blob.to_owned(), reason });
        }
        partial.finish(blob).map_err(|error| DownloadError::cache(blob, &error))
    }

    /// Every byte, those of an earlier run among them.
    fn whole(&self, path: &Path, tick: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<Partial, DownloadError> {
        let size = self.remote.size;
        let mut partial = Partial::open(path, size, tick).map_err(|error| match error.kind() {
            std::io::ErrorKind::Interrupted => DownloadError::Interrupted,
            _ => DownloadError::cache(path, &error),
        })?;
        self.check_room(&partial)?;
        let origin = Arc::new(Origin::new(&self.remote.url, size));
        let transfer = Transfer { http: self.http.clone(), origin, patience: self.settings.patience };
        let mut first = FIRST;
        loop {
            let to = size.map_or(first, |size| size.min(first));
            // A file of unknown length may be shorter than its head would be: its end is not known beforehand.
            if size.is_some() {
                self.run(&transfer, &mut partial, Some(to), false, tick)?;
                match self.judge(&mut partial, first)? {
                    Head::Short if to < size.unwrap_or(to) && first < LONGEST_HEAD => {
                        first *= 4;
                        continue;
                    }
                    _ => {}
                }
            }
            break;
        }
        let parallel = size.is_some_and(|size| size - partial.have() >= self.settings.parallel_from);
        self.run(&transfer, &mut partial, size, parallel, tick)?;
        if size.is_none() {
            self.judge(&mut partial, LONGEST_HEAD)?;
        }
        Ok(partial)
    }

    fn judge(&self, partial: &mut Partial, most: u64) -> Result<Head, DownloadError> {
        let bytes = partial.head(most).map_err(|error| DownloadError::cache(self.folder.root(), &error))?;
        match head::read(&bytes) {
            Head::Refused { expected, found } => {
                Err(DownloadError::Unsupported { file: self.shown.clone(), expected, found })
            }
            head => Ok(head),
        }
    }

    fn check_room(&self, partial: &Partial) -> Result<(), DownloadError> {
        let Some(size) = self.remote.size else { return Ok(()) };
        let needed = (size - partial.have()).saturating_add(self.settings.spare);
        let have_all = size == partial.have();
        match room::free(self.folder.root()) {
            Some(free) if free < needed && !have_all => Err(self.no_room(needed, free)),
            _ => Ok(()),
        }
    }

    fn no_room(&self, needed: u64, free: u64) -> DownloadError {
        DownloadError::NoRoom { file: self.shown.clone(), needed, free, folder: self.folder.root().to_owned() }
    }

    fn run(
        &self,
        transfer: &Transfer,
        partial: &mut Partial,
        to: Option<u64>,
        parallel: bool,
        tick: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<(), DownloadError> {
        transfer.run(partial, to, parallel, tick).map_err(|stop| match stop {
            Stop::Interrupted => DownloadError::Interrupted,
            Stop::Disk(error) if error.kind() == std::io::ErrorKind::StorageFull => {
                let needed = self.remote.size.map_or(0, |size| size - partial.have());
                self.no_room(needed, room::free(self.folder.root()).unwrap_or_default())
            }
            Stop::Disk(error) => DownloadError::cache(self.folder.root(), &error),
            Stop::Fault(fault) => {
                let asked = Asked {
                    source: self.name.source,
                    shown: &self.shown,
                    repo: &self.name.repo,
                    hub: &self.settings.endpoint,
                    listed: true,
                };
                let mut error = of_fault(fault, &asked);
                if let DownloadError::Network { kept, .. } = &mut error {
                    *kept = format!("; {} bytes are kept, and the next run goes on behind them", partial.have());
                }
                error
            }
        })
    }
}

fn is_whole(blob: &Path, size: Option<u64>) -> bool {
    blob.metadata().is_ok_and(|meta| meta.is_file() && size.is_none_or(|size| size == meta.len()))
}
