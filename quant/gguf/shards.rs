//! Models in several files: `NAME-00001-of-00003.gguf` and its siblings.
//!
//! The first shard has the metadata; each has a directory and data of its own. `split.no` counts from
//! 0, the numbers in the names from 1.

use std::{
    path::{Path, PathBuf},
    time::Instant,
};

use super::{file::Gguf, index::Index, parse};
use crate::{Bytes, Error, Result};

const COUNT: &str = "split.count";
const NUMBER: &str = "split.no";
const TENSORS: &str = "split.tensors.count";

/// Opens a model of one or several files.
///
/// # Errors
/// A shard is missing or damaged, or the shards do not belong together: other counts, numbers or architectures, a
/// tensor in two of them, too few tensors. The error names the file, and what was expected there.
pub fn open(path: &Path) -> Result<Gguf> {
    let named = mapped(path)?;
    let Some(count) = count(&named)? else { return Ok(named) };
    let number = number(&named, count)?;
    let names = Names::of(path, number, count)?;
    let sibling = |n| sibling(&names.shard(n), n, count, path);
    let (mut model, mut named) = if number == 0 { (named, None) } else { (sibling(0)?, Some(named)) };
    for n in 1..count {
        let shard = match named.take_if(|_| n == number) {
            Some(shard) => shard,
            None => sibling(n)?,
        };
        join(&mut model, shard)?;
    }
    model.names = Index::new(&model.tensors, |t| &t.name).map_err(|name| {
        Error::new(path, format!("tensor {}", parse::shown(name)), "each tensor in one shard", "the name in two shards")
    })?;
    if let Some(expected) = model.u64(TENSORS)?
        && expected != model.tensors.len() as u64
    {
        let found = format!("{} in {count} shards", model.tensors.len());
        return Err(model.error(format!("key {TENSORS}"), format!("{expected} tensors"), found));
    }
    model.path = path.into();
    Ok(model)
}

/// One file, and how long it took to map it.
fn mapped(path: &Path) -> Result<Gguf> {
    let started = Instant::now();
    let bytes = Bytes::map(path)?;
    let mapping = started.elapsed();
    Ok(Gguf { mapping, ..parse::single(path, bytes)? })
}

/// Whether a file is a whole model, where shards beside it cannot be looked for.
///
/// # Errors
/// `split.count` is above 1, or no unsigned integer.
pub fn refuse(gguf: &Gguf) -> Result<()> {
    match count(gguf)? {
        None => Ok(()),
        Some(n) => Err(gguf.error(format!("key {COUNT}"), "a model in one piece", format!("one of {n} shards"))),
    }
}

/// The number of shards, where there are several.
fn count(gguf: &Gguf) -> Result<Option<u64>> {
    match gguf.u64(COUNT)? {
        None | Some(0 | 1) => Ok(None),
        Some(n) if n <= 99_999 => Ok(Some(n)),
        Some(n) => Err(gguf.error(format!("key {COUNT}"), "at most 99999 shards", n.to_string())),
    }
}

/// Which shard a file is.
fn number(gguf: &Gguf, count: u64) -> Result<u64> {
    let expected = || format!("the number of this shard, 0 to {}", count - 1);
    match gguf.u64(NUMBER)? {
        Some(n) if n < count => Ok(n),
        Some(n) => Err(gguf.error(format!("key {NUMBER}"), expected(), n.to_string())),
        None => Err(gguf.error(format!("key {NUMBER}"), expected(), "no such key")),
    }
}

fn sibling(path: &Path, n: u64, count: u64, named: &Path) -> Result<Gguf> {
    if !path.exists() {
        let place = format!("shard {} of {count}", n + 1);
        return Err(Error::new(named, place, format!("the file {}", path.display()), "no such file"));
    }
    let shard = mapped(path)?;
    let its = shard.u64(COUNT)?;
    if its != Some(count) {
        let found = its.map_or("no such key".into(), |n| n.to_string());
        return Err(shard.error(format!("key {COUNT}"), format!("{count}, as in {}", named.display()), found));
    }
    let number = number(&shard, count)?;
    if number != n {
        return Err(shard.error(format!("key {NUMBER}"), format!("{n}, by the name of the file"), number.to_string()));
    }
    Ok(shard)
}

/// Adds the tensors of a further shard.
fn join(model: &mut Gguf, shard: Gguf) -> Result<()> {
    let key = "general.architecture";
    if let (Some(a), Some(b)) = (model.str(key)?, shard.str(key)?)
        && a != b
    {
        return Err(shard.error(format!("key {key}"), format!("{a:?}, as in the first shard"), format!("{b:?}")));
    }
    model.tensors.extend(shard.tensors);
    model.file_bytes += shard.file_bytes;
    model.mapping += shard.mapping;
    Ok(())
}

/// The names of a model's shards.
struct Names {
    /// Path up to the number.
    stem: String,
    dir: PathBuf,
    count: u64,
}

impl Names {
    /// From the path of shard `number`.
    fn of(path: &Path, number: u64, count: u64) -> Result<Self> {
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let ending = ending(number, count);
        match name.strip_suffix(&ending) {
            Some(stem) => Ok(Self { stem: stem.into(), dir: path.with_file_name(""), count }),
            None => {
                let expected = format!("a name that ends in {ending} (shards are found by their names)");
                Err(Error::new(path, format!("shard {} of {count}", number + 1), expected, name))
            }
        }
    }

    fn shard(&self, number: u64) -> PathBuf {
        self.dir.join(format!("{}{}", self.stem, ending(number, self.count)))
    }
}

fn ending(number: u64, count: u64) -> String {
    format!("-{:05}-of-{count:05}.gguf", number + 1)
}
