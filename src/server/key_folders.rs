//! Folders of saved slots where the cache is each key's own: their names tell nobody which keys there are.
//!
//! A name is SHA-256 of a salt and the key. The salt lies in a file beside the folders that only its owner can read; without
//! it a short key cannot be guessed from the name.

use std::{
    fs::{self, File, OpenOptions},
    hash::{BuildHasher, Hasher, RandomState},
    io::{self, Read, Write},
    path::Path,
};

use sha2::{Digest, Sha256};

/// The file of the salt. No slot can have this name: theirs do not begin with a point.
const FILE: &str = ".salt";
/// Bytes of the salt.
const SALT: usize = 32;
/// Bytes of the sum that are in a name.
const NAME: usize = 16;

/// Names the folders of keys.
pub struct KeyFolders {
    salt: [u8; SALT],
}

impl KeyFolders {
    /// Reads the salt of a folder, or makes one: by several servers at once the same.
    ///
    /// # Errors
    /// The file cannot be read or written, or is not one of a salt.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let path = folder.join(FILE);
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let found = match read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => make(folder, &path).and_then(|()| read(&path)),
            found => found,
        };
        found.map(|salt| Self { salt }).map_err(named)
    }

    /// The name of a key's folder: 32 characters.
    pub fn name(&self, key: &str) -> String {
        let sum = Sha256::new().chain_update(self.salt).chain_update(key).finalize();
        sum.iter().take(NAME).map(|byte| format!("{byte:02x}")).collect()
    }
}

fn read(path: &Path) -> io::Result<[u8; SALT]> {
    let (mut bytes, mut salt) = (Vec::new(), [0; SALT]);
    File::open(path)?.take(SALT as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() != SALT {
        let message = format!("expected {SALT} bytes; the names of all folders of saved slots here depend on them");
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    salt.copy_from_slice(&bytes);
    Ok(salt)
}

/// Writes a salt under another name, and gives it its own once it is whole, unless another server was faster.
fn make(folder: &Path, path: &Path) -> io::Result<()> {
    let salt = random();
    let unfinished = folder.join(format!("{FILE}.{:016x}", RandomState::new().build_hasher().finish()));
    let written = write(&unfinished, &salt).and_then(|()| match fs::hard_link(&unfinished, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        // There are file systems without links.
        Err(_) => fs::rename(&unfinished, path),
        Ok(()) => Ok(()),
    });
    // Renamed, it is not there.
    let _ = fs::remove_file(&unfinished);
    written
}

fn write(path: &Path, salt: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(salt)?;
    file.sync_all()
}

/// Bytes that nobody can guess. The standard library takes 16 random bytes from the system for each thread; what it makes
/// of them here is only shown through the sum.
fn random() -> [u8; SALT] {
    let draw = |sum: Sha256, _| sum.chain_update(RandomState::new().build_hasher().finish().to_le_bytes());
    (0..4).fold(Sha256::new(), draw).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_a_keys_own_and_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let opened = || KeyFolders::open(folder.path()).expect("a salt");
        let first = opened();
        let keys = ["", "a", "b", "ab", "a key of another length, and longer than a name is"];
        let names: Vec<String> = keys.iter().map(|key| first.name(key)).collect();
        for (i, name) in names.iter().enumerate() {
            assert!(name.len() == 2 * NAME && name.bytes().all(|c| c.is_ascii_hexdigit()), "{name}");
            assert_eq!(names.iter().position(|other| other == name), Some(i), "{names:?}");
        }
        let again = opened();
        assert_eq!(keys.iter().map(|key| again.name(key)).collect::<Vec<_>>(), names);
        // Elsewhere the same key has another folder.
        let other = tempfile::tempdir().expect("a folder");
        assert_ne!(KeyFolders::open(other.path()).expect("a salt").name("a"), names[1]);
        // Nothing but the salt is left, and nobody else can read it.
        let files: Vec<_> = fs::read_dir(folder.path()).expect("a folder").map(|f| f.expect("a file")).collect();
        assert_eq!((files.len(), files[0].file_name().to_str()), (1, Some(FILE)));
        #[cfg(unix)]
        {
            let mode = std::os::unix::fs::PermissionsExt::mode(&files[0].metadata().expect("a file").permissions());
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn servers_that_start_together_have_one_salt() {
        let folder = tempfile::tempdir().expect("a folder");
        let names: Vec<String> = std::thread::scope(|scope| {
            let open = || KeyFolders::open(folder.path()).expect("a salt").name("key");
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
            threads.into_iter().map(|thread| thread.join().expect("a name")).collect()
        });
        assert!(names.iter().all(|name| *name == names[0]), "{names:?}");
    }

    #[test]
    fn another_file_in_its_place_is_an_error_that_names_it() {
        for bytes in [0, SALT - 1, SALT + 1] {
            let folder = tempfile::tempdir().expect("a folder");
            fs::write(folder.path().join(FILE), vec![7u8; bytes]).expect("a file");
            let error = KeyFolders::open(folder.path()).err().expect("an error").to_string();
            assert!(error.contains(FILE) && error.contains("expected 32 bytes"), "{error}");
        }
        let nowhere = tempfile::tempdir().expect("a folder").path().join("nowhere");
        assert!(KeyFolders::open(&nowhere).is_err());
    }
}
