//! From the bytes of one file to a [`Gguf`].

use std::{path::Path, time::Duration};

use super::{
    cursor::Cursor,
    file::{ALIGNMENT_KEY, DEFAULT_ALIGNMENT, Gguf, Tensor},
    foreign,
    index::Index,
    value::Value,
};
use crate::{Bytes, GgmlType, Result};

/// Most metadata keys of one file (models have a few dozen).
///
/// An entry takes more room in memory than it must take in a file: these limits bound the difference.
const MAX_KEYS: u64 = 1 << 14;
/// Most tensors of one file (models have a few hundred, those with separate experts some ten thousand).
const MAX_TENSORS: u64 = 1 << 16;
/// Longest key or tensor name in bytes, by the GGUF specification.
const MAX_NAME: usize = 65_535;

/// What [`alignment`] accepts, in words.
pub const ALIGNMENTS: &str = "a power of two from 8 to 1048576";

/// Parses one file.
///
/// # Errors
/// The file is cut short, is not GGUF of version 2 or 3, has a key or a tensor twice, or holds what the format does not
/// allow. The error names the key, the tensor or the part, what was expected there and what was found.
pub fn single(path: &Path, bytes: Bytes) -> Result<Gguf> {
    let mut c = Cursor::new(path, &bytes);
    if c.take(4)? != b"GGUF" {
        return Err(c.error("the magic bytes \"GGUF\"", foreign::describe(&bytes)));
    }
    let version = c.u32()?;
    if !(2..=3).contains(&version) {
        return Err(c.error("GGUF version 2 or 3", foreign::version(version)));
    }
    let (n_tensors, n_keys) = (c.u64()?, c.u64()?);
    c.at_most(n_tensors, MAX_TENSORS, "tensors")?;
    c.at_most(n_keys, MAX_KEYS, "metadata keys")?;
    let metadata = metadata(&mut c, n_keys)?;
    let keys = Index::new(&metadata, |(key, _)| key);
    let keys =
        keys.map_err(|key| c.error_at(format!("key {}", shown(key)), "each key once", "the key a second time"))?;
    let value = keys.find(&metadata, |(key, _)| key, ALIGNMENT_KEY).map(|(_, value)| value);
    let alignment = value.map_or(Ok(DEFAULT_ALIGNMENT), alignment);
    let alignment = alignment.map_err(|found| c.error_at(format!("key {ALIGNMENT_KEY}"), ALIGNMENTS, found))?;
    let tensors = directory(&mut c, n_tensors, alignment)?;
    let names = Index::new(&tensors, |t| &t.name);
    let twice =
        |n: &String| c.error_at(format!("tensor {}", shown(n)), "each tensor name once", "the name a second time");
    let names = names.map_err(twice)?;
    let file_bytes = bytes.len() as u64;
    Ok(Gguf {
        path: path.into(),
        version,
        alignment,
        metadata,
        keys,
        tensors,
        names,
        file_bytes,
        mapping: Duration::ZERO,
    })
}

fn metadata(c: &mut Cursor, n: u64) -> Result<Vec<(String, Value)>> {
    let mut out = Vec::new();
    for i in 0..n {
        c.place = format!("metadata key number {i} of {n}");
        let key = name(c)?;
        c.place = format!("key {}", shown(&key));
        let value = c.value()?;
        out.push((key, value));
    }
    Ok(out)
}

/// The directory, with each tensor's data found in the file.
fn directory(c: &mut Cursor, n: u64, alignment: u64) -> Result<Vec<Tensor>> {
    let mut rows = Vec::new();
    for i in 0..n {
        c.place = format!("tensor number {i} of {n}");
        let name = name(c)?;
        c.place = format!("tensor {}", shown(&name));
        rows.push(row(c, name)?);
    }
    let start = (c.at() as u64).next_multiple_of(alignment);
    let mut ranges = Vec::with_capacity(rows.len());
    for row in &rows {
        c.place = format!("tensor {}", shown(&row.name));
        if !row.offset.is_multiple_of(alignment) {
            return Err(c.error(format!("an offset that is a multiple of {alignment}"), row.offset.to_string()));
        }
        let from = start.checked_add(row.offset);
        let to = from.and_then(|from| from.checked_add(row.size));
        match (from, to) {
            (Some(from), Some(to)) if to <= c.len() as u64 => ranges.push(from as usize..to as usize),
            _ => {
                let data = c.len() as u64 - start.min(c.len() as u64);
                let expected = format!("{} bytes at offset {} of the data", row.size, row.offset);
                return Err(c.error(expected, format!("only {data} bytes of data (is the download complete?)")));
            }
        }
    }
    let mut order: Vec<usize> = (0..ranges.len()).collect();
    order.sort_unstable_by_key(|&i| ranges[i].start);
    for pair in order.windows(2) {
        let (a, b) = (&ranges[pair[0]], &ranges[pair[1]]);
        if a.end > b.start {
            c.place = format!("tensor {}", shown(&rows[pair[1]].name));
            let first = shown(&rows[pair[0]].name);
            let expected = format!("data behind that of tensor {first}, which ends at byte {} of the file", a.end);
            return Err(c.error(expected, format!("data from byte {} on", b.start)));
        }
    }
    let tensor = |(row, range): (Row, _)| Tensor { name: row.name, ty: row.ty, shape: row.shape, data: c.slice(range) };
    Ok(rows.into_iter().zip(ranges).map(tensor).collect())
}

struct Row {
    name: String,
    ty: GgmlType,
    shape: Vec<u64>,
    offset: u64,
    size: u64,
}

fn row(c: &mut Cursor, name: String) -> Result<Row> {
    let n_dims = c.u32()?;
    if !(1..=4).contains(&n_dims) {
        return Err(c.error("1 to 4 dimensions", n_dims.to_string()));
    }
    let shape = (0..n_dims).map(|_| c.u64()).collect::<Result<Vec<_>>>()?;
    let number = c.u32()?;
    let Some(ty) = GgmlType::from_number(number) else {
        let known = GgmlType::all().map(|t| t.name()).collect::<Vec<_>>().join(" ");
        return Err(c.error(format!("a format qrun knows ({known})"), GgmlType::foreign_name(number)));
    };
    let offset = c.u64()?;
    let size = data_size(ty, &shape).map_err(|(expected, found)| c.error(expected, found))?;
    Ok(Row { name, ty, shape, offset, size })
}

/// A key or a tensor name.
fn name(c: &mut Cursor) -> Result<String> {
    let name = c.utf8()?;
    if name.len() > MAX_NAME {
        return Err(c.error(format!("a name of at most {MAX_NAME} bytes"), format!("{} bytes", name.len())));
    }
    Ok(name.to_owned())
}

/// A name from a file as it can stand in a message: short, and without control characters.
pub fn shown(name: &str) -> String {
    const MOST: usize = 80;
    let escape = |c: char| if c.is_control() { c.escape_debug().to_string() } else { c.to_string() };
    let mut out: String = name.chars().take(MOST).map(escape).collect();
    if name.chars().nth(MOST).is_some() {
        out.push('…');
    }
    out
}

/// The alignment in a metadata value, in bytes.
///
/// # Errors
/// What was found, where that is none of [`ALIGNMENTS`].
pub fn alignment(value: &Value) -> std::result::Result<u64, String> {
    match value.as_u64() {
        Some(a) if a.is_power_of_two() && (8..=1 << 20).contains(&a) => Ok(a),
        _ => Err(value.describe()),
    }
}

/// Bytes of a tensor's data; `shape` is in elements, the length of a row first.
///
/// # Errors
/// What was expected and what was found, for other than 1 to 4 dimensions, one of 0, rows that are not whole blocks of
/// `ty`, and data of 2^64 bytes or more.
pub fn data_size(ty: GgmlType, shape: &[u64]) -> std::result::Result<u64, (String, String)> {
    if !(1..=4).contains(&shape.len()) {
        return Err(("1 to 4 dimensions".into(), shape.len().to_string()));
    }
    if shape.contains(&0) {
        return Err(("dimensions above zero".into(), format!("{shape:?}")));
    }
    let fmt = ty.format();
    if !shape[0].is_multiple_of(fmt.block as u64) {
        return Err((format!("rows of a multiple of {} elements ({ty})", fmt.block), format!("{shape:?}")));
    }
    let elements = shape.iter().try_fold(1u64, |a, &b| a.checked_mul(b));
    let size = elements.and_then(|n| (n / fmt.block as u64).checked_mul(fmt.bytes as u64));
    size.ok_or_else(|| ("a size below 2^64 bytes".into(), format!("dimensions {shape:?}")))
}
