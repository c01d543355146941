//! A place in a file: every length is checked against what is left before it is used.

use std::path::Path;

use super::{Array, Text, Value, ValueType};
use crate::{Bytes, Error, Result};

/// How deep arrays may nest: the recursion below is bounded, whatever the file says.
const MAX_DEPTH: usize = 8;

/// Reads one file from front to back.
pub struct Cursor<'a> {
    path: &'a Path,
    bytes: &'a Bytes,
    /// The same bytes, without the way through their owner.
    data: &'a [u8],
    at: usize,
    /// What is being read, for errors.
    pub place: String,
}

impl<'a> Cursor<'a> {
    pub fn new(path: &'a Path, bytes: &'a Bytes) -> Self {
        Self { path, bytes, data: bytes, at: 0, place: "header".into() }
    }

    pub fn error(&self, expected: impl Into<String>, found: impl Into<String>) -> Error {
        Error::new(self.path, self.place.clone(), expected, found)
    }

    pub fn error_at(&self, place: String, expected: impl Into<String>, found: impl Into<String>) -> Error {
        Error::new(self.path, place, expected, found)
    }

    /// Size of the file.
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// A part of the file that keeps it alive.
    pub fn slice(&self, range: std::ops::Range<usize>) -> Bytes {
        self.bytes.slice(range)
    }

    /// Refuses a count above a limit.
    ///
    /// # Errors
    /// `n` is above `most`; `what` says in the message what is counted.
    pub fn at_most(&self, n: u64, most: u64, what: &str) -> Result<()> {
        if n > most {
            return Err(self.error(format!("at most {most} {what}"), n.to_string()));
        }
        Ok(())
    }

    /// Bytes from the start of the file.
    pub fn at(&self) -> usize {
        self.at
    }

    fn left(&self) -> usize {
        self.data.len() - self.at
    }

    /// The next `n` bytes.
    ///
    /// # Errors
    /// Fewer are left in the file.
    pub fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        if n > self.left() {
            let found = format!("{} bytes to the end of the file (is the download complete?)", self.left());
            return Err(self.error(format!("{n} more bytes at offset {}", self.at), found));
        }
        self.at += n;
        Ok(&self.data[self.at - n..self.at])
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }
    /// A little-endian number.
    ///
    /// # Errors
    /// The file ends before its four bytes.
    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }
    /// A little-endian number.
    ///
    /// # Errors
    /// The file ends before its eight bytes.
    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// `n` items, each of at least `smallest` bytes; `what` they are is for the message.
    ///
    /// # Errors
    /// So many do not fit into the rest of the file.
    pub fn count(&self, n: u64, smallest: usize, what: &str) -> Result<usize> {
        let most = self.left() / smallest;
        if n > most as u64 {
            return Err(self.error(format!("at most {most} {what} in the rest of the file"), n.to_string()));
        }
        Ok(n as usize)
    }

    /// A string: its length in bytes as 64 bits, then the bytes.
    ///
    /// # Errors
    /// The file ends inside of it, or its bytes are not UTF-8.
    pub fn utf8(&mut self) -> Result<&'a str> {
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

    /// A type and a value of it.
    ///
    /// # Errors
    /// The file ends inside of it, the type is none of 0 to 12, a text is not UTF-8, or arrays are nested more than
    /// [`MAX_DEPTH`] deep.
    pub fn value(&mut self) -> Result<Value> {
        let ty = self.value_type()?;
        self.value_of(ty)
    }

    fn value_of(&mut self, ty: ValueType) -> Result<Value> {
        Ok(match ty {
            ValueType::U8 => Value::U8(self.array::<1>()?[0]),
            ValueType::I8 => Value::I8(self.array::<1>()?[0] as i8),
            ValueType::U16 => Value::U16(u16::from_le_bytes(self.array()?)),
            ValueType::I16 => Value::I16(i16::from_le_bytes(self.array()?)),
            ValueType::U32 => Value::U32(self.u32()?),
            ValueType::I32 => Value::I32(self.u32()? as i32),
            ValueType::F32 => Value::F32(f32::from_le_bytes(self.array()?)),
            // Other readers take any byte but 0 for true.
            ValueType::Bool => Value::Bool(self.array::<1>()?[0] != 0),
            ValueType::Str => Value::Str(self.text()?),
            ValueType::Array => Value::Array(self.array_value(0)?),
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
                for i in 0..len {
                    self.utf8().map_err(|e| Error { place: format!("{} element {i}", e.place), ..e })?;
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
}
