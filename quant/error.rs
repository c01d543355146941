//! One error for everything that can be wrong with a model file.

use std::path::{Path, PathBuf};

/// What is wrong with a file, where, and what was expected there.
///
/// Always names the file and the place (a key, a tensor, an offset), so that a user can act on it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}: {place}: expected {expected}, found {found}", file.display())]
pub struct Error {
    /// The file as the user named it.
    pub file: PathBuf,
    /// Key, tensor or part of the file.
    pub place: String,
    /// What the format or the model asks for.
    pub expected: String,
    /// What the file has.
    pub found: String,
}

/// `Result` with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Builds an error from its four parts.
    pub fn new(
        file: impl AsRef<Path>,
        place: impl Into<String>,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        Self { file: file.as_ref().to_path_buf(), place: place.into(), expected: expected.into(), found: found.into() }
    }
}
