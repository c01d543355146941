//! Files by name and by pattern.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use crate::cli::exit::system_error;

/// Most files that one pattern may bring in.
const MOST: usize = 100;
/// Deepest folder that `**` looks into.
const DEEPEST: usize = 32;

/// A path with `~/` as the home folder.
pub fn home(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => Path::new(&home).join(rest),
        _ => path.into(),
    }
}

/// Bytes that show whether a file is text.
const HEAD: usize = 4096;

/// The text of a file of at most `longest` bytes. Its beginning is looked at first, so that a model is not read to its
/// end to find that it is not text; and pipes are not opened, for that would wait for a writer.
///
/// # Errors
/// In words, without the file's name.
pub fn read_text(file: &Path, longest: u64) -> Result<String, String> {
    let failed = |e: std::io::Error| system_error(&e);
    let found = fs::metadata(file).map_err(failed)?;
    if !found.is_file() {
        return Err("expected a file, found a folder, pipe or device".into());
    }
    if found.len() > longest {
        return Err(format!("too long: {} bytes, and {longest} more can be taken", found.len()));
    }
    let mut open = fs::File::open(file).map_err(failed)?;
    let mut bytes = Vec::new();
    open.by_ref().take(HEAD as u64).read_to_end(&mut bytes).map_err(failed)?;
    let not_text = |at: usize| format!("expected UTF-8 text, found another byte at {at}");
    // A character may be cut at the end of the head.
    if let Some(error) = std::str::from_utf8(&bytes).err().filter(|e| e.error_len().is_some()) {
        return Err(not_text(error.valid_up_to()));
    }
    if let Some(at) = bytes.iter().position(|&b| b == 0) {
        return Err(not_text(at));
    }
    open.take(longest).read_to_end(&mut bytes).map_err(failed)?;
    String::from_utf8(bytes).map_err(|e| not_text(e.utf8_error().valid_up_to()))
}

/// The files that match: `*` and `?` within a name, `**` for any folders. Sorted.
///
/// # Errors
/// More than [`MOST`] files match.
pub fn glob(pattern: &str) -> Result<Vec<PathBuf>, String> {
    let pattern = home(pattern);
    let parts: Vec<String> = pattern.iter().map(|p| p.to_string_lossy().into_owned()).collect();
    let fixed = parts.iter().take_while(|p| !p.contains(['*', '?'])).count().min(parts.len().saturating_sub(1));
    let start: PathBuf = parts[..fixed].iter().collect();
    let mut found = Vec::new();
    walk(&start, &parts[fixed..], DEEPEST, &mut found)?;
    found.sort();
    found.dedup();
    Ok(found)
}

fn walk(folder: &Path, parts: &[String], depth: usize, found: &mut Vec<PathBuf>) -> Result<(), String> {
    let Some((part, rest)) = parts.split_first() else { return Ok(()) };
    if depth == 0 {
        return Ok(());
    }
    if part == "**" {
        walk(folder, rest, depth, found)?;
    }
    let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    // Folders that may not be read hold nothing for the user.
    for entry in std::fs::read_dir(here).into_iter().flatten().flatten() {
        let (name, path) = (entry.file_name(), folder.join(entry.file_name()));
        // A link to a folder could lead round in circles.
        let is_folder = entry.file_type().is_ok_and(|t| t.is_dir());
        let name = name.to_string_lossy();
        if part == "**" {
            if is_folder && !name.starts_with('.') {
                walk(&path, parts, depth - 1, found)?;
            }
        } else if matches(part.as_bytes(), name.as_bytes()) && (part.starts_with('.') || !name.starts_with('.')) {
            if rest.is_empty() && path.is_file() {
                found.push(path);
            } else if !rest.is_empty() && is_folder {
                walk(&path, rest, depth - 1, found)?;
            }
        }
        if found.len() > MOST {
            return Err(format!("more than {MOST} files match"));
        }
    }
    Ok(())
}

/// `*` any characters, `?` one; goes back to the last `*` only, so it is quadratic at worst.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(&c) if c == b'?' || c == name[n] => (p, n) = (p + 1, n + 1),
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    (p, n) = (at + 1, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, name, expected) in [
            ("*.rs", "main.rs", true),
            ("*.rs", "main.rsx", false),
            ("m?in*", "main.rs", true),
            ("*a*b", "xaxxb", true),
            ("*a*b", "xaxxc", false),
            ("", "", true),
            ("**", "x", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }
}
