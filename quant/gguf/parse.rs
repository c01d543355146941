//! From bytes to a [`Gguf`]: every length is checked against what is left of the file first.

use std::{collections::HashMap, path::Path};

use super::{ALIGNMENT_KEY, Array, DEFAULT_ALIGNMENT, Gguf, Tensor, Text, Value, ValueType};
use crate::{Bytes, Error, GgmlType, Result};

/// Opens a file (multi-shard files: see `shards`).
pub fn open(path: &Path) -> Result<Gguf> {
    single(path, Bytes::map(path)?)
}

/// Parses one file.
pub fn single(path: &Path, bytes: Bytes) -> Result<Gguf> {
    let mut r = Reader { path, bytes: &bytes, at: 0, place: "header".into() };
    let magic = r.take(4)?;
    if magic != b"GGUF" {
        return Err(r.error("the magic bytes \"GGUF\"", format!("{:?}", String::from_utf8_lossy(magic))));
    }
    let version = r.u32()?;
    if !(2..=3).contains(&version) {
        return Err(r.error("GGUF version 2 or 3", format!("version {version}")));
    }
    let (n_tensors, n_keys) = (r.u64()?, r.u64()?);
    let n_tensors = r.count(n_tensors, 24, "tensors")?;
    let n_keys = r.count(n_keys, 13, "metadata keys")?;
    let mut metadata = Vec::with_capacity(n_keys);
    let mut keys = HashMap::with_capacity(n_keys);
    for i in 0..n_keys {
        r.place = format!("metadata key number {i}");
        let key = r.text()?.as_str().to_owned();
        r.place = format!("key {key}");
        let ty = r.value_type()?;
        let value = r.value(ty, 0)?;
        if keys.insert(key.clone(), i).is_some() {
            return Err(r.error("each key once", "the key a second time"));
        }
        metadata.push((key, value));
    }
    let mut gguf = Gguf {
        path: path.into(),
        version,
        alignment: DEFAULT_ALIGNMENT,
        metadata,
        keys,
        tensors: Vec::new(),
        names: HashMap::with_capacity(n_tensors),
        file_bytes: bytes.len() as u64,
    };
    if let Some(value) = gguf.get(ALIGNMENT_KEY) {
        let error = |found| gguf.error(format!("key {ALIGNMENT_KEY}"), ALIGNMENTS, found);
        gguf.alignment = alignment(value).map_err(error)?;
    }
    let mut directory = Vec::with_capacity(n_tensors);
    for i in 0..n_tensors {
        r.place = format!("tensor number {i}");
        let name = r.text()?.as_str().to_owned();
        r.place = format!("tensor {name}");
        if gguf.names.insert(name.clone(), i).is_some() {
            return Err(r.error("each tensor name once", "the name a second time"));
        }
        directory.push(r.tensor(name)?);
    }
    let data_start = (r.at as u64).next_multiple_of(gguf.alignment);
    for (name, ty, shape, offset, size) in directory {
        let place = format!("tensor {name}");
        if !offset.is_multiple_of(gguf.alignment) {
            return Err(gguf.error(
                place,
                format!("an offset that is a multiple of {}", gguf.alignment),
                offset.to_string(),
            ));
        }
        let end = data_start.checked_add(offset).and_then(|s| s.checked_add(size));
        match end {
            Some(end) if end <= bytes.len() as u64 => {
                let data = bytes.slice((end - size) as usize..end as usize);
                gguf.tensors.push(Tensor { name, ty, shape, data });
            }
            _ => {
                let expected =
                    format!("{size} bytes of data at offset {offset} within the file's {} bytes", bytes.len());
                return Err(gguf.error(place, expected, "data past the end of the file (is the download complete?)"));
            }
        }
    }
    Ok(gguf)
}

/// What [`alignment`] accepts, in words.
pub const ALIGNMENTS: &str = "a power of two from 8 to 1048576";

/// The alignment in a metadata value; else what was found instead.
pub fn alignment(value: &Value) -> std::result::Result<u64, String> {
    match value.as_u64() {
        Some(a) if a.is_power_of_two() && (8..=1 << 20).contains(&a) => Ok(a),
        _ => Err(value.describe()),
    }
}

/// Bytes of a tensor's data; else what was expected of its dimensions and what was found.
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

/// How deep arrays may nest: the recursion below is bounded, whatever the file says.
const MAX_DEPTH: usize = 8;

type DirectoryRow = (String, GgmlType, Vec<u64>, u64, u64);

struct Reader<'a> {
    path: &'a Path,
    bytes: &'a Bytes,
    at: usize,
    place: String,
}

impl<'a> Reader<'a> {
    fn error(&self, expected: impl Into<String>, found: impl Into<String>) -> Error {
        Error::new(self.path, self.place.clone(), expected, found)
    }

    fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        if n > self.left() {
            let found = format!("{} bytes to the end of the file (is the download complete?)", self.left());
            return Err(self.error(format!("{n} more bytes at offset {}", self.at), found));
        }
        self.at += n;
        Ok(&self.bytes[self.at - n..self.at])
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }
    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }
    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Refuses a count whose items, at their smallest, would not fit into the rest of the file.
    fn count(&self, n: u64, smallest: usize, what: &str) -> Result<usize> {
        let most = self.left() / smallest;
        if n > most as u64 {
            return Err(self.error(format!("at most {most} {what} in the rest of the file"), n.to_string()));
        }
        Ok(n as usize)
    }

    fn utf8(&mut self) -> Result<&'a str> {
        let n = self.u64()?;
        let n = self.count(n, 1, "bytes of text")?;
        let bytes = self.take(n)?;
        std::str::from_utf8(bytes).map_err(|_| {
            let short = String::from_utf8_lossy(&bytes[..n.min(40)]).into_owned();
            self.error("UTF-8 text", format!("{short:?}"))
        })
    }

    fn text(&mut self) -> Result<Text> {
        let n = self.utf8()?.len();
        Ok(Text(self.bytes.slice(self.at - n..self.at)))
    }

    fn value_type(&mut self) -> Result<ValueType> {
        let n = self.u32()?;
        let found = ValueType::ALL.get(n as usize).copied();
        found.ok_or_else(|| self.error("a metadata type from 0 to 12", n.to_string()))
    }

    fn value(&mut self, ty: ValueType, depth: usize) -> Result<Value> {
        Ok(match ty {
            ValueType::U8 => Value::U8(self.array::<1>()?[0]),
            ValueType::I8 => Value::I8(self.array::<1>()?[0] as i8),
            ValueType::U16 => Value::U16(u16::from_le_bytes(self.array()?)),
            ValueType::I16 => Value::I16(i16::from_le_bytes(self.array()?)),
            ValueType::U32 => Value::U32(self.u32()?),
            ValueType::I32 => Value::I32(self.u32()? as i32),
            ValueType::F32 => Value::F32(f32::from_le_bytes(self.array()?)),
            ValueType::Bool => match self.array::<1>()?[0] {
                0 => Value::Bool(false),
                1 => Value::Bool(true),
                n => return Err(self.error("a bool (0 or 1)", n.to_string())),
            },
            ValueType::Str => Value::Str(self.text()?),
            ValueType::Array => Value::Array(self.array_value(depth)?),
            ValueType::U64 => Value::U64(self.u64()?),
            ValueType::I64 => Value::I64(self.u64()? as i64),
            ValueType::F64 => Value::F64(f64::from_le_bytes(self.array()?)),
        })
    }

    fn array_value(&mut self, depth: usize) -> Result<Array> {
        if depth == MAX_DEPTH {
            return Err(self.error(format!("arrays nested at most {MAX_DEPTH} deep"), "a deeper one"));
        }
        let ty = self.value_type()?;
        let len = self.u64()?;
        let (smallest, what) = match ty {
            ValueType::Str => (8, "strings"),
            ValueType::Array => (12, "arrays"),
            _ => (ty.size(), "values"),
        };
        let len = self.count(len, smallest, what)?;
        let start = self.at;
        match ty {
            ValueType::Str => {
                for _ in 0..len {
                    self.utf8()?;
                }
            }
            ValueType::Array => {
                for _ in 0..len {
                    self.array_value(depth + 1)?;
                }
            }
            _ => {
                self.take(len * ty.size())?;
            }
        }
        Ok(Array { ty, len, bytes: self.bytes.slice(start..self.at) })
    }

    fn tensor(&mut self, name: String) -> Result<DirectoryRow> {
        let n_dims = self.u32()?;
        if !(1..=4).contains(&n_dims) {
            return Err(self.error("1 to 4 dimensions", n_dims.to_string()));
        }
        let shape = (0..n_dims).map(|_| self.u64()).collect::<Result<Vec<_>>>()?;
        let n = self.u32()?;
        let Some(ty) = GgmlType::from_number(n) else {
            let known = GgmlType::all().map(|t| t.name()).collect::<Vec<_>>().join(" ");
            return Err(self.error(format!("a format qrun knows ({known})"), GgmlType::foreign_name(n)));
        };
        let offset = self.u64()?;
        let size = data_size(ty, &shape).map_err(|(expected, found)| self.error(expected, found))?;
        Ok((name, ty, shape, offset, size))
    }
}
