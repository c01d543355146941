//! A file that is not whole yet: it only grows, and its length is what is there. It is hashed as it grows.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

/// What is read at once of a file that an earlier run has left.
const BLOCK: usize = 1 << 20;

/// An unfinished file.
pub struct Partial {
    file: File,
    path: PathBuf,
    have: u64,
    hash: Sha256,
}

impl Partial {
    /// Opens what is there, or makes it; what is longer than `size` is begun anew. `tick` is called with the bytes read so
    /// far while they are hashed.
    ///
    /// # Errors
    /// The system's; `Interrupted` where `tick` breaks.
    pub fn open(path: &Path, size: Option<u64>, tick: &mut dyn FnMut(u64) -> ControlFlow<()>) -> io::Result<Self> {
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let have = file.metadata()?.len();
        if size.is_some_and(|size| have > size) {
            file.set_len(0)?;
        }
        let (mut hash, mut done, mut block) = (Sha256::new(), 0, vec![0; BLOCK]);
        loop {
            match file.read(&mut block)? {
                0 => break,
                n => {
                    hash.update(&block[..n]);
                    done += n as u64;
                }
            }
            if tick(done).is_break() {
                return Err(io::ErrorKind::Interrupted.into());
            }
        }
        Ok(Partial { file, path: path.to_owned(), have: done, hash })
    }

    /// Bytes that are there.
    pub fn have(&self) -> u64 {
        self.have
    }

    /// Adds bytes at the end.
    ///
    /// # Errors
    /// The file cannot be written. Where not all fit on the disk, those that do are kept.
    pub fn append(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let n = match self.file.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.hash.update(&bytes[..n]);
            self.have += n as u64;
            bytes = &bytes[n..];
        }
        Ok(())
    }

    /// The first bytes, at most so many.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn head(&mut self, most: u64) -> io::Result<Vec<u8>> {
        let mut head = Vec::new();
        self.file.seek(SeekFrom::Start(0))?;
        (&self.file).take(most.min(self.have)).read_to_end(&mut head)?;
        self.file.seek(SeekFrom::Start(self.have))?;
        Ok(head)
    }

    /// SHA-256 of all of it, in hex.
    pub fn sha256(&self) -> String {
        hex(&self.hash.clone().finalize())
    }

    /// Removes it.
    ///
    /// # Errors
    /// The system does not remove it.
    pub fn discard(self) -> io::Result<()> {
        std::fs::remove_file(&self.path)
    }

    /// Puts it on the disk for good and gives it its name.
    ///
    /// # Errors
    /// It cannot be written out, or not be renamed to `name`.
    pub fn finish(self, name: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        drop(self.file);
        std::fs::rename(&self.path, name)
    }
}

/// SHA-256 of some bytes, in hex.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_grows_over_runs() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.part");
        let open = |size| Partial::open(&path, size, &mut |_| ControlFlow::Continue(())).expect("a partial");
        open(None).append(b"ab").expect("written");
        let mut partial = open(Some(3));
        assert_eq!(partial.have(), 2);
        partial.append(b"c").expect("written");
        assert_eq!((partial.have(), partial.head(2).expect("read")), (3, b"ab".to_vec()));
        // FIPS 180-2, the first example.
        assert_eq!(partial.sha256(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(sha256(b"abc"), partial.sha256());
        partial.finish(&folder.path().join("x")).expect("finished");
        assert!(!path.exists());
        std::fs::write(&path, "too long").expect("written");
        assert_eq!(open(Some(3)).have(), 0);
    }
}
