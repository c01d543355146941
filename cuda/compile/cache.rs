//! What was compiled before is not compiled again: NVRTC gives the same bytes for the same text (minutes for all
//! kernels, seconds for the one that changed), and comments and blank lines are nothing to it.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use qrun_cuda::image::Target;
use sha2::{Digest, Sha256};

use crate::nvrtc::{Compiled, OPTIONS, VERSION};

/// A folder of compilations, named by the hash of all that went into them.
pub struct Cache(pub PathBuf);

impl Cache {
    /// What `compile` gives for a source and a target, from the folder if it is there.
    ///
    /// # Errors
    /// The source or a file that it includes cannot be read, `compile` fails, or the folder cannot be written.
    pub fn get(&self, source: &Path, target: Target, compile: impl FnOnce() -> Result<Compiled>) -> Result<Compiled> {
        let key = key(source, target)?;
        let (code, log) = (self.0.join(format!("{key}.code")), self.0.join(format!("{key}.log")));
        // The log is written last: where it is, the code is whole.
        if let (Ok(log), Ok(code)) = (fs::read_to_string(&log), fs::read(&code)) {
            return Ok(Compiled { code, log });
        }
        let compiled = compile()?;
        fs::create_dir_all(&self.0)?;
        for (path, bytes) in [(code, &compiled.code[..]), (log, compiled.log.as_bytes())] {
            let part = path.with_extension(format!("part{}", std::process::id()));
            fs::write(&part, bytes)?;
            fs::rename(&part, path)?;
        }
        Ok(compiled)
    }
}

/// Hash of a source, everything that it includes, the target and the compiler.
///
/// # Errors
/// The source or a file that it includes cannot be read.
pub fn key(source: &Path, target: Target) -> Result<String> {
    let mut files = BTreeSet::new();
    let folder = source.parent().context("a folder")?;
    includes(folder, source, &mut files)?;
    let mut all = format!("{VERSION:?} {OPTIONS:?} {target}");
    for file in files {
        let name = file.strip_prefix(folder).unwrap_or(&file);
        all += &format!("\n{}\n{}", name.display(), code(&fs::read_to_string(&file)?));
    }
    Ok(sha256(all.as_bytes())[..32].to_owned())
}

/// SHA-256 in hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

/// A text without its comments, which begin with `//` in all of our kernels, and what they leave of lines.
fn code(text: &str) -> String {
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or(line).trim_end());
    lines.filter(|line| !line.is_empty()).flat_map(|line| [line, "\n"]).collect()
}

/// The files that a file names in `#include "…"`, itself among them; those that are not there are the compiler's affair.
fn includes(folder: &Path, file: &Path, found: &mut BTreeSet<PathBuf>) -> Result<()> {
    if !found.insert(file.to_owned()) {
        return Ok(());
    }
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    for line in text.lines() {
        let name = line.trim().strip_prefix("#include \"").and_then(|l| l.split('"').next());
        let beside = file.parent().unwrap_or(folder);
        for place in name.into_iter().flat_map(|n| [folder.join(n), beside.join(n)]).filter(|p| p.is_file()) {
            includes(folder, &place, found)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use qrun_cuda::image::Kind;

    use super::*;

    #[test]
    fn only_what_changed_is_compiled_again() {
        let folder = std::env::temp_dir().join(format!("qrun-kernels-cache-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).expect("a file");
        write("a.cu", "#include \"b.cuh\"\n");
        write("b.cuh", "int b;\n");
        let cache = Cache(folder.join("cache"));
        let get = |sm| {
            let mut ran = 0;
            let compile = || {
                ran += 1;
                Ok(Compiled { code: vec![1], log: "log".into() })
            };
            let target = Target { kind: Kind::Cubin, sm };
            let compiled = cache.get(&folder.join("a.cu"), target, compile).expect("a compilation");
            assert_eq!((compiled.code, compiled.log), (vec![1], "log".to_owned()));
            ran
        };
        assert_eq!((get(75), get(75), get(80)), (1, 0, 1));
        write("b.cuh", "\nint b;  // of a.cu\n");
        assert_eq!(get(75), 0);
        write("b.cuh", "int c;\n");
        assert_eq!((get(75), get(75)), (1, 0));
        fs::remove_dir_all(folder).expect("the folder goes");
    }
}
