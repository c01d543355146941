//! Writes GGUF v2 and v3 as a stream: the directory is declared first, the data follows in its order
//! by chunks of any size, so that a model larger than memory can pass through.
//!
//! ```
//! # use qrun_quant::{GgmlType, gguf::{Array, write::Header}};
//! # fn main() -> qrun_quant::Result<()> {
//! let mut header = Header::new();
//! header.set("general.architecture", "llama");
//! header.set("tokenizer.ggml.tokens", Array::of_strings(["<unk>", "a"]));
//! header.tensor("token_embd.weight", GgmlType::F32, &[2, 2]);
//! let mut file = Vec::new();
//! let mut writer = header.write_to("memory".as_ref(), &mut file)?; // or `header.create(path)?`
//! writer.write(&[0; 16])?;
//! writer.finish()?;
//! # Ok(()) }
//! ```

use std::{
    collections::HashSet,
    fs::{self, File},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use super::{DEFAULT_ALIGNMENT, Tensor, Value, owned, parse};
use crate::{Error, GgmlType, Result};

/// What comes before the data: version, metadata, tensor directory.
#[derive(Debug, Clone)]
pub struct Header {
    /// Format version, 2 or 3.
    pub version: u32,
    /// Metadata in file order (values of a reader can be passed through as they are).
    pub metadata: Vec<(String, Value)>,
    /// The directory in the order in which the data will come.
    pub tensors: Vec<Entry>,
}

/// One row of the directory to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Tensor name, at most 64 bytes in ggml.
    pub name: String,
    /// Weight format of the data.
    pub ty: GgmlType,
    /// Dimensions, fastest first.
    pub shape: Vec<u64>,
}

impl Default for Header {
    fn default() -> Self {
        Self { version: 3, metadata: Vec::new(), tensors: Vec::new() }
    }
}

impl Header {
    /// An empty header of version 3.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a key: replaces its value where it stands, or appends it.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<Value>) {
        let (key, value) = (key.into(), value.into());
        match self.metadata.iter_mut().find(|(k, _)| *k == key) {
            Some(slot) => slot.1 = value,
            None => self.metadata.push((key, value)),
        }
    }

    /// Declares the next tensor.
    pub fn tensor(&mut self, name: impl Into<String>, ty: GgmlType, shape: &[u64]) {
        self.tensors.push(Entry { name: name.into(), ty, shape: shape.to_vec() });
    }

    /// Starts a file at `path`. It appears under that name when [`Writer::finish`] succeeds; until
    /// then the data lies beside it as `NAME.part`, which goes away if the writer is dropped.
    ///
    /// # Errors
    /// A place that cannot be written, or what [`Header::write_to`] refuses.
    pub fn create(&self, path: &Path) -> Result<Writer<'static>> {
        let io = |e: std::io::Error| Error::new(path, "file", "a writable place", e.to_string());
        // Devices and pipes (/dev/null, /dev/stdout) are written in place.
        let in_place = fs::metadata(path).is_ok_and(|m| !m.is_file());
        let part = (!in_place).then(|| {
            let mut name = path.as_os_str().to_owned();
            name.push(".part");
            Part { at: name.into(), to: path.into() }
        });
        let file = File::create(part.as_ref().map_or(path, |p| &p.at)).map_err(io)?;
        let mut writer = self.write_to(path, BufWriter::with_capacity(1 << 20, file))?;
        writer.part = part;
        Ok(writer)
    }

    /// Starts a file on any output; `path` stands for it in errors.
    ///
    /// # Errors
    /// A version other than 2 and 3, tensors or an alignment that no reader would take, or a failed write.
    pub fn write_to<'a>(&self, path: &Path, out: impl Write + 'a) -> Result<Writer<'a>> {
        let error = |place: String, expected: String, found: String| Error::new(path, place, expected, found);
        if !(2..=3).contains(&self.version) {
            return Err(error("header".into(), "GGUF version 2 or 3".into(), format!("version {}", self.version)));
        }
        let mut head = b"GGUF".to_vec();
        head.extend(self.version.to_le_bytes());
        head.extend((self.tensors.len() as u64).to_le_bytes());
        head.extend((self.metadata.len() as u64).to_le_bytes());
        let mut alignment = DEFAULT_ALIGNMENT;
        let mut seen = HashSet::new();
        for (key, value) in &self.metadata {
            if !seen.insert(key.as_str()) {
                return Err(error(format!("key {key}"), "each key once".into(), "the key a second time".into()));
            }
            if key == super::ALIGNMENT_KEY {
                let found = |_| error(format!("key {key}"), parse::ALIGNMENTS.into(), value.describe());
                alignment = parse::alignment(value).map_err(found)?;
            }
            owned::put_str(&mut head, key);
            owned::put_value(&mut head, value);
        }
        seen.clear();
        let (mut sizes, mut offset) = (Vec::with_capacity(self.tensors.len()), 0u64);
        for Entry { name, ty, shape } in &self.tensors {
            let place = || format!("tensor {name}");
            if !seen.insert(name) {
                return Err(error(place(), "each tensor name once".into(), "the name a second time".into()));
            }
            let size = parse::data_size(*ty, shape).map_err(|(e, f)| error(place(), e, f))?;
            owned::put_str(&mut head, name);
            head.extend((shape.len() as u32).to_le_bytes());
            head.extend(shape.iter().flat_map(|d| d.to_le_bytes()));
            head.extend((*ty as u32).to_le_bytes());
            head.extend(offset.to_le_bytes());
            let end = offset.checked_add(size).and_then(|e| e.checked_next_multiple_of(alignment));
            offset = end.ok_or_else(|| error(place(), "a file below 2^64 bytes".into(), "more".into()))?;
            sizes.push((name.clone(), size));
        }
        let mut writer = Writer {
            path: path.into(),
            out: Box::new(out),
            part: None,
            sizes: sizes.into_iter(),
            tensor: String::new(),
            left: 0,
            padding: (head.len() as u64).next_multiple_of(alignment) - head.len() as u64,
            alignment,
        };
        writer.put(&head)?;
        writer.next_tensor()?;
        Ok(writer)
    }
}

impl From<&Tensor> for Entry {
    fn from(t: &Tensor) -> Self {
        Self { name: t.name.clone(), ty: t.ty, shape: t.shape.clone() }
    }
}

/// Takes the data of the declared tensors, in their order; puts the padding between them.
pub struct Writer<'a> {
    path: PathBuf,
    out: Box<dyn Write + 'a>,
    part: Option<Part>,
    sizes: std::vec::IntoIter<(String, u64)>,
    /// The tensor that is being written; empty before the first and after the last.
    tensor: String,
    /// Bytes that are missing of it.
    left: u64,
    /// Bytes of padding that are due before the next tensor.
    padding: u64,
    alignment: u64,
}

impl Writer<'_> {
    /// Writes the next bytes of the data; a chunk may end one tensor and begin the next.
    ///
    /// # Errors
    /// More bytes than the tensors have, or a failed write.
    pub fn write(&mut self, mut chunk: &[u8]) -> Result<()> {
        while !chunk.is_empty() {
            if self.left == 0 {
                let found = format!("{} bytes more", chunk.len());
                return Err(Error::new(&self.path, "end of the data", "no more data than was declared", found));
            }
            let n = self.left.min(chunk.len() as u64) as usize;
            self.put(&chunk[..n])?;
            (self.left, chunk) = (self.left - n as u64, &chunk[n..]);
            if self.left == 0 {
                self.next_tensor()?;
            }
        }
        Ok(())
    }

    /// Ends the file.
    ///
    /// # Errors
    /// Data that is missing (which tensor, how many bytes), or a failed write.
    pub fn finish(mut self) -> Result<()> {
        if self.left > 0 {
            let place = format!("tensor {}", self.tensor);
            return Err(Error::new(&self.path, place, format!("{} more bytes of data", self.left), "the end"));
        }
        let io = |e: std::io::Error| Error::new(&self.path, "file", "a successful write", e.to_string());
        self.out.flush().map_err(io)?;
        self.out = Box::new(std::io::empty());
        if let Some(part) = self.part.take() {
            fs::rename(&part.at, &part.to).map_err(io)?;
        }
        Ok(())
    }

    fn next_tensor(&mut self) -> Result<()> {
        // Padding follows the last tensor too: other readers ask for whole alignment units.
        let zeros = vec![0; self.padding as usize];
        self.put(&zeros)?;
        self.padding = 0;
        self.tensor.clear();
        if let Some((name, size)) = self.sizes.next() {
            (self.tensor, self.left) = (name, size);
            self.padding = size.next_multiple_of(self.alignment) - size;
        }
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        let io = |e: std::io::Error| Error::new(&self.path, "file", "a successful write", e.to_string());
        self.out.write_all(bytes).map_err(io)
    }
}

/// The unfinished file; removed when it is dropped, a no-op once it was renamed.
struct Part {
    at: PathBuf,
    to: PathBuf,
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.at);
    }
}
