//! The archive of kernels: an index, then frames in LZMA, each of one target or of several whose code is alike. LZMA makes a fifth
//! less of machine code than zstd does, and unpacks it while the driver makes its context.
//!
//! ```text
//! "QRUNKRN3"  u32 parts
//! parts ×     u32 kind (0 cubin, 1 PTX)  u32 sm  u32 offset  u32 compressed bytes of the frame
//!             u32 unpacked bytes in front of the part  u32 unpacked bytes of the part
//! frames      with the header of a .lzma file; unpacked: parts × modules × { u32 bytes of the name, name, u32 bytes of the image, image }
//! ```
//! All numbers are little endian, offsets count from the start of the archive.

use std::{
    fmt,
    io::{self, Read},
};

use lzma_rust2::LzmaReader;

use super::Image;

const MAGIC: &[u8; 8] = b"QRUNKRN3";
const ROW: usize = 6 * 4;
/// Most that unpacking takes, in KiB, beside what is unpacked: a window of 32 MiB.
const MOST_MEMORY: u32 = 33 << 10;

/// What is wrong with an archive.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ArchiveError(pub String);

fn wrong<T>(what: impl Into<String>) -> Result<T, ArchiveError> {
    Err(ArchiveError(what.into()))
}

/// Machine code, or text that the driver compiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// An ELF file for one SM.
    Cubin,
    /// Text for a virtual architecture.
    Ptx,
}

/// What a part of the archive was compiled for. Prints as NVIDIA's tools name it: `sm_86`, `compute_80`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// Machine code or text.
    pub kind: Kind,
    /// `10 * major + minor`.
    pub sm: u32,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = match self.kind {
            Kind::Cubin => "sm",
            Kind::Ptx => "compute",
        };
        write!(f, "{prefix}_{}", self.sm)
    }
}

/// A row of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// What it was compiled for.
    pub target: Target,
    /// Where its frame starts.
    pub offset: usize,
    /// Bytes of the frame.
    pub compressed: usize,
    /// Unpacked bytes of the frame in front of the part.
    pub before: usize,
    /// Bytes after unpacking.
    pub unpacked: usize,
}

/// Reads the index.
///
/// # Errors
/// The archive does not begin with `QRUNKRN3`, ends inside of its index, or has a part of another kind than 0 and 1 or
/// one that reaches past its end.
pub fn parts(archive: &[u8]) -> Result<Vec<Part>, ArchiveError> {
    let mut cursor = Cursor(archive);
    if cursor.take(MAGIC.len())? != MAGIC {
        return wrong("expected an archive that starts with QRUNKRN3");
    }
    let n = cursor.number()?;
    if n > cursor.0.len() / ROW {
        return wrong(format!("an index of {n} parts does not fit"));
    }
    let parts = (0..n).map(|_| row(&mut cursor, archive.len()));
    parts.collect()
}

fn row(cursor: &mut Cursor<'_>, archive: usize) -> Result<Part, ArchiveError> {
    let kind = match cursor.number()? {
        0 => Kind::Cubin,
        1 => Kind::Ptx,
        other => return wrong(format!("expected kind 0 or 1, found {other}")),
    };
    let target = Target { kind, sm: cursor.number()? as u32 };
    let [offset, compressed] = [cursor.number()?, cursor.number()?];
    let part = Part { target, offset, compressed, before: cursor.number()?, unpacked: cursor.number()? };
    if part.offset.checked_add(part.compressed).is_none_or(|end| end > archive) {
        return wrong(format!("part {target} ends past the archive's {archive} bytes"));
    }
    Ok(part)
}

impl Part {
    /// Unpacks the modules of this part; `archive` is the whole archive that the index was read from.
    ///
    /// # Errors
    /// The frame is damaged, has fewer bytes than the index says, or ends inside of a module.
    pub fn unpack(&self, archive: &[u8]) -> Result<Vec<Image>, ArchiveError> {
        let at = |e: &dyn fmt::Display| ArchiveError(format!("part {}: {e}", self.target));
        let frame = &archive[self.offset..self.offset + self.compressed];
        let mut decoder = LzmaReader::new_mem_limit(frame, MOST_MEMORY, None).map_err(|e| at(&e))?;
        io::copy(&mut decoder.by_ref().take(self.before as u64), &mut io::sink()).map_err(|e| at(&e))?;
        let mut raw = Vec::new();
        decoder.take(self.unpacked as u64).read_to_end(&mut raw).map_err(|e| at(&e))?;
        if raw.len() != self.unpacked {
            return Err(at(&format_args!("expected {} bytes, found {}", self.unpacked, raw.len())));
        }
        let mut cursor = Cursor(&raw);
        let mut images = Vec::new();
        while !cursor.0.is_empty() {
            let name = String::from_utf8_lossy(cursor.block()?).into_owned();
            images.push(Image { name, bytes: cursor.block()?.to_vec(), kind: self.target.kind });
        }
        Ok(images)
    }
}

/// What a frame holds: targets and their modules.
pub type Frame = Vec<(Target, Vec<Image>)>;

/// What a frame holds, and its bytes before they are packed.
pub type Unpacked = (Kind, Vec<u8>);

/// Writes an archive of frames, packed by `compress`, which takes all of them in their order.
pub fn write(frames: &[Frame], compress: &dyn Fn(&[Unpacked]) -> Vec<Vec<u8>>) -> Vec<u8> {
    let parts = frames.iter().map(Vec::len).sum();
    let mut index = MAGIC.to_vec();
    put(&mut index, parts);
    let (mut unpacked, mut rows_of) = (Vec::new(), Vec::new());
    for frame in frames {
        let (mut raw, mut rows) = (Vec::new(), Vec::new());
        for (target, images) in frame {
            let before = raw.len();
            for block in images.iter().flat_map(|image| [image.name.as_bytes(), &image.bytes]) {
                put(&mut raw, block.len());
                raw.extend_from_slice(block);
            }
            rows.push((target, before, raw.len() - before));
        }
        unpacked.push((frame[0].0.kind, raw));
        rows_of.push(rows);
    }
    let mut packed = Vec::new();
    for (bytes, rows) in compress(&unpacked).into_iter().zip(rows_of) {
        let offset = MAGIC.len() + 4 + parts * ROW + packed.len();
        for (target, before, unpacked) in rows {
            let kind = usize::from(target.kind == Kind::Ptx);
            for number in [kind, target.sm as usize, offset, bytes.len(), before, unpacked] {
                put(&mut index, number);
            }
        }
        packed.extend_from_slice(&bytes);
    }
    index.extend_from_slice(&packed);
    index
}

fn put(out: &mut Vec<u8>, number: usize) {
    let number = u32::try_from(number).expect("an archive of less than 4 GiB");
    out.extend_from_slice(&number.to_le_bytes());
}

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], ArchiveError> {
        let Some((head, tail)) = self.0.split_at_checked(n) else {
            return wrong(format!("expected {n} more bytes, found {}", self.0.len()));
        };
        self.0 = tail;
        Ok(head)
    }

    fn number(&mut self) -> Result<usize, ArchiveError> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes(bytes.try_into().expect("four bytes")) as usize)
    }

    fn block(&mut self) -> Result<&'a [u8], ArchiveError> {
        let n = self.number()?;
        self.take(n)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use lzma_rust2::{LzmaOptions, LzmaWriter};

    use super::*;

    fn packed(frames: &[Unpacked]) -> Vec<Vec<u8>> {
        frames.iter().map(|(_, raw)| pack(raw)).collect()
    }

    fn pack(raw: &[u8]) -> Vec<u8> {
        let options = LzmaOptions { dict_size: 4096, ..LzmaOptions::default() };
        let mut writer = LzmaWriter::new_use_header(Vec::new(), &options, Some(raw.len() as u64)).expect("a header");
        writer.write_all(raw).expect("memory");
        writer.finish().expect("memory")
    }

    fn sample() -> Vec<Frame> {
        let image = |name: &str, bytes: &[u8], kind| Image { name: name.into(), bytes: bytes.into(), kind };
        let cubin = |sm| Target { kind: Kind::Cubin, sm };
        let ptx = Target { kind: Kind::Ptx, sm: 80 };
        vec![
            vec![
                (cubin(86), vec![image("gemv", b"\x7fELF1", Kind::Cubin), image("norm", b"", Kind::Cubin)]),
                (cubin(89), vec![image("gemv", b"\x7fELF2", Kind::Cubin)]),
            ],
            vec![(ptx, vec![image("gemv", b".version 8.0\0", Kind::Ptx)])],
        ]
    }

    #[test]
    fn what_was_written_is_read() {
        let archive = write(&sample(), &packed);
        let found = parts(&archive).expect("an index");
        let unpacked: Vec<_> = found.iter().map(|p| (p.target, p.unpack(&archive).expect("a part"))).collect();
        assert_eq!(unpacked, sample().concat());
    }

    #[test]
    fn a_damaged_archive_is_an_error() {
        let archive = write(&sample(), &packed);
        let read =
            |bytes: &[u8]| parts(bytes).and_then(|p| p.iter().map(|p| p.unpack(bytes)).collect::<Result<Vec<_>, _>>());
        for n in 0..archive.len() {
            read(&archive[..n]).expect_err("cut short");
        }
        let mut caught = 0;
        for i in 0..archive.len() {
            let mut copy = archive.clone();
            copy[i] ^= 0xff;
            caught += usize::from(read(&copy).is_err());
        }
        assert!(caught > 50, "errors, never a panic: {caught}");
    }
}
