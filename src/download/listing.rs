//! What a repository has.

/// The GGUF files of a repository at one commit.
#[derive(Debug, Clone)]
pub struct Listing {
    /// What its folder below `snapshots` is called.
    pub commit: String,
    /// One for each file: a model in several shards has several.
    pub files: Vec<Remote>,
}

/// A file on a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// Its path in the repository.
    pub path: String,
    /// Bytes, where the server says so.
    pub size: Option<u64>,
    /// SHA-256 in hex, where the server says so.
    pub sha256: Option<String>,
    /// What its blob is called.
    pub id: String,
    /// Whether a server that has another version now would give the blob another name: what an earlier run has left
    /// belongs to these bytes.
    pub lasting: bool,
    /// Where its bytes are.
    pub url: String,
}
