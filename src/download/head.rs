//! Whether qrun runs a model, from the first bytes of its file: the architecture and the types of its tensors.
//!
//! Only what decides that is read here; the file is checked in full when it is opened. A head that breaks the format is
//! let through: the loader's message about it is better than one from here.

use qrun_models::arch;
use qrun_quant::{GgmlType, gguf::ValueType};

/// What the first bytes say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Head {
    /// They end before that is decided.
    Short,
    /// Nothing speaks against it.
    Runs,
    /// The loader would refuse it.
    Refused {
        /// What qrun runs.
        expected: String,
        /// What the file has in its place.
        found: String,
    },
}

/// Reads the head of a GGUF file.
pub fn read(bytes: &[u8]) -> Head {
    match walk(&mut Bytes(bytes)) {
        Ok(head) => head,
        Err(Stop::Short) => Head::Short,
        Err(Stop::Odd) => Head::Runs,
    }
}

/// Why reading ends early.
enum Stop {
    Short,
    /// Not as the format says.
    Odd,
}

/// The same limits as the parser's, roughly: nobody walks for hours through a head that is none.
const MOST: u64 = 1 << 20;

fn walk(bytes: &mut Bytes) -> Result<Head, Stop> {
    if bytes.take(4)? != b"GGUF" {
        let found = "a file that does not begin with GGUF".to_owned();
        return Ok(Head::Refused { expected: "a GGUF file".to_owned(), found });
    }
    if !(2..=3).contains(&bytes.u32()?) {
        return Err(Stop::Odd);
    }
    let (tensors, keys) = (bytes.u64()?, bytes.u64()?);
    if tensors > MOST || keys > MOST {
        return Err(Stop::Odd);
    }
    for _ in 0..keys {
        let key = bytes.text()?;
        let ty = bytes.u32()?;
        if key == b"general.architecture" && ValueType::ALL.get(ty as usize) == Some(&ValueType::Str) {
            let name = String::from_utf8_lossy(bytes.text()?).into_owned();
            if arch::find(&name).is_none() {
                let known: Vec<_> = arch::ARCHITECTURES.iter().map(|arch| arch.name).collect();
                let expected = format!("an architecture that qrun runs ({})", known.join(", "));
                return Ok(Head::Refused { expected, found: format!("{name:?}") });
            }
        } else {
            skip(bytes, ty, 0)?;
        }
    }
    for _ in 0..tensors {
        let name = bytes.text()?;
        let dims = bytes.u32()?;
        bytes.take(usize::try_from(dims).ok().filter(|dims| *dims <= 8).ok_or(Stop::Odd)? * 8)?;
        let ty = bytes.u32()?;
        bytes.u64()?;
        if GgmlType::from_number(ty).is_none() {
            let known: Vec<_> = GgmlType::all().map(GgmlType::name).collect();
            let expected = format!("tensors of types that qrun knows ({})", known.join(" "));
            let found = format!("{} in {}", GgmlType::foreign_name(ty), String::from_utf8_lossy(name).escape_debug());
            return Ok(Head::Refused { expected, found });
        }
    }
    Ok(Head::Runs)
}

/// Goes behind a value of a type.
fn skip(bytes: &mut Bytes, ty: u32, depth: usize) -> Result<(), Stop> {
    use ValueType::{Array, Str};
    match ValueType::ALL.get(ty as usize) {
        None => Err(Stop::Odd),
        Some(Str) => bytes.text().map(drop),
        Some(Array) => {
            let (inner, n) = (bytes.u32()?, bytes.u64()?);
            match ValueType::ALL.get(inner as usize).map(width) {
                Some(Some(width)) => {
                    let n = usize::try_from(n).ok().and_then(|n| n.checked_mul(width)).ok_or(Stop::Odd)?;
                    bytes.take(n).map(drop)
                }
                // Each item takes bytes of its own, so this ends where they do.
                Some(None) if depth < 8 => (0..n).try_for_each(|_| skip(bytes, inner, depth + 1)),
                _ => Err(Stop::Odd),
            }
        }
        Some(plain) => bytes.take(width(plain).ok_or(Stop::Odd)?).map(drop),
    }
}

/// Bytes of a value; `None` where that depends on it.
fn width(ty: &ValueType) -> Option<usize> {
    use ValueType::{Array, Bool, F32, F64, I8, I16, I32, I64, Str, U8, U16, U32, U64};
    match ty {
        U8 | I8 | Bool => Some(1),
        U16 | I16 => Some(2),
        U32 | I32 | F32 => Some(4),
        U64 | I64 | F64 => Some(8),
        Str | Array => None,
    }
}

/// What is left to read.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], Stop> {
        let (taken, rest) = self.0.split_at_checked(n).ok_or(Stop::Short)?;
        self.0 = rest;
        Ok(taken)
    }
    fn u32(&mut self) -> Result<u32, Stop> {
        self.take(4)?.try_into().map(u32::from_le_bytes).map_err(|_| Stop::Odd)
    }
    fn u64(&mut self) -> Result<u64, Stop> {
        self.take(8)?.try_into().map(u64::from_le_bytes).map_err(|_| Stop::Odd)
    }
    fn text(&mut self) -> Result<&'a [u8], Stop> {
        let n = self.u64()?;
        self.take(usize::try_from(n).map_err(|_| Stop::Odd)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEMO: &[u8] = include_bytes!("../../models/demo/qrun-demo-Q4_K_M.gguf");

    /// A head with one key and one tensor.
    fn made(arch: &str, ty: u32) -> Vec<u8> {
        let mut head = b"GGUF\x03\0\0\0".to_vec();
        let text = |head: &mut Vec<u8>, text: &str| {
            head.extend((text.len() as u64).to_le_bytes());
            head.extend(text.as_bytes());
        };
        head.extend(1u64.to_le_bytes());
        head.extend(1u64.to_le_bytes());
        text(&mut head, "general.architecture");
        head.extend(8u32.to_le_bytes());
        text(&mut head, arch);
        text(&mut head, "blk.0.x");
        head.extend(1u32.to_le_bytes());
        head.extend(256u64.to_le_bytes());
        head.extend(ty.to_le_bytes());
        head.extend(0u64.to_le_bytes());
        head
    }

    #[test]
    fn architecture_and_types_are_judged() {
        assert_eq!(read(&made("llama", 12)), Head::Runs);
        let refused = |head: &[u8]| match read(head) {
            Head::Refused { expected, found } => format!("{expected}, {found}"),
            other => format!("{other:?}"),
        };
        let said = refused(&made("mamba", 12));
        assert!(said.contains("llama, smollm3") && said.ends_with("\"mamba\""), "{said}");
        assert!(refused(&made("mamba", 12)[..70]).ends_with("\"mamba\""), "said before the head is whole");
        assert!(refused(&made("llama", 15)).ends_with("Q8_K (type 15) in blk.0.x"), "{}", refused(&made("llama", 15)));
        assert!(refused(b"<!DOCTYPE html>").contains("GGUF"));
    }

    /// At whatever byte it ends, a head is short until it is whole, and never a panic.
    #[test]
    fn every_cut_is_short() {
        let whole = made("llama", 12);
        for n in 0..whole.len() {
            assert_eq!(read(&whole[..n]), Head::Short, "{n}");
        }
        let short = (0..DEMO.len()).step_by(997).filter(|&n| read(&DEMO[..n]) == Head::Short).count();
        assert!(short > 10, "the demo's head is longer than {short} steps");
        assert_eq!(read(DEMO), Head::Runs);
    }

    #[test]
    fn what_is_odd_is_left_to_the_loader() {
        let mut odd = made("llama", 12);
        odd[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(read(&odd), Head::Runs);
        let mut deep = b"GGUF\x03\0\0\0".to_vec();
        deep.extend(0u64.to_le_bytes());
        deep.extend(1u64.to_le_bytes());
        deep.extend(1u64.to_le_bytes());
        deep.push(b'k');
        deep.extend(9u32.to_le_bytes());
        for _ in 0..1000 {
            deep.extend(9u32.to_le_bytes());
            deep.extend(1u64.to_le_bytes());
        }
        assert_eq!(read(&deep), Head::Runs);
    }
}
