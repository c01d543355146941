//! Why a model was not fetched: what was asked for, what was expected and found, and what to do.

use std::path::PathBuf;

/// Why there is no file. No message ever holds a token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DownloadError {
    /// The word is no name of a model.
    #[error(
        "{word:?}: expected a model's name (USER/REPO[:TAG], hf.co/…, ms:…, ollama://…, https://….gguf or an alias){hint}"
    )]
    NotAName {
        /// What stood in place of a name, as typed.
        word: String,
        /// The nearest alias; begins with `; ` or is empty.
        hint: String,
    },
    /// The server knows no such repository or file, or shows it to members only.
    #[error("{name}: {place} has no such {what}{hint}")]
    NotFound {
        /// The repository: `USER/REPO`; the model or URL of another server.
        name: String,
        /// Host of the server that was asked, or the cache.
        place: String,
        /// What it does not have: `repository`, `model` or `file`.
        what: &'static str,
        /// What to do; begins with `; ` or is empty.
        hint: String,
    },
    /// The repository has no such branch, tag or commit.
    #[error("{name}: no revision {revision:?}")]
    NoRevision {
        /// The repository: `USER/REPO`.
        name: String,
        /// The branch, tag or commit that was asked for.
        revision: String,
    },
    /// The repository has other files than the one that is meant.
    #[error("{name}: no {wanted}; there are: {}", listed(.available))]
    NoFile {
        /// The repository: `USER/REPO`.
        name: String,
        /// A tag, a file, or a shard.
        wanted: String,
        /// Tags, or files, that are there.
        available: Vec<String>,
    },
    /// The licence has to be accepted first.
    #[error(
        "{name} is gated: accept its licence on {page}, then set HF_TOKEN (or -hft) to a token of that account{found}"
    )]
    Gated {
        /// The repository: `USER/REPO`.
        name: String,
        /// Where the licence is accepted.
        page: String,
        /// Whether a token was sent; begins with ` (` or is empty.
        found: String,
    },
    /// The hub does not accept the token.
    #[error("{name}: {place} does not accept the token (HF_TOKEN, -hft or the token file){reason}")]
    Token {
        /// The repository: `USER/REPO`.
        name: String,
        /// Host of the hub that was asked.
        place: String,
        /// What it says; begins with `: ` or is empty.
        reason: String,
    },
    /// The network was forbidden, and the cache does not have the file.
    #[error("{name}: not in the cache {}, and --offline (or HF_HUB_OFFLINE) forbids to fetch it", cache.display())]
    Offline {
        /// The model, as it would be fetched: `USER/REPO:TAG`.
        name: String,
        /// The folder that was looked into.
        cache: PathBuf,
    },
    /// The disk is too small.
    #[error("{file}: needs {needed} more bytes, {} has {free} free; what was fetched is kept: free some, or name another folder in HF_HUB_CACHE", folder.display())]
    NoRoom {
        /// The file with its repository: `USER/REPO: path`.
        file: String,
        /// Bytes that are still missing, with some to spare.
        needed: u64,
        /// Bytes that the disk has.
        free: u64,
        /// The cache, on the disk that is too small.
        folder: PathBuf,
    },
    /// The server cannot be reached, or goes away again and again.
    #[error("{file}: {host}: {reason}{kept}")]
    Network {
        /// The file or repository.
        file: String,
        /// Name of the server, without a path or a token.
        host: String,
        /// How the last try ended.
        reason: String,
        /// Bytes that are kept for the next time; begins with `; ` or is empty.
        kept: String,
    },
    /// The server answers with a status that leaves nothing to do.
    #[error("{file}: {host}: expected 200 or 206, found {status}{reason}")]
    Status {
        /// The file or repository.
        file: String,
        /// Name of the server, without a path or a token.
        host: String,
        /// The HTTP status that it answered.
        status: u16,
        /// What it says, and what to do; begins with `: ` or `; ` or is empty.
        reason: String,
    },
    /// The bytes are not those that the hub lists, twice.
    #[error(
        "{file}: expected SHA-256 {expected}, found {found}, twice; nothing was kept: try again later, or another mirror"
    )]
    WrongBytes {
        /// The file with its repository: `USER/REPO: path`.
        file: String,
        /// As the hub lists it.
        expected: String,
        /// Of the bytes that came the second time.
        found: String,
    },
    /// The model is nothing that qrun runs.
    #[error("{file}: expected {expected}, found {found}; it was not fetched")]
    Unsupported {
        /// The file with its repository: `USER/REPO: path`.
        file: String,
        /// The architectures or formats that qrun runs.
        expected: String,
        /// The architecture or format that the model has.
        found: String,
    },
    /// The cache cannot be read or changed.
    #[error("cache {}: {reason}; another folder is named by HF_HUB_CACHE or LLAMA_CACHE", path.display())]
    Cache {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// The server's answer is not what its protocol says.
    #[error("{host}: expected {expected}, found {found}")]
    BadAnswer {
        /// Name of the server, without a path or a token.
        host: String,
        /// What the protocol says.
        expected: String,
        /// The beginning of what came, at most 200 characters.
        found: String,
    },
    /// A setting of the environment is wrong.
    #[error("{variable}: expected {expected}")]
    Setting {
        /// The name of the environment variable.
        variable: String,
        /// The values that it may have.
        expected: String,
    },
    /// The caller ended it; what was fetched is kept.
    #[error("interrupted; what was fetched is kept")]
    Interrupted,
}

impl DownloadError {
    /// What the system says about a file of the cache.
    pub(super) fn cache(path: impl Into<PathBuf>, error: &std::io::Error) -> Self {
        let reason = error.to_string();
        let reason = reason.split_once(" (os error ").map_or(reason.clone(), |(said, _)| said.to_owned());
        DownloadError::Cache { path: path.into(), reason }
    }
    /// Whether the server was not reached or did not last, so that the cache may stand in for it.
    pub(super) fn is_unreachable(&self) -> bool {
        matches!(self, DownloadError::Network { .. }) || matches!(self, DownloadError::Status { status: 500.., .. })
    }
}

/// At most two dozen names.
fn listed(names: &[String]) -> String {
    const MOST: usize = 24;
    match names {
        [] => "no GGUF files".to_owned(),
        few if few.len() <= MOST => few.join(", "),
        many => format!("{} and {} more", many[..MOST].join(", "), many.len() - MOST),
    }
}
