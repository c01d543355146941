//! Models by name: from a name to a file in the cache of the hub.
//!
//! A name's way: a word ([`Name`], `aliases`) → what the hub has (`hub`, `ollama`) → the file that is meant (`choose`) → its
//! blob (`fetch`: `lock`, `room`, `transfer`, `head`, SHA-256) → a path in the cache (`cache`). The network is used only
//! by [`fetch`] and [`Store::fetch`], and only for a name.
//!
//! The cache is the hub's own: folder, layout and lock are those of huggingface_hub, and llama.cpp reads the same. So what
//! one of the three has fetched the others find. A file gets its name there only after its SHA-256 was what the hub says
//! (of a URL without a hub nothing is known but its size).
//!
//! | file | what |
//! |---|---|
//! | `name` | words to names: `USER/REPO:TAG`, `hf.co/…`, `ms:…`, `ollama://…`, URLs, aliases |
//! | `aliases` | short names, and what each stands for |
//! | `choose` | of a repository's files the one that is meant, with all its shards |
//! | `cache` | the layout: `models--U--R/{refs, blobs, snapshots}` |
//! | `listing` | what a repository has, from any source |
//! | `hub` | the listing of the hub, of ModelScope, of a URL |
//! | `ollama` | Ollama's registry, and its store on this machine |
//! | `http` | requests: redirects, tokens, proxies, roots of trust |
//! | `body` | the answer to a request for a range, whatever it is |
//! | `transfer` | lanes that fetch ranges, resume and wait |
//! | `partial` | the unfinished file, hashed as it grows |
//! | `head` | whether qrun runs the model, from its first bytes |
//! | `lock` | one process at a time for a file |
//! | `room` | free bytes on a disk |
//! | `fetch` | one file, from the lock to its name |
//! | `refusal` | what a server's no means, and what to do |
//! | `store` | all of it, with the settings of the environment |

mod aliases;
mod body;
mod cache;
mod choose;
mod error;
mod fetch;
mod head;
mod http;
mod hub;
mod listing;
mod lock;
mod name;
mod ollama;
mod partial;
mod refusal;
mod room;
mod settings;
mod store;
mod token;
mod transfer;
mod wanted;

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
};

pub use aliases::{ALIASES, Alias, nearest};
pub use cache::{Cached, Removed};
pub use error::DownloadError;
pub use name::{Name, Source, is_name};
pub use settings::{Patience, Settings};
pub use store::Store;
pub use wanted::{Progress, Wanted};

/// The model's file in the cache; of several shards the first. `None`: it is not there. The network is not used.
///
/// # Errors
/// The word is no name of a model.
pub fn find(wanted: &Wanted) -> Result<Option<PathBuf>, DownloadError> {
    Store::of_environment().find(wanted)
}

/// The model's file, fetched where the cache does not have it in the newest version; of several shards the first.
/// `progress` hears of every file at least ten times a second, also while nothing comes; `Break` ends it, and what was
/// fetched is kept for the next time.
///
/// # Errors
/// All of [`DownloadError`]. An unreachable hub is none where the cache has the file.
pub fn fetch(wanted: &Wanted, progress: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Result<PathBuf, DownloadError> {
    Store::of_environment().fetch(wanted, progress)
}

/// The models in the cache, by name; `cache`: another folder than the environment's.
///
/// # Errors
/// The folder cannot be read (one that does not exist is empty).
pub fn cached(cache: Option<&Path>) -> Result<Vec<Cached>, DownloadError> {
    Store::of_environment().cached(cache)
}

/// Removes what a name stands for from the cache: with a tag or a file that file, without one the whole repository.
///
/// # Errors
/// The cache has nothing of this name, or it cannot be changed.
pub fn remove(name: &str, cache: Option<&Path>) -> Result<Removed, DownloadError> {
    Store::of_environment().remove(name, cache)
}
