//! What is asked for, and how far it is.

use std::{fmt, path::PathBuf};

/// A model that is asked for by name. What is `None` or false is left to the environment.
#[derive(Clone, Default)]
pub struct Wanted {
    /// `USER/REPO[:TAG]`, an alias, a URL … (see [`super::Name`]).
    pub name: String,
    /// The file in the repository, in place of the tag's.
    pub file: Option<String>,
    /// Branch, tag or commit; `main` where nothing is said.
    pub revision: Option<String>,
    /// For the hub; goes nowhere else, and into no message.
    pub token: Option<String>,
    /// The folder that holds `models--…`.
    pub cache: Option<PathBuf>,
    /// Use no network.
    pub offline: bool,
}

impl Wanted {
    /// By its name alone.
    pub fn named(name: impl Into<String>) -> Self {
        Wanted { name: name.into(), ..Wanted::default() }
    }
}

/// Without the token.
impl fmt::Debug for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wanted")
            .field("name", &self.name)
            .field("file", &self.file)
            .field("revision", &self.revision)
            .field("token", &self.token.as_ref().map(|_| "…"))
            .field("cache", &self.cache)
            .field("offline", &self.offline)
            .finish()
    }
}

/// How far one file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Its path in the repository.
    pub file: String,
    /// Bytes that are on the disk, those of earlier runs among them.
    pub done: u64,
    /// Bytes of the whole file, where the server says so.
    pub total: Option<u64>,
}
